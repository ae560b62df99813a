"""Whether the order of a task's samples means anything: a trend over places, and neighbours that are alike.

Under exchangeability every order of a task's outcomes is equally likely. With T_i = sum_j (j - (n + 1)/2) x_j the exact permutation variance is
n (n + 1)/12 sum (x - mean)^2, and with N_i the number of equal neighbours its expectation is (n - 1) times the share of equal pairs. Both are summed over tasks;
sums over many independent tasks are nearly normal.
"""

from collections.abc import Mapping

import numpy as np
from scipy import stats

from experiments.rollout_logs.ragged import task_of
from experiments.rollout_logs.task_table import Column, sums

LIMIT = 1e-4
ORDER_COLUMNS = ("trend", "trend_variance", "alike", "alike_expected", "alike_variance")


def order_columns(outcome: Column, offsets: np.ndarray) -> dict[str, Column]:
    """The two sums and their moments in each task.

    Args:
        outcome: [m] 0 or 1, in the order of the samples.
        offsets: [n + 1], no task empty.

    Returns:
        "trend", "trend_variance", "alike", "alike_expected", "alike_variance".
    """
    sizes, task = np.diff(offsets).astype(np.float64), task_of(offsets)
    place = np.arange(outcome.size) - offsets[task] + 1.0
    won = sums(outcome, offsets)
    squares = won - won**2 / sizes
    trend = sums((place - (sizes[task] + 1) / 2) * outcome, offsets)
    same = np.zeros(outcome.size)
    same[1:] = (outcome[1:] == outcome[:-1]) & (task[1:] == task[:-1])
    lost = sizes - won
    pairs = np.maximum(sizes * (sizes - 1), 1.0)
    unlike = 2 * won * lost / pairs
    # Runs of a random order (Wald & Wolfowitz 1940): mean 1 + 2 w l / n, variance below; equal neighbours are n - runs.
    product = 2 * won * lost
    variance = product * (product - sizes) / np.maximum(sizes**2 * (sizes - 1), 1.0)
    return {
        "trend": trend,
        "trend_variance": sizes * (sizes + 1) / 12 * squares,
        "alike": sums(same, offsets),
        "alike_expected": (sizes - 1) * (1 - unlike),
        "alike_variance": variance,
    }


def order_p_value(table: Mapping[str, Column]) -> float:
    """The smaller of both two-sided p values, doubled.

    Args:
        table: columns of `order_columns`.

    Returns:
        The p value; 1 where no task varies.
    """
    z = [
        _z(np.nansum(table["trend"]), np.nansum(table["trend_variance"])),
        _z(np.nansum(table["alike"] - table["alike_expected"]), np.nansum(table["alike_variance"])),
    ]
    return min(1.0, 2 * min(2 * float(stats.norm.sf(abs(each))) for each in z))


def _z(total: float, variance: float) -> float:
    return float(total / np.sqrt(variance)) if variance > 0 else 0.0
