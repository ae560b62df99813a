"""The figure of yields under drift shows the numbers of its table."""

import math

import numpy as np
import pyarrow as pa

from paper_figures.build import FIGURES, HOME, read_table
from paper_figures.columns import split_rows
from tests.paper_figures.legibility import faults

NAME = "yield_under_drift"


def test_each_rule_has_its_line_and_each_crossing_its_mark() -> None:
    table = read_table(HOME / "tables" / f"{NAME}.csv")
    figure = FIGURES[NAME].draw(table)
    for panel, rows in zip(figure.axes, split_rows(table, "population").values(), strict=True):
        lines = {str(line.get_gid()): line for line in panel.lines}
        for method in {row["method"] for row in rows}:
            mine = sorted((r["rate"], r["mean"]) for r in rows if r["method"] == method)
            drawn = np.asarray(lines[method].get_xydata())
            np.testing.assert_array_equal(drawn, mine)
        crossing = rows[0]["crossing"]
        assert ("crossing" in lines) == (not math.isnan(crossing))
        if "crossing" in lines:
            assert set(np.asarray(lines["crossing"].get_xdata()).tolist()) == {crossing}


def test_one_panel_alone_can_be_read() -> None:
    table = read_table(HOME / "tables" / f"{NAME}.csv")
    first = next(iter(split_rows(table, "population").values()))
    assert faults(FIGURES[NAME].draw(pa.Table.from_pylist(first, schema=table.schema))) == []
