"""Rollout logs on disk: JSON lines or Parquet, every row checked against the schema.

JSON lines keep everything. Parquet has one kind of missing, so a null comes back as absent; not-finite numbers it holds
as they are.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.json_lines import parse_record
from experiments.json_output import plain_line, restore, to_line, to_plain
from experiments.output import check_writable, open_output
from experiments.rollout_logs.schema import FIELDS, REASONS, SETTINGS, Field, ordered, validate_row
from theory.errors import InvalidInput


def write_rows(rows: Iterable[Mapping[str, Any]], destination: str | Path) -> None:
    """Write a whole log as JSON lines; what was there before is replaced.

    Args:
        rows: canonical rows; values as `experiments.json_output.to_plain` takes them.
        destination: a file, or `-` for stdout.

    Raises:
        InvalidInput: a row is not canonical; nothing is written to a file then.
    """
    with open_output(destination) as stream:
        for line in _lines(rows, str(destination)):
            stream.write(line)


def append_rows(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Add rows to a log, whole lines in one write, so that several processes may append to one file.

    A line that a killed writer left half done is ended first: it stays one unreadable line and spoils no other.

    Args:
        rows: canonical rows.
        path: a JSON lines file; made if it is not there.

    Raises:
        InvalidInput: a row is not canonical; nothing is written then.
    """
    check_writable(path)
    data = b"".join(_lines(rows, str(path)))
    with path.open("ab+", buffering=0) as stream:
        if stream.seek(0, os.SEEK_END) > 0:
            stream.seek(-1, os.SEEK_END)
            data = data if stream.read(1) == b"\n" else b"\n" + data
        stream.write(data)


def write_rows_parquet(rows: Iterable[Mapping[str, Any]], destination: str | Path) -> None:
    """Write a whole log as Parquet, with a column for each field that any row has.

    Args:
        rows: canonical rows.
        destination: a file, or `-` for stdout.

    Raises:
        InvalidInput: a row is not canonical, or an identifier is a text in one row and a number in another.
    """
    kept = [restore(row) for row in _plain_rows(rows, str(destination))]
    columns = {
        field.name: pa.array(_cells(field, kept), type=_arrow_type(field, kept, str(destination)))
        for field in FIELDS
        if any(row.get(field.name) is not None for row in kept)
    }
    for name in sorted(REASONS & set[str]().union(*kept)):
        columns[name] = pa.array([row.get(name) for row in kept], type=pa.string())
    with open_output(destination) as stream:
        pq.write_table(pa.table(columns), stream, compression="zstd")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a canonical log.

    Args:
        path: a file of JSON lines, or of Parquet if its name ends in `.parquet`.

    Returns:
        The rows in order; nulls that stand for numbers that are not finite are those numbers again.

    Raises:
        InvalidInput: the file or a row cannot be read, or a row is not canonical; names file, row and field.
    """
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file")
    records = _parquet_records(path) if path.suffix == ".parquet" else _json_records(path)
    rows: list[dict[str, Any]] = []
    for where, record in records:
        validate_row(record, where)
        rows.append(restore(record))
    return rows


def _plain_rows(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows, start=1):
        plain = to_plain(row)
        validate_row(plain, f"{name}, row {number}")
        yield ordered(plain)


def _lines(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[bytes]:
    for row in _plain_rows(rows, name):
        yield plain_line(row).encode("ascii") + b"\n"


def _cells(field: Field, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    cells = [row.get(field.name) for row in rows]
    if field.kind is SETTINGS:
        return [None if cell is None else to_line(cell) for cell in cells]
    return cells


def _arrow_type(field: Field, rows: Sequence[Mapping[str, Any]], name: str) -> pa.DataType:
    if field.kind.arrow is not None:
        return field.kind.arrow
    texts = {isinstance(row[field.name], str) for row in rows if row.get(field.name) is not None}
    if len(texts) > 1:
        raise InvalidInput(
            f"{name}, field '{field.name}': a text in one row and a number in another, "
            "use one of them or write JSON lines"
        )
    return pa.string() if texts == {True} else pa.int64()


def _json_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            where = f"{path}, row {number}"
            yield where, parse_record(line, where)


def _parquet_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        table = pq.ParquetFile(path).read()
    except pa.ArrowException as error:
        raise InvalidInput(f"{path}: not a Parquet file, give the log itself") from error
    settings = {field.name for field in FIELDS if field.kind is SETTINGS}
    for number, row in enumerate(table.to_pylist(), start=1):
        record = {name: value for name, value in row.items() if value is not None}
        for name in settings & record.keys():
            record[name] = json.loads(record[name])
        yield f"{path}, row {number}", record
