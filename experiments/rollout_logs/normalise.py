"""Values as other people write them, brought into the fields of the schema; what fits no field is refused, never mended by guessing."""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from experiments.rollout_logs.records import PRIVATE
from experiments.rollout_logs.schema import (
    BY_NAME,
    FLAG,
    IDENTIFIER,
    NUMBER,
    NUMBERS,
    REQUIRED,
    SETTINGS,
    TEXT,
)

NO_PROMPT_ID = "no prompt_id"
LEAST_LOGP = -9998.0
"""At or under it a token's log probability is a sentinel: servers write -9999 or -3.4e38 for "not available"."""

UNUSED = frozenset(
    {"prompt", "seed", "dataset", "turn_lengths", "step", "group_id", "selected", "selection_rule"}
)
"""Fields without which a row is still whole: a value of another kind, such as a prompt as text, is no value there."""

_TOKEN_SUMS = {f"{name}_logp_tokens": f"{name}_logp" for name in ("base", "behavior", "target")}


def token_logps(values: Any) -> list[float | None]:
    """Log probabilities by token; null, NaN, positive values and sentinels are missing. An exact 0 is a certain token and stays.

    Args:
        values: one a token.

    Returns:
        The same length, None where missing.
    """
    return [_usable(value) for value in values]


def _usable(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if LEAST_LOGP < value <= 0.0 else None


def sequence_logp(tokens: list[float | None]) -> float | None:
    """Their sum, the log probability of the sequence.

    Args:
        tokens: natural log, None where missing.

    Returns:
        The sum, or None if any token is missing: a partial sum is the log probability of nothing.
    """
    return None if None in tokens else math.fsum(cast(list[float], tokens))


def normalise(values: dict[str, Any]) -> str | None:
    """Bring a row into the schema, in place.

    Args:
        values: canonical field -> value as written; the keys of `PRIVATE` are let through.

    Returns:
        None, or why this is no row: a few words.
    """
    if values.get(REQUIRED) is None:
        return NO_PROMPT_ID
    _settle(values)
    for name, value in values.items():
        if value is None or name in PRIVATE:
            if name == "_text" and value is not None:
                values[name] = _encodable(value) if isinstance(value, str) else None
            continue
        kind = BY_NAME[name].kind
        if kind is TEXT or kind is IDENTIFIER:
            if isinstance(value, str):
                if not value.isascii():
                    values[name] = _encodable(value)
            elif name.startswith("answer"):
                values[name] = _as_text(value)
            elif not kind.accepts(value):
                return f"invalid {name}"
        elif kind is NUMBER:
            if isinstance(value, Decimal):  # as tables of databases have them
                values[name] = float(value)
            elif type(value) is not float:
                if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**1023:
                    return f"invalid {name}"
                values[name] = float(value)
        elif kind is FLAG:
            if not isinstance(value, bool):
                if not isinstance(value, int | float) or value not in (0, 1):
                    return f"invalid {name}"
                values[name] = bool(value)
        elif kind is NUMBERS and name in _TOKEN_SUMS:
            if not isinstance(value, list):
                return f"invalid {name}"
            values[name] = token_logps(value)
        elif name == "top_k" and value == -1:
            values[name] = None  # how several servers write "all tokens"
        elif kind is SETTINGS and isinstance(value, str):
            settings = _settings(value)
            if settings is None:
                return f"invalid {name}"
            values[name] = settings
        elif not kind.accepts(value):
            return f"invalid {name}"
    for choice in ("logp_reduction", "law"):
        if values.get(choice) is not None and values[choice] not in BY_NAME[choice].choices:
            return f"invalid {choice}"
    _sum_tokens(values)
    return None


def _settle(values: dict[str, Any]) -> None:
    """Settle what other people mean by names of ours: a number of tokens, an error that is an object or false."""
    tokens = values.get("tokens")
    if isinstance(tokens, int) and not isinstance(tokens, bool):
        del values["tokens"]
        values.setdefault("completion_tokens", tokens)
    error = values.get("error")
    if error is not None and not isinstance(error, str):
        values["error"] = _as_text(error) if error else None
    elif error == "":
        values["error"] = None
    for name in UNUSED & values.keys():
        if values[name] is not None and not BY_NAME[name].kind.accepts(values[name]):
            values[name] = None


def _sum_tokens(values: dict[str, Any]) -> None:
    for tokens, total in _TOKEN_SUMS.items():
        logps = values.get(tokens)
        if logps is None:
            continue
        if total not in values:
            values[total] = sequence_logp(logps)
        if total == "behavior_logp":
            values["_missing_logp_tokens"] = logps.count(None)
            values["_zero_logp_tokens"] = logps.count(0.0)


def _as_text(answer: Any) -> str:
    if isinstance(answer, float) and not math.isfinite(answer):
        return str(answer)
    return _encodable(json.dumps(answer, ensure_ascii=False, sort_keys=True, default=str))


def _encodable(text: str) -> str:
    """A half of a surrogate pair, which JSON can spell and UTF-8 cannot, becomes its escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _settings(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else None
