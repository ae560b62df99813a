"""What an adapter is: how it knows its format and how it turns a record into rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.rollout_logs.records import Excluded, Raw

Values = dict[str, Any]
Convert = Callable[[Raw], Iterator[Values | Excluded]]


class Request(NamedTuple):
    """What the user asked of the reader.

    Attributes:
        mapping: canonical field -> field of the log.
        filter_name: which of several answers of a record is meant, or None.
    """

    mapping: Mapping[str, str]
    filter_name: str | None


class Started(NamedTuple):
    """An adapter at work on one set of files.

    Attributes:
        convert: record -> the rows in it, values not yet checked.
        fields: canonical field -> field of the log, as it is used.
    """

    convert: Convert
    fields: Mapping[str, str]


def _itself(raw: Raw) -> Iterator[Raw]:
    yield raw


class Adapter(NamedTuple):
    """A format.

    Attributes:
        name: as `--format` knows it.
        detect: how sure it is that a record is of its format: 0 no, 1 only if nothing else fits, 2 or more by the number of
            fields that speak for it.
        start: begins, given the first records; raises `InvalidInput` if the user must choose something first.
        split: the records inside one document.
        takes_filter: whether a record may hold several answers, of which `--filter` names one.
    """

    name: str
    detect: Callable[[Raw], int]
    start: Callable[[Sequence[Raw], Request], Started]
    split: Callable[[Raw], Iterator[Raw | Excluded]] = _itself
    takes_filter: bool = False
