"""The tables behind the figures of estimators: what is drawn, picked from what was computed."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from experiments import tables
from experiments.power_models import LABELS
from paper_figures import equal_cost_curves, estimator_panels
from paper_figures.build import LAYOUTS
from paper_figures.columns import schema

_LABELS = {name.removeprefix("builtin:"): text for name, text in LABELS.items()} | {
    "toy-c-short": "geometric length"
}

_PANELS = {
    "variance_of_Z": ("evidence", "variance"),
    "bias_of_log_Z": ("log_evidence", "bias"),
    "bias_of_mean": ("mean", "bias"),
}
"""From a panel to the quantity and the moment that it shows."""

_METRICS = {
    "rmse_length": ("rmse_length", "rmse_length_error"),
    "rmse_first_token": ("rmse_first_token", "rmse_first_token_error"),
    "tv": ("tv", "tv_noise"),
}


def figure_tables(table: pa.Table, cost: pa.Table) -> Mapping[str, pa.Table]:
    """One table a figure, by the name of both.

    Args:
        table: of estimators.
        cost: of methods with what they spent.

    Returns:
        By the names of `paper_figures.build.LAYOUTS`.
    """
    rows = table.to_pylist()
    swept = [row for row in rows if row["sweep"] in ("num_draws", "alpha")]
    along = [row for row in rows if row["sweep"] == "length"]
    found = {
        "estimator_bias_and_variance": _moment_rows(swept),
        "estimator_against_length": _moment_rows(along),
        "equal_cost_curves": _cost_rows(cost.to_pylist()),
    }
    return {name: tables.from_rows(schema(LAYOUTS[name]), each) for name, each in found.items()}


def _moment_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row of panels for each axis."""
    axes = dict.fromkeys(row["sweep"] for row in rows)
    return [
        {
            "model": row["model"],
            "label": _LABELS[row["model"]],
            "panel": panel,
            "axis": axis,
            "alpha": row["alpha"],
            "num_draws": row["num_draws"],
            "length": row["length"],
            "method": _drawn_method(row),
            "exact": abs(row[f"exact_{moment}"]),
            "simulated": abs(row[moment]),
            "standard_error": row[f"{moment}_error"],
        }
        for axis in axes
        for panel, (quantity, moment) in _PANELS.items()
        for row in rows
        if (row["sweep"], row["quantity"]) == (axis, quantity)
        and _drawn_method(row) in estimator_panels.METHODS
    ]


def _drawn_method(row: dict[str, Any]) -> str:
    """Importance sampling and SMC by their proposal; all other methods from temperature 1/alpha only."""
    if row["method"] == "importance":
        return f"importance_{row['proposal']}"
    if (row["method"], row["proposal"]) == ("smc", "base"):
        return "smc_base"
    return row["method"] if row["proposal"] == "temperature" else ""


def _cost_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "model": row["model"],
            "label": _LABELS[row["model"]],
            "alpha": row["alpha"],
            "metric": metric,
            "method": row["method"],
            "tokens": row["all_tokens"],
            "error": row[error],
            "standard_error": row[standard_error],
        }
        for metric, (error, standard_error) in _METRICS.items()
        for row in rows
        if row["method"] in equal_cost_curves.METHODS
    ]
