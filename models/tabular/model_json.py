"""Model files: JSON with per-prefix conditionals, or the initial law and transition matrix of a Markov chain.

    {"kind": "tree", "vocab_size": V, "max_length": T, "eos": token | [tokens] | null,
     "conditionals": {"": [...], "0": ["2/3", 0, "1/3"], "0 1": [...]}}
    {"kind": "markov", ..., "initial": [...], "transition": [[...], ...]}

A file of kind "markov" may also give per-prefix conditionals, which must then depend on the last token only.
Probabilities are numbers, which are taken as doubles, or decimals or fractions as text, which are taken exactly. Other fields
are ignored.
"""

import json
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from jaxtyping import Float64

from models.tabular.constructors import (
    Prefix,
    followed_tokens,
    markov_from_log_rows,
    named,
    tree_from_log_rows,
)
from models.tabular.probabilities import (
    double_log_row,
    exact_log_row,
    parse_probability,
    shown,
)
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable

PREFIX = re.compile(r"(?:(?:0|[1-9]\d*)(?: (?:0|[1-9]\d*))*)?", re.ASCII)

# Longer numbers are no tokens of any model, and Python refuses to convert the longest.
MAX_TOKEN_DIGITS = 9

LogRows = dict[Prefix, Float64[np.ndarray, " V"]]


class ModelFile(NamedTuple):
    """A model as a file gives it.

    Attributes:
        table: its conditionals.
        kind: as in the file.
        horizon_is_free: whether the table says what follows at any length, so that the horizon may be changed.
    """

    table: ContextTable
    kind: Literal["tree", "markov"]
    horizon_is_free: bool


class _Sizes(NamedTuple):
    vocab_size: int
    eos: tuple[int, ...]
    max_length: int


def parse_model(text: str) -> ModelFile:
    """Read and check the content of a model file.

    Args:
        text: JSON.

    Returns:
        The model.

    Raises:
        InvalidInput: one line with the field or prefix, and the mend.
    """
    fields = _load_object(text)
    kind = _field(fields, "kind")
    if kind not in ("tree", "markov"):
        raise InvalidInput(f'kind {shown(kind)} is unknown, must be "tree" or "markov"')
    sizes = _sizes(fields)
    if kind == "tree":
        rows = _prefix_rows(fields, sizes)
        return ModelFile(tree_from_log_rows(rows, *sizes), "tree", False)
    if "conditionals" not in fields:
        return _compact_chain(fields, sizes)
    if "transition" in fields:
        raise InvalidInput('both "conditionals" and "transition" are given, remove one')
    return _chain_of_prefixes(_prefix_rows(fields, sizes), sizes)


def _load_object(text: str) -> dict[str, Any]:
    """The top-level object. A number that no double can hold stays text, so that it is never taken for 0 or infinity."""
    try:
        value = json.loads(
            text, object_pairs_hook=_unique_keys, parse_float=_number, parse_constant=str
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidInput(f"is not JSON: {error.msg} at {where}, mend it there") from None
    except RecursionError:
        raise InvalidInput("is nested too deeply, a model file has three levels") from None
    except InvalidInput:
        raise
    except ValueError:
        raise InvalidInput("holds an integer of thousands of digits, shorten it") from None
    if not isinstance(value, dict):
        raise InvalidInput(f'is {shown(value)}, must be an object such as {{"kind": "tree", ...}}')
    return cast(dict[str, Any], value)


def _number(text: str) -> float | str:
    value = float(text)
    is_zero = not text.lower().partition("e")[0].strip("-0.")
    return value if is_zero or (value != 0.0 and math.isfinite(value)) else text


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in pairs:
        if key in fields:
            raise InvalidInput(f"key {shown(key)} stands twice in one object, remove one")
        fields[key] = value
    return fields


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise InvalidInput(f'field "{name}" is missing, add it')
    return fields[name]


def _sizes(fields: Mapping[str, Any]) -> _Sizes:
    vocab_size = _integer(_field(fields, "vocab_size"), "vocab_size", 1)
    max_length = _integer(_field(fields, "max_length"), "max_length", 1)
    given = _field(fields, "eos")
    values: list[Any] = given if isinstance(given, list) else [] if given is None else [given]
    eos = {_integer(value, "eos", 0) for value in values}
    for token in eos:
        if token >= vocab_size:
            raise InvalidInput(f"eos {token} is no token, must be in 0..{vocab_size - 1}")
    return _Sizes(vocab_size, tuple(sorted(eos)), max_length)


def _integer(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} is {shown(value)}, must be an integer of at least {least}")
    if value < least:
        raise InvalidInput(f"{name} is {shown(value)}, must be at least {least}")
    return value


def _prefix_rows(fields: Mapping[str, Any], sizes: _Sizes) -> LogRows:
    conditionals = _field(fields, "conditionals")
    if not isinstance(conditionals, dict):
        raise InvalidInput(f"conditionals is {shown(conditionals)}, must be an object")
    rows: LogRows = {}
    for key, values in cast(dict[str, Any], conditionals).items():
        prefix = _prefix(key, sizes.vocab_size)
        rows[prefix] = _row(values, named(prefix), sizes.vocab_size)
    return rows


def _prefix(key: str, vocab_size: int) -> Prefix:
    if not PREFIX.fullmatch(key):
        raise InvalidInput(
            f"prefix {shown(key)} is malformed, must be tokens joined by single blanks"
        )
    parts = key.split()
    for part in parts:
        if len(part) > MAX_TOKEN_DIGITS or int(part) >= vocab_size:
            raise InvalidInput(
                f"prefix {shown(key)}: token {part:.20} is unknown, must be in 0..{vocab_size - 1}"
            )
    return tuple(int(part) for part in parts)


def _row(values: Any, name: str, vocab_size: int) -> Float64[np.ndarray, " V"]:
    if not isinstance(values, list):
        raise InvalidInput(f"{name} has {shown(values)}, must have a list of probabilities")
    values = cast(list[Any], values)
    if len(values) != vocab_size:
        raise InvalidInput(f"{name} has {len(values)} probabilities, must have {vocab_size}")
    probabilities: list[Fraction] = []
    plain = all(type(value) is float and value >= 0 for value in values)
    for token, value in enumerate([] if plain else values):
        try:
            probabilities.append(parse_probability(value))
        except InvalidInput as error:
            raise InvalidInput(f"{name}, token {token}: {error}") from None
    try:
        return double_log_row(values) if plain else exact_log_row(probabilities)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None


def _chain_of_prefixes(rows: LogRows, sizes: _Sizes) -> ModelFile:
    """A chain from per-prefix rows, which must agree where the last token does."""
    tree_from_log_rows(rows, *sizes)  # only for its checks
    first: dict[Prefix, Prefix] = {}
    for prefix, row in rows.items():
        other = first.setdefault(prefix[-1:], prefix)
        if not np.array_equal(row, rows[other]):
            raise InvalidInput(
                f"{named(other)} and {named(prefix)} end alike but have different rows, make them equal "
                'or set kind to "tree"'
            )
    by_token = {last: rows[prefix] for last, prefix in first.items()}
    table = markov_from_log_rows(by_token, *sizes)
    return ModelFile(table, "markov", _lawless_token(by_token, sizes.eos) is None)


def _compact_chain(fields: Mapping[str, Any], sizes: _Sizes) -> ModelFile:
    """A chain from its initial law and transition matrix; null stands for rows that no sequence reaches."""
    if "transition" not in fields and "initial" not in fields:
        raise InvalidInput('field "conditionals" is missing, add it or "initial" and "transition"')
    rows: LogRows = {(): _row(_field(fields, "initial"), "initial", sizes.vocab_size)}
    transition = _field(fields, "transition")
    if not isinstance(transition, list):
        raise InvalidInput(f"transition is {shown(transition)}, must be a list of rows")
    transition = cast(list[Any], transition)
    if len(transition) != sizes.vocab_size:
        raise InvalidInput(f"transition has {len(transition)} rows, must have {sizes.vocab_size}")
    for token, values in enumerate(transition):
        if token not in sizes.eos and values is not None:
            rows[(token,)] = _row(values, f"transition row {token}", sizes.vocab_size)
    if (token := _lawless_token(rows, sizes.eos)) is not None:
        raise InvalidInput(f"transition row {token} is null, but sequences reach token {token}")
    return ModelFile(markov_from_log_rows(rows, *sizes), "markov", True)


def _lawless_token(rows: LogRows, eos: tuple[int, ...]) -> int | None:
    """A token that sequences of some length reach but that has no row."""
    reached: list[Prefix] = [()]
    seen: set[Prefix] = {()}
    for context in reached:
        if context not in rows:
            return context[0]
        following = {(token,) for token in followed_tokens(rows[context], eos)} - seen
        reached += sorted(following)
        seen |= following
    return None
