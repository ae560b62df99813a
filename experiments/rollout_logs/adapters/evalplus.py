"""EvalPlus: *_eval_results.json, a list of results for each task; `--filter base` or `--filter plus` says which tests count."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import choose, items, section
from experiments.rollout_logs.records import NO_SAMPLE, NOT_AN_OBJECT, Excluded, Raw

NO_TEXT = "solution is not a text"
_STATUS = {"base": "base_status", "plus": "plus_status"}


def _detect(raw: Raw) -> int:
    if "base_status" in raw.value:
        return 5
    results = section(raw.value, "eval").values()
    first: Any = next((item for task in results for item in items(task)), None)
    return 5 if isinstance(first, Mapping) and "base_status" in first else 0


def _split(raw: Raw) -> Iterator[Raw | Excluded]:
    if "eval" not in raw.value:
        yield raw
        return
    for task, results in section(raw.value, "eval").items():
        if not items(results):
            yield Excluded(NO_SAMPLE, f"{raw.where}, {task}")
        for position, result in enumerate(items(results)):
            where = f"{raw.where}, {task}, result {position + 1}"
            if isinstance(result, dict):
                yield Raw({**result, "task_id": task, "position": position}, where, raw.path)
            else:
                yield Excluded(NOT_AN_OBJECT, where)


def _start(first: Sequence[Raw], request: Request) -> Started:
    names = [
        name
        for name, status in _STATUS.items()
        if any(raw.value.get(status) is not None for raw in first)
    ]
    chosen = choose(first, names, request, "set of tests")
    fields = {"prompt_id": "key of eval", "sample_id": "position in eval"}
    if chosen:
        fields["correct"] = _STATUS[chosen]

    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        row = raw.value
        if not isinstance(row.get("solution", ""), str):
            yield Excluded(NO_TEXT, raw.where)
            return
        values: Values = {
            "prompt_id": row["task_id"],
            "sample_id": row.get("position"),
            "_text": row.get("solution"),
        }
        if chosen:
            status = row.get(_STATUS[chosen])
            values["correct"] = None if status is None else status == "pass"
        yield values

    return Started(convert, fields)


ADAPTER = Adapter("evalplus", _detect, _start, _split, takes_filter=True)
