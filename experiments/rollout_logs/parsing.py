"""The text of one JSON object as a record."""

import json
import re

from experiments.json_lines import unique_fields
from experiments.rollout_logs.records import NOT_AN_OBJECT, UNREADABLE, Excluded, Raw
from theory.errors import InvalidInput

_UNDECODED = re.compile("[\udc80-\udcff]")


def parsed(data: bytes | str, where: str, path: str) -> Raw | Excluded:
    """One record from its JSON.

    Args:
        data: the text of one object.
        where: file and line.
        path: the file.

    Returns:
        The record, or why it is none; a field that stands twice makes it unreadable, because readers keep the last and nobody
        knows which is meant.
    """
    try:
        # Of bytes `json` would guess the encoding, line by line: the first line of UTF-16 alone can be read that way.
        text = data.decode() if isinstance(data, bytes) else data
        value = json.loads(text, object_pairs_hook=unique_fields)
    except InvalidInput as error:
        return Excluded(UNREADABLE, where, str(error))
    except (ValueError, RecursionError):
        return Excluded(UNREADABLE, where)
    return Raw(value, where, path) if isinstance(value, dict) else Excluded(NOT_AN_OBJECT, where)


def undecoded(text: str) -> bool:
    """Whether a text holds bytes that are none of its encoding.

    Args:
        text: decoded under "surrogateescape".

    Returns:
        Whether some byte was escaped.
    """
    return not text.isascii() and _UNDECODED.search(text) is not None
