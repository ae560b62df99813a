"""NeMo RL: train_data_stepN.jsonl, val_data_stepN.jsonl and evaluation_data.json.

A line holds a batch of one: values stand in lists of one element. Log probabilities cover prompt and padding and count only where
`token_loss_mask` is set; `generation_logprobs` is the behaviour policy, `prev_logprobs` the policy at the start of the
update. `idx` is the number of the row, not a prompt: prompts go by the tokens or the messages before the first answer.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    finish_reason,
    hashed_prompt,
    items,
    last_text,
    masked,
    message_text,
    only,
    present,
)
from experiments.rollout_logs.records import NOT_AN_OBJECT, Excluded, Raw
from theory.errors import InvalidInput

_STEP = re.compile(r"_step(\d+)\.jsonl")
_LOGPS = {"behavior_logp": "generation_logprobs", "target_logp": "prev_logprobs"}


def _detect(raw: Raw) -> int:
    if "evaluation_data" in raw.value:
        return 4
    if {"rewards", "content", "idx"} <= raw.value.keys():
        return 4 + ("generation_logprobs" in raw.value)
    return 0


def _split(raw: Raw) -> Iterator[Raw | Excluded]:
    if "evaluation_data" not in raw.value:
        yield raw
        return
    for number, value in enumerate(items(raw.value["evaluation_data"]), start=1):
        where = f"{raw.where}, item {number}"
        if isinstance(value, dict):
            yield Raw(value, where, raw.path)
        else:
            yield Excluded(NOT_AN_OBJECT, where)


def _prompt(row: Any) -> Values:
    if "prompt" in row:
        return hashed_prompt(row["prompt"])
    tokens, mask = only(row.get("token_ids")), only(row.get("token_loss_mask"))
    if isinstance(tokens, list) and isinstance(mask, list):
        written = [position for position, kept in enumerate(mask) if kept]
        return hashed_prompt(tokens[: written[0]] if written else tokens)
    messages = _messages(row)
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    if len(roles) == len(messages) and "assistant" in roles:
        return hashed_prompt(
            [message_text(message) for message in messages[: roles.index("assistant")]]
        )
    return {}


def _messages(row: Any) -> list[Any]:
    inner = only(row.get("content"))
    return inner if isinstance(inner, list) else items(row.get("content"))


def _start(first: Sequence[Raw], request: Request) -> Started:
    seen = {name for raw in first for name in raw.value}
    if "prompt_id" not in request.mapping and not any(_prompt(raw.value) for raw in first):
        raise InvalidInput(
            f"{first[0].where}: neither token_ids with token_loss_mask nor messages with roles tell prompt from answer, "
            "name a field of the prompt: --map prompt_id=FIELD"
        )
    logps = {name: source for name, source in _LOGPS.items() if source in seen}
    fields = {
        "prompt_id": "sha256 of the prompt",
        "reward": "reward" if "reward" in seen else "rewards",
        **logps,
    }
    if "extracted_answer" in seen:
        fields["answer"] = "extracted_answer"
    if "token_loss_mask" in seen:
        fields["completion_tokens"] = "token_loss_mask"

    def convert(raw: Raw) -> Iterator[Values]:
        row = raw.value
        step = _STEP.search(raw.path)
        values = present(
            reward=only(row.get(fields["reward"])),
            step=int(step[1]) if step else None,
            answer=row.get("extracted_answer"),
            finish_reason=finish_reason(row.get("finish_reason"), only(row.get("truncated"))),
            _text=row.get("response") or last_text(_messages(row)),
        ) | _prompt(row)
        mask = only(row.get("token_loss_mask"))
        if isinstance(mask, list):
            values["completion_tokens"] = sum(1 for kept in mask if kept)
            for name, source in logps.items():
                if source in row:
                    values[f"{name}_tokens"] = masked(only(row[source]), mask)
        if only(row.get("sample_loss_mask")) == 0:
            values["error"] = "left out of the loss by sample_loss_mask"
        yield values

    return Started(convert, fields)


ADAPTER = Adapter("nemo-rl", _detect, _start, _split)
