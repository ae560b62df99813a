"""Rollout logs of any known format as canonical rows, nothing lost and nothing guessed.

    logs = open_logs(["runs/"], "auto", {}, None, strict=False)
    for record in logs.records(): ...        # Row, or Excluded with its reason

Every record of every file comes out as a row or as what was left out.
"""

import itertools
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.command_line import unknown
from experiments.rollout_logs.adapters.base import Adapter, Request, Started
from experiments.rollout_logs.adapters.registry import ADAPTERS
from experiments.rollout_logs.inputs import LINES, STDIN, InputFile, expand
from experiments.rollout_logs.mapping import check_mapping, override
from experiments.rollout_logs.normalise import normalise
from experiments.rollout_logs.records import Excluded, Raw, Record, Row
from experiments.rollout_logs.schema import BY_NAME
from experiments.rollout_logs.sources import raw_records
from theory.errors import InvalidInput

AUTO = "auto"
FORMATS = (AUTO, *ADAPTERS)
FIRST = 20
"""Records of each file that the format and the fields are told from."""

REPORTED = (
    "sample_id", "policy_id", "answer", "correct", "reward", "score", "verifier_id_search", "verifier_id_final",
    "base_logp", "behavior_logp", "target_logp", "temperature", "completion_tokens", "finish_reason", "error", "wall_s",
    "model_calls", "verifier_calls", "tool_calls", "env_steps", "usd",
)  # fmt: skip
"""Fields whose absence is said, because some statistic needs them."""

Items = Iterator[Raw | Excluded]


class Skipped(NamedTuple):
    """A file of a folder that was not read.

    Attributes:
        path: its name.
        code: R16 for aggregates, else "skipped".
        reason: in plain words.
    """

    path: str
    code: str
    reason: str


class _Opened(NamedTuple):
    file: InputFile
    first: list[Raw | Excluded]
    rest: Items | None  # of what can be read only once


class OpenedLogs:
    """Logs whose format is known.

    Attributes:
        inputs: the files, in the order in which they are read.
        format: name of the adapter.
        field_map: canonical field -> field of the log.
        missing: fields of `REPORTED` that no row has, by the format or by the first records.
        plain_files: files in canonical fields without any change of name, which a database may read itself.
        skipped: files of folders that are no logs of this format.
    """

    def __init__(
        self,
        opened: Sequence[_Opened],
        adapter: Adapter,
        started: Started,
        request: Request,
        skipped: Sequence[Skipped],
        strict: bool,
    ) -> None:
        """Keep what `open_logs` found; call that."""
        self.inputs = [entry.file.path for entry in opened]
        self.format = adapter.name
        self.field_map = {**started.fields, **request.mapping}
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
            items = (
                raw_records(entry.file.path)
                if entry.rest is None
                else itertools.chain(entry.first, entry.rest)
            )
            for item in _split(items, self._adapter):
                if isinstance(item, Excluded):
                    yield self._left_out(item)
                else:
                    yield from self._rows(item)

    def _rows(self, raw: Raw) -> Iterator[Record]:
        try:
            found = list(self._convert(raw))
        except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError):
            yield self._left_out(Excluded(f"not a record of {self.format}", raw.where))
            return
        for position, values in enumerate(found):
            if isinstance(values, Excluded):
                yield values
                continue
            if self._mapping:
                override(values, raw.value, self._mapping, position, len(found))
            reason = normalise(values)
            yield Row(values, raw.where) if reason is None else Excluded(reason, raw.where)

    def _left_out(self, excluded: Excluded) -> Excluded:
        if self._strict:
            raise InvalidInput(
                f"{excluded.where}: {excluded.reason}, mend it or read on without --strict"
            )
        return excluded


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
        InvalidInput: no file, no record, an unknown or ambiguous format, a field of `mapping` that is nowhere, aggregates (R16).
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    for name in mapping:
        if name not in BY_NAME:
            raise unknown("field", name, BY_NAME)
    opened = [_look(file) for file in expand(paths)]
    chosen, kept, skipped = _choose(opened, format, mapping)
    request = Request(mapping, filter_name)
    first = [
        item
        for entry in kept
        for item in _split(iter(entry.first), chosen)
        if isinstance(item, Raw)
    ]
    if not first:
        raise _nothing(kept)
    started = chosen.start(first, request)
    check_mapping(first, mapping)
    return OpenedLogs(kept, chosen, started, request, skipped, strict)


def _look(file: InputFile) -> _Opened:
    records = raw_records(file.path)
    first = list(itertools.islice(records, FIRST))
    if _only_once(file.path):
        return _Opened(file, first, records)
    return _Opened(file, first, None)


def _only_once(path: str) -> bool:
    return path == STDIN or not stat.S_ISREG(Path(path).stat().st_mode)


def _split(items: Items, adapter: Adapter) -> Items:
    for item in items:
        if isinstance(item, Excluded):
            yield item
        else:
            yield from adapter.split(item)


def _nothing(opened: Sequence[_Opened]) -> InvalidInput:
    left_out = [item for entry in opened for item in entry.first if isinstance(item, Excluded)]
    name = opened[0].file.path
    if left_out:
        return InvalidInput(f"{left_out[0].where}: {left_out[0].reason}, no record can be read")
    return InvalidInput(f"{name}: no record in it, give a log that is not empty")


def _choose(
    opened: Sequence[_Opened], format: str, mapping: Mapping[str, str]
) -> tuple[Adapter, list[_Opened], list[Skipped]]:
    """The adapter of all files; files of folders that do not fit are set aside."""
    kept: list[_Opened] = []
    skipped: list[Skipped] = []
    found: dict[str, str] = {}
    for entry in opened:
        raws = [item for item in entry.first if isinstance(item, Raw)]
        if any(_is_aggregate(raw) for raw in raws):
            reason = "R16: aggregates of a task, not rollouts; give the file with its rollouts"
            if entry.file.named:
                raise InvalidInput(f"{entry.file.path}: {reason}")
            skipped.append(Skipped(entry.file.path, "R16", reason))
            continue
        names = _detected(raws, mapping) if format == AUTO else [format]
        if len(names) == 1 or (not entry.first and not names):
            kept.append(entry)
            for name in names:
                found.setdefault(name, entry.file.path)
        elif entry.file.named:
            raise _undecided(entry, raws, names)
        else:
            reason = "not a known format" if raws else "no record can be read"
            skipped.append(Skipped(entry.file.path, "skipped", reason))
    if not found:
        raise _undecided(opened[0], [], []) if not kept else _nothing(kept)
    if len(found) > 1:
        (one, path), (other, other_path) = list(found.items())[:2]
        raise InvalidInput(
            f"{path} looks like {one} and {other_path} like {other}: read them apart, or name one with --format"
        )
    return ADAPTERS[next(iter(found))], kept, skipped


def _detected(raws: Sequence[Raw], mapping: Mapping[str, str]) -> list[str]:
    """The formats that speak loudest for themselves."""
    totals = {name: sum(adapter.detect(raw) for raw in raws) for name, adapter in ADAPTERS.items()}
    most = max(totals.values())
    if most == 0:
        return ["native"] if raws and "prompt_id" in mapping else []
    return [name for name, total in totals.items() if total == most]


def _is_aggregate(raw: Raw) -> bool:
    return sum(name.startswith(("mean/", "max/", "min/", "std/")) for name in raw.value) > 1


def _undecided(entry: _Opened, raws: Sequence[Raw], names: Sequence[str]) -> InvalidInput:
    path = entry.file.path
    if names:
        return InvalidInput(f"{path}: could be {' or '.join(names)}, name it with --format")
    if not raws:
        return _nothing([entry])
    fields = ", ".join(list(raws[0].value)[:12])
    return InvalidInput(
        f"{path}: no known format has the fields {fields}; name it with --format, or say which field is the prompt with "
        "--map prompt_id=FIELD"
    )
