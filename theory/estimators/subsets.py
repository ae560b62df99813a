"""Chances under a draw of k samples out of n without replacement, the same for every subset."""

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import comb

from theory.errors import InvalidInput


def check_subset_size(num_samples: Int64[np.ndarray, " n"], k: int) -> None:
    """Refuse a k that some task cannot give.

    Args:
        num_samples: [n] of each task.
        k: samples of a subset.

    Raises:
        InvalidInput: k below 1, or above the samples of some task.
    """
    if k < 1:
        raise InvalidInput(f"k = {k}: must be at least 1")
    short = int((num_samples < k).sum())
    if short:
        raise InvalidInput(
            f"k = {k}: {short} of {num_samples.size} tasks have fewer samples, "
            "lower k or leave those tasks out and say so"
        )


def chance_all_among(
    marked: Int64[np.ndarray, " n"], num_samples: Int64[np.ndarray, " n"], k: int
) -> Float64[np.ndarray, " n"]:
    """Chance that all k drawn are among the marked ones.

        C(m, k) / C(n, k) = prod_{i < k} (m - i) / (n - i)

    A product of k numbers in [0, 1]: relative error below k rounding errors, whatever n is.

    Args:
        marked: [n] m, at most the samples.
        num_samples: [n] at least k.
        k: drawn without replacement.

    Returns:
        [n].
    """
    # Many tasks of few sizes: each chance is computed once.
    present = np.flatnonzero(np.bincount(num_samples))
    if present.size and present.size * (present[-1] + 1) < marked.size:
        table = _product(np.arange(present[-1] + 1)[None], present[:, None], k)
        row = np.zeros(present[-1] + 1, np.int64)
        row[present] = np.arange(present.size)
        return table[row[num_samples], marked]
    return _product(marked, num_samples, k)


def on_grid(
    numbers: Float64[np.ndarray, " n"], num_samples: Int64[np.ndarray, " n"], k: int
) -> Float64[np.ndarray, " n"]:
    """Means over all subsets of a whole number for each, cleared of rounding errors.

        round(C(n, k) x) / C(n, k)

    Such a mean is a whole number of 1 / C(n, k): where that grid is wide beside the errors, the nearest point of it is the mean to the last digit.

    Args:
        numbers: [n] means, with relative errors below 1e-13.
        num_samples: [n] at least k.
        k: samples of a subset.

    Returns:
        [n] the same where C(n, k) is above 10^9.
    """
    subsets = np.asarray(comb(np.arange(num_samples.max(initial=0) + 1), k), np.float64)
    known = (subsets >= 1) & (subsets < 1e9)
    grid = np.where(known, subsets, 1.0)[num_samples]
    return np.where(known[num_samples], np.rint(numbers * grid) / grid, numbers)


def alike(
    num_samples: Int64[np.ndarray, " n"], marked: Int64[np.ndarray, " n"]
) -> tuple[Int64[np.ndarray, " u"], Int64[np.ndarray, " n"]]:
    """Tasks of the same counts, for what is too slow to be computed task by task.

    Args:
        num_samples: [n] at least 0.
        marked: [n] from 0 to the samples.

    Returns:
        [u] one task of each kind, and [n] the kind of each task.
    """
    code = num_samples * (num_samples.max(initial=0) + 1) + marked
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.int64), kind.reshape(-1).astype(np.int64)


def _product(
    marked: Int64[np.ndarray, "..."], num_samples: Int64[np.ndarray, "..."], k: int
) -> Float64[np.ndarray, "..."]:
    shape = np.broadcast_shapes(marked.shape, num_samples.shape)
    chance = np.ones(shape)
    for gone in range(k):
        chance *= np.maximum(marked - gone, 0) / (num_samples - gone)
    return chance
