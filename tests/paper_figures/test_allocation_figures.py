"""The figures of allocation rules show the numbers of their tables."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper_figures.build import FIGURES, HOME, LAYOUTS, read_table
from paper_figures.columns import schema, split_rows
from tests.paper_figures.legibility import faults


def committed(name: str) -> tuple[Figure, pa.Table]:
    table = read_table(HOME / "tables" / f"{name}.csv")
    return FIGURES[name].draw(table), table


def line(panel: Axes, gid: str) -> tuple[list[float], list[float]]:
    (found,) = [each for each in panel.lines if each.get_gid() == gid]
    return np.asarray(found.get_xdata()).tolist(), np.asarray(found.get_ydata()).tolist()


def pairs(
    figure: Figure, table: pa.Table, *keys: str
) -> list[tuple[Axes, tuple[Any, ...], list[dict[str, Any]]]]:
    groups = split_rows(table, *keys)
    return [
        (panel, key, rows) for panel, (key, rows) in zip(figure.axes, groups.items(), strict=True)
    ]


def test_misfile_curves_are_drawn() -> None:
    for panel, _, rows in pairs(*committed("pilot_commit_misfile"), "pilots", "group_size"):
        rates = [row["rate"] for row in rows]
        for column in ("screened_out", "mixed"):
            assert line(panel, column) == (rates, [row[column] for row in rows])
        assert len(panel.collections) == 1


def test_each_rule_has_its_curve_in_each_panel() -> None:
    for panel, _, rows in pairs(*committed("objective_of_rules"), "advantage"):
        for rule in {row["rule"] for row in rows}:
            mine = [row for row in rows if row["rule"] == rule]
            assert line(panel, rule) == (
                [row["rate"] for row in mine],
                [row["phi"] for row in mine],
            )


def test_a_step_begins_at_the_threshold_that_has_it() -> None:
    for panel, (_, size), rows in pairs(
        *committed("sara_saving_and_errors"), "label", "group_size"
    ):
        rows = sorted(rows, key=lambda row: row["threshold"])
        ends = [*(row["threshold"] for row in rows), (size - 1) / (size + 1)]
        for quantity in ("saving", "false_abandonment", "missed_share"):
            values = [row[quantity] for row in rows]
            assert line(panel, quantity) == (ends, [*values, values[-1]])


def test_the_region_reaches_to_the_edge_of_no_saving() -> None:
    for panel, (size, _), rows in pairs(*committed("sara_failure_region"), "group_size", "family"):
        edge = [row for row in rows if row["saving"] == 0.0 and not math.isnan(row["parameter"])]
        assert line(panel, "saving 0") == (
            [row["parameter"] for row in edge],
            [row["stop"] / size for row in edge],
        )
        (region,) = panel.collections
        (path,) = region.get_paths()
        corners = {(round(x, 12), round(y, 12)) for x, y in np.asarray(path.vertices)}
        for row in edge:
            assert (round(row["parameter"], 12), round(row["stop"] / size, 12)) in corners


def test_a_level_that_no_population_reaches_has_no_line() -> None:
    rows = [
        ("flat-and-atoms", 8, stop, level, math.nan if level else 0.5)
        for stop in (2, 3)
        for level in (0.0, 0.3)
    ]
    layout = LAYOUTS["sara_failure_region"]
    table = pa.table([list(c) for c in zip(*rows, strict=True)], schema=schema(layout))
    figure = FIGURES["sara_failure_region"].draw(table)
    assert [each.get_gid() for each in figure.axes[0].lines] == ["saving 0"]
    assert faults(figure) == []


@pytest.mark.parametrize("name", ["sara_saving_and_errors", "pilot_commit_misfile"])
def test_one_panel_alone_can_be_read(name: str) -> None:
    _, table = committed(name)
    (first, *_) = split_rows(table, LAYOUTS[name].columns[0].name, "group_size").values()
    alone = pa.Table.from_pylist(first, schema=table.schema)
    assert faults(FIGURES[name].draw(alone)) == []
