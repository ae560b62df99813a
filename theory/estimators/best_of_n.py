"""Best-of-n: the value of the sample with the highest score among k, its mean over all subsets of k, ties shared evenly.

Source: order statistics; as an estimator over subsets in the scaling studies of reward models (Gao et al. 2023, arXiv 2210.10760, appendix).
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtri

from theory.errors import InvalidInput
from theory.estimators.ragged import (
    begins_of_runs,
    check_offsets,
    mean_of_tasks,
    order_within,
    task_of,
    tasks_by_size,
)
from theory.estimators.subsets import chance_all_among, check_subset_size

_HALF_LOG_2PI = math.log(2 * math.pi) / 2


def best_of_n_at_k(
    scores: Float64[np.ndarray, " m"],
    values: Float64[np.ndarray, " m"],
    offsets: Int64[np.ndarray, " n1"],
    k: int,
) -> Float64[np.ndarray, " n"]:
    """The value of the best of k samples by score.

        sum over blocks b of equal scores of (C(h_b, k) - C(l_b, k)) / C(n, k) * mean value of the block,
        l_b samples score less, h_b = l_b + the size of the block

    Without ties a sample that l others score less than is the best of C(l, k - 1) subsets. Unbiased for the same selection among k new samples. With the
    scores themselves as values it is the mean score of what is selected, which rises with k even if scores are noise.

    Args:
        scores: [m] of each sample, task by task; finite.
        values: [m] of each sample, such as its correctness.
        offsets: [n + 1] where each task's samples begin.
        k: samples drawn without replacement.

    Returns:
        [n].

    Raises:
        InvalidInput: a score or a value that is not finite (drop and count those rows first), or a k above the samples of some task.
    """
    check_subset_size(np.diff(offsets), k)
    return best_of_n_at_ks(scores, values[:, None], offsets, (k,))[:, 0, 0]


def best_of_n_at_ks(
    scores: Float64[np.ndarray, " m"],
    values: Float64[np.ndarray, "m v"],
    offsets: Int64[np.ndarray, " n1"],
    ks: Sequence[int],
) -> Float64[np.ndarray, "n K v"]:
    """`best_of_n_at_k` at several k, of several values, by one sort.

    Samples of equal scores take their mean value; then the one that l others score less than is the best of C(l, k - 1) subsets.

    Args:
        scores: [m] of each sample, task by task; finite.
        values: [m, v] of each sample.
        offsets: [n + 1] where each task's samples begin.
        ks: samples drawn without replacement.

    Returns:
        [n, K, v]; NaN where a task has fewer than k samples.

    Raises:
        InvalidInput: a score or a value that is not finite, or a k below 1.
    """
    check_offsets(offsets, scores.size)
    for k in ks:
        check_subset_size(np.zeros(0, np.int64), k)
    for name, numbers in (("scores", scores), ("values", values)):
        if not np.isfinite(numbers).all():
            raise InvalidInput(f"{name}: must be finite, leave such rows out and count them")
    order = order_within(scores, offsets)
    scores, task = scores[order], task_of(offsets)
    same = np.append(False, (scores[1:] == scores[:-1]) & (task[1:] == task[:-1]))[: scores.size]
    ordered = [_shared(column[order], same) for column in values.T]
    found = np.full((offsets.size - 1, len(ks), len(ordered)), np.nan)
    for tasks, rows in tasks_by_size(offsets):
        size = rows.shape[1]
        # Summed by parts, so that equal values give that value: the last stands whole, each other one by what it is worth beyond the next.
        beyond = [column[rows] for column in ordered]
        # A quarter of values near the end of the range of doubles, so that what lies between two of them is in it.
        units = [
            np.where(np.abs(column).max(axis=1, initial=0.0) > 1e300, 4.0, 1.0) for column in beyond
        ]
        for column, unit in zip(beyond, units, strict=True):
            column /= unit[:, None]
            column[:, :-1] -= column[:, 1:]
        for place, k in enumerate(ks):
            if k > size:
                continue
            highest = np.arange(k, size + 1, dtype=np.int64)
            chance = chance_all_among(highest, np.full_like(highest, size), k)
            for which, column in enumerate(beyond):
                # Sums task by task do not depend, in their last bits, on the tasks beside.
                found[tasks, place, which] = (column[:, k - 1 :] * chance).sum(axis=1) * units[
                    which
                ]
    return found


def _shared(
    values: Float64[np.ndarray, " m"], same_as_before: Bool[np.ndarray, " m"]
) -> Float64[np.ndarray, " m"]:
    """The mean over the run that each entry is in."""
    tied = same_as_before | np.append(same_as_before[1:], False)[: same_as_before.size]
    if not tied.any():
        return values
    runs = np.append(begins_of_runs(same_as_before[tied]), np.count_nonzero(tied))
    shared = values.copy()
    shared[tied] = np.repeat(mean_of_tasks(values[tied], runs), np.diff(runs))
    return shared


def expected_best_of_normals(num_samples: int) -> float:
    """Expected largest of N standard normal numbers: what selection by pure noise adds to the mean score of the selected, in standard deviations.

        integral of x N phi(x) Phi(x)^(N - 1) dx

    Args:
        num_samples: N, at least 1.

    Returns:
        0 at N = 1, 0.564 at 2, 2.344 at 64.

    Raises:
        InvalidInput: N below 1.
    """
    if num_samples < 1:
        raise InvalidInput(f"{num_samples} samples: must be at least 1")
    if num_samples == 1:
        return 0.0

    def integrand(x: float) -> float:
        log_density = -x * x / 2 - _HALF_LOG_2PI + (num_samples - 1) * float(log_ndtr(x))
        return x * num_samples * math.exp(log_density)

    middle = -float(ndtri(1 / num_samples))
    value, _ = quad(integrand, -10.0, middle + 12.0, points=[0.0, middle], limit=200)
    return float(value)
