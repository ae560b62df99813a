"""One line of JSON as a record: an object in which no field stands twice."""

import json
from typing import Any, cast

from theory.errors import InvalidInput


def parse_record(line: bytes, where: str) -> dict[str, Any]:
    """Read one line.

    Args:
        line: UTF-8.
        where: names the file and the row in messages.

    Returns:
        field -> value.

    Raises:
        InvalidInput: not UTF-8, not JSON, nested without end, not an object, or a field there twice; JSON readers keep the last of
            two, and which one is meant nobody can know.
    """
    try:
        record = json.loads(line, object_pairs_hook=unique_fields)
    except InvalidInput as error:
        raise InvalidInput(f"{where}, {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where}: not a line of JSON, mend or drop it") from error
    if not isinstance(record, dict):
        raise InvalidInput(f"{where}: not a JSON object, mend or drop it")
    return cast(dict[str, Any], record)


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for the `object_pairs_hook` of a decoder.

    Args:
        pairs: field and value, in order.

    Returns:
        field -> value.

    Raises:
        InvalidInput: a field is there twice.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"field '{twice}': there twice, keep one of them")
    return fields
