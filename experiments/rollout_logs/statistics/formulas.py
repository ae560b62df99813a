"""Closed forms over subsets of k samples, and errors with and without clusters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


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


def pass_at_k(sizes: Counts, correct: Counts, k: int) -> Floats:
    """At least one of k is correct.

    Args:
        sizes: [n] rows, at least k.
        correct: [n] of them.
        k: drawn without replacement.

    Returns:
        [n].
    """
    n, c = sizes.astype(float), correct.astype(float)
    missed = np.ones_like(n)
    for i in range(k):
        missed *= np.clip((n - c - i) / (n - i), 0, None)
    return 1 - missed


def pass_hat_k(sizes: Counts, correct: Counts, k: int) -> Floats:
    """All of k are correct.

    Args:
        sizes: [n] rows, at least k.
        correct: [n] of them.
        k: drawn without replacement.

    Returns:
        [n].
    """
    n, c = sizes.astype(float), correct.astype(float)
    all_right = np.ones_like(n)
    for i in range(k):
        all_right *= np.clip((c - i) / (n - i), 0, None)
    return all_right


def best_of_n_at_k(scores: Floats, values: Floats, offsets: Counts, k: int) -> Floats:
    """The expected value of the sample with the greatest score among k; ties are averaged.

        sum over groups of equal scores of (C(b, k) - C(a, k)) / C(n, k) times the group's mean value, a and b the samples below and up to it

    Args:
        scores: [m], finite.
        values: [m] of what is selected.
        offsets: [n + 1] the samples of task i are offsets[i] up to offsets[i + 1], at least k.
        k: drawn without replacement.

    Returns:
        [n], unbiased for the best of k new samples.
    """
    sizes = np.diff(offsets)
    task = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((scores, task))
    scores, values, task = scores[order], values[order], task[order]
    if not scores.size:
        return np.zeros(sizes.size)
    new = np.concatenate([[True], (scores[1:] != scores[:-1]) | (task[1:] != task[:-1])])
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], scores.size)
    owner = task[starts]
    below, upto = starts - offsets[owner], ends - offsets[owner]
    share = _ratio(upto, sizes[owner], k) - _ratio(below, sizes[owner], k)
    means = np.add.reduceat(values, starts) / (ends - starts)
    return np.bincount(owner, weights=share * means, minlength=sizes.size)


def _ratio(part: Counts, whole: Counts, k: int) -> Floats:
    """C(part, k) / C(whole, k)."""
    ratio = np.ones(part.size)
    for i in range(k):
        ratio *= np.clip(part - i, 0, None) / (whole - i)
    return ratio


def distinct_at_k(counts: Counts, offsets: Counts, num_samples: Counts, k: int) -> Floats:
    """Expected distinct answers among k samples: rarefaction, sum over answers of 1 - C(n - c, k) / C(n, k).

    Args:
        counts: [m] samples of each distinct answer.
        offsets: [n + 1] of the answers of each task.
        num_samples: [n] at least k.
        k: drawn without replacement.

    Returns:
        [n].
    """
    widths = np.diff(offsets)
    owner = np.repeat(np.arange(widths.size), widths)
    seen = 1 - _ratio(num_samples[owner] - counts, num_samples[owner], k)
    return np.bincount(owner, weights=seen, minlength=widths.size)
