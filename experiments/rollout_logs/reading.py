"""Rollout logs of any known format as canonical rows, nothing lost and nothing guessed.

    logs = open_logs(["runs/"], "auto", {}, None, strict=False)
    for record in logs.records(): ...        # Row, or Excluded with its reason

Every record of every file comes out as a row or as what was left out.
"""

from collections.abc import Iterator, Mapping, Sequence

from experiments.command_line import unknown
from experiments.rollout_logs.adapters.base import Adapter, Convert, Request, Started
from experiments.rollout_logs.adapters.registry import ADAPTERS
from experiments.rollout_logs.formats import (
    AUTO,
    FORMATS,
    Items,
    Opened,
    Skipped,
    choose_format,
    look,
    nothing_in,
)
from experiments.rollout_logs.inputs import LINES, expand
from experiments.rollout_logs.mapping import check_mapping, override
from experiments.rollout_logs.normalise import normalise
from experiments.rollout_logs.records import NO_SAMPLE, Excluded, Raw, Record, Row
from experiments.rollout_logs.schema import BY_NAME
from theory.errors import InvalidInput

__all__ = ["AUTO", "FORMATS", "Excluded", "OpenedLogs", "Record", "Row", "Skipped", "open_logs"]

PROBED = 100
"""Records that are converted to see which fields there are."""
_NOT_A_RECORD = "not a record of"

REPORTED = (
    "sample_id", "policy_id", "answer", "correct", "reward", "score", "verifier_id_search", "verifier_id_final",
    "base_logp", "behavior_logp", "target_logp", "temperature", "completion_tokens", "finish_reason", "error", "wall_s",
    "model_calls", "verifier_calls", "tool_calls", "env_steps", "usd",
)  # fmt: skip
"""Fields whose absence is said, because some statistic needs them."""

_MISFITS = (
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""What an adapter meets where a record does not have the shape of its format."""


class OpenedLogs:
    """Logs whose format is known.

    Attributes:
        inputs: the files, in the order in which they are read.
        format: name of the adapter.
        field_map: canonical field -> field of the log, for those that the first records have or the user named.
        missing: fields of `REPORTED` that the first records do not have.
        plain_files: files in canonical fields without any change of name, which a database may read itself.
        skipped: files of folders that are no logs of this format.
    """

    def __init__(
        self,
        opened: Sequence[Opened],
        adapter: Adapter,
        started: Started,
        request: Request,
        first: Sequence[Raw],
        skipped: Sequence[Skipped],
        strict: bool,
    ) -> None:
        """Keep what `open_logs` found; call that."""
        self.inputs = [entry.file.path for entry in opened]
        self.format = adapter.name
        probe = adapter.start(
            first, request
        ).convert  # an adapter may keep count: not the one that reads
        found = {
            name
            for raw in first[:PROBED]
            for record in rows_of(raw, adapter.name, probe, request.mapping)
            if isinstance(record, Row)
            for name, value in record.values.items()
            if value is not None
        }
        used = {name: source for name, source in started.fields.items() if name in found}
        self.field_map = {**used, **request.mapping}
        self.missing = tuple(name for name in REPORTED if name not in self.field_map)
        plain = adapter.name == "native" and all(
            name == source for name, source in self.field_map.items()
        )
        self.plain_files = [
            entry.file.path
            for entry in opened
            if plain and entry.rest is None and entry.file.path.endswith((*LINES, ".parquet"))
        ]
        self.skipped = tuple(skipped)
        self._opened = opened
        self._adapter = adapter
        self._convert = started.convert
        self._mapping = request.mapping
        self._strict = strict

    def records(self) -> Iterator[Record]:
        """Every record of every file, in order.

        A pipe can be read only once.

        Yields:
            Rows whose values fit the schema, and records that were left out.

        Raises:
            InvalidInput: under `strict`, the first record that cannot be read.
        """
        for entry in self._opened:
            for item in _split(entry.records(), self._adapter):
                if isinstance(item, Excluded):
                    yield self._left_out(item)
                else:
                    yield from self._rows(item)

    def _rows(self, raw: Raw) -> Iterator[Record]:
        for record in rows_of(raw, self.format, self._convert, self._mapping):
            if isinstance(record, Excluded) and record.reason.startswith(_NOT_A_RECORD):
                record = self._left_out(record)
            yield record

    def _left_out(self, excluded: Excluded) -> Excluded:
        if self._strict:
            raise InvalidInput(f"{excluded.words}, mend it or read on without --strict")
        return excluded


def rows_of(
    raw: Raw, format: str, convert: Convert, mapping: Mapping[str, str]
) -> Iterator[Record]:
    """The rows of one record.

    Args:
        raw: the record.
        format: name of its format.
        convert: of the adapter.
        mapping: canonical field -> field of the log.

    Yields:
        Rows whose values fit the schema, and rows that were left out.
    """
    try:
        found = list(convert(raw))
    except InvalidInput:
        raise
    except _MISFITS:
        yield Excluded(f"{_NOT_A_RECORD} {format}", raw.where)
        return
    if not found:
        yield Excluded(NO_SAMPLE, raw.where)
    for position, values in enumerate(found):
        if isinstance(values, Excluded):
            yield values
            continue
        try:
            reason = override(values, raw.value, mapping, position, len(found)) if mapping else None
        except _MISFITS:
            reason = f"{_NOT_A_RECORD} {format}"
        reason = reason or normalise(values)
        yield Row(values, raw.where) if reason is None else Excluded(reason, raw.where)


def open_logs(
    paths: Sequence[str],
    format: str,
    mapping: Mapping[str, str],
    filter_name: str | None,
    strict: bool,
) -> OpenedLogs:
    """Find the files and their format.

    Args:
        paths: files, folders, patterns, or `-` for stdin.
        format: a name of `FORMATS`.
        mapping: canonical field -> field of the log, a dotted path where it is nested; goes before what the adapter does.
        filter_name: of lm-eval its filter, of evalplus base or plus, of inspect the scorer.
        strict: whether a record that cannot be read is an error.

    Returns:
        The logs, ready to be read.

    Raises:
        InvalidInput: no file, no record, an unknown or ambiguous format, a filter for a format without any, a field of `mapping` that is nowhere,
            aggregates (R16).
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    for name in mapping:
        if name not in BY_NAME:
            raise unknown("field", name, BY_NAME)
    opened = [look(file) for file in expand(paths)]
    chosen, kept, skipped = choose_format(opened, format, mapping)
    if filter_name is not None:
        _check_filter(chosen, filter_name)
    request = Request(mapping, filter_name)
    items = [item for entry in kept for item in _split(iter(entry.first), chosen)]
    first = [item for item in items if isinstance(item, Raw)]
    if not first:
        raise nothing_in(kept, items)
    check_mapping(first, mapping)
    started = chosen.start(first, request)
    return OpenedLogs(kept, chosen, started, request, first, skipped, strict)


def _check_filter(adapter: Adapter, filter_name: str) -> None:
    if not adapter.takes_filter:
        names = ", ".join(name for name, each in ADAPTERS.items() if each.takes_filter)
        raise InvalidInput(
            f"--filter '{filter_name}': logs of the format {adapter.name} have none, leave it out ({names} have filters)"
        )


def _split(items: Items, adapter: Adapter) -> Items:
    for item in items:
        if isinstance(item, Excluded):
            yield item
        else:
            empty = True
            for inner in adapter.split(item):
                empty = False
                yield inner
            if empty:
                yield Excluded(NO_SAMPLE, item.where)
