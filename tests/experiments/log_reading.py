"""Short ways to write a log and to read it back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.rollout_logs.reading import Excluded, OpenedLogs, Record, Row, open_logs


def opened(
    paths: Path | Sequence[Path],
    format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    filter_name: str | None = None,
    strict: bool = False,
) -> OpenedLogs:
    """Open logs with what is usual left out."""
    names = [str(paths)] if isinstance(paths, Path) else [str(path) for path in paths]
    return open_logs(names, format, mapping or {}, filter_name, strict)


def records(paths: Path | Sequence[Path], *args: Any, **options: Any) -> list[Record]:
    """Every record."""
    return list(opened(paths, *args, **options).records())


def rows(paths: Path | Sequence[Path], *args: Any, **options: Any) -> list[dict[str, Any]]:
    """The values of every row; no record may be left out."""
    found = records(paths, *args, **options)
    assert all(isinstance(record, Row) for record in found), left_out(found)
    return [record.values for record in found if isinstance(record, Row)]


def left_out(found: Iterable[Record]) -> list[tuple[str, str]]:
    """Reason and place, without the name of the file, of what was left out."""
    return [
        (record.reason, record.where.rpartition(", ")[2])
        for record in found
        if isinstance(record, Excluded)
    ]


def kept(found: Iterable[Record]) -> list[dict[str, Any]]:
    """The values of the rows."""
    return [record.values for record in found if isinstance(record, Row)]


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_document(path: Path, document: Any) -> Path:
    """One JSON document over several lines."""
    path.write_text(json.dumps(document, indent=1))
    return path
