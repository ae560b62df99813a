"""What the model needs of the data: how many tasks have which (samples, correct)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int64

from theory.errors import InvalidInput

# Of a length that is checked by name below: one line says more than a shape error.
OneATask = Int[np.ndarray, "_"]


class TaskCounts(NamedTuple):
    """Distinct pairs, in increasing order; sufficient, since tasks are exchangeable.

    Attributes:
        num_samples: [m] n, at least 1.
        num_correct: [m] c, 0 <= c <= n.
        num_tasks: [m] tasks with this pair.
    """

    num_samples: Int64[np.ndarray, " m"]
    num_correct: Int64[np.ndarray, " m"]
    num_tasks: Int64[np.ndarray, " m"]


def compress(num_samples: OneATask, num_correct: OneATask) -> TaskCounts:
    """Count the tasks of each pair, so that a million tasks cost what their distinct pairs do.

    Args:
        num_samples: n of each task; they may differ.
        num_correct: c of each task.

    Returns:
        The pairs; `num_tasks` sums to the number of tasks.

    Raises:
        InvalidInput: no task, different numbers of tasks, a task without samples, or c outside 0..n.
    """
    n, c = np.asarray(num_samples, np.int64), np.asarray(num_correct, np.int64)
    if n.size != c.size or n.size == 0:
        raise InvalidInput(
            f"{n.size} num_samples and {c.size} num_correct: give one of each for at least one task"
        )
    bad = np.flatnonzero((n < 1) | (c < 0) | (c > n))
    if bad.size:
        task = int(bad[0])
        raise InvalidInput(
            f"task {task}: {c[task]} correct of {n[task]} samples, "
            "must have at least 1 sample and 0 to n correct; leave such tasks out and count them"
        )
    pairs, num_tasks = np.unique(np.stack([n, c], axis=1), axis=0, return_counts=True)
    return TaskCounts(pairs[:, 0], pairs[:, 1], num_tasks.astype(np.int64))
