"""OpenRLHF keeps rollouts in memory; this reads `Experience` objects that a user wrote out, one a line.

Log probabilities that are missing or of environment tokens are 0.0 there, which reads as certainty: without a mask they are refused.
"""

from collections.abc import Iterator, Sequence

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    finish_reason,
    hashed_prompt,
    masked,
    only,
    present,
)
from experiments.rollout_logs.records import Raw
from theory.errors import InvalidInput

LOGPS = {
    "behavior_logp": "rollout_log_probs",
    "target_logp": "action_log_probs",
    "base_logp": "base_action_log_probs",
}
MASKS = ("action_mask", "response_mask", "loss_mask")


def _detect(raw: Raw) -> int:
    return 2 * sum(source in raw.value for source in LOGPS.values())


def _start(first: Sequence[Raw], request: Request) -> Started:
    mask = next((name for name in MASKS if any(name in raw.value for raw in first)), None)
    if mask is None:
        raise InvalidInput(
            f"{first[0].where}: log probabilities without a mask; tokens that the policy did not write are 0.0 in them: "
            f"write '{MASKS[0]}' out too"
        )
    fields = {
        name: source
        for name, source in {
            "prompt_id": "index", "reward": "rewards", "completion_tokens": "response_length", "finish_reason": "truncated", **LOGPS,
        }.items()
        if any(source in raw.value for raw in first)
    }  # fmt: skip
    fields.setdefault("prompt_id", "sha256 of prompts")

    def convert(raw: Raw) -> Iterator[Values]:
        row = raw.value
        kept = only(row[mask]) if isinstance(only(row[mask]), list) else row[mask]
        values = present(
            reward=only(row.get("rewards")),
            completion_tokens=only(row.get("response_length")),
            finish_reason=finish_reason(None, only(row.get("truncated"))),
        )
        index = only(row.get("index"))
        values |= hashed_prompt(row.get("prompts")) if index is None else {"prompt_id": index}
        for name, source in LOGPS.items():
            if (logps := row.get(source)) is not None:
                inner = only(logps)
                values[f"{name}_tokens"] = masked(inner if isinstance(inner, list) else logps, kept)
        yield values

    return Started(convert, fields)


ADAPTER = Adapter("openrlhf", _detect, _start)
