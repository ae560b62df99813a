"""Large language monkeys: one YAML file a problem, with its samples and their verdicts. `gt_answer` is the reference."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import items
from experiments.rollout_logs.adapters.search_and_learn import UNEQUAL
from experiments.rollout_logs.records import Excluded, Raw

_FIELDS = {
    "prompt_id": "name of the file",
    "sample_id": "position in samples",
    "correct": "is_correct",
}


def _detect(raw: Raw) -> int:
    fits = isinstance(raw.value.get("samples"), list) and "eval" not in raw.value
    return 3 + ("is_correct" in raw.value) if fits else 0


def _start(first: Sequence[Raw], request: Request) -> Started:
    fields = dict(_FIELDS)
    if not any("is_correct" in raw.value for raw in first):
        del fields["correct"]

    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        samples = items(raw.value["samples"])
        verdicts = raw.value.get("is_correct")
        if verdicts is not None and len(items(verdicts)) != len(samples):
            yield Excluded(UNEQUAL, raw.where)
            return
        for position, text in enumerate(samples):
            values: Values = {
                "prompt_id": Path(raw.path).stem,
                "sample_id": position,
                "_text": text,
            }
            if verdicts is not None:
                values["correct"] = verdicts[position]
            yield values

    return Started(convert, fields)


ADAPTER = Adapter("monkeys", _detect, _start)
