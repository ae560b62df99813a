"""Wrong twins of intervals over tasks, where the numbers are [n, G], one of each rollout of each task, and of moments from draws."""

from functools import cache

import numpy as np
from scipy import stats

from theory.estimators import Interval, mean_interval, resample_counts, t_interval
from theory.estimators.small_alpha import StepMoments, law_from_draws
from theory.exact.small_alpha import SmallAlphaLaw


def bootstrap_over_pooled_rollouts(values: np.ndarray, level: float) -> Interval:
    """Rollouts are resampled as if each were a task of its own."""
    return mean_interval(_counts(values.size), values.ravel(), level)


def student_over_pooled_rollouts(values: np.ndarray, level: float) -> Interval:
    """The standard error of all rollouts, though those of one task share its difficulty."""
    return t_interval(values.ravel(), level)


def unpaired_difference(first: np.ndarray, second: np.ndarray, level: float) -> Interval:
    """Two methods on the same tasks, their variances added as if the tasks were others."""
    a, b = (t_interval(values.mean(axis=1), level) for values in (first, second))
    half = float(np.hypot(a.high - a.low, b.high - b.low)) / 2
    centre = float(first.mean() - second.mean())
    return Interval(centre - half, centre + half, level, a.method, a.tasks)


@cache
def _counts(num_units: int) -> np.ndarray:
    return resample_counts(np.random.default_rng(0), num_units, 1000)


def surprisal_for_entropy(sums: StepMoments) -> SmallAlphaLaw:
    """Minus log p of the drawn tokens in the place of the entropies of the laws they were drawn from: the gap to the base for that to temperature."""
    return law_from_draws(sums._replace(entropy=-sums.log_prob))


def normal_for_student(values: np.ndarray, level: float) -> Interval:
    """The normal quantile with the error of n tasks: too short where n is small."""
    centre, error = float(values.mean()), float(values.std(ddof=1)) / np.sqrt(values.size)
    half = float(stats.norm.ppf((1 + level) / 2)) * error
    return Interval(centre - half, centre + half, level, "normal", values.size)
