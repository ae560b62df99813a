"""Responses of OpenAI and of servers that speak like it (vLLM, SGLang): chat and legacy completions, one a line, batch output too.

The log probability of a token is that of the sampled one, never the first of the alternatives. -9999 stands for "not available".
Whether log probabilities are raw or processed is not in the response. Its `id` names the request, not the prompt.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    finish_reason,
    items,
    message_text,
    present,
    section,
)
from experiments.rollout_logs.records import NOT_AN_OBJECT, Excluded, Raw

_FIELDS = {
    "prompt_id": "custom_id, else id", "sample_id": "choices[].index", "policy_id": "model", "behavior_logp": "choices[].logprobs",
    "completion_tokens": "usage.completion_tokens, else choices[].logprobs", "prompt_tokens": "usage.prompt_tokens",
    "finish_reason": "choices[].finish_reason", "error": "error",
}  # fmt: skip
NO_CHOICE = "response without choices"


def _detect(raw: Raw) -> int:
    if "custom_id" in raw.value and "response" in raw.value:
        return 6
    choices = items(raw.value.get("choices"))
    first: Any = choices[0] if choices else None
    fits = isinstance(first, Mapping) and ("message" in first or "text" in first)
    return 4 + ("object" in raw.value) + ("usage" in raw.value) if fits else 0


def logprobs(choice: Mapping[str, Any]) -> list[Any] | None:
    """The log probabilities of the sampled tokens of a choice.

    Args:
        choice: of a chat or of a legacy response.

    Returns:
        One a token, as written; None where there are none.
    """
    found = section(choice, "logprobs")
    if isinstance(found.get("content"), list):
        return [
            token.get("logprob") if isinstance(token, Mapping) else None
            for token in found["content"]
        ]
    legacy = found.get("token_logprobs")
    return legacy if isinstance(legacy, list) else None


def _start(first: Sequence[Raw], request: Request) -> Started:
    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        row = raw.value
        body = section(section(row, "response"), "body") if "custom_id" in row else row
        prompt: Values = (
            {"prompt_id": row["custom_id"]}
            if "custom_id" in row
            else {"prompt_id": body.get("id"), "_prompt_hashed": True}
        )
        choices = items(body.get("choices"))
        error = row.get("error") or body.get("error")
        if not choices and error:
            yield prompt | {"error": str(error)}
        elif not choices:
            yield Excluded(NO_CHOICE, raw.where)
        usage = section(body, "usage")
        for position, choice in enumerate(choices):
            if not isinstance(choice, Mapping):
                yield Excluded(NOT_AN_OBJECT, raw.where)
                continue
            logps = logprobs(choice)
            length = usage.get("completion_tokens") if len(choices) == 1 else None
            yield prompt | present(
                sample_id=choice.get("index", position),
                policy_id=body.get("model"),
                behavior_logp_tokens=logps,
                completion_tokens=length if length is not None else (len(logps) if logps else None),
                prompt_tokens=usage.get("prompt_tokens"),
                finish_reason=finish_reason(choice.get("finish_reason")),
                _text=message_text(choice.get("message", choice.get("text"))),
            )

    return Started(convert, _FIELDS)


ADAPTER = Adapter("openai", _detect, _start)
