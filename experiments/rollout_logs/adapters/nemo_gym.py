"""NeMo Gym: rollouts.jsonl, keyed by (_ng_task_index, _ng_rollout_index); where a file has no index, by the text of its input.

`answer` and `expected_answer` are references. Log probabilities hang on the items of the output; if there are fewer of them than
output tokens, their sum is of a part only and is missing. Usage that is all zeros was not recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    finish_reason,
    hashed_prompt,
    items,
    last_text,
    present,
    section,
)
from experiments.rollout_logs.records import Raw

_FIELDS = {
    "prompt_id": "_ng_task_index", "sample_id": "_ng_rollout_index", "reward": "reward", "policy_id": "response.model",
    "dataset": "agent_ref.name", "behavior_logp": "response.output[].generation_log_probs",
    "completion_tokens": "response.usage.output_tokens", "prompt_tokens": "response.usage.input_tokens",
    "tool_calls": "response.output[].type", "finish_reason": "response.incomplete_details", "error": "response.error",
    "temperature": "response.temperature", "top_p": "response.top_p",
}  # fmt: skip


def _detect(raw: Raw) -> int:
    return 6 if {"responses_create_params", "response"} <= raw.value.keys() else 0


def _error(row: Mapping[str, Any], response: Mapping[str, Any]) -> str | None:
    error = response.get("error")
    if error:
        return str(error)
    if row.get("agent_timed_out") is True:
        return "agent timed out"
    return "mask_sample" if row.get("mask_sample") is True else None


def _start(first: Sequence[Raw], request: Request) -> Started:
    fields = dict(_FIELDS)
    if not any("_ng_task_index" in raw.value for raw in first):
        fields["prompt_id"] = "sha256 of responses_create_params.input"
        del fields["sample_id"]
    if not any(_logps(section(raw.value, "response")) for raw in first):
        del fields["behavior_logp"]

    def convert(raw: Raw) -> Iterator[Values]:
        row = raw.value
        response = section(row, "response")
        usage = section(response, "usage")
        output = [item for item in items(response.get("output")) if isinstance(item, Mapping)]
        logps = _logps(response)
        recorded = any(isinstance(count, int) and count > 0 for count in usage.values())
        length = usage.get("output_tokens") if recorded else len(logps) or None
        index = row.get("_ng_task_index")
        prompt = section(row, "responses_create_params").get("input") or None
        values = hashed_prompt(prompt) if index is None else {"prompt_id": index}
        messages = [item for item in output if item.get("type") == "message"]
        values |= present(
            sample_id=row.get("_ng_rollout_index"),
            reward=row.get("reward"),
            policy_id=response.get("model"),
            dataset=section(row, "agent_ref").get("name"),
            completion_tokens=length,
            prompt_tokens=usage.get("input_tokens") if recorded else None,
            tool_calls=sum(item.get("type") == "function_call" for item in output),
            finish_reason=finish_reason(
                section(response, "incomplete_details").get("reason"), row.get("truncated")
            ),
            error=_error(row, response),
            temperature=response.get("temperature"),
            top_p=response.get("top_p"),
            _text=last_text(messages),
        )
        if logps:
            values["behavior_logp_tokens"] = logps
            if isinstance(length, int) and len(logps) < length:
                values["behavior_logp"] = None
        yield values

    return Started(convert, fields)


def _logps(response: Mapping[str, Any]) -> list[Any]:
    output = [item for item in items(response.get("output")) if isinstance(item, Mapping)]
    return [logp for item in output for logp in items(item.get("generation_log_probs"))]


ADAPTER = Adapter("nemo-gym", _detect, _start)
