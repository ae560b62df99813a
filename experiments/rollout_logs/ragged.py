"""Flat arrays in task order with offsets: cutting and grouping."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Success, successes
from theory.estimators.ragged import keep_rows, order_within, task_of

Offsets = NDArray[np.int64]


class Answers(NamedTuple):
    """The distinct answers of each task.

    Attributes:
        counts: [m] rows with the answer.
        values: [m] mean correctness of those rows; NaN where none is known.
        mixed: [m] whether rows with one answer differ in correctness.
        offsets: [n + 1] of the answers of each task.
        rows: [r] answer of each row counted, as a place in the arrays above; -1 without one.
    """

    counts: NDArray[np.int64]
    values: Column
    mixed: NDArray[np.bool_]
    offsets: Offsets
    rows: NDArray[np.int64]


def offsets_of(sizes: NDArray[np.int64]) -> Offsets:
    """Where each task begins, and the end.

    Args:
        sizes: [n].

    Returns:
        [n + 1].
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def keep_tasks(offsets: Offsets, tasks: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Offsets]:
    """The rows and the offsets of the tasks that stay.

    Args:
        offsets: [n + 1].
        tasks: [n] that stay.

    Returns:
        [m] mask over rows, and the new offsets.
    """
    sizes = np.diff(offsets)
    return np.repeat(tasks, sizes), offsets_of(sizes[tasks])


def spread(values: Column, tasks: NDArray[np.bool_]) -> Column:
    """Numbers of the tasks that stayed among all tasks.

    Args:
        values: one a task that stayed.
        tasks: [n] that stayed.

    Returns:
        [n]; NaN for the others.
    """
    found = np.full(tasks.size, np.nan)
    found[tasks] = values
    return found


def group_answers(codes: NDArray[np.generic], outcome: Column, offsets: Offsets) -> Answers:
    """Count the distinct answers of each task.

    Args:
        codes: [m] hash of each row's answer, 0 without one.
        outcome: [m] 0, 1 or NaN.
        offsets: [n + 1].

    Returns:
        The groups, in the order of their hashes within a task.
    """
    task = task_of(offsets)
    place = np.full(codes.size, -1, np.int64)
    order = order_within(codes, offsets)
    order = order[codes[order] != 0]
    if not order.size:
        empty = np.empty(0)
        none = np.zeros(offsets.size, np.int64)
        return Answers(np.empty(0, np.int64), empty, np.empty(0, np.bool_), none, place)
    code, owner = codes[order], task[order]
    new = np.concatenate([[True], (code[1:] != code[:-1]) | (owner[1:] != owner[:-1])])
    starts = np.flatnonzero(new)
    place[order] = np.cumsum(new) - 1
    counts = np.diff(np.append(starts, order.size))
    found = outcome[order]
    known = np.isfinite(found)
    number = np.add.reduceat(known.astype(np.float64), starts)
    total = np.add.reduceat(np.where(known, found, 0.0), starts)
    values = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    mixed = (total > 0) & (total < number)
    widths = np.bincount(owner[starts], minlength=offsets.size - 1)
    return Answers(counts, values, mixed, offsets_of(widths), place)


class Judged(NamedTuple):
    """The rows whose outcome is known.

    Attributes:
        offsets: [n + 1].
        mask: [m] over all rows.
        outcome: [r] 0 or 1.
    """

    offsets: Offsets
    mask: NDArray[np.bool_]
    outcome: Column


def judged(rows: TaskRows, success: Success) -> Judged:
    """Leave out rows whose outcome is not known.

    Args:
        rows: of some tasks.
        success: what counts.

    Returns:
        The rows that stay.
    """
    outcome = successes(rows, success)
    mask = np.isfinite(outcome)
    return Judged(keep_rows(rows.offsets, mask), mask, outcome[mask])
