"""human-eval: samples.jsonl, and its results file with `passed`. The samples of a task are told apart by the order of their rows."""

from collections.abc import Iterator, Sequence

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import present
from experiments.rollout_logs.records import Excluded, Raw

NO_TEXT = "completion is not a text"


def _detect(raw: Raw) -> int:
    if not {"task_id", "completion"} <= raw.value.keys():
        return 0
    return 3 + ("passed" in raw.value)


def _start(first: Sequence[Raw], request: Request) -> Started:
    fields = {"prompt_id": "task_id"}
    if any("passed" in raw.value for raw in first):
        fields["correct"] = "passed"

    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        row = raw.value
        if not isinstance(row["completion"], str):
            yield Excluded(NO_TEXT, raw.where)
            return
        yield present(prompt_id=row["task_id"], correct=row.get("passed"), _text=row["completion"])

    return Started(convert, fields)


ADAPTER = Adapter("human-eval", _detect, _start)
