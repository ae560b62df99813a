"""Tidy tables: one row per setting and replicate, every column declared once, nothing missing.

A table is a pyarrow Table whose schema is declared beside the experiment that fills it. Equal tables give equal bytes
in Parquet. The small tables that are committed for figures are CSV, which `paper_figures.columns` reads and writes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Shaped

from experiments.output import open_output
from theory.errors import InvalidInput

Cell = bool | int | float | str

_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}


def schema(**columns: type) -> pa.Schema:
    """Declare a table: `schema(model=str, length=int, log_z=float)`.

    Args:
        columns: name and type (bool, int, float or str) of each column, in order; none may be missing in a row.

    Returns:
        The schema.
    """
    return pa.schema(
        [pa.field(name, _TYPES[kind], nullable=False) for name, kind in columns.items()]
    )


def from_rows(table_schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Build a table from its rows.

    Args:
        table_schema: see `schema`.
        rows: each with exactly the columns of the schema; Python or NumPy scalars. An integer may fill a float column.

    Returns:
        The table, rows in the order given.

    Raises:
        ValueError: a column is missing, unknown or None in a row, or holds another type; names row and column.
    """
    columns: dict[str, list[Any]] = {name: [] for name in table_schema.names}
    for number, row in enumerate(rows):
        if row.keys() != columns.keys():
            odd = sorted(row.keys() ^ columns.keys())
            raise ValueError(f"row {number}: columns {odd} are missing or not in the schema")
        for field in table_schema:
            columns[field.name].append(_cell(row[field.name], field, f"row {number}"))
    return pa.table(columns, schema=table_schema)


def column(table: pa.Table, name: str, **where: Cell) -> Shaped[np.ndarray, " rows"]:
    """Look a column up, optionally only in the rows where other columns have given values.

    Args:
        table: the table.
        name: the column.
        where: column=value, all of which must hold.

    Returns:
        The values in row order (strings as objects).

    Raises:
        KeyError: no such column.
    """
    for key, value in where.items():
        table = table.filter(pc.field(key) == pa.scalar(value, table.field(key).type))
    return table.column(name).to_numpy()


def write_parquet(table: pa.Table, destination: str | Path) -> None:
    """Write a table to Parquet, the same bytes for an equal table, with checksums of its pages.

    Args:
        table: however it is chunked.
        destination: a file, or `-` for stdout.
    """
    with open_output(destination) as stream:
        pq.write_table(table.combine_chunks(), stream, compression="zstd", write_page_checksum=True)


def read_parquet(path: Path) -> pa.Table:
    """Read a table back.

    Args:
        path: a Parquet file.

    Returns:
        The table.
    """
    return pq.ParquetFile(path, page_checksum_verification=True).read()


def read_unfinished(path: Path) -> pa.Table:
    """Read a table that an earlier attempt at a run has stored.

    Args:
        path: a Parquet file.

    Returns:
        The table.

    Raises:
        InvalidInput: it is missing or damaged.
    """
    try:
        return read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        cause = str(error).splitlines()[0]
        raise InvalidInput(
            f"{path}: stored by an earlier attempt, cannot be read ({cause}), begin again with --force"
        ) from error


def _cell(value: Any, field: pa.Field, where: str) -> Any:
    """The value as the column's Python type, refused unless that loses nothing."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = next(kind for kind, arrow in _TYPES.items() if arrow == field.type)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(
            f"{where}, column '{field.name}': {value!r} is not of type {kind.__name__}"
        )
    return value
