"""`--map canonical=source`: the user's word on what a field of the log is."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from experiments.command_line import unknown
from experiments.rollout_logs.adapters.common import hashed_prompt
from experiments.rollout_logs.records import Raw

_ABSENT, _NO_NUMBERS = object(), object()
REDUCTIONS: Mapping[str, Callable[[list[Any]], Any]] = {
    "sum": math.fsum,
    "prod": math.prod,
    "mean": lambda values: math.fsum(values) / len(values),
    "min": min,
    "last": lambda values: values[-1],
}
"""How a list of numbers becomes one: `score.sum`; a list of lists becomes a list."""

PER_SAMPLE = frozenset({"answer", "answer_raw", "correct", "reward", "score"})
"""One value of these for several samples is an aggregate and is never copied to each of them."""

PROMPT_TEXTS = frozenset(
    {"prompt", "question", "problem", "input", "input_prompt", "prompts", "query", "instruction", "messages", "text"}
)  # fmt: skip
"""Names of fields that hold a prompt itself, not its identifier."""
_LONGEST_IDENTIFIER = 200  # characters


def lookup(value: Mapping[str, Any], source: str) -> Any:
    """A field by its name, or by a path of names and positions joined by dots.

    Args:
        value: a record.
        source: such as "metrics.correct", "rewards.0" or "score.sum" (`REDUCTIONS`); a field whose own name has dots goes first.

    Returns:
        Its value; None where it is absent.

    Raises:
        TypeError: a reduction of what is no list of numbers.
    """
    found = _find(value, source)
    if found is _NO_NUMBERS:
        raise TypeError(f"{source} of what is no list of numbers")
    return None if found is _ABSENT else found


def _find(value: Any, source: str) -> Any:
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, Any], value)
        if source in fields:
            return fields[source]
        name, dot, rest = source.partition(".")
        return _find(fields[name], rest) if dot and name in fields else _ABSENT
    if isinstance(value, list):
        items = cast(list[Any], value)
        if source in REDUCTIONS:
            return _reduced(items, REDUCTIONS[source]) if _numbers(items) else _NO_NUMBERS
        name, dot, rest = source.partition(".")
        if not name.isdecimal() or int(name) >= len(items):
            return _ABSENT
        return _find(items[int(name)], rest) if dot else items[int(name)]
    return _ABSENT


def _numbers(items: list[Any]) -> bool:
    return all(
        _numbers(cast(list[Any], item)) if isinstance(item, list) else isinstance(item, int | float)
        for item in items
    )


def _reduced(items: list[Any], reduce: Callable[[list[Any]], Any]) -> Any:
    if items and all(isinstance(item, list) for item in items):
        return [_reduced(cast(list[Any], item), reduce) for item in items]
    return reduce(items) if items else None


def check_mapping(first: Sequence[Raw], mapping: Mapping[str, str]) -> None:
    """Refuse a field that none of the first records has.

    Args:
        first: records.
        mapping: canonical field -> field of the log.

    Raises:
        InvalidInput: names the field.
    """
    for source in mapping.values():
        if all(_find(raw.value, source) is _ABSENT for raw in first):
            raise unknown(
                "field of the log", source, {name: None for raw in first for name in raw.value}
            )


def override(
    values: dict[str, Any],
    raw: Mapping[str, Any],
    mapping: Mapping[str, str],
    position: int,
    rows: int,
) -> str | None:
    """Put the mapped values into a row.

    Args:
        values: the row, changed in place.
        raw: its record.
        mapping: canonical field -> field of the log.
        position: of the row among those of its record.
        rows: rows of the record; a list of that many values gives one to each.

    Returns:
        None, or why the row cannot have its value.

    Raises:
        TypeError: a reduction of what is no list of numbers.
    """
    for name, source in mapping.items():
        value = lookup(raw, source)
        if rows > 1 and isinstance(value, list) and len(cast(list[Any], value)) == rows:
            value = value[position]
        elif rows > 1 and name in PER_SAMPLE and value is not None:
            return f"one {source} for several samples"
        if isinstance(value, list) and name.endswith("_logp"):
            values.pop(name, None)
            name = f"{name}_tokens"
        values[name] = value
        if name == "prompt_id":
            values.pop("_prompt_hashed", None)
            if _is_prompt(source, value):
                values.update(hashed_prompt(value))
    return None


def _is_prompt(source: str, value: Any) -> bool:
    """Whether a value is a prompt, which goes by its hash (R13), and not the identifier of one."""
    if not isinstance(value, str):
        return isinstance(value, list | Mapping)
    named = source.rpartition(".")[2] in PROMPT_TEXTS
    return named or len(value) > _LONGEST_IDENTIFIER or "\n" in value
