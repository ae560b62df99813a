"""Rows into the database, once and narrow.

Plain logs (canonical JSON lines) are read by DuckDB itself: by their types where `spelling` finds nothing that this would change, else every field as JSON
text that is then cast, so that a text where a number belongs is seen. Whatever is irregular (a cut line, a field twice, a value of another type) sends the whole
log over the checked path: the rows of `OpenedLogs.records()`, one by one, with a reason for each row left out. All end in the same table `staged`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.progress import track
from experiments.rollout_logs.database import all_rows, one_number
from experiments.rollout_logs.narrow_columns import carried
from experiments.rollout_logs.plain_staging import (
    Plain,
    can_be_named,
    complete,
    show_columns,
    stage_as_json,
    stage_typed,
)
from experiments.rollout_logs.reading import OpenedLogs
from experiments.rollout_logs.records import Row
from experiments.rollout_logs.typed_fields import (
    ARROW_SCHEMA,
    TEXT_FIELD,
    TOKEN_RATIOS,
    TYPED_FIELDS,
    typed_row,
)

_BATCH = 20_000
_BATCH_BYTES = 32_000_000  # of texts, token ids and log ratios by token
_LONG = ("answer", "answer_raw", "tokens", TEXT_FIELD)
_EXAMPLES = 5


class Staged(NamedTuple):
    """What came in.

    Attributes:
        rows: records found.
        excluded: reason -> rows left out while reading.
        examples: reason -> where the first of them stand.
        whole: whether all fields of the rows were read.
    """

    rows: int
    excluded: Mapping[str, int]
    examples: Mapping[str, tuple[str, ...]]
    whole: bool = True


def stage(
    connection: duckdb.DuckDBPyConnection,
    opened: OpenedLogs,
    folder: Path,
    unread: Collection[str] = (),
) -> Staged:
    """Fill the table `row_table` with the narrow rows of some logs, and the view `staged` with all columns over it.

    Args:
        connection: of an empty database.
        opened: the logs.
        folder: for files of the run, removed by the caller.
        unread: fields that need not be read: their values only have to be such as the fields may hold.

    Returns:
        What was found and what was left out.

    Raises:
        InvalidInput: as `OpenedLogs.records`.
    """
    lines = plain_lines(opened)
    if lines and can_be_named(lines):
        every = {field.name for field in TYPED_FIELDS}
        # Fields of the first records; a field that comes up later makes a second pass over all.
        known = every & opened.field_map.keys()
        for fields in (known, every) if "prompt_id" in known else (every,):
            typed = found = stage_typed(connection, lines, fields, unread)
            if found is Plain.UNTRUSTED:
                found = stage_as_json(connection, lines, fields)
            if found is Plain.STAGED:
                rows = one_number(connection, "SELECT count(*) FROM row_table")
                return Staged(rows, {}, {}, not unread or typed is Plain.UNTRUSTED)
            if found is Plain.IRREGULAR:
                break
    return stage_checked(connection, opened, folder)


def plain_lines(opened: OpenedLogs) -> list[str]:
    """The files, where all of them are JSON lines in canonical fields.

    Args:
        opened: the logs.

    Returns:
        Every file, or none.
    """
    lines = [name for name in opened.plain_files if name.endswith((".jsonl", ".ndjson"))]
    return lines if lines == opened.inputs else []


def stage_checked(
    connection: duckdb.DuckDBPyConnection, opened: OpenedLogs, folder: Path
) -> Staged:
    """Read any log row by row into Parquet, then into the table.

    Args:
        connection: of an empty database.
        opened: the logs.
        folder: for files of the run, removed by the caller.

    Returns:
        What was found and what was left out.

    Raises:
        InvalidInput: as `OpenedLogs.records`.
    """
    excluded: Counter[str] = Counter()
    examples: dict[str, tuple[str, ...]] = {}
    rows = 0
    seen = {"prompt_id"}
    path = folder / "typed.parquet"
    with pq.ParquetWriter(path, ARROW_SCHEMA, compression="lz4") as writer:
        batch: list[dict[str, Any]] = []
        size = 0
        for record in track(opened.records(), "reading rows"):
            rows += 1
            if isinstance(record, Row):
                seen |= record.values.keys()
                typed = typed_row(record.values)
                batch.append(typed)
                size += _size(typed)
                if len(batch) == _BATCH or size > _BATCH_BYTES:
                    writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=ARROW_SCHEMA))
                    batch, size = [], 0
                continue
            excluded[record.reason] += 1
            places = examples.get(record.reason, ())
            if len(places) < _EXAMPLES:
                examples[record.reason] = (*places, record.shown)
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=ARROW_SCHEMA))
    _fill(connection, path, seen)
    return Staged(rows, dict(excluded), examples)


def _size(typed: Mapping[str, Any]) -> int:
    """Bytes of the fields that have no bound."""
    ratios = typed[TOKEN_RATIOS]
    texts = sum(len(typed[name]) for name in _LONG if typed[name] is not None)
    return texts + (0 if ratios is None else ratios.nbytes)


def stage_batches(
    connection: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch], folder: Path
) -> Staged:
    """Fill the table with rows that somebody else has typed and found regular.

    Args:
        connection: of an empty database.
        batches: of `ARROW_SCHEMA`.
        folder: for files of the run, removed by the caller.

    Returns:
        How many came in.
    """
    rows = 0
    seen = {"prompt_id"}
    path = folder / "typed.parquet"
    with pq.ParquetWriter(path, ARROW_SCHEMA, compression="lz4") as writer:
        for batch in batches:
            rows += batch.num_rows
            columns = zip(batch.schema.names, batch.columns, strict=True)
            seen |= {name for name, column in columns if column.null_count < batch.num_rows}
            writer.write_batch(batch)
    _fill(connection, path, seen)
    return Staged(rows, {}, {})


def _fill(connection: duckdb.DuckDBPyConnection, path: Path, fields: Collection[str]) -> None:
    """The table from a Parquet file of typed rows, which is removed."""
    connection.read_parquet(str(path), hive_partitioning=False).create_view("typed", replace=True)
    connection.execute(f"CREATE TABLE row_table AS SELECT {carried(fields)} FROM typed")
    connection.execute("DROP VIEW typed")
    complete(connection, fields)
    path.unlink()


def forget_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Make room for the rows to be read again.

    Args:
        connection: with the table and the view that `stage` made.
    """
    connection.execute("DROP VIEW staged")
    connection.execute("DROP TABLE row_table")


def hide_columns(connection: duckdb.DuckDBPyConnection, hidden: Collection[str]) -> None:
    """Take columns out of the view, as if no row had them.

    Args:
        connection: with the table and the view that `stage` made.
        hidden: names of columns.
    """
    there = [str(name) for (name, *_) in all_rows(connection, "DESCRIBE row_table")]
    connection.execute("DROP VIEW staged")
    show_columns(connection, [name for name in there if name not in hidden])
