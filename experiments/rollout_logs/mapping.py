"""`--map canonical=source`: the user's word on what a field of the log is."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from experiments.command_line import unknown
from experiments.rollout_logs.records import Raw

_ABSENT = object()


def lookup(value: Mapping[str, Any], source: str) -> Any:
    """A field by its name, or by a path of names and positions joined by dots.

    Args:
        value: a record.
        source: such as "metrics.correct" or "rewards.0"; a field whose own name has dots goes first.

    Returns:
        Its value; None where it is absent.
    """
    found = _find(value, source)
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
        name, dot, rest = source.partition(".")
        if not name.isdecimal() or int(name) >= len(items):
            return _ABSENT
        return _find(items[int(name)], rest) if dot else items[int(name)]
    return _ABSENT


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
) -> None:
    """Put the mapped values into a row.

    Args:
        values: the row, changed in place.
        raw: its record.
        mapping: canonical field -> field of the log.
        position: of the row among those of its record.
        rows: rows of the record; a list of that many values gives one to each.
    """
    for name, source in mapping.items():
        value = lookup(raw, source)
        if rows > 1 and isinstance(value, list) and len(cast(list[Any], value)) == rows:
            value = value[position]
        if isinstance(value, list) and name.endswith("_logp"):
            values.pop(name, None)
            name = f"{name}_tokens"
        values[name] = value
        if name == "prompt_id":
            values.pop("_prompt_hashed", None)
