"""verifiers: results.jsonl. `answer` is the reference; rows that failed carry reward 0 and are marked by `error`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    finish_reason,
    items,
    last_text,
    masked,
    present,
    section,
)
from experiments.rollout_logs.records import Raw

_FIELDS = {
    "prompt_id": "example_id", "dataset": "task", "reward": "reward", "finish_reason": "is_truncated, stop_condition", "error": "error",
    "completion_tokens": "token_usage.output_tokens", "prompt_tokens": "token_usage.input_tokens", "wall_s": "timing.total_ms",
    "behavior_logp": "trajectory[].tokens.completion_logprobs", "model_calls": "trajectory",
}  # fmt: skip


def _detect(raw: Raw) -> int:
    if not {"example_id", "prompt", "completion", "reward"} <= raw.value.keys():
        return 0
    return 4 + sum(name in raw.value for name in ("is_truncated", "stop_condition", "trajectory"))


def _logps(row: Mapping[str, Any]) -> list[Any] | None:
    """Those of every turn, where each of them has them."""
    logps: list[Any] = []
    turns = items(row.get("trajectory"))
    for turn in turns:
        tokens = section(turn, "tokens")
        if "completion_logprobs" not in tokens:
            return None
        mask = tokens.get("completion_mask")
        found = items(tokens["completion_logprobs"])
        logps += found if mask is None else masked(found, mask)
    return logps if turns else None


def _milliseconds(row: Mapping[str, Any]) -> Any:
    return section(row, "timing").get("total_ms", row.get("total_ms"))


def _start(first: Sequence[Raw], request: Request) -> Started:
    fields = dict(_FIELDS)
    for name, source in (("completion_tokens", "token_usage"), ("prompt_tokens", "token_usage"), ("behavior_logp", "trajectory"),
                         ("model_calls", "trajectory"), ("dataset", "task")):  # fmt: skip
        if not any(source in raw.value for raw in first):
            del fields[name]
    if all(_milliseconds(raw.value) is None for raw in first):
        del fields["wall_s"]

    def convert(raw: Raw) -> Iterator[Values]:
        row = raw.value
        usage = section(row, "token_usage")
        milliseconds = _milliseconds(row)
        error = row.get("error")
        turns = row.get("trajectory")
        yield present(
            prompt_id=row["example_id"],
            dataset=row.get("task") if isinstance(row.get("task"), str) else None,
            reward=row["reward"],
            finish_reason=finish_reason(row.get("stop_condition"), row.get("is_truncated")),
            error=None if error is None or error is False else str(error),
            completion_tokens=_whole(usage.get("output_tokens")),
            prompt_tokens=_whole(usage.get("input_tokens")),
            wall_s=milliseconds / 1000 if isinstance(milliseconds, int | float) else None,
            behavior_logp_tokens=_logps(row),
            model_calls=len(turns) if isinstance(turns, list) else None,
            _text=last_text(row["completion"]),
        )

    return Started(convert, fields)


def _whole(count: Any) -> Any:
    return int(count) if isinstance(count, float) and count.is_integer() else count


ADAPTER = Adapter("verifiers", _detect, _start)
