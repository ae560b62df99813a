"""Tables on a terminal or in a pipe, of which no number and no name is ever cut short."""

import os
import sys

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

UNLIMITED = 10_000  # columns: wider than any table
NARROWEST_NAMES = 12  # columns: names are folded to no less


def report_console(stderr: bool = False) -> Console:
    """Where a person reads results: as wide as the terminal or COLUMNS says, and in a pipe as wide as need be.

    Args:
        stderr: whether stdout is taken by a machine-readable result.

    Returns:
        The console; it takes text as it is.
    """
    stream = sys.stderr if stderr else sys.stdout
    free = not stream.isatty() and not os.environ.get("COLUMNS", "").isdigit()
    return Console(
        stderr=stderr,
        width=UNLIMITED if free else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def make_table(*headings: str) -> Table:
    """An empty table: the first column holds names, which may be folded, the others what stays on one line.

    Args:
        *headings: one a column.

    Returns:
        The table.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for place, heading in enumerate(headings):
        if place == 0:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_table(console: Console, title: str, table: Table) -> None:
    """Print a table under its title, with an empty line after it; wider than the console where it cannot be narrower.

    Args:
        console: made by `report_console`.
        title: one line, wrapped where the console is narrower.
        table: made by `make_table`.
    """
    names, *numbers = table.columns
    names.min_width = min(NARROWEST_NAMES, _widest(names))
    for column in numbers:
        column.min_width = _widest(column)
    console.print(title, style="bold")
    console.print(table, crop=False, overflow="ignore")
    console.print()


def _widest(column: Column) -> int:
    cells = [str(column.header), *map(str, column.cells)]
    return max(cell_len(line) for cell in cells for line in cell.split("\n"))
