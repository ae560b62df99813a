"""The table of estimators: exact bias and variance beside the simulated ones, and whether they agree."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from experiments import tables
from experiments.estimator_cells import Cell, Estimator, exact_moments, value_name
from experiments.estimator_draws import simulate
from models.tabular.catalogue import builtin
from theory.exact.context_table import with_horizon
from theory.exact.layers import unroll
from theory.exact.length_scaling import best_proposal

SCHEMA: pa.Schema = tables.schema(
    sweep=str, model=str, alpha=float, proposal=str, proposal_alpha=float, length=int, num_draws=int,
    method=str, quantity=str, value=str, truth=float, exact_bias=float, exact_variance=float,
    bias=float, bias_error=float, variance=float, variance_error=float, replicates=int, seed=int,
)  # fmt: skip

LIMIT = 6.0
"""Standard errors by which a simulated bias may differ from the exact one."""


def make_cell(
    sweep: str,
    model: str,
    alpha: float,
    proposal: str | float,
    num_draws: int,
    length: int | None = None,
) -> Cell:
    """A setting on a built-in model.

    Args:
        sweep: which axis it belongs to.
        model: name of a built-in model.
        alpha: target exponent.
        proposal: "base", "temperature" (1/alpha), "best" (least variance of Z_hat), or an exponent beta.
        num_draws: N.
        length: horizon, tokens; that of the model by default.

    Returns:
        The cell.
    """
    table = builtin(model).make()
    if length is not None:
        table = with_horizon(table, length)
    named = {"base": 1.0, "temperature": alpha}
    if proposal == "best":
        beta = best_proposal(unroll(table), alpha).proposal_alpha
        return Cell(sweep, model, table, alpha, "best", beta, num_draws)
    beta = named[proposal] if isinstance(proposal, str) else float(proposal)
    name = next((name for name, exponent in named.items() if exponent == beta), "between")
    return Cell(sweep, model, table, alpha, name, beta, num_draws)


def cell_rows(
    cell: Cell, num_replicates: int, seed: int, *, simulated_alpha: float | None = None
) -> list[dict[str, Any]]:
    """Every estimator of a cell.

    Args:
        cell: a setting.
        num_replicates: independent populations.
        seed: of the run.
        simulated_alpha: exponent that the samplers are given, where it is to be a wrong one.

    Returns:
        Rows of `SCHEMA`; what is not known exactly is NaN.
    """
    exact = exact_moments(cell)
    drawn = simulate(cell, num_replicates, seed, alpha=simulated_alpha)
    setting = {
        "sweep": cell.sweep,
        "model": cell.model,
        "alpha": cell.alpha,
        "proposal": cell.proposal,
        "proposal_alpha": cell.proposal_alpha,
        "length": cell.table.horizon,
        "num_draws": cell.num_draws,
    }
    rows: list[dict[str, Any]] = []
    for (method, quantity), known in exact.items():
        estimates = drawn.get((method, quantity))
        if estimates is None:
            continue
        rows.append(
            {
                **setting,
                "method": method,
                "quantity": quantity,
                "value": value_name(cell.table),
                "truth": known.truth,
                "exact_bias": known.bias,
                "exact_variance": known.variance,
                **moments_of(estimates, known.truth),
                "replicates": num_replicates,
                "seed": seed,
            }
        )
    return rows


def moments_of(estimates: Float64[np.ndarray, " R"], truth: float) -> dict[str, float]:
    """Bias and variance of replicates with their standard errors.

    Args:
        estimates: [R] independent.
        truth: what they aim at.

    Returns:
        bias, bias_error, variance and variance_error; that of the variance from the fourth central moment.
    """
    count = estimates.size
    gaps = estimates - estimates.mean()
    variance = float(gaps @ gaps / (count - 1))
    fourth = float(np.mean(gaps**4))
    return {
        "bias": float(estimates.mean() - truth),
        "bias_error": float(np.sqrt(variance / count)),
        "variance": variance,
        "variance_error": float(np.sqrt(max(0.0, fourth - variance**2) / count)),
    }


def bias_gaps(rows: Sequence[dict[str, Any]]) -> list[tuple[float, Estimator, dict[str, Any]]]:
    """How far each simulated bias is from the exact one, in standard errors.

    The standard error is that of the larger of the exact and the simulated variance: a sample that has missed the rare large weights
    shows too small a variance, and would condemn itself.

    Args:
        rows: of `SCHEMA`.

    Returns:
        Gap, estimator and row, for the rows whose exact bias is known.
    """
    found: list[tuple[float, Estimator, dict[str, Any]]] = []
    for row in rows:
        if not np.isnan(row["exact_bias"]):
            variance = np.fmax(row["variance"], row["exact_variance"])
            error = float(np.sqrt(variance / row["replicates"]))
            gap = abs(row["bias"] - row["exact_bias"]) / error if error > 0 else 0.0
            found.append((gap, (row["method"], row["quantity"]), row))
    return found


def disagreements(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose simulated bias is not the exact one.

    Args:
        rows: of `SCHEMA`.

    Returns:
        Those more than LIMIT standard errors apart.
    """
    return [row for gap, _, row in bias_gaps(rows) if not gap <= LIMIT]
