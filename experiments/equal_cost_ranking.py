"""Which method errs least at equal totals of the ledger, and where that depends on which column is made equal.

Errors at a budget are read off each method's measured curve, linear in log error against log cost, and never beyond its ends.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from experiments import tables

MATCHED = ("generated_tokens", "all_tokens")
"""The columns that are made equal: tokens drawn, and tokens drawn or read."""

METRICS = ("rmse_length", "rmse_first_token")

SCHEMA: pa.Schema = tables.schema(
    model=str, alpha=float, metric=str, matched=str, budget=float, method=str, kind=str,
    error=float, error_error=float, model_calls=float, rank=int, reverses_with=str,
)  # fmt: skip

CLEAR = 3.0
"""Standard errors by which two methods must differ, in both columns, before their order counts as reversed."""


class _At(NamedTuple):
    """A method at a budget."""

    kind: str
    error: float
    standard_error: float
    model_calls: float


def ranking_rows(cost: pa.Table, budgets: tuple[float, ...]) -> list[dict[str, Any]]:
    """Rank the methods at every budget.

    Args:
        cost: of `experiments.equal_cost_problem.SCHEMA`.
        budgets: tokens.

    Returns:
        Rows of `SCHEMA`, by rank; a method whose curve does not reach a budget is left out there. `reverses_with` names the methods that
        are clearly ordered the other way when the other column is made equal.
    """
    rows: list[dict[str, Any]] = []
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in cost.to_pylist():
        groups.setdefault((row["model"], row["alpha"]), []).append(row)
    for ((model, alpha), group), metric, budget in itertools.product(
        groups.items(), METRICS, budgets
    ):
        found = {column: _at_budget(group, metric, column, budget) for column in MATCHED}
        for column, other in zip(MATCHED, MATCHED[::-1], strict=True):
            ordered = sorted(found[column].items(), key=lambda item: item[1].error)
            for rank, (method, at) in enumerate(ordered):
                reversed_with = [
                    rival
                    for rival in found[column]
                    if _order(found[column], method, rival) * _order(found[other], method, rival)
                    < 0
                ]
                rows.append(
                    {
                        "model": model,
                        "alpha": alpha,
                        "metric": metric,
                        "matched": column,
                        "budget": budget,
                        "method": method,
                        "kind": at.kind,
                        "error": at.error,
                        "error_error": at.standard_error,
                        "model_calls": at.model_calls,
                        "rank": rank + 1,
                        "reverses_with": " ".join(reversed_with),
                    }
                )
    return rows


def _at_budget(
    rows: list[dict[str, Any]], metric: str, column: str, budget: float
) -> dict[str, _At]:
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row[metric] > 0:
            curves.setdefault(row["method"], []).append(row)
    found: dict[str, _At] = {}
    for method, curve in curves.items():
        curve = sorted(curve, key=lambda row: row[column])
        costs = np.array([row[column] for row in curve])
        if not costs[0] <= budget <= costs[-1]:
            continue

        def read(name: str, curve: list[dict[str, Any]] = curve, costs: Any = costs) -> float:
            values = np.log([row[name] for row in curve])
            return float(np.exp(np.interp(np.log(budget), np.log(costs), values)))

        found[method] = _At(
            curve[0]["kind"], read(metric), read(f"{metric}_error"), read("model_calls")
        )
    return found


def _order(found: dict[str, _At], method: str, rival: str) -> int:
    """-1 or 1 where one errs clearly less, else 0."""
    if method not in found or rival not in found:
        return 0
    gap = found[method].error - found[rival].error
    spread = np.hypot(found[method].standard_error, found[rival].standard_error)
    return int(np.sign(gap)) if abs(gap) > CLEAR * spread else 0
