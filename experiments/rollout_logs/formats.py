"""Which format a set of files has, told from the fields of their first records."""

import itertools
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.rollout_logs.adapters.base import Adapter
from experiments.rollout_logs.adapters.registry import ADAPTERS
from experiments.rollout_logs.inputs import STDIN, InputFile
from experiments.rollout_logs.records import Excluded, Raw
from experiments.rollout_logs.sources import raw_records
from theory.errors import InvalidInput

AUTO = "auto"
FORMATS = (AUTO, *ADAPTERS)
FIRST = 20
"""Records of each file that the format and the fields are told from."""
MAX_LOOKED_AT = 100_000
"""Records that are looked at to find those."""

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


class Opened(NamedTuple):
    """One file that has been looked at.

    Attributes:
        file: which.
        first: its first records.
        rest: the others, of a pipe; None for a file, which is read again from its start.
    """

    file: InputFile
    first: list[Raw | Excluded]
    rest: Items | None

    def raws(self) -> list[Raw]:
        """The first records that can be read."""
        return [item for item in self.first if isinstance(item, Raw)]

    def records(self) -> Items:
        """All records, in order."""
        if self.rest is None:
            return raw_records(self.file.path)
        return itertools.chain(self.first, self.rest)


def look(file: InputFile) -> Opened:
    """Read the first records of a file.

    Args:
        file: which.

    Returns:
        Them, and the rest of what can be read only once.
    """
    records = raw_records(file.path)
    first: list[Raw | Excluded] = []
    readable = 0
    while readable < FIRST and len(first) < MAX_LOOKED_AT:
        item = next(records, None)
        if item is None:
            break
        first.append(item)
        readable += isinstance(item, Raw)
    return Opened(file, first, records if _only_once(file.path) else None)


def _only_once(path: str) -> bool:
    return path == STDIN or not stat.S_ISREG(Path(path).stat().st_mode)


def choose_format(
    opened: Sequence[Opened], format: str, mapping: Mapping[str, str]
) -> tuple[Adapter, list[Opened], list[Skipped]]:
    """The one format of all files.

    Args:
        opened: the files.
        format: a name of `FORMATS`.
        mapping: canonical field -> field of the log.

    Returns:
        The adapter, the files to read, and the files of folders that are no logs.

    Raises:
        InvalidInput: no record, no known format, several that fit, files of different formats, aggregates (R16).
    """
    kept: list[Opened] = []
    skipped: list[Skipped] = []
    found: dict[str, str] = {}
    for entry in opened:
        path, raws = entry.file.path, entry.raws()
        if any(_is_aggregate(raw) for raw in raws):
            reason = "R16: aggregates of a task, not rollouts; give the file with its rollouts"
            if entry.file.named:
                raise InvalidInput(f"{path}: {reason}")
            skipped.append(Skipped(path, "R16", reason))
            continue
        names = _detected(raws, mapping) if format == AUTO else [format]
        if len(names) == 1 or not raws:
            kept.append(entry)
            for name in names if raws else ():
                found.setdefault(name, path)
        elif entry.file.named:
            raise _undecided(path, raws, names)
        else:
            skipped.append(Skipped(path, "skipped", "not a known format"))
    if not found:
        if not kept:
            raise InvalidInput(f"{skipped[0].path}: {skipped[0].reason}")
        raise nothing_in(kept, [item for entry in kept for item in entry.first])
    if len(found) > 1:
        (one, path), (other, other_path) = list(found.items())[:2]
        raise InvalidInput(
            f"{path} looks like {one} and {other_path} like {other}: read them apart, or name one with --format"
        )
    return ADAPTERS[next(iter(found))], kept, skipped


def nothing_in(opened: Sequence[Opened], items: Iterable[Raw | Excluded]) -> InvalidInput:
    """The error for files without a record that can be read.

    Args:
        opened: the files, at least one.
        items: what was found in them.

    Returns:
        It, with the first thing that was wrong.
    """
    for item in items:
        if isinstance(item, Excluded):
            return InvalidInput(
                f"{item.words}, and no record can be read; give a log, or name its format by its ending"
            )
    return InvalidInput(f"{opened[0].file.path}: no record in it, give a log that is not empty")


def _detected(raws: Sequence[Raw], mapping: Mapping[str, str]) -> list[str]:
    """The formats that speak loudest for themselves."""
    totals = {name: sum(adapter.detect(raw) for raw in raws) for name, adapter in ADAPTERS.items()}
    most = max(totals.values())
    if most == 0:
        return ["native"] if raws and "prompt_id" in mapping else []
    return [name for name, total in totals.items() if total == most]


def _is_aggregate(raw: Raw) -> bool:
    return sum(name.startswith(("mean/", "max/", "min/", "std/")) for name in raw.value) > 1


def _undecided(path: str, raws: Sequence[Raw], names: Sequence[str]) -> InvalidInput:
    if names:
        return InvalidInput(f"{path}: could be {' or '.join(names)}, name it with --format")
    fields = ", ".join(list(raws[0].value)[:12])
    if not fields:
        return InvalidInput(f"{raws[0].where}: a record without fields, give a log of rollouts")
    return InvalidInput(
        f"{path}: no known format has the fields {fields}; name it with --format, or say which field is the prompt with "
        "--map prompt_id=FIELD"
    )
