"""Rows into the database, once and narrow.

Plain logs (canonical JSON lines or Parquet) are read by DuckDB itself, every field as JSON text that is then cast, so that a text where a number
belongs is seen. Whatever is irregular (a cut line, a field twice, a value of another type) sends the whole log over the checked path: the
rows of `OpenedLogs.records()`, one by one, with a reason for each row left out. Both end in the same table `staged`.
"""

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.progress import track
from experiments.rollout_logs.database import one_number, one_row
from experiments.rollout_logs.narrow_columns import WHOLE, carried, completed
from experiments.rollout_logs.reading import OpenedLogs
from experiments.rollout_logs.records import Row
from experiments.rollout_logs.schema import BY_NAME
from experiments.rollout_logs.typed_fields import (
    ARROW_SCHEMA,
    PRIVATE_FIELDS,
    TOKEN_RATIOS,
    TYPED_FIELDS,
    typed_row,
)

_BATCH = 20_000
_BATCH_TOKENS = 4_000_000  # with a log ratio of their own
_EXAMPLES = 5


class Staged(NamedTuple):
    """What came in.

    Attributes:
        rows: records found.
        excluded: reason -> rows left out while reading.
        examples: reason -> where the first of them stand.
    """

    rows: int
    excluded: Mapping[str, int]
    examples: Mapping[str, tuple[str, ...]]


def stage(connection: duckdb.DuckDBPyConnection, opened: OpenedLogs, folder: Path) -> Staged:
    """Fill the table `row_table` with the narrow rows of some logs, and the view `staged` with all columns over it.

    Args:
        connection: of an empty database.
        opened: the logs.
        folder: for files of the run, removed by the caller.

    Returns:
        What was found and what was left out.

    Raises:
        InvalidInput: as `OpenedLogs.records`.
    """
    if lines := plain_lines(opened):
        every = {field.name for field in TYPED_FIELDS}
        # Fields of the first records; a field that comes up later makes a second pass over all.
        known = every & opened.field_map.keys()
        for fields in (known, every) if "prompt_id" in known else (every,):
            found = _stage_plain(connection, lines, fields)
            if found is _Plain.STAGED:
                return Staged(one_number(connection, "SELECT count(*) FROM staged"), {}, {})
            if found is _Plain.IRREGULAR:
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


class _Plain(enum.Enum):
    STAGED = "every row is regular"
    OTHER_FIELDS = "some row has a field that was not asked for"
    IRREGULAR = "some row needs the checked path"


def _stage_plain(
    connection: duckdb.DuckDBPyConnection, files: list[str], fields: Collection[str]
) -> _Plain:
    """Let DuckDB read canonical JSON lines."""
    columns = dict.fromkeys([*(field.name for field in TYPED_FIELDS), *_ODD], "JSON")
    asked = [field for field in TYPED_FIELDS if field.name in fields]
    others = [field for field in TYPED_FIELDS if field.name not in fields]
    irregular = [_is_irregular(field.name, field.sql_type) for field in asked]
    irregular += [f"{name} IS NOT NULL" for name in _ODD] + ["prompt_id IS NULL"]
    casts = [f"{_cast(field.name, field.sql_type)} AS {field.name}" for field in asked]
    casts += [f"NULL::{field.sql_type} AS {field.name}" for field in (*others, *PRIVATE_FIELDS)]
    other = " OR ".join(f"{field.name} IS NOT NULL" for field in others) or "false"
    casts += [f"({' OR '.join(irregular)}) AS irregular", f"({other}) AS other"]
    found = _Plain.IRREGULAR
    try:
        source = connection.read_json(files, columns=columns, format="newline_delimited")
        source.project(", ".join(casts)).create_view("typed")
        connection.execute(
            f"CREATE TABLE row_table AS SELECT {carried(fields)}, irregular, other FROM typed"
        )
        counts = one_row(
            connection,
            "SELECT count(*) AS rows, count(*) FILTER (irregular) AS irregular, count(*) FILTER (other) AS other FROM row_table",
        )
        if counts["rows"] and not counts["irregular"]:
            found = _Plain.OTHER_FIELDS if counts["other"] else _Plain.STAGED
    except (duckdb.InvalidInputException, duckdb.ConversionException):
        pass
    connection.execute("DROP VIEW IF EXISTS typed")
    if found is _Plain.STAGED:
        _complete(connection, fields)
    else:
        connection.execute("DROP TABLE IF EXISTS row_table")
    return found


def _complete(connection: duckdb.DuckDBPyConnection, fields: Collection[str]) -> None:
    connection.execute(
        f"CREATE VIEW staged AS SELECT {completed(fields)}, rowid AS row FROM row_table"
    )


# What only the checked path understands: numbers that are not finite, and log probabilities by token.
_ODD = (
    *(f"{field.name}_reason" for field in TYPED_FIELDS if field.sql_type == "DOUBLE"),
    "base_logp_tokens",
    "behavior_logp_tokens",
    "target_logp_tokens",
)


def _cast(name: str, sql_type: str) -> str:
    """A JSON value as its type; NULL where it does not fit (and then `_is_irregular`)."""
    text = f"CAST({name} AS VARCHAR)"
    if sql_type == "VARCHAR":
        plain = f"CASE WHEN contains({text}, '\\') THEN {name}->>'$' ELSE {text}[2:-2] END"
        return f"CASE WHEN {text}[1] = '\"' THEN {plain} ELSE {text} END"
    if sql_type == "BIGINT":
        return f"CASE WHEN regexp_full_match({text}, '[0-9]+') THEN TRY_CAST({text} AS BIGINT) END"
    if sql_type == "BOOLEAN":
        return f"CASE {text} WHEN 'true' THEN true WHEN '1' THEN true WHEN 'false' THEN false WHEN '0' THEN false END"
    return f"TRY_CAST({text} AS {sql_type})"


def _is_irregular(name: str, sql_type: str) -> str:
    text = f"CAST({name} AS VARCHAR)"
    if sql_type != "VARCHAR":
        return f"({name} IS NOT NULL AND {_cast(name, sql_type)} IS NULL)"
    if name == "sampler":
        return f"({text}[1] <> '{{')"
    if name == "tokens":
        return f"NOT regexp_full_match({text}, '\\[[0-9,]*\\]')"
    if name in ("law", "logp_reduction"):
        words = ", ".join(f"'\"{word}\"'" for word in BY_NAME[name].choices)
        return f"({text} NOT IN ({words}))"
    if name.endswith("_id") or name.startswith("verifier_id") or name == "policy_version":
        return f"({text}[1] <> '\"' AND NOT regexp_full_match({text}, {WHOLE}))"
    return f"({text}[1] <> '\"')"


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
        tokens = 0
        for record in track(opened.records(), "reading rows"):
            rows += 1
            if isinstance(record, Row):
                seen |= record.values.keys()
                typed = typed_row(record.values)
                batch.append(typed)
                ratios = typed[TOKEN_RATIOS]
                tokens += 0 if ratios is None else len(ratios)
                if len(batch) == _BATCH or tokens > _BATCH_TOKENS:
                    writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=ARROW_SCHEMA))
                    batch, tokens = [], 0
                continue
            excluded[record.reason] += 1
            places = examples.get(record.reason, ())
            if len(places) < _EXAMPLES:
                examples[record.reason] = (*places, record.shown)
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=ARROW_SCHEMA))
    _fill(connection, path, seen)
    return Staged(rows, dict(excluded), examples)


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
    connection.read_parquet(str(path)).create_view("typed", replace=True)
    connection.execute(f"CREATE TABLE row_table AS SELECT {carried(fields)} FROM typed")
    connection.execute("DROP VIEW typed")
    _complete(connection, fields)
    path.unlink()
