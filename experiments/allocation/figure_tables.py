"""The tables behind the figures of allocation: means over seeds with their intervals."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from experiments import tables
from experiments.allocation.report import split
from experiments.allocation.run_tables import mean_interval
from paper_figures import allocation_costs, allocation_curves
from paper_figures.build import LAYOUTS
from paper_figures.columns import Column, Layout, schema

PASS_AT_K_LAYOUT = Layout(
    (
        *(Column(name, str) for name in ("kind", "regime", "method")),
        *(Column(name, int, low=1) for name in ("seeds", "k")),
        Column("pass_at_k", float, low=0, high=1),
        *(Column(name, float) for name in ("low", "high")),
    ),
    may_be_empty=True,
)
"""Of `run_tables.PASS_AT_K` as CSV."""

EVERY = 3
"""Points of a curve's grid from one that is drawn to the next."""


def figure_tables(found: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """One table a figure, by the name of both.

    Args:
        found: tables of the run.

    Returns:
        By the names of `paper_figures.build.LAYOUTS`; those without rows are left out.
    """
    drawn = {
        "allocation_curves": list(_curves(found["curves"].to_pylist())),
        "allocation_costs": list(_costs(found["table"].to_pylist())),
    }
    return {
        name: tables.from_rows(schema(LAYOUTS[name]), rows) for name, rows in drawn.items() if rows
    }


def _curves(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for regime, of_regime in split(rows, "regime").items():
        seeds = len({row["seed"] for row in of_regime})
        for method, mine in split(of_regime, "method").items():
            if method not in allocation_curves.METHODS:
                continue
            points = sorted(split(mine, "rollouts").items())
            # Where some runs have ended the mean would be over other seeds.
            whole = [(rollouts, runs) for rollouts, runs in points if len(runs) == seeds]
            for rollouts, runs in whole[::EVERY]:
                yield {
                    "regime": regime,
                    "method": method,
                    "rollouts": float(rollouts),
                    **mean_interval("accuracy", [row["accuracy"] for row in runs]),
                }


def _costs(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    fixed = [row for row in rows if row["kind"] == "fixed-updates"]
    for regime, of_regime in split(fixed, "regime").items():
        for method, mine in split(of_regime, "method").items():
            # A rule that got stuck has made other updates than the rest.
            if any(row["stopped"] for row in mine):
                continue
            for metric in allocation_costs.METRICS:
                yield {
                    "regime": regime,
                    "method": method,
                    "information": mine[0]["information"],
                    "metric": metric,
                    **mean_interval("value", [row[metric] for row in mine]),
                }
