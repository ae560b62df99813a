"""The tables of `allocation-drift` for people: means over seeds, and where prediction falls behind probing."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from experiments.allocation.drift_table import AT_ONCE, NEVER
from experiments.allocation.report import with_interval

Row = Mapping[str, Any]


def report(found: Mapping[str, pa.Table]) -> Iterator[Table]:
    """All tables of a run.

    Args:
        found: the run's tables.

    Yields:
        Tables for a terminal.
    """
    rows = found["table"].to_pylist()
    for key in dict.fromkeys((row["population"], row["held_out"], row["drift"]) for row in rows):
        mine = [row for row in rows if (row["population"], row["held_out"], row["drift"]) == key]
        yield _yields(key, mine)
    if found["crossings"].num_rows:
        yield _crossings(found["crossings"].to_pylist())
    yield _sizing(found["sizing"].to_pylist())


def _yields(key: tuple[str, bool, str], rows: list[Row]) -> Table:
    population, held_out, drift = key
    name = f"{population} (held out)" if held_out else population
    table = Table(title=f"{name}, {drift}: effective groups per 1000 rollouts")
    table.add_column("method")
    rates = list(dict.fromkeys(row["rate"] for row in rows))
    for rate in rates:
        table.add_column(f"{rate:g}", justify="right")
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = [
            [row["per_1000"] for row in rows if (row["method"], row["rate"]) == (method, rate)]
            for rate in rates
        ]
        table.add_row(method, *(with_interval(values, 1) for values in cells))
    return table


def _crossings(rows: list[Row]) -> Table:
    table = Table(title="The drift at which the first rule falls behind the second")
    for name in ("population", "drift", "first", "second"):
        table.add_column(name)
    table.add_column("rate", justify="right")
    for row in rows:
        name = f"{row['population']} (held out)" if row["held_out"] else row["population"]
        table.add_row(name, row["drift"], row["first"], row["second"], crossing_text(row))
    return table


def _sizing(rows: list[Row]) -> Table:
    table = Table(
        title="Fresh streams, exact: best rate with groups of `from` to n over that with groups of n"
    )
    for name in ("population", "n"):
        table.add_column(name)
    names = list(dict.fromkeys(row["objective"] for row in rows))
    for name in names:
        table.add_column(f"{name} from 2", justify="right")
        table.add_column(f"{name} from n/2", justify="right")
    for key in dict.fromkeys(
        (row["population"], row["held_out"], row["group_size"]) for row in rows
    ):
        population, held_out, size = key
        gains = {
            (row["objective"], row["least"]): row["gain"]
            for row in rows
            if (row["population"], row["group_size"]) == (population, size)
        }
        cells = [f"{100 * gains[name, least]:+.1f} %" for name in names for least in (2, size // 2)]
        table.add_row(f"{population} (held out)" if held_out else population, str(size), *cells)
    return table


def crossing_text(row: Row) -> str:
    """A crossing in words.

    Args:
        row: of `drift_table.CROSSINGS`.

    Returns:
        `0.31 [0.22, 0.45]`; ends that lie beyond the rates that were run are left open.
    """
    if row["verdict"] == AT_ONCE:
        return "behind from the start"
    if row["verdict"] == NEVER:
        return "ahead at every rate"
    low, high = ("" if not np.isfinite(row[end]) else f"{row[end]:.2g}" for end in ("low", "high"))
    return f"{row['crossing']:.2g} [{low}, {high}]"
