"""The figures of estimators show the numbers of their tables: lines are the exact ones, points the simulated ones."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.axes import Axes

from paper_figures import equal_cost_curves, estimator_panels
from paper_figures.build import FIGURES, HOME, LAYOUTS, read_table
from paper_figures.columns import schema, split_rows
from paper_figures.style import POPULATION, POWER

MOMENTS = ("estimator_bias_and_variance", "estimator_against_length")


def committed(name: str) -> pa.Table:
    return read_table(HOME / "tables" / f"{name}.csv")


def curve(panel: Axes, name: str) -> list[tuple[float, float]]:
    """Points of the line of this name; none where it is not drawn."""
    return [
        (float(x), float(y))
        for line in panel.lines
        if line.get_gid() == name
        for x, y in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
    ]


@pytest.mark.parametrize("name", MOMENTS)
def test_lines_are_exact_and_points_are_simulated(name: str) -> None:
    table = committed(name)
    groups = split_rows(table, "model", "label", "axis", "panel")
    panels = FIGURES[name].draw(table).axes
    for panel, ((*_, axis, quantity), rows) in zip(panels, groups.items(), strict=True):
        shown = estimator_panels.PANELS[quantity]
        if (axis, quantity) == ("length", "bias_of_mean"):
            shown = "|bias of P(first token 0)|"
        assert panel.get_title(loc="left").endswith(shown)
        assert panel.get_xlabel() == estimator_panels.AXES[axis]
        for method, (look, _) in estimator_panels.METHODS.items():
            mine = sorted(
                (row for row in rows if row["method"] == method), key=lambda row: row[axis]
            )
            exact = [(float(row[axis]), row["exact"]) for row in mine if row["exact"] > 1e-12]
            assert curve(panel, f"exact {method}") == exact
            points = [
                (float(row[axis]), row["simulated"])
                for row in mine
                if quantity == "variance_of_Z" or row["simulated"] > 2 * row["standard_error"]
            ]
            assert curve(panel, f"simulated {method}") == points
            for line in panel.lines:
                if str(line.get_gid()).endswith(f" {method}"):
                    assert line.get_color() == look.color


@pytest.mark.parametrize("name", MOMENTS)
def test_simulated_values_of_the_committed_table_are_the_exact_ones(name: str) -> None:
    rows = [row for row in committed(name).to_pylist() if not math.isnan(row["exact"])]
    assert len(rows) > 20
    for row in rows:
        assert abs(row["simulated"] - row["exact"]) <= 6 * row["standard_error"] + 1e-9, row


def test_the_claims_hold_in_the_committed_tables() -> None:
    rows = committed("estimator_bias_and_variance").to_pylist()
    exact = {
        (row["axis"], row["alpha"], row["num_draws"], row["method"]): row["exact"]
        for row in rows
        if row["panel"] == "variance_of_Z"
    }
    for (axis, alpha, draws, method), variance in exact.items():
        if method == "importance_base" and alpha > 1:
            assert variance < exact[axis, alpha, draws, "importance_temperature"]
            assert exact[axis, alpha, draws, "smc"] >= variance
    along = {
        (row["length"], row["method"]): row["exact"]
        for row in committed("estimator_against_length").to_pylist()
        if row["panel"] == "variance_of_Z"
    }
    longest, shortest = max(along)[0], min(along)[0]
    assert along[longest, "smc_base"] < 0.02 * along[longest, "importance_base"]
    assert along[shortest, "importance_base"] < along[shortest, "smc_base"]
    for length in {length for length, _ in along}:
        assert along[length, "importance_temperature"] < along[length, "smc_adapted"]
        assert along[length, "smc_adapted"] < along[length, "smc"]


def test_a_bias_that_noise_could_be_is_not_drawn_and_a_variance_is() -> None:
    rows = [
        ("m", "M", panel, "num_draws", 2.0, draws, 4, "importance_base", 0.1, 0.1, error)
        for panel, error in (("variance_of_Z", 0.09), ("bias_of_mean", 0.06))
        for draws in (1, 2)
    ]
    names = schema(LAYOUTS["estimator_bias_and_variance"])
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, schema=names)
    variance, bias = FIGURES["estimator_bias_and_variance"].draw(table).axes
    drawn = [(1.0, 0.1), (2.0, 0.1)]
    assert curve(variance, "simulated importance_base") == drawn
    assert curve(bias, "simulated importance_base") == []
    assert curve(bias, "exact importance_base") == drawn


def test_errors_are_drawn_where_the_table_says_and_exact_draws_have_no_distance() -> None:
    table = committed("equal_cost_curves")
    groups = split_rows(table, "model", "label", "alpha", "metric")
    panels = FIGURES["equal_cost_curves"].draw(table).axes
    for panel, ((*_, metric), rows) in zip(panels, groups.items(), strict=True):
        for method, (look, _) in equal_cost_curves.METHODS.items():
            points = sorted(
                (row["tokens"], row["error"])
                for row in rows
                if row["method"] == method and row["error"] >= max(1e-3, 2 * row["standard_error"])
            )
            drawn = [
                (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
                for line in panel.lines
                if (line.get_color(), line.get_marker()) == (look.color, look.marker)
            ]
            assert drawn == ([tuple(map(list, zip(*points, strict=True)))] if points else [])
        if metric == "tv":
            assert not [line for line in panel.lines if line.get_color() == POWER.color]


def test_a_total_variation_of_noise_is_not_drawn() -> None:
    rows: list[tuple[Any, ...]] = [
        ("m", "M", 2.0, "tv", "smc", tokens, 0.03, noise)
        for tokens, noise in ((8.0, 0.01), (16.0, 0.02))
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, schema=schema(LAYOUTS["equal_cost_curves"]))
    (panel,) = FIGURES["equal_cost_curves"].draw(table).axes
    (line,) = [line for line in panel.lines if line.get_color() == POPULATION.color]
    assert np.asarray(line.get_xdata()).tolist() == [8.0]
