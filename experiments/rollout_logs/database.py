"""The embedded database: its bounds, and results as Python values."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import duckdb

from theory.errors import InvalidInput

# Of the database; arrays of the tasks in work and the interpreter come on top.
MEMORY_LIMIT = "1500MB"


@contextlib.contextmanager
def open_database(folder: Path) -> Generator[duckdb.DuckDBPyConnection, None, None]:
    """An empty database in memory that spills to disk what does not fit.

    Args:
        folder: of this run.

    Yields:
        A connection.

    Raises:
        InvalidInput: there is no room to spill, or a file cannot be read or written.
        KeyboardInterrupt: a signal ended a query, for which the database has an error of its own.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(folder / "spill"),
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
    }
    with duckdb.connect(config=config) as connection:
        try:
            yield connection
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            words = str(error).strip().splitlines()[0]
            raise InvalidInput(
                f"{folder}: the database cannot go on there beside {MEMORY_LIMIT} of memory ({words}), make room or set TMPDIR"
            ) from error
        except RuntimeError as error:
            if str(error) != "Query interrupted":
                raise
            raise KeyboardInterrupt from error


def all_rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """Run a query with few results.

    Args:
        connection: of the database.
        query: SQL.

    Returns:
        Its rows.
    """
    return connection.execute(query).fetchall()


def one_row(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    """Run a query with one row.

    Args:
        connection: of the database.
        query: SQL.

    Returns:
        Column -> value.
    """
    result = connection.execute(query)
    (row,) = result.fetchall()
    return dict(zip([column[0] for column in result.description or ()], row, strict=True))


def one_number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Run a query with one count.

    Args:
        connection: of the database.
        query: SQL.

    Returns:
        The count.
    """
    ((number,),) = all_rows(connection, query)
    return int(number)
