"""Canonical JSON lines read by the database itself: by the types of their fields, or as JSON that is then cast.

Both see every value that has another type than its field and then leave the log to somebody else; where both keep the rows, they keep the same.
"""

import enum
import glob
import json
import os
from collections.abc import Collection

import duckdb
import pyarrow as pa

from experiments.rollout_logs.database import all_rows, one_row
from experiments.rollout_logs.narrow_columns import WHOLE, carried, columns_of, completed
from experiments.rollout_logs.schema import BY_NAME, COUNT, COUNTS, IDENTIFIER, SETTINGS, TEXT
from experiments.rollout_logs.spelling import Spelling, spelling_of
from experiments.rollout_logs.typed_fields import PRIVATE_FIELDS, TYPED_FIELDS, typed_value

# What only the checked path understands: numbers that are not finite, and log probabilities by token.
_ODD = (
    *(f"{field.name}_reason" for field in TYPED_FIELDS if field.sql_type == "DOUBLE"),
    "base_logp_tokens",
    "behavior_logp_tokens",
    "target_logp_tokens",
)


class Plain(enum.Enum):
    """How far a log of canonical lines can be read without looking at its rows one by one."""

    STAGED = "every row is regular"
    OTHER_FIELDS = "some row has a field that was not asked for"
    UNTRUSTED = "some value may have another type than it was read as"
    IRREGULAR = "some row needs the checked path"


# Texts that begin with a digit or a sign (or a point or a slash), with a bracket, with a brace.
_BEGINS = (("-", ":"), ("[", "\\"), ("{", "|"))
_CHOSEN = ("law", "logp_reduction")
_MOST_SETTINGS = 10_000  # that are compared by their fields
_BY_SPELLING = {
    Spelling.REGULAR: Plain.STAGED,
    Spelling.OTHER_FIELDS: Plain.OTHER_FIELDS,
    Spelling.UNTRUSTED: Plain.UNTRUSTED,
}


def stage_typed(
    connection: duckdb.DuckDBPyConnection,
    files: list[str],
    fields: Collection[str],
    unread: Collection[str] = (),
) -> Plain:
    """Let DuckDB read canonical JSON lines by the types of their fields, then see whether that changed any value.

    Args:
        connection: of an empty database.
        files: of JSON lines.
        fields: typed fields that are in the rows.
        unread: those of them whose values are only looked at, in the bytes of the lines; numbers and texts.

    Returns:
        What came of it; the table `row_table` and the view `staged` where that is `STAGED`, nothing otherwise.
    """
    fields, known = {*fields}.difference(unread), {*fields}
    asked = [field for field in TYPED_FIELDS if field.name in fields]
    absent = [field for field in TYPED_FIELDS if field.name not in fields]
    nested = [field for field in asked if BY_NAME[field.name].kind in (COUNTS, SETTINGS)]
    columns = {field.name: "JSON" if field in nested else field.sql_type for field in asked}
    kept = [
        f"{_cast(field.name, field.sql_type) if field in nested else field.name} AS {field.name}"
        for field in asked
    ]
    kept += [f"NULL::{field.sql_type} AS {field.name}" for field in (*absent, *PRIVATE_FIELDS)]
    irregular = [_is_irregular(field.name, field.sql_type) for field in nested]
    kept.append(f"({' OR '.join(irregular) or 'false'}) AS irregular")
    try:
        source = _lines(connection, files, columns)
        source.project(", ".join(kept)).create_view("typed")
        connection.execute(
            f"CREATE TABLE row_table AS SELECT {carried(fields)}, irregular FROM typed"
        )
        found = _look_at_typed(connection, files, [field.name for field in asked], known)
    except (duckdb.InvalidInputException, duckdb.ConversionException):
        found = Plain.IRREGULAR
    return _settle(connection, fields, found)


def _look_at_typed(
    connection: duckdb.DuckDBPyConnection, files: list[str], asked: list[str], known: set[str]
) -> Plain:
    """What the table shows, then what only the bytes of the lines can show."""
    wrong = ["irregular", "prompt IS NULL"]
    wrong += [f"{name} < 0" for name in asked if BY_NAME[name].kind is COUNT]
    wrong += [f"{name} NOT IN {BY_NAME[name].choices}" for name in asked if name in _CHOSEN]
    doubtful = {
        name: _may_be_no_text(name) for name in asked if BY_NAME[name].kind in (TEXT, IDENTIFIER)
    }
    counts = one_row(
        connection,
        f"SELECT count(*) AS rows, count(*) FILTER ({' OR '.join(wrong)}) AS irregular, "
        + ", ".join(f"bool_or({doubt}) AS {name}" for name, doubt in doubtful.items())
        + " FROM row_table",
    )
    if not counts["rows"] or counts["irregular"]:
        return Plain.IRREGULAR
    trusted = [name for name in doubtful if not counts[name]]
    others = [field.name for field in TYPED_FIELDS if field.name not in known]
    return _BY_SPELLING[spelling_of(files, known.difference(trusted), others, _ODD)]


def _may_be_no_text(name: str) -> str:
    """Whether a text may have been a number, a truth value, a list or an object: all but a few cannot, by how they begin."""
    if name == "text_sha256":  # only its hash is kept
        return "true"
    column = {"prompt_id": "prompt", "sample_id": "sample_text"}.get(name, name)
    begins = " OR ".join(f"({column} >= '{low}' AND {column} < '{high}')" for low, high in _BEGINS)
    doubt = f"{begins} OR {column} IN ('true', 'false', 'nan', 'inf')"
    if BY_NAME[name].kind is IDENTIFIER:  # 7 and "7" name the same
        return f"CASE WHEN {doubt} THEN NOT regexp_full_match({column}, {WHOLE}) END"
    return doubt


def stage_as_json(
    connection: duckdb.DuckDBPyConnection, files: list[str], fields: Collection[str]
) -> Plain:
    """Let DuckDB read canonical JSON lines as JSON text, and cast what is spelled as it should be: exact, and twice as long.

    Args:
        connection: of an empty database.
        files: of JSON lines.
        fields: typed fields that are read.

    Returns:
        What came of it; the table `row_table` and the view `staged` where that is `STAGED`, nothing otherwise.
    """
    columns = dict.fromkeys([*(field.name for field in TYPED_FIELDS), *_ODD], "JSON")
    asked = [field for field in TYPED_FIELDS if field.name in fields]
    others = [field for field in TYPED_FIELDS if field.name not in fields]
    irregular = [_is_irregular(field.name, field.sql_type) for field in asked]
    irregular += [f"{name} IS NOT NULL" for name in _ODD] + ["prompt_id IS NULL"]
    casts = [f"{_cast(field.name, field.sql_type)} AS {field.name}" for field in asked]
    casts += [f"NULL::{field.sql_type} AS {field.name}" for field in (*others, *PRIVATE_FIELDS)]
    other = " OR ".join(f"{field.name} IS NOT NULL" for field in others) or "false"
    casts += [f"({' OR '.join(irregular)}) AS irregular", f"({other}) AS other"]
    found = Plain.IRREGULAR
    try:
        source = _lines(connection, files, columns)
        source.project(", ".join(casts)).create_view("typed")
        connection.execute(
            f"CREATE TABLE row_table AS SELECT {carried(fields)}, irregular, other FROM typed"
        )
        counts = one_row(
            connection,
            "SELECT count(*) AS rows, count(*) FILTER (irregular) AS irregular, count(*) FILTER (other) AS other FROM row_table",
        )
        if counts["rows"] and not counts["irregular"]:
            found = Plain.OTHER_FIELDS if counts["other"] else Plain.STAGED
    except (duckdb.InvalidInputException, duckdb.ConversionException):
        pass
    return _settle(connection, fields, found)


def can_be_named(files: Collection[str]) -> bool:
    """Whether the database takes the names of files for what they are, not for patterns.

    Args:
        files: of JSON lines.

    Returns:
        False where a name has a star, a question mark or a bracket.
    """
    return not any(glob.has_magic(os.path.abspath(name)) for name in files)


def _lines(
    connection: duckdb.DuckDBPyConnection, files: list[str], columns: dict[str, str]
) -> duckdb.DuckDBPyRelation:
    """Names with their folders, because a tilde at the front is one; and a folder named `step=5` is no field of the rows."""
    return connection.read_json(
        [os.path.abspath(name) for name in files],
        columns=columns,
        format="newline_delimited",
        hive_partitioning=False,
    )


def _settle(connection: duckdb.DuckDBPyConnection, fields: Collection[str], found: Plain) -> Plain:
    """Keep the table where it can be used."""
    connection.execute("DROP VIEW IF EXISTS typed")
    if found is Plain.STAGED and "sampler" in fields and not _sort_settings(connection):
        found = Plain.IRREGULAR
    if found is Plain.STAGED:
        complete(connection, fields)
    else:
        connection.execute("DROP TABLE IF EXISTS row_table")
    return found


def _sort_settings(connection: duckdb.DuckDBPyConnection) -> bool:
    """Write equal settings alike, whatever the order of their fields; False where there are too many."""
    query = f"SELECT DISTINCT sampler FROM row_table WHERE sampler IS NOT NULL LIMIT {_MOST_SETTINGS + 1}"
    texts = [str(text) for (text,) in all_rows(connection, query)]
    if len(texts) > _MOST_SETTINGS:
        return False
    alike = {text: typed_value("sampler", json.loads(text)) for text in texts}
    other = {text: same for text, same in alike.items() if text != same}
    if other:
        named = pa.table({"given": list(other), "same": list(other.values())})
        connection.register("settings", named)
        connection.execute(
            "UPDATE row_table SET sampler = same FROM settings WHERE sampler = given"
        )
        connection.unregister("settings")
    return True


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
    if name in _CHOSEN:
        words = ", ".join(f"'\"{word}\"'" for word in BY_NAME[name].choices)
        return f"({text} NOT IN ({words}))"
    if name.endswith("_id") or name.startswith("verifier_id") or name == "policy_version":
        return f"({text}[1] <> '\"' AND NOT regexp_full_match({text}, {WHOLE}))"
    return f"({text}[1] <> '\"')"


def complete(connection: duckdb.DuckDBPyConnection, fields: Collection[str]) -> None:
    """The view of all columns over the table.

    Args:
        connection: with the table `row_table`.
        fields: that the table was made from.
    """
    show_columns(connection, columns_of(fields))


def show_columns(connection: duckdb.DuckDBPyConnection, names: Collection[str]) -> None:
    """The view of all columns, with some of the table.

    Args:
        connection: with the table `row_table`.
        names: of the columns that the table has; the others are NULL.
    """
    connection.execute(
        f"CREATE VIEW staged AS SELECT {completed(names)}, rowid AS row FROM row_table"
    )
