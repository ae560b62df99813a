"""Intervals over tasks: lengths and coverage as sums over all data sets of tasks of a few kinds."""

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from tests.planted_bugs.defect import relative_error
from tests.stat_asserts import assert_counts
from theory.estimators import Interval, mean_interval, resample_counts, t_interval

LEVEL = 0.95
NUM_TASKS = 4

# Two rollouts a task, of two methods: what kinds of tasks there are, and how often.
KINDS = np.array([[[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
SHARES = np.array([0.5, 0.3, 0.2])


def data_sets() -> Iterator[tuple[float, np.ndarray]]:
    """Probability and [tasks, methods, rollouts] of every data set."""
    for drawn in itertools.product(range(len(KINDS)), repeat=NUM_TASKS):
        yield float(SHARES[list(drawn)].prod()), KINDS[list(drawn)]


def student_over_tasks(values: np.ndarray, level: float) -> Interval:
    """The right interval: one number a task."""
    return t_interval(values.mean(axis=1), level)


def student_of_differences(first: np.ndarray, second: np.ndarray, level: float) -> Interval:
    """The right interval of a difference: one difference a task."""
    return t_interval((first - second).mean(axis=1), level)


def bootstrap_over_tasks(values: np.ndarray, level: float) -> Interval:
    """The right bootstrap."""
    return mean_interval(counts_of_tasks(len(values)), values.mean(axis=1), level)


@cache
def counts_of_tasks(num_tasks: int) -> np.ndarray:
    """Resamples, the same for all data sets."""
    return resample_counts(np.random.default_rng(0), num_tasks, 4000)


def of_length(make: Any) -> float:
    """Relative bias of the squared half-length, over Student's quantile, for the variance of the mean of the first method."""
    return _of_length(lambda data: make(data[:, 0], LEVEL), KINDS[:, 0].mean(axis=1))


def of_paired_length(make: Any) -> float:
    """The same for the first method's mean minus the second's."""
    gaps = (KINDS[:, 0] - KINDS[:, 1]).mean(axis=1)
    return _of_length(lambda data: make(data[:, 0], data[:, 1], LEVEL), gaps)


def _of_length(make: Callable[[np.ndarray], Interval], of_kinds: np.ndarray) -> float:
    expected = 0.0
    for prob, data in data_sets():
        found = make(data)
        expected += prob * ((found.high - found.low) / 2) ** 2
    quantile = stats.t.ppf((1 + LEVEL) / 2, NUM_TASKS - 1)
    variance = float(SHARES @ of_kinds**2 - (SHARES @ of_kinds) ** 2)
    return relative_error(expected / float(quantile) ** 2, variance / NUM_TASKS)


def coverage(make: Any, num_tasks: int, success: float, num_rollouts: int = 8) -> float:
    """Of the success rate, where all rollouts of a task fare alike: a binomial sum."""
    covered = 0.0
    for num_solved in range(num_tasks + 1):
        solved = (np.arange(num_tasks) < num_solved).astype(float)
        found = make(np.repeat(solved[:, None], num_rollouts, axis=1), LEVEL)
        if found.low <= success <= found.high:
            covered += float(stats.binom.pmf(num_solved, num_tasks, success))
    return covered


def of_coverage(make: Any) -> float:
    """How much the coverage of 40 tasks, half of them solved, falls short of that over tasks."""
    return abs(coverage(bootstrap_over_tasks, 40, 0.5) - coverage(make, 40, 0.5))


def of_normal_coverage(make: Any) -> float:
    """How much the coverage of the mean of four normal values falls short of the level: the ends are a multiple of the error, whatever the values."""
    values = np.array([-1.0, 0.0, 0.5, 3.0])
    found = make(values, LEVEL)
    error = values.std(ddof=1) / np.sqrt(values.size)
    covered = 2 * stats.t.cdf((found.high - found.low) / 2 / error, values.size - 1) - 1
    return abs(LEVEL - float(covered))


def assert_resamples_follow_their_law(counts: np.ndarray) -> None:
    """Every composition of n into n parts against its multinomial probability."""
    num_tasks = counts.shape[1]
    cells = [
        cell
        for cell in itertools.product(range(num_tasks + 1), repeat=num_tasks)
        if sum(cell) == num_tasks
    ]
    place = {cell: index for index, cell in enumerate(cells)}
    observed = np.zeros(len(cells), np.int64)
    for row in counts.tolist():
        observed[place[tuple(row)]] += 1
    law = stats.multinomial(num_tasks, np.full(num_tasks, 1 / num_tasks))
    assert_counts(observed, law.pmf(np.array(cells)))
