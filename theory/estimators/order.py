"""Whether the order of a task's samples means anything: a trend over places, and neighbours that are alike.

If samples are exchangeable, every order of a task's outcomes is equally likely given how many there are of each. The mean and the variance of both numbers
under that law are exact; their sums over independent tasks are nearly normal. A log that fails may not be cut to its first k samples.

Source: permutation tests; runs: Wald and Wolfowitz 1940, "On a test whether two samples are from the same population".
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from scipy.stats import norm

from theory.errors import InvalidInput
from theory.estimators.ragged import check_offsets, sum_of_tasks, task_of


class OrderTest(NamedTuple):
    """Two sums over tasks against their law under exchangeability.

    Attributes:
        trend_z: later samples are more often correct (positive) or less, in standard deviations.
        neighbour_z: neighbours are more often alike than in a random order, in standard deviations.
        p_value: two-sided, of the smaller of both, doubled (Bonferroni); 1 where nothing varies.
        alike: equal neighbours in all tasks.
        alike_by_chance: their expected number in a random order.
    """

    trend_z: float
    neighbour_z: float
    p_value: float
    alike: float
    alike_by_chance: float


class OrderSums(NamedTuple):
    """What each task adds to the test, [n] each.

    Attributes:
        trend: sum_j (j - (n + 1) / 2) x_j.
        trend_variance: n (n + 1) / 12 sum_j (x_j - mean)^2.
        alike: equal neighbours.
        alike_mean: (n - 1) (1 - 2 w l / (n (n - 1))), w correct and l wrong.
        alike_variance: that of the number of runs, 2 w l (2 w l - n) / (n^2 (n - 1)).
    """

    trend: Float64[np.ndarray, " n"]
    trend_variance: Float64[np.ndarray, " n"]
    alike: Float64[np.ndarray, " n"]
    alike_mean: Float64[np.ndarray, " n"]
    alike_variance: Float64[np.ndarray, " n"]


def order_sums(correct: Float64[np.ndarray, " m"], offsets: Int64[np.ndarray, " n1"]) -> OrderSums:
    """The two numbers of each task with their moments under a random order.

    Args:
        correct: [m] 0 or 1, in the order of the samples, task by task.
        offsets: [n + 1] where each task begins.

    Returns:
        The sums.

    Raises:
        InvalidInput: an outcome other than 0 and 1, or offsets that do not fit.
    """
    check_offsets(offsets, correct.size)
    if not ((correct == 0) | (correct == 1)).all():
        raise InvalidInput("correct: must be 0 or 1, leave out rows without a verdict")
    task = task_of(offsets)
    sizes = np.diff(offsets).astype(np.float64)
    size = np.maximum(sizes, 1.0)
    place = np.arange(correct.size) - offsets[task] + 1.0
    right = sum_of_tasks(correct, offsets)
    unlike = 2 * right * (sizes - right)
    same = (correct[1:] == correct[:-1]) & (task[1:] == task[:-1])
    between = np.maximum(sizes - 1, 1.0)
    return OrderSums(
        trend=sum_of_tasks((place - (sizes[task] + 1) / 2) * correct, offsets),
        trend_variance=sizes * (sizes + 1) / 12 * (right - right**2 / size),
        alike=np.bincount(task[1:][same], minlength=sizes.size).astype(np.float64),
        alike_mean=np.maximum(sizes - 1, 0.0) - unlike / size,
        alike_variance=unlike * (unlike - sizes) / (size**2 * between),
    )


def order_test(sums: OrderSums) -> OrderTest:
    """Add tasks up.

    Args:
        sums: of all tasks.

    Returns:
        The test.
    """
    trend = _z(sums.trend.sum(), sums.trend_variance.sum())
    alike = _z((sums.alike - sums.alike_mean).sum(), sums.alike_variance.sum())
    tail = min(2 * float(norm.sf(abs(z))) for z in (trend, alike))
    by_chance = float(sums.alike_mean.sum())
    return OrderTest(trend, alike, min(1.0, 2 * tail), float(sums.alike.sum()), by_chance)


def _z(total: float, variance: float) -> float:
    return float(total / np.sqrt(variance)) if variance > 0 else 0.0
