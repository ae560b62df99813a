"""How much of a sample is left under weights, task by task and pooled, in float64 and for any number of tasks at once.

The rules are those of `theory.log_weights`: -inf is a dead row, NaN and +inf are no weight and are counted, all dead has no effective sample, never 0/0. The largest
weight is taken out before anything leaves the logarithm.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.estimators.ragged import check_offsets, reduce_tasks
from theory.log_weights import clean_on_host, pareto_k

Rows = Float64[np.ndarray, " m"]
Tasks = Float64[np.ndarray, " n"]

# Below this a tail fit says nothing.
LEAST_FOR_TAIL = 50


class TaskWeights(NamedTuple):
    """Sums of weights of each task, [n] each.

    Attributes:
        num_weights: rows that have one.
        peak: largest log weight, -inf where all are dead.
        total: sum of weights over the largest.
        squares: sum of their squares.
        relative: [m] each weight over the largest of its task; 0 for a dead row and where there is none.
    """

    num_weights: Tasks
    peak: Tasks
    total: Tasks
    squares: Tasks
    relative: Rows


class WeightInfo(NamedTuple):
    """What belongs beside every reweighted number.

    Attributes:
        ess: [n] (sum w)^2 / sum w^2 of each task; NaN where all weights are 0.
        ess_fraction: [n] the same over the rows that have a weight.
        largest_share: [n] largest normalised weight.
        mean_weight: [n] near 1 where both densities are normalised; may overflow to inf.
        pooled_ess: of all rows together.
        pooled_largest_share: of all rows together.
        pareto_k: tail index of all weights, NaN below 50 of them; above .7 the mean cannot be trusted.
        num_missing: rows without a weight.
    """

    ess: Tasks
    ess_fraction: Tasks
    largest_share: Tasks
    mean_weight: Tasks
    pooled_ess: float
    pooled_largest_share: float
    pareto_k: float
    num_missing: int


def weigh_tasks(log_weights: Rows, offsets: Int64[np.ndarray, " n1"]) -> TaskWeights:
    """Add weights up without leaving the logarithms before the largest is taken out.

    Args:
        log_weights: [m] natural log, task by task; NaN and +inf are none, -inf is a dead row.
        offsets: [n + 1] where each task begins.

    Returns:
        The sums.

    Raises:
        InvalidInput: offsets that do not fit.
    """
    check_offsets(offsets, log_weights.size)
    alive, no_weight = clean_on_host(log_weights)
    sizes = np.diff(offsets)
    peak = reduce_tasks(np.maximum, alive, offsets, -np.inf)
    relative = np.exp(alive - np.repeat(np.where(np.isneginf(peak), 0.0, peak), sizes))
    missing = np.zeros(sizes.size)
    if no_weight.any():
        missing = reduce_tasks(np.add, no_weight.astype(np.float64), offsets, 0.0)
    return TaskWeights(
        sizes - missing,
        peak,
        reduce_tasks(np.add, relative, offsets, 0.0),
        reduce_tasks(np.add, relative * relative, offsets, 0.0),
        relative,
    )


def weight_info(log_weights: Rows, offsets: Int64[np.ndarray, " n1"]) -> WeightInfo:
    """The numbers of every task, and of all rows together.

    Args:
        log_weights: [m] natural log, task by task.
        offsets: [n + 1].

    Returns:
        The numbers.

    Raises:
        InvalidInput: offsets that do not fit.
    """
    tasks = weigh_tasks(log_weights, offsets)
    whole = weigh_tasks(log_weights, np.array([0, log_weights.size], np.int64))
    ess, largest = effective_sizes(tasks), _largest(tasks)
    number = np.maximum(tasks.num_weights, 1.0)
    with np.errstate(over="ignore"):
        mean = np.exp(tasks.peak) * tasks.total / number
    known = log_weights[log_weights < np.inf]
    tail = float(pareto_k(known)) if known.size >= LEAST_FOR_TAIL else float("nan")
    return WeightInfo(
        ess,
        ess / number,
        largest,
        np.where(tasks.num_weights > 0, mean, np.nan),
        float(effective_sizes(whole)[0]),
        float(_largest(whole)[0]),
        tail,
        int(log_weights.size - known.size),
    )


def effective_sizes(tasks: TaskWeights) -> Tasks:
    """Effective sample size of each task.

        (sum w)^2 / sum w^2

    Args:
        tasks: sums of weights.

    Returns:
        [n] from 1 to the weights of the task, NaN where all are 0.
    """
    alive = tasks.squares > 0
    size = tasks.total * (tasks.total / np.where(alive, tasks.squares, 1.0))
    return np.where(alive, np.clip(size, 1.0, np.maximum(tasks.num_weights, 1.0)), np.nan)


def _largest(tasks: TaskWeights) -> Tasks:
    alive = tasks.total > 0
    return np.where(alive, 1 / np.where(alive, tasks.total, 1.0), np.nan)
