"""lm-evaluation-harness: samples_TASK_DATE.jsonl, one row for each document AND filter.

The repeats of a document stand in `resps[0]`. Its metric is of the document: with one repeat it is the verdict of that sample, with
several no sample has one. A file is appended to by a second run. `target` is the reference.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import choose, items, only, verdict
from experiments.rollout_logs.records import Excluded, Raw
from theory.errors import InvalidInput

OTHER_FILTER = "row of another filter"
_NO_FILTER = "none"
_INVALID = "[invalid]"
_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[^/]*$")


def _detect(raw: Raw) -> int:
    return 6 if {"doc_id", "resps", "filtered_resps"} <= raw.value.keys() else 0


def _filter(row: Mapping[str, Any]) -> str:
    return str(row.get("filter", _NO_FILTER))


def _metric(first: Sequence[Raw], request: Request) -> str | None:
    row = first[0].value
    names = [name for name in items(row.get("metrics")) if isinstance(name, str) and name in row]
    if {"correct", "reward"} & request.mapping.keys() or not names:
        return None
    if len(names) > 1:
        raise InvalidInput(
            f"{first[0].path}: several metrics ({', '.join(names)}), say which is the verdict: --map correct={names[0]}"
        )
    return names[0]


def _start(first: Sequence[Raw], request: Request) -> Started:
    names = list(dict.fromkeys(_filter(raw.value) for raw in first))
    chosen = request.filter_name or choose(first, names, request, "filter") or _NO_FILTER
    metric = _metric(first, request)
    fields = {
        "prompt_id": "doc_id",
        "sample_id": "position in resps[0]",
        "answer": "filtered_resps",
    }
    if metric:
        fields |= {"correct": metric, "reward": metric}

    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        row = raw.value
        if _filter(row) != chosen:
            if request.filter_name is None:
                choose([raw], [chosen, _filter(row)], request, "filter")
            yield Excluded(OTHER_FILTER, raw.where)
            return
        task = _TASK.search(raw.path)
        prompt = f"{task[1]}/{row['doc_id']}" if task else row["doc_id"]
        texts = _repeats(row["resps"])
        answers = _answers(row["filtered_resps"], len(texts))
        for position, text in enumerate(texts):
            values: Values = {
                "prompt_id": prompt,
                "sample_id": position,
                "answer": answers[position],
            }
            if text is not None:
                values["_text"] = text
            if metric and metric in row:
                grade = row[metric]
                if isinstance(grade, list) and len(grade) == len(texts):
                    values |= verdict(grade[position])
                elif len(texts) == 1:
                    values |= verdict(only(grade))
            yield values

    return Started(convert, fields)


def _repeats(resps: Any) -> list[str | None]:
    """The texts of a document; the log likelihoods of choices are one sample without text."""
    first = items(resps)[0] if items(resps) else None
    if isinstance(first, str):
        return [first]
    texts = items(first)
    return texts if texts and all(isinstance(text, str) for text in texts) else [None]


def _answers(filtered: Any, repeats: int) -> list[Any]:
    """One answer a repeat where the filter kept them all; with take_first only one repeat has one."""
    found = items(filtered)
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    found = found if repeats > 1 or len(found) == 1 else []
    kept = [None if answer == _INVALID else answer for answer in found]
    texts = [answer if isinstance(answer, str | None) else str(answer) for answer in kept]
    return texts if len(texts) == repeats else [*texts, *[None] * repeats][:repeats]


ADAPTER = Adapter("lm-eval", _detect, _start, takes_filter=True)
