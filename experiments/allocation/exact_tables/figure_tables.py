"""The tables behind the figures of `allocation-tables`: what is drawn, picked from what was computed."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from experiments import tables
from paper_figures import objective_of_rules, sara_failure_region
from paper_figures.build import LAYOUTS
from paper_figures.columns import schema

Row = dict[str, Any]

SWEPT = {
    "published": "published mixture",
    "beta-.15-.15": "Beta(.15, .15)",
    "flat": "Beta(1, 1)",
}
"""Populations of the sweep over thresholds, and their labels."""


def figure_tables(found: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """One table a figure, by the name of both, where the run has its rows.

    Args:
        found: the run's tables.

    Returns:
        By the names of `paper_figures.build.LAYOUTS`.
    """
    made: dict[str, list[Row]] = {}
    if "sweep" in found:
        made["sara_saving_and_errors"] = _sweep_rows(found["sweep"].to_pylist())
    if "region" in found:
        levels = sara_failure_region.LEVELS
        rows = [row for row in found["region"].to_pylist() if row["saving"] in levels]
        made["sara_failure_region"] = sorted(rows, key=lambda row: row["group_size"])
    if "misfiled" in found:
        made["pilot_commit_misfile"] = found["misfiled"].to_pylist()
    if "objective" in found:
        made["objective_of_rules"] = [
            row for row in found["objective"].to_pylist() if row["rule"] in objective_of_rules.RULES
        ]
    return {
        name: tables.from_rows(
            schema(LAYOUTS[name]),
            [{column.name: row[column.name] for column in LAYOUTS[name].columns} for row in rows],
        )
        for name, rows in made.items()
        if rows
    }


def _sweep_rows(rows: list[Row]) -> list[Row]:
    sizes = sorted({row["group_size"] for row in rows})
    return [
        {**row, "label": label}
        for size in sizes
        for population, label in SWEPT.items()
        for row in rows
        if (row["population"], row["group_size"]) == (population, size)
    ]
