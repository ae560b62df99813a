"""What reading a log gives: rows, and what was left out with its reason."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One trajectory.

    Attributes:
        values: canonical field -> value, absent where the log has none; beside them the keys of `PRIVATE`.
        where: file and line, for messages.
    """

    values: dict[str, Any]
    where: str


class Excluded(NamedTuple):
    """One record that is no row.

    Attributes:
        reason: a few words, the same for all records left out for the same cause.
        where: file and line.
        detail: more about this record alone.
    """

    reason: str
    where: str
    detail: str = ""

    @property
    def words(self) -> str:
        """What is wrong, for a message."""
        more = f" ({self.detail})" if self.detail else ""
        return f"{self.where}: {self.reason}{more}"

    @property
    def shown(self) -> str:
        """Where it stands, for a reader."""
        return f"{self.where} ({self.detail})" if self.detail else self.where


Record = Row | Excluded


class Raw(NamedTuple):
    """One record of a file as its writer wrote it.

    Attributes:
        value: its fields.
        where: file and line.
        path: the file.
    """

    value: Mapping[str, Any]
    where: str
    path: str


UNREADABLE = "unreadable"
TOO_LONG = "line too long"
ITEM_TOO_LONG = "item too long"
NOT_AN_OBJECT = "not an object"
NO_SAMPLE = "no sample in it"

PRIVATE: Mapping[str, str] = {
    "_text": "the completion as written",
    "_prompt_hashed": "true where prompt_id is a hash of the prompt's text, for want of an identifier",
    "_missing_logp_tokens": "tokens of behavior_logp_tokens without a usable value",
    "_zero_logp_tokens": "tokens of behavior_logp_tokens whose log probability is exactly 0",
}
"""Keys beside the canonical fields, and what they mean."""
