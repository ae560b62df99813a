"""Rows into the database, once and narrow.

Plain logs (canonical JSON lines or Parquet) are read by DuckDB itself, every field as JSON text that is then cast, so that a text where a number
belongs is seen. Whatever is irregular (a cut line, a field twice, a value of another type) sends the whole log over the checked path: the
rows of `OpenedLogs.records()`, one by one, with a reason for each row left out. Both end in the same table `staged`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.progress import track
from experiments.rollout_logs.database import one_number
from experiments.rollout_logs.reading import OpenedLogs
from experiments.rollout_logs.records import Row
from experiments.rollout_logs.typed_fields import (
    ARROW_SCHEMA,
    PRIVATE_FIELDS,
    TYPED_FIELDS,
    typed_row,
)

_BATCH = 20_000
_EXAMPLES = 5

# What ends a completion at the horizon, in the words of the libraries that write logs.
TRUNCATED_REASONS = (
    "length",
    "max_tokens",
    "max_length",
    "truncated",
    "incomplete",
    "model_length",
)

_WHOLE = "'(0|-?[1-9][0-9]{0,17})'"


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
    """Fill the table `staged` with the narrow rows of some logs.

    Args:
        connection: of an empty database.
        opened: the logs.
        folder: for files of the run, removed by the caller.

    Returns:
        What was found and what was left out.

    Raises:
        InvalidInput: as `OpenedLogs.records`.
    """
    lines = [name for name in opened.plain_files if name.endswith((".jsonl", ".ndjson"))]
    if lines == opened.inputs and _stage_plain(connection, lines):
        return Staged(one_number(connection, "SELECT count(*) FROM staged"), {}, {})
    return _stage_checked(connection, opened, folder)


def _stage_plain(connection: duckdb.DuckDBPyConnection, files: Iterable[str]) -> bool:
    """Let DuckDB read canonical JSON lines; False where anything in them is irregular."""
    columns = dict.fromkeys([*(field.name for field in TYPED_FIELDS), *_ODD], "JSON")
    irregular = " OR ".join(
        [_is_irregular(field.name, field.sql_type) for field in TYPED_FIELDS]
        + [f"{name} IS NOT NULL" for name in _ODD]
        + ["prompt_id IS NULL"]
    )
    casts = [f"{_cast(field.name, field.sql_type)} AS {field.name}" for field in TYPED_FIELDS]
    casts += [f"NULL::{field.sql_type} AS {field.name}" for field in PRIVATE_FIELDS]
    try:
        source = connection.read_json(list(files), columns=columns, format="newline_delimited")
        source.project(f"{', '.join(casts)}, ({irregular}) AS irregular").create_view("typed")
        connection.execute(f"CREATE TABLE staged AS SELECT {NARROW}, irregular FROM typed")
        if not one_number(connection, "SELECT count(*) FROM staged WHERE irregular"):
            connection.execute("ALTER TABLE staged DROP irregular")
            return True
    except (duckdb.InvalidInputException, duckdb.ConversionException):
        pass
    connection.execute("DROP TABLE IF EXISTS staged")
    connection.execute("DROP VIEW IF EXISTS typed")
    return False


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
        return f"CASE WHEN {text}[1] = '\"' THEN {name}->>'$' ELSE {text} END"
    if sql_type == "BIGINT":
        return (
            f"CASE WHEN regexp_full_match({text}, '-?[0-9]+') THEN TRY_CAST({text} AS BIGINT) END"
        )
    if sql_type == "BOOLEAN":
        return f"CASE {text} WHEN 'true' THEN true WHEN '1' THEN true WHEN 'false' THEN false WHEN '0' THEN false END"
    return f"TRY_CAST({text} AS {sql_type})"


def _is_irregular(name: str, sql_type: str) -> str:
    text = f"CAST({name} AS VARCHAR)"
    if sql_type != "VARCHAR":
        return f"({name} IS NOT NULL AND {_cast(name, sql_type)} IS NULL)"
    if name in ("sampler", "tokens"):
        return f"({text}[1] NOT IN ('{{', '['))"
    if name.endswith("_id") or name.startswith("verifier_id") or name == "policy_version":
        return f"({text}[1] <> '\"' AND NOT regexp_full_match({text}, {_WHOLE}))"
    return f"({text}[1] <> '\"')"


def _in(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


# From the typed fields to the columns that are carried. Hashes have 64 bits: among 10,000 answers of a prompt two share one by chance
# with probability 3e-12.
NARROW = ", ".join(
    [
        "prompt_id AS prompt",
        f"CASE WHEN regexp_full_match(sample_id, {_WHOLE}) THEN sample_id::BIGINT END AS sample_number",
        f"CASE WHEN NOT regexp_full_match(sample_id, {_WHOLE}) THEN sample_id END AS sample_text",
        "branch_id, parent_id, attempt, population_id, chain_id",
        "policy_id, policy_version",
        "sampler, temperature, top_p, top_k, min_p",
        "CASE WHEN answer IS NOT NULL THEN hash(answer) END AS answer_code, answer, answer_raw",
        "correct::TINYINT AS correct, reward, score",
        (
            "CASE WHEN text_sha256 IS NOT NULL THEN hash(text_sha256) WHEN tokens IS NOT NULL THEN hash(tokens) "
            "WHEN _text IS NOT NULL THEN hash(_text) END AS trajectory"
        ),
        "verifier_id_search, verifier_id_final",
        "base_logp, behavior_logp, target_logp",
        "logp_reduction, base_logp_source, behavior_logp_source, target_logp_source, law, log_weight",
        (
            "CASE WHEN completion_tokens IS NOT NULL THEN completion_tokens "
            "WHEN tokens IS NOT NULL THEN json_array_length(tokens)::BIGINT END AS completion_tokens"
        ),
        f"finish_reason, (finish_reason IN ({_in(TRUNCATED_REASONS)}))::TINYINT AS truncated",
        "error, (error IS NOT NULL)::TINYINT AS failed",
        "wall_s, model_calls, verifier_calls, tool_calls, env_steps",
        "_prompt_hashed AS prompt_hashed, _missing_logp_tokens AS missing_logp_tokens, _zero_logp_tokens AS zero_logp_tokens",
        "_text AS completion",
    ]
)


def _stage_checked(
    connection: duckdb.DuckDBPyConnection, opened: OpenedLogs, folder: Path
) -> Staged:
    """Read row by row into Parquet, then into the table."""
    excluded: Counter[str] = Counter()
    examples: dict[str, tuple[str, ...]] = {}
    rows = 0
    path = folder / "typed.parquet"
    with pq.ParquetWriter(path, ARROW_SCHEMA, compression="lz4") as writer:
        batch: list[dict[str, Any]] = []
        for record in track(opened.records(), "reading rows"):
            rows += 1
            if isinstance(record, Row):
                batch.append(typed_row(record.values))
                if len(batch) == _BATCH:
                    writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=ARROW_SCHEMA))
                    batch = []
                continue
            excluded[record.reason] += 1
            seen = examples.get(record.reason, ())
            if len(seen) < _EXAMPLES:
                examples[record.reason] = (*seen, record.where)
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=ARROW_SCHEMA))
    connection.read_parquet(str(path)).create_view("typed", replace=True)
    connection.execute(f"CREATE TABLE staged AS SELECT {NARROW} FROM typed")
    path.unlink()
    return Staged(rows, dict(excluded), examples)
