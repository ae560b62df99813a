"""Ranks inside tasks, and what is computed from them: discrimination of a score, and rank correlation."""

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.estimators.ragged import (
    begins_of_runs,
    check_offsets,
    order_within,
    sum_of_tasks,
    task_of,
)

Rows = Float64[np.ndarray, " m"]
Offsets = Int64[np.ndarray, " n1"]


def mid_ranks(values: Rows, offsets: Offsets) -> Rows:
    """The rank of each row among those of its task, from 1; equal values share their mean rank.

    Args:
        values: [m] finite, task by task.
        offsets: [n + 1] where each task begins.

    Returns:
        [m].

    Raises:
        InvalidInput: a value that is not finite, or offsets that do not fit.
    """
    check_offsets(offsets, values.size)
    if not np.isfinite(values).all():
        raise InvalidInput("values to rank: must be finite, leave such rows out and count them")
    if not values.size:
        return np.zeros(0)
    task = task_of(offsets)
    order = order_within(values, offsets)
    ordered, owner = values[order], task[order]
    same = np.append(False, (ordered[1:] == ordered[:-1]) & (owner[1:] == owner[:-1]))
    begins = begins_of_runs(same)
    ends = np.append(begins[1:], values.size)
    middle = (begins + ends + 1) / 2 - offsets[owner[begins]]
    ranks = np.empty(values.size)
    ranks[order] = np.repeat(middle, ends - begins)
    return ranks


def auroc_by_task(scores: Rows, correct: Rows, offsets: Offsets) -> Float64[np.ndarray, " n"]:
    """Chance that a correct sample of the task scores above a wrong one; ties count one half.

        (R_1 - n_1 (n_1 + 1) / 2) / (n_1 n_0),    R_1 the sum of the ranks of the n_1 correct ones

    One task that holds every row gives the pooled number, which mixes how scores separate samples with how they separate easy tasks from hard ones.

    Args:
        scores: [m] finite.
        correct: [m] 0 or 1.
        offsets: [n + 1].

    Returns:
        [n] NaN for a task without both kinds.

    Raises:
        InvalidInput: as `mid_ranks`, or a `correct` other than 0 and 1.

    Source: Mann and Whitney 1947; Hanley and McNeil 1982.
    """
    if not ((correct == 0) | (correct == 1)).all():
        raise InvalidInput("correct: must be 0 or 1, leave out rows without a verdict")
    ones = sum_of_tasks(correct, offsets)
    pairs = ones * (np.diff(offsets) - ones)
    above = sum_of_tasks(mid_ranks(scores, offsets) * correct, offsets) - ones * (ones + 1) / 2
    return np.where(pairs > 0, above / np.where(pairs > 0, pairs, 1.0), np.nan)


def spearman_by_task(first: Rows, second: Rows, offsets: Offsets) -> Float64[np.ndarray, " n"]:
    """Rank correlation inside each task, ties at their mean ranks.

    Args:
        first: [m] finite.
        second: [m] finite.
        offsets: [n + 1].

    Returns:
        [n] in [-1, 1], NaN where one of the two does not vary.

    Raises:
        InvalidInput: as `mid_ranks`.
    """
    return correlation_of_ranks(mid_ranks(first, offsets), mid_ranks(second, offsets), offsets)


def correlation_of_ranks(first: Rows, second: Rows, offsets: Offsets) -> Float64[np.ndarray, " n"]:
    """`spearman_by_task` from ranks that are there already.

    Args:
        first: [m] by `mid_ranks`.
        second: [m] by `mid_ranks`.
        offsets: [n + 1].

    Returns:
        [n] in [-1, 1], NaN where one of the two does not vary.
    """
    sizes = np.diff(offsets)
    middle = np.repeat((sizes + 1) / 2, sizes)
    x, y = first - middle, second - middle
    squares = sum_of_tasks(x * x, offsets) * sum_of_tasks(y * y, offsets)
    norm = np.sqrt(np.where(squares > 0, squares, 1.0))
    return np.where(squares > 0, sum_of_tasks(x * y, offsets) / norm, np.nan)
