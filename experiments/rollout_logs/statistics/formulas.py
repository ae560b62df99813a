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


class Ranked(NamedTuple):
    """The samples of each task by score, equal scores in groups.

    Attributes:
        order: [m] samples by task and score.
        starts: [g] where each group begins in that order.
        sizes: [g] samples of each group.
        owner: [g] its task.
        below: [g] samples of the task with a smaller score.
        num_samples: [n] of each task.
    """

    order: Counts
    starts: Counts
    sizes: Counts
    owner: Counts
    below: Counts
    num_samples: Counts


def rank_scores(scores: Floats, offsets: Counts) -> Ranked:
    """Sort once for every k.

    Args:
        scores: [m], finite.
        offsets: [n + 1] the samples of task i are offsets[i] up to offsets[i + 1].

    Returns:
        The groups.
    """
    num_samples = np.diff(offsets)
    task = np.repeat(np.arange(num_samples.size), num_samples)
    order = np.lexsort((scores, task))
    scores, task = scores[order], task[order]
    new = np.ones(scores.size, np.bool_)
    new[1:] = (scores[1:] != scores[:-1]) | (task[1:] != task[:-1])
    starts = np.flatnonzero(new)
    owner = task[starts]
    sizes = np.diff(np.append(starts, scores.size))
    return Ranked(order, starts, sizes, owner, starts - offsets[owner], num_samples)


def best_of_ranked(ranked: Ranked, values: Floats, k: int) -> Floats:
    """The expected value of the sample with the greatest score among k; ties are averaged.

        sum over groups of equal scores of (C(b, k) - C(a, k)) / C(n, k) times the group's mean value, a and b the samples below and up to it

    Args:
        ranked: the samples.
        values: [m] of what is selected.
        k: drawn without replacement.

    Returns:
        [n], unbiased for the best of k new samples; NaN for a task with fewer.
    """
    total = ranked.num_samples
    if not ranked.starts.size:
        return np.full(total.size, np.nan)
    share = _shares(ranked, k)
    means = np.add.reduceat(values[ranked.order], ranked.starts) / ranked.sizes
    found = np.bincount(ranked.owner, weights=share * means, minlength=total.size)
    return np.where(total >= k, found, np.nan)


def _shares(ranked: Ranked, k: int) -> Floats:
    whole = ranked.num_samples[ranked.owner]
    enough = np.maximum(whole, k)
    upto = _ratio(ranked.below + ranked.sizes, enough, k)
    return upto - _ratio(ranked.below, enough, k)


def _ratio(part: Counts, whole: Counts, k: int) -> Floats:
    """C(part, k) / C(whole, k)."""
    if not part.size:
        return np.ones(0)
    # Few pairs occur, and they occur often.
    width = int(whole.max()) + 1
    pairs, inverse = np.unique(whole.astype(np.int64) * width + part, return_inverse=True)
    top, bottom = (pairs % width).astype(np.float64), (pairs // width).astype(np.float64)
    ratio = np.ones(pairs.size)
    for i in range(k):
        ratio *= np.clip(top - i, 0, None) / (bottom - i)
    return ratio[inverse.reshape(-1)]


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
    return np.bincount(owner, weights=seen, minlength=widths.size).astype(np.float64)
