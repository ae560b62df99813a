"""Closed forms over subsets of k samples."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ClusteredError(NamedTuple):
    clustered: float
    naive: float
    design_effect: float


def clustered_error(sizes, totals, squares) -> ClusteredError:
    means = totals / sizes
    n = means.size
    clustered = float(np.std(means, ddof=1) / np.sqrt(n))
    rows = float(sizes.sum())
    mean = float(totals.sum()) / rows
    variance = (float(squares.sum()) - rows * mean**2) / (rows - 1)
    naive = float(np.sqrt(max(variance, 0.0) / rows))
    return ClusteredError(clustered, naive, (clustered / naive) ** 2 if naive else float("nan"))


def pass_at_k(sizes: NDArray[np.int64], correct: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    n, c = sizes.astype(float), correct.astype(float)
    missed = np.ones_like(n)
    for i in range(k):
        missed *= np.clip((n - c - i) / (n - i), 0, None)
    return 1 - missed


def pass_hat_k(sizes: NDArray[np.int64], correct: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    n, c = sizes.astype(float), correct.astype(float)
    all_right = np.ones_like(n)
    for i in range(k):
        all_right *= np.clip((c - i) / (n - i), 0, None)
    return all_right
