"""What the tables behind the figures hold, and how they are read from and written to CSV.

A table is a CSV file with a header and one row a line; real numbers are written so that reading gives the same
float64 back. A column says which values it may hold, so that a damaged table is named and never drawn.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from paper_figures.files import write_whole
from theory.errors import InvalidInput

ROUNDING = 1e-9
"""How far rounding may carry a number past the end of its range."""


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: as in the header.
        kind: str, int (an int64) or float (a float64).
        low: least number; `ROUNDING` below it is still accepted.
        high: largest number, likewise.
        may_be_nan: whether a real number may be missing (NaN).
        choices: the only words that the column may hold; empty means any.
    """

    name: str
    kind: type[str] | type[int] | type[float]
    low: float = -math.inf
    high: float = math.inf
    may_be_nan: bool = False
    choices: tuple[str, ...] = ()


class Layout(NamedTuple):
    """The columns of one table, in order.

    Attributes:
        columns: at least one.
        may_be_empty: whether the table may have no rows.
    """

    columns: tuple[Column, ...]
    may_be_empty: bool = False


MODEL = Column("model", str)
LABEL = Column("label", str)
ALPHA = Column("alpha", float, low=1e-6)

_ARROW_TYPES: Mapping[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64()}
_WORDS: Mapping[type, str] = {int: "a whole number", float: "a number such as 0.25"}


def read_csv(path: Path, layout: Layout) -> pa.Table:
    """Read one table.

    Args:
        path: a CSV file, UTF-8, with a header.
        layout: its columns; the file has these and no others, in any order.

    Returns:
        The table, columns in the order of the layout: string, int64 and float64.

    Raises:
        InvalidInput: the file is missing, or a line or column is not as the layout says.
    """
    if not path.is_file():
        raise InvalidInput(f"{path}: no such table; write it with the experiment that produces it")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            _check_header(path, header, layout)
            values: dict[str, list[Any]] = {name: [] for name in header}
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(header):
                    raise InvalidInput(
                        f"{where}: {len(row)} values, must be {len(header)}, one for each column"
                    )
                by_name = dict(zip(header, row, strict=True))
                for column in layout.columns:
                    values[column.name].append(_parse(where, column, by_name[column.name]))
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"{path}: not a CSV file in UTF-8 ({error}); write it anew"
            ) from None
    if not values[header[0]] and not layout.may_be_empty:
        raise InvalidInput(f"{path}: no rows; write it with the experiment that produces it")
    return pa.table(values, schema=schema(layout))


def write_csv(table: pa.Table, path: Path, layout: Layout) -> None:
    """Write one table so that `read_csv` gives the same numbers back.

    Args:
        table: with at least the columns of the layout.
        path: where to; an older file is replaced.
        layout: which columns, in which order.
    """
    ordered = table.select([column.name for column in layout.columns]).cast(schema(layout))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ordered.column_names)
    for row in ordered.to_pylist():
        # repr gives the shortest decimal that reads back as the same float64.
        writer.writerow([repr(x) if isinstance(x, float) else x for x in row.values()])
    write_whole(text.getvalue().encode(), path)


def schema(layout: Layout) -> pa.Schema:
    """The Arrow types of a table.

    Args:
        layout: its columns.

    Returns:
        string for text, int64 for whole numbers, float64 for real numbers.
    """
    return pa.schema([(column.name, _ARROW_TYPES[column.kind]) for column in layout.columns])


def split_rows(table: pa.Table, *names: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Rows that share the values of some columns, groups and rows in the order of the table.

    Args:
        table: any.
        *names: columns that tell the groups apart.

    Returns:
        From the shared values to the rows.

    Raises:
        InvalidInput: the table has no rows.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    if not groups:
        raise InvalidInput(
            "a table without rows: there is nothing to draw; give at least one model"
        )
    return groups


def _check_header(path: Path, header: Sequence[str], layout: Layout) -> None:
    wanted = [column.name for column in layout.columns]
    for name in wanted:
        if header.count(name) != 1:
            problem = "is missing" if name not in header else "appears twice"
            raise InvalidInput(f"{path}: column {name} {problem}; must be {','.join(wanted)}")
    for name in header:
        if name not in wanted:
            raise InvalidInput(f"{path}: column {name!r} is unknown; must be {','.join(wanted)}")


def _parse(where: str, column: Column, text: str) -> str | int | float:
    where = f"{where}, column {column.name}"
    if column.kind is str:
        if column.choices and text not in column.choices:
            raise InvalidInput(f"{where}: {text!r} must be one of {', '.join(column.choices)}")
        return text
    try:
        number = int(text) if column.kind is int else float(text)
    except ValueError:
        raise InvalidInput(f"{where}: {text!r} must be {_WORDS[column.kind]}") from None
    if math.isnan(number):
        if not column.may_be_nan:
            raise InvalidInput(
                f"{where}: NaN, must be a number; leave the row out if it is unknown"
            )
    elif math.isinf(number) or not column.low - ROUNDING <= number <= column.high + ROUNDING:
        raise InvalidInput(
            f"{where}: {text}, must be finite and in [{column.low:g}, {column.high:g}]"
        )
    return number
