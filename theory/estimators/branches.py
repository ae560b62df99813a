"""How many samples a tree search is worth: beams that share their first steps are no independent samples.

A beam is named by its steps. Two beams are of one branch at depth d if their first d steps are equal. The best of n such beams is oracle@n of a search, not pass@n.
"""

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.estimators.ragged import check_offsets, sum_of_tasks, task_of

Paths = Int64[np.ndarray, "m L"]
Offsets = Int64[np.ndarray, " n1"]
OfTasks = Float64[np.ndarray, " n"]


def distinct_prefixes(paths: Paths, offsets: Offsets, depth: int) -> OfTasks:
    """Branches of each task: distinct prefixes of some steps.

    Args:
        paths: [m, L] code of each step; equal codes at one place are equal steps, and a path that has ended goes on with one code of its own.
        offsets: [n + 1] of the tasks.
        depth: steps of a prefix, from 1 to L.

    Returns:
        [n] 0 for a task without samples.

    Raises:
        InvalidInput: offsets that do not cut the rows, or a depth outside of 1 to L.
    """
    owner, _ = _branches(paths, offsets, depth)
    return np.bincount(owner, minlength=offsets.size - 1).astype(np.float64)


def effective_branches(paths: Paths, offsets: Offsets, depth: int) -> OfTasks:
    """Branches of each task, by their sizes: that many branches of one size share as many pairs.

        n^2 / sum_a c_a^2,    c_a samples of branch a

    From 1 to `distinct_prefixes`, which it is where all branches are of one size.

    Args:
        paths: [m, L] as in `distinct_prefixes`.
        offsets: [n + 1].
        depth: from 1 to L.

    Returns:
        [n] 0 for a task without samples.

    Raises:
        InvalidInput: as `distinct_prefixes`.
    """
    owner, counts = _branches(paths, offsets, depth)
    squares = np.bincount(owner, counts**2, minlength=offsets.size - 1)
    return np.diff(offsets) ** 2 / np.maximum(squares, 1.0)


def effective_samples(paths: Paths, offsets: Offsets, depth: int, correlation: float) -> OfTasks:
    """Independent samples whose mean is as uncertain, where samples of one branch correlate and those of two do not.

        n^2 / (n + rho sum_a c_a (c_a - 1))

    All n at rho = 0, `effective_branches` at rho = 1.

    Args:
        paths: [m, L] as in `distinct_prefixes`.
        offsets: [n + 1].
        depth: from 1 to L.
        correlation: rho of two samples of one branch, in [0, 1].

    Returns:
        [n] 0 for a task without samples.

    Raises:
        InvalidInput: as `distinct_prefixes`, or a correlation outside of [0, 1].
    """
    if not 0 <= correlation <= 1:
        raise InvalidInput(f"correlation {correlation}: must be in [0, 1]")
    owner, counts = _branches(paths, offsets, depth)
    pairs = np.bincount(owner, counts * (counts - 1), minlength=offsets.size - 1)
    sizes = np.diff(offsets).astype(np.float64)
    return sizes**2 / np.maximum(sizes + correlation * pairs, 1.0)


def correlation_in_branches(
    values: Float64[np.ndarray, " m"], paths: Paths, offsets: Offsets, depth: int
) -> float:
    """How much more alike two samples of one branch are than two of one task.

        1 - (mean of (x - y)^2 over pairs of one branch) / (the same over all pairs of one task)

    Each task counts by its pairs inside branches. Independent of the branches its numerator and denominator agree in expectation given what occurred in each task.

    Args:
        values: [m] correctness or score.
        paths: [m, L] as in `distinct_prefixes`.
        offsets: [n + 1].
        depth: from 1 to L.

    Returns:
        At most 1, negative where branches repel; NaN where no pair of one branch lies in a task that varies.

    Raises:
        InvalidInput: as `distinct_prefixes`, or values that are not finite.
    """
    if values.size != paths.shape[0] or not np.isfinite(values).all():
        raise InvalidInput("values: every sample needs one, and they must be finite")
    _, begins, order = _runs(paths, offsets, depth)
    counts = np.diff(np.append(begins, order.size)).astype(np.float64)
    owner = task_of(offsets)[order][begins]
    num_tasks = offsets.size - 1
    sizes = np.diff(offsets).astype(np.float64)
    centred = values - (sum_of_tasks(values, offsets) / np.maximum(sizes, 1.0))[task_of(offsets)]
    group = np.repeat(np.arange(begins.size), counts.astype(np.int64))
    sums, squares = (np.bincount(group, each[order]) for each in (centred, centred**2))
    # The sum over pairs of (x - y)^2 is c sum x^2 - (sum x)^2.
    inside = np.bincount(owner, counts * squares - sums**2, minlength=num_tasks)
    inside_pairs = np.bincount(owner, counts * (counts - 1) / 2, minlength=num_tasks)
    everywhere = sizes * sum_of_tasks(centred**2, offsets)
    per_pair = everywhere / np.maximum(sizes * (sizes - 1) / 2, 1.0)
    expected = float((per_pair * inside_pairs).sum())
    return 1 - float(inside.sum()) / expected if expected > 0 else float("nan")


def _branches(
    paths: Paths, offsets: Offsets, depth: int
) -> tuple[Int64[np.ndarray, " b"], Float64[np.ndarray, " b"]]:
    """The task and the samples of each branch."""
    task, begins, order = _runs(paths, offsets, depth)
    return task[order][begins], np.diff(np.append(begins, order.size)).astype(np.float64)


def _runs(
    paths: Paths, offsets: Offsets, depth: int
) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " b"], Int64[np.ndarray, " m"]]:
    """The task of each sample, where branches begin in the sorted samples, and their order."""
    check_offsets(offsets, paths.shape[0])
    if not 1 <= depth <= paths.shape[1]:
        raise InvalidInput(
            f"depth {depth}: must be from 1 to {paths.shape[1]}, the steps of a path"
        )
    task = task_of(offsets)
    keys = np.concatenate([task[:, None], paths[:, :depth]], axis=1)
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))[: task.size]
    return task, np.flatnonzero(new), order
