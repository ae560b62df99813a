"""verl: one JSON-lines file a step, by `trainer.rollout_data_dir` and `trainer.validation_data_dir`.

Version 0 has no identifier of the prompt: rows are grouped by the text of `input` within a step. Version 1 writes
`uid` = prompt_rollout_output; all outputs of one rollout carry its final score and are one sample. `gts` is the reference.
"""

from collections.abc import Iterator, Sequence

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import hashed_prompt, present
from experiments.rollout_logs.records import Excluded, Raw

FURTHER_OUTPUT = "further output of one rollout"


def _detect(raw: Raw) -> int:
    if not {"input", "output", "score"} <= raw.value.keys():
        return 0
    return 3 + sum(name in raw.value for name in ("step", "gts", "uid"))


def _key(uid: object) -> tuple[str, int] | None:
    """Prompt and rollout of a version-1 key, whose prompt may hold the separator itself."""
    parts = uid.rsplit("_", 2) if isinstance(uid, str) else []
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    return parts[0], int(parts[1])


def _start(first: Sequence[Raw], request: Request) -> Started:
    named = any("uid" in raw.value for raw in first)
    graded = all(raw.value.get("acc") in (0, 1, None) for raw in first)
    seen: set[int] = set()
    fields = {
        "prompt_id": "uid" if named else "sha256 of step and input",
        "reward": "score",
        "step": "step",
    }
    if named:
        fields["sample_id"] = "uid"
    for name, source in (("correct", "acc"), ("answer", "pred"), ("dataset", "data_source")):
        if any(source in raw.value for raw in first) and (graded or name != "correct"):
            fields[name] = source

    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        row = raw.value
        values = present(reward=row["score"], step=row.get("step"), _text=row["output"])
        uid = row.get("uid")
        key = _key(uid)
        if key is not None:
            mark = hash((row.get("step"), *key))
            if mark in seen:
                yield Excluded(FURTHER_OUTPUT, raw.where)
                return
            seen.add(mark)
            values |= {"prompt_id": key[0], "sample_id": key[1]}
        elif uid is not None:
            values["prompt_id"] = uid
        else:
            values |= hashed_prompt(row.get("step") or 0, row["input"])
        for name in ("correct", "answer", "dataset"):
            if name in fields:
                values[name] = row.get(fields[name])
        yield values

    return Started(convert, fields)


ADAPTER = Adapter("verl", _detect, _start)
