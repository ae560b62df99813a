"""TRL: completions/completions_00001.parquet of the GRPO trainer, one column for each reward function.

The reward that trained is a weighted sum whose weights are not in the file: with several functions the user says which.
"""

from collections.abc import Iterator, Sequence

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import hashed_prompt, last_text, present
from experiments.rollout_logs.records import Raw
from theory.errors import InvalidInput

_KNOWN = {"step", "prompt", "completion", "advantage"}


def _detect(raw: Raw) -> int:
    if not {"step", "prompt", "completion"} <= raw.value.keys():
        return 0
    return 3 + ("advantage" in raw.value)


def _start(first: Sequence[Raw], request: Request) -> Started:
    columns = [name for name in first[0].value if name not in _KNOWN]
    rewards = [
        name
        for name in columns
        if any(isinstance(raw.value.get(name), float) for raw in first)
        and all(isinstance(raw.value.get(name), float | None) for raw in first)
    ]
    chosen = bool({"reward", "correct"} & request.mapping.keys())
    if len(rewards) > 1 and not chosen:
        raise InvalidInput(
            f"{first[0].path}: several reward functions ({', '.join(rewards)}), say which: --map reward={rewards[0]}"
        )
    fields = {"prompt_id": "sha256 of step and prompt", "step": "step"}
    if len(rewards) == 1 and not chosen:
        fields["reward"] = rewards[0]

    def convert(raw: Raw) -> Iterator[Values]:
        row = raw.value
        values = present(step=row["step"], _text=last_text(row["completion"]))
        values |= hashed_prompt(row["step"], row["prompt"])
        if "reward" in fields:
            values["reward"] = row.get(fields["reward"])
        yield values

    return Started(convert, fields)


ADAPTER = Adapter("trl", _detect, _start)
