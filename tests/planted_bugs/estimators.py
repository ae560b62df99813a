"""Wrong twins of intervals over tasks. The numbers are [n, G]: one of each rollout of each task."""

import numpy as np

from theory.estimators import Interval, mean_interval, resample_counts, t_interval


def bootstrap_over_pooled_rollouts(values: np.ndarray, level: float) -> Interval:
    """Rollouts are resampled as if each were a task of its own."""
    counts = resample_counts(np.random.default_rng(0), values.size, 2000)
    return mean_interval(counts, values.ravel(), level)


def student_over_pooled_rollouts(values: np.ndarray, level: float) -> Interval:
    """The standard error of all rollouts, though those of one task share its difficulty."""
    return t_interval(values.ravel(), level)


def unpaired_difference(first: np.ndarray, second: np.ndarray, level: float) -> Interval:
    """Two methods on the same tasks, their variances added as if the tasks were others."""
    a, b = (t_interval(values.mean(axis=1), level) for values in (first, second))
    half = float(np.hypot(a.high - a.low, b.high - b.low)) / 2
    centre = float(first.mean() - second.mean())
    return Interval(centre - half, centre + half, level, a.method, a.tasks)
