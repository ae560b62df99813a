"""Tunix: trajectory_log_*.csv. Lists are Python text and are read as literals, never run.

`old_logprobs` is the sampler's side here; without the mask of the conversation it is not used.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    finish_reason,
    hashed_prompt,
    last_text,
    masked,
    present,
)
from experiments.rollout_logs.records import Raw

_NOT_FINITE = re.compile(r"(?<![\w.])-?(?:nan|inf)(?!\w)")
_MASKS = ("conversation_masks", "masks", "completion_mask")


def _detect(raw: Raw) -> int:
    return 5 if {"trajectory_reward", "group_id"} <= raw.value.keys() else 0


def literal(text: Any) -> Any:
    """A Python literal in a cell; numbers that are not finite are None.

    Args:
        text: the cell.

    Returns:
        Its value, or None where it is no literal.
    """
    if not isinstance(text, str):
        return None
    try:
        return ast.literal_eval(_NOT_FINITE.sub("None", text).strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _number(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _start(first: Sequence[Raw], request: Request) -> Started:
    seen = first[0].value.keys()
    mask = next((name for name in _MASKS if name in seen), None)
    fields = {"prompt_id": "group_id", "reward": "trajectory_reward"}
    if "status" in seen:
        fields["finish_reason"] = "status"
    if mask and "old_logprobs" in seen:
        fields["behavior_logp"] = "old_logprobs"
    if mask:
        fields["completion_tokens"] = mask

    def convert(raw: Raw) -> Iterator[Values]:
        row: Mapping[str, Any] = raw.value
        status = row.get("status") or ""
        cut = any(word in status.upper() for word in ("TRUNC", "MAX_", "LENGTH"))
        failed = any(word in status.upper() for word in ("ERROR", "TIMEOUT", "FAIL"))
        text = literal(row.get("conversation_text"))
        values = present(
            prompt_id=row["group_id"] or None,
            reward=_number(row["trajectory_reward"]),
            policy_version=row.get("policy_version") or None,
            finish_reason=finish_reason(status or None, cut),
            error=status if failed else None,
            _text=last_text(text) or row.get("conversation_text"),
        )
        if "prompt_id" not in values:
            values |= hashed_prompt(row.get("original_input") or None)
        kept = literal(row.get(mask)) if mask else None
        if isinstance(kept, list):
            values["completion_tokens"] = sum(1 for one in kept if one)
            logps = literal(row.get("old_logprobs"))
            if isinstance(logps, list):
                values["behavior_logp_tokens"] = (
                    masked(logps, kept) if len(logps) == len(kept) else [None]
                )
        yield values

    return Started(convert, fields)


ADAPTER = Adapter("tunix", _detect, _start)
