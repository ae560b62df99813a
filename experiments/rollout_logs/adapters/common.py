"""Small pieces that several adapters share."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from experiments.rollout_logs.adapters.base import Request, Values
from experiments.rollout_logs.records import Raw
from theory.errors import InvalidInput

_CUT = {"length", "max_tokens", "max_output_tokens", "max_new_tokens", "model_length"}


def hashed_prompt(*parts: Any) -> Values:
    """A prompt without an identifier goes by the hash of its text, and says so.

    Args:
        parts: texts, or conversations; none of them None.

    Returns:
        prompt_id and the flag, or nothing where a part is missing.
    """
    if any(part is None for part in parts):
        return {}
    text = json.dumps(parts, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return {"prompt_id": f"text:{digest[:32]}", "_prompt_hashed": True}


def present(**values: Any) -> Values:
    """Only the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def finish_reason(reason: Any, cut: Any = False) -> Any:
    """A stop reason in our words: 'length' where the horizon cut the text.

    Args:
        reason: as the server wrote it.
        cut: another field that says the same.

    Returns:
        'length', or the reason as it was.
    """
    if cut is True or (isinstance(reason, str) and reason.lower() in _CUT):
        return "length"
    return reason


def only(value: Any) -> Any:
    """The one element of a list of one; anything else as it is."""
    return value[0] if isinstance(value, list) and len(cast(list[Any], value)) == 1 else value


def masked(values: Sequence[Any], mask: Sequence[Any]) -> list[Any]:
    """The values of the tokens that the policy generated.

    Args:
        values: one a token of prompt, answer and padding.
        mask: of the same length, 1 or true where generated.

    Returns:
        Those values.

    Raises:
        ValueError: the lengths differ.
    """
    return [value for value, kept in zip(values, mask, strict=True) if kept]


def section(value: Any, name: str) -> Mapping[str, Any]:
    """An object inside an object; empty where there is none."""
    inner = value.get(name) if isinstance(value, Mapping) else None
    return cast(Mapping[str, Any], inner) if isinstance(inner, Mapping) else {}


def items(value: Any) -> list[Any]:
    """A list; empty where there is none."""
    return cast(list[Any], value) if isinstance(value, list) else []


def message_text(message: Any) -> str | None:
    """The text of a chat message, whose content is a text or a list of parts."""
    if isinstance(message, str):
        return message
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in items(content) if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str)) if texts else None


def last_text(completion: Any) -> str | None:
    """The text of a completion: itself, or its last message."""
    if isinstance(completion, str):
        return completion
    messages = items(completion)
    return message_text(messages[-1]) if messages else None


def verdict(value: Any) -> Values:
    """A grade as reward, and as verdict where it is 0 or 1.

    Args:
        value: a number, true or false.

    Returns:
        reward and correct; correct is null where the grade is partial.
    """
    if isinstance(value, bool):
        return {"correct": value, "reward": float(value)}
    if not isinstance(value, int | float):
        return {}
    return {"correct": bool(value) if value in (0, 1) else None, "reward": value}


def choose(first: Sequence[Raw], names: Sequence[str], request: Request, what: str) -> str | None:
    """Which of several answers of a record the user means.

    Args:
        first: the first records, for the message.
        names: what there is.
        request: what the user asked.
        what: kind of thing, such as "filter".

    Returns:
        The one there is or the one that `--filter` names; None where there is none.

    Raises:
        InvalidInput: several and none chosen (R16), or one that is not there.
    """
    wanted = request.filter_name
    if wanted is not None and wanted in names:
        return wanted
    listed = ", ".join(names) or "none"
    if wanted is not None:
        raise InvalidInput(
            f"{first[0].path}: no {what} '{wanted}', there are {listed}; see --filter"
        )
    if len(names) > 1:
        raise InvalidInput(
            f"{first[0].path}: R16, one row per {what} ({listed}): choose with --filter {names[0]}"
        )
    return names[0] if names else None


def one_of(values: Values) -> Iterator[Values]:
    """A record that is one row."""
    yield values
