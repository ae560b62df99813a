"""SkyRL: dumped_evals/global_step_N_evals/SOURCE.jsonl. A score by token needs the user's word on how it becomes one number."""

import re
from collections.abc import Iterator, Sequence

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import finish_reason, hashed_prompt, present
from experiments.rollout_logs.records import Excluded, Raw
from theory.errors import InvalidInput

_STEP = re.compile(r"global_step_(\d+)")


def _detect(raw: Raw) -> int:
    return 5 if {"input_prompt", "output_response", "score"} <= raw.value.keys() else 0


def _start(first: Sequence[Raw], request: Request) -> Started:
    mapped = "reward" in request.mapping
    if not mapped and any(isinstance(raw.value.get("score"), list) for raw in first):
        raise InvalidInput(
            f"{first[0].path}: 'score' is one number a token, say what counts: --map reward=score.sum or --map reward=score.last"
        )
    fields = {
        "prompt_id": "sha256 of input_prompt", "reward": "score", "dataset": "data_source", "finish_reason": "stop_reason",
    }  # fmt: skip
    if any(_STEP.search(raw.path) for raw in first):
        fields |= {"step": "name of the folder", "policy_version": "name of the folder"}

    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        row = raw.value
        if not mapped and isinstance(row["score"], list):
            yield Excluded("score by token among scores by row", raw.where)
            return
        step = _STEP.search(raw.path)
        number = int(step[1]) if step else None
        yield hashed_prompt(row["input_prompt"]) | present(
            reward=None if mapped else row["score"],
            dataset=row.get("data_source"),
            finish_reason=finish_reason(row.get("stop_reason")),
            step=number,
            policy_version=number,
            _text=row["output_response"],
        )

    return Started(convert, fields)


ADAPTER = Adapter("skyrl", _detect, _start)
