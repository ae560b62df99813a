"""prime-rl: traces.jsonl of verifiers version 1; one line an episode of traces, each a graph of messages.

The branches of a trace share their beginning and its reward: a trace is one sample, never several. Where it has several branches no
one log probability belongs to it. The reward is the sum of score times weight. `ok` says that the trace ended well, not that the
answer is right: `--map correct=ok` takes it for a verdict. Read from descriptions of the format, not from files of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    finish_reason,
    hashed_prompt,
    items,
    present,
    section,
)
from experiments.rollout_logs.records import NOT_AN_OBJECT, Excluded, Raw

_FIELDS = {
    "prompt_id": "task.key", "reward": "rewards[].score * weight", "behavior_logp": "nodes[].logprobs",
    "base_logp": "nodes[].reference_logprobs", "completion_tokens": "calls[].usage", "model_calls": "calls", "wall_s": "timing.total_s",
    "finish_reason": "finish_reason", "error": "error",
}  # fmt: skip


def _detect(raw: Raw) -> int:
    if "traces" in raw.value:
        return 4
    return 5 if {"nodes", "rewards"} <= raw.value.keys() else 0


def _split(raw: Raw) -> Iterator[Raw | Excluded]:
    if "traces" not in raw.value:
        yield raw
        return
    for number, trace in enumerate(items(raw.value["traces"]), start=1):
        where = f"{raw.where}, trace {number}"
        if isinstance(trace, dict):
            yield Raw({"task": raw.value.get("task"), **trace}, where, raw.path)
        else:
            yield Excluded(NOT_AN_OBJECT, where)


def _reward(rewards: Any) -> float | None:
    if isinstance(rewards, Mapping) and rewards:
        parts = [section(rewards, name) for name in rewards]
        return math.fsum(part["score"] * part.get("weight", 1.0) for part in parts)
    return None


def _prompt(row: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Values:
    key = section(row, "task").get("key")
    if key is not None:
        return {"prompt_id": key}
    before = [node.get("content", node.get("message")) for node in nodes if not _sampled(node)]
    return hashed_prompt(before) if before else {}


def _sampled(node: Mapping[str, Any]) -> bool:
    return node.get("logprobs") is not None


def _is_path(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no message was answered twice."""
    parents = [node.get("parent", node.get("parent_id")) for node in nodes]
    answered = [str(parent) for parent in parents if parent is not None]
    return len(set(answered)) == len(answered)


def _usage(calls: Sequence[Any]) -> int | None:
    counts = [section(call, "usage").get("completion_tokens") for call in calls]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if counts and len(known) == len(counts) else None


def _start(first: Sequence[Raw], request: Request) -> Started:
    def convert(raw: Raw) -> Iterator[Values]:
        row = raw.value
        nodes = [node for node in items(row.get("nodes")) if isinstance(node, Mapping)]
        written = [node for node in nodes if _sampled(node)]
        calls = items(row.get("calls"))
        error = row.get("error")
        values = _prompt(row, nodes) | present(
            reward=_reward(row.get("rewards")),
            completion_tokens=_usage(calls),
            model_calls=len(calls) if "calls" in row else None,
            wall_s=section(row, "timing").get("total_s"),
            finish_reason=finish_reason(row.get("finish_reason"), row.get("is_truncated")),
            error=str(error) if error else None,
        )
        if _is_path(nodes):
            for name, source in (
                ("behavior_logp_tokens", "logprobs"),
                ("base_logp_tokens", "reference_logprobs"),
            ):
                if written and all(isinstance(node.get(source), list) for node in written):
                    values[name] = [logp for node in written for logp in node[source]]
        yield values

    return Started(convert, _FIELDS)


ADAPTER = Adapter("prime-rl", _detect, _start, _split)
