"""The table behind the figure of yields under drift."""

import math

import numpy as np
import pyarrow as pa

from experiments.allocation.drift_table import PAIRS
from experiments.allocation.regimes import EXCHANGE
from experiments.tables import from_rows
from paper_figures.columns import schema
from paper_figures.yield_under_drift import LAYOUT, METHODS
from theory.estimators.interval import t_interval

FIGURE = "yield_under_drift"


def figure_table(runs: pa.Table, crossings: pa.Table) -> pa.Table:
    """Means and intervals over seeds, and where DPS falls behind SARA.

    Args:
        runs: of the schema `drift_table.RUNS`, at least two seeds.
        crossings: of the schema `drift_table.CROSSINGS`.

    Returns:
        The table; no rows where nothing was exchanged.
    """
    falls = {
        row["population"]: row["crossing"]
        for row in crossings.to_pylist()
        if (row["drift"], (row["first"], row["second"])) == (EXCHANGE, PAIRS[0])
    }
    cells: dict[tuple[str, float, str], list[float]] = {}
    for row in runs.to_pylist():
        if row["drift"] == EXCHANGE and row["method"] in METHODS:
            key = (row["population"], row["rate"], row["method"])
            cells.setdefault(key, []).append(row["per_1000"])
    rows = []
    for (population, rate, method), values in cells.items():
        interval = t_interval(np.array(values))
        rows.append(
            {
                "population": population,
                "rate": rate,
                "method": method,
                "mean": float(np.mean(values)),
                "low": interval.low,
                "high": interval.high,
                "crossing": falls.get(population, math.nan),
            }
        )
    return from_rows(schema(LAYOUT), rows)
