"""Errors with and without clusters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ClusteredError(NamedTuple):
    """Standard errors of a mean.

    Attributes:
        clustered: over tasks.
        naive: as if rows were independent.
        design_effect: squared ratio of the two.
    """

    clustered: float
    naive: float
    design_effect: float


def clustered_error(sizes: Floats, totals: Floats, squares: Floats) -> ClusteredError:
    """Of the mean over tasks of the tasks' means.

    Args:
        sizes: [n] rows.
        totals: [n] sums.
        squares: [n] sums of squares.

    Returns:
        Both errors.
    """
    means = totals / sizes
    n = means.size
    clustered = float(np.std(means, ddof=1) / np.sqrt(n))
    rows = float(sizes.sum())
    mean = float(totals.sum()) / rows
    variance = (float(squares.sum()) - rows * mean**2) / (rows - 1)
    naive = float(np.sqrt(max(variance, 0.0) / rows))
    return ClusteredError(clustered, naive, (clustered / naive) ** 2 if naive else float("nan"))
