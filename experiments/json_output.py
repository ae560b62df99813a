"""Strict JSON that loses nothing and is the same, byte for byte, for the same value.

JSON has no NaN and no infinity. Such a number is written as null, and the key that owns it gets a neighbour
`<key>_reason` that says which it was; in a list, each null is named in reading order ("null" is a null that was there
before), or all at once where they are alike:

    {"kl": inf}               ->  {"kl": null, "kl_reason": "infinity"}
    {"kl": [1.0, -inf, nan]}  ->  {"kl": [1.0, null, null], "kl_reason": "-infinity, NaN"}

A `<key>_reason` that the caller gives is kept instead.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from experiments.output import open_output

_AS_THEY_ARE = (str, int, bool)
_NON_FINITE = {"NaN": math.nan, "infinity": math.inf, "-infinity": -math.inf}
_scalar = json.JSONEncoder(allow_nan=False).encode  # made once; `json.dumps` makes one a call


def write_json(value: object, destination: str | Path) -> None:
    """Write one JSON document with a newline at its end.

    Args:
        value: see `to_plain`.
        destination: a file, or `-` for stdout.
    """
    text = _render(to_plain(value), "") + "\n"
    with open_output(destination) as stream:
        stream.write(text.encode("ascii"))


def to_line(value: object) -> str:
    """One JSON document on one line, without the newline.

    Args:
        value: see `to_plain`.

    Returns:
        ASCII text.
    """
    return plain_line(to_plain(value))


def plain_line(plain: Any) -> str:
    """One line for what `to_plain` returned.

    Args:
        plain: strict JSON.

    Returns:
        ASCII text.
    """
    return _scalar(plain)


def to_plain(value: object) -> Any:
    """Turn a value into what strict JSON can hold.

    Args:
        value: mappings with string keys (order kept), NamedTuples and dataclasses (as objects), lists, tuples, NumPy
            and JAX arrays and scalars, strings, booleans, integers, floats, None.

    Returns:
        Nested dict, list, str, bool, int, finite float and None.

    Raises:
        TypeError: a type without a JSON form, or a key that is not a string.
        ValueError: a non-finite number that no key owns.
    """
    plain, nulls = _convert(value)
    if _reason(nulls) is not None:
        raise ValueError(f"non-finite number ({_reason(nulls)}) outside an object")
    return plain


def restore(plain: Any) -> Any:
    """Undo `to_plain` on parsed JSON: nulls with a reason become the numbers they stand for.

    Args:
        plain: parsed JSON.

    Returns:
        The same structure; reasons that name no number stay as they are, beside their null.
    """
    if isinstance(plain, list):
        return [restore(item) for item in cast(list[Any], plain)]
    if not isinstance(plain, dict):
        return plain
    restored = cast(dict[str, Any], plain)
    stand_ins = {key: _stand_ins(restored.get(f"{key}_reason")) for key in restored}
    spent = {f"{key}_reason" for key, values in stand_ins.items() if values is not None}
    return {
        key: restore(item) if (values := stand_ins[key]) is None else _fill(item, values)
        for key, item in restored.items()
        if key not in spent
    }


def _convert(value: Any) -> tuple[Any, list[str]]:
    """The plain form, and a word for each null in it that no inner key owns."""
    # What most values are comes first: a log has millions of them.
    kind = type(value)
    if kind in _AS_THEY_ARE or (kind is float and math.isfinite(value)):
        return value, []
    value = _unwrap(value)
    if value is None:
        return None, ["null"]
    if isinstance(value, float) and not math.isfinite(value):
        word = next(word for word, number in _NON_FINITE.items() if repr(number) == repr(value))
        return None, [word]
    if isinstance(value, bool | int | float | str):
        return value, []
    if isinstance(value, Mapping):
        return _convert_object(cast(Mapping[object, object], value)), []
    if isinstance(value, list | tuple):
        pairs = [_convert(item) for item in cast(list[Any], value)]
        return [plain for plain, _ in pairs], [word for _, words in pairs for word in words]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _convert_object(mapping: Mapping[object, object]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in mapping.items():
        if not isinstance(key, str):
            raise TypeError(f"key {key!r} of a JSON object must be a string")
        plain[key], nulls = _convert(item)
        reason = _reason(nulls) if nulls else None
        if reason is not None and f"{key}_reason" not in mapping:
            plain[f"{key}_reason"] = reason
    return plain


def _unwrap(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return cast(Any, value)._asdict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    return value


def _reason(nulls: list[str]) -> str | None:
    kinds = set(nulls)
    if kinds <= {"null"}:
        return None
    return nulls[0] if len(kinds) == 1 else ", ".join(nulls)


def _stand_ins(reason: object) -> Iterator[float | None] | None:
    """What the nulls beside a reason stand for, in reading order; None if it names no number."""
    words = reason.split(", ") if isinstance(reason, str) else []
    if not words or not set(words) <= {*_NON_FINITE, "null"}:
        return None
    numbers = [_NON_FINITE.get(word) for word in words]
    return itertools.repeat(numbers[0]) if len(numbers) == 1 else iter(numbers)


def _fill(plain: Any, stand_ins: Iterator[float | None]) -> Any:
    if plain is None:
        return next(stand_ins, None)  # a reason may name fewer numbers than there are nulls
    if isinstance(plain, list):
        return [_fill(item, stand_ins) for item in cast(list[Any], plain)]
    return restore(plain)


def _render(plain: Any, indent: str) -> str:
    """Objects, and lists that hold a container, one item a line; lists of scalars on one line."""
    inner = indent + "  "
    if isinstance(plain, dict) and plain:
        members = cast(dict[str, Any], plain).items()
        lines = [f"{inner}{_scalar(key)}: {_render(item, inner)}" for key, item in members]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(plain, list) and any(
        isinstance(item, dict | list) for item in cast(list[Any], plain)
    ):
        lines = [inner + _render(item, inner) for item in cast(list[Any], plain)]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return _scalar(plain)
