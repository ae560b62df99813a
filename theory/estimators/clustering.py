"""Errors of a mean over rows that come in tasks: as if rows were independent, and as they are.

Rows of one task share its difficulty. On published logs the error by row is three to seven times too small.

Source: Kish 1965, Survey Sampling, the design effect; Miller 2024 (arXiv 2411.00640), clustered errors of evaluations (cited from memory).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput

Tasks = Float64[np.ndarray, " n"]


class ClusteredError(NamedTuple):
    """Standard errors of the mean over tasks of the tasks' means.

    Attributes:
        clustered: over tasks: sd of the tasks' means / sqrt(n).
        naive: over rows: sd of all rows / sqrt(their number); what a table without tasks would print.
        design_effect: (clustered / naive)^2; NaN where no row varies.
        intraclass_correlation: share of the variance that lies between tasks, from a one-way analysis of variance; NaN where no row varies or every task has one row.
    """

    clustered: float
    naive: float
    design_effect: float
    intraclass_correlation: float


def clustered_error(num_rows: Tasks, sums: Tasks, squares: Tasks) -> ClusteredError:
    """From three sums of each task.

    Args:
        num_rows: [n] rows of each task, at least 1.
        sums: [n] of their values.
        squares: [n] of their squared values.

    Returns:
        The errors.

    Raises:
        InvalidInput: fewer than two tasks, or a task without rows.
    """
    n = num_rows.size
    if n < 2:
        raise InvalidInput(f"{n} task(s): an error over tasks needs at least 2")
    if (num_rows < 1).any():
        raise InvalidInput("rows: every task needs at least 1, leave the others out")
    means, rows = sums / num_rows, float(num_rows.sum())
    clustered = float(np.std(means, ddof=1) / np.sqrt(n))
    mean = float(sums.sum()) / rows
    total = max(float(squares.sum()) - rows * mean**2, 0.0)
    naive = float(np.sqrt(total / (rows - 1) / rows))
    within = max(float((squares - num_rows * means**2).sum()), 0.0)
    effect = (clustered / naive) ** 2 if naive > 0 else np.nan
    return ClusteredError(clustered, naive, effect, _intraclass(num_rows, total, within))


def _intraclass(num_rows: Tasks, total: float, within: float) -> float:
    """(MSB - MSW) / (MSB + (m - 1) MSW), m the size that tasks of unequal sizes count as."""
    n, rows = num_rows.size, float(num_rows.sum())
    if rows == n or total <= 0:
        return float("nan")
    size = (rows - float((num_rows**2).sum()) / rows) / (n - 1)
    between_square, within_square = (total - within) / (n - 1), within / (rows - n)
    return (between_square - within_square) / (between_square + (size - 1) * within_square)
