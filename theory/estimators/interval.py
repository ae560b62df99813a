"""What an interval is, and Student's t intervals over tasks.

The unit is the task (a prompt): tasks are drawn independently from the population that a benchmark stands for, and all rollouts of a task
stay together. Rollouts of one task share its difficulty, so that an interval over pooled rollouts is too short by about the root of the design
effect, 1 + (G - 1) rho for G rollouts a task with intra-task correlation rho.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from theory.errors import InvalidInput

# One number a task.
TaskValues = Float[np.ndarray, "_"] | Int[np.ndarray, "_"] | Bool[np.ndarray, "_"]


class Interval(NamedTuple):
    """A confidence interval of one number.

    Attributes:
        low: lower end.
        high: upper end.
        level: nominal coverage, in (0, 1).
        method: how it was made, in a word or two.
        tasks: n, the independent units behind it.
    """

    low: float
    high: float
    level: float
    method: str
    tasks: int


def t_interval(values: TaskValues, level: float = 0.95) -> Interval:
    """For the mean over tasks of one number a task; of differences between two methods on common tasks, the paired interval.

        mean +- t_{n-1, (1 + level)/2} s / sqrt(n),    s^2 = sum (x - mean)^2 / (n - 1)

    Exact for normal values; otherwise to first order, and with fewer than about 20 tasks too short where they are skewed.

    Args:
        values: [n] one number a task.
        level: nominal coverage.

    Returns:
        The interval.

    Raises:
        InvalidInput: fewer than two tasks, a value that is not finite, or a level outside (0, 1).
    """
    found = checked(values, "values")
    return _student(float(found.mean()), found - found.mean(), level)


def t_interval_of_ratio(
    numerators: TaskValues, denominators: TaskValues, level: float = 0.95
) -> Interval:
    """For a ratio of two means over tasks, such as all correct rollouts over all rollouts where tasks have unequal numbers.

        R = sum a / sum b,    R +- t_{n-1, (1 + level)/2} s / sqrt(n),    s^2 the variance of (a - R b) / mean(b) over tasks

    Linearised (the delta method): right to first order in 1/sqrt(n). Source: Cochran, Sampling Techniques, 3rd edition, section 6.4 (cited
    from memory).

    Args:
        numerators: [n] a of each task.
        denominators: [n] b of each task.
        level: nominal coverage.

    Returns:
        The interval.

    Raises:
        InvalidInput: as `t_interval`; different numbers of tasks, or denominators that sum to 0.
    """
    a, b = checked_pair(numerators, denominators, "numerators", "denominators")
    if b.sum() == 0:
        raise InvalidInput("denominators: sum to 0 over the tasks, the ratio is not defined")
    ratio = float(a.sum() / b.sum())
    return _student(ratio, (a - ratio * b) / b.mean(), level)


def check_level(level: float) -> None:
    """Refuse what is no coverage.

    Args:
        level: nominal coverage.

    Raises:
        InvalidInput: not in (0, 1).
    """
    if not 0 < level < 1:
        raise InvalidInput(f"level {level}: must be above 0 and below 1, such as 0.95")


def checked(values: TaskValues, name: str) -> Float[np.ndarray, " n"]:
    """Numbers of at least two tasks, in float64.

    Args:
        values: [n] one number a task.
        name: what they are called in the error.

    Returns:
        [n].

    Raises:
        InvalidInput: fewer than two tasks, or a value that is not finite.
    """
    found = np.asarray(values, np.float64)
    if found.size < 2:
        raise InvalidInput(
            f"{name}: {found.size} task(s), an interval over tasks needs at least 2, give more tasks"
        )
    if not np.isfinite(found).all():
        place = int(np.flatnonzero(~np.isfinite(found))[0])
        raise InvalidInput(
            f"{name}: task {place} has {found[place]}, leave such tasks out and count them"
        )
    return found


def checked_pair(
    first: TaskValues, second: TaskValues, first_name: str, second_name: str
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Two numbers of each task, in float64.

    Args:
        first: [n] one number a task.
        second: [n] another of the same tasks, in the same order.
        first_name: what they are called in errors.
        second_name: what they are called in errors.

    Returns:
        [n] each.

    Raises:
        InvalidInput: as `checked`, or different numbers of tasks.
    """
    a, b = checked(first, first_name), checked(second, second_name)
    if a.size != b.size:
        raise InvalidInput(
            f"{a.size} {first_name} and {b.size} {second_name}: must be of the same tasks"
        )
    return a, b


def _student(centre: float, residuals: Float[np.ndarray, " n"], level: float) -> Interval:
    check_level(level)
    n = residuals.size
    quantile = float(stats.t.ppf((1 + level) / 2, n - 1))
    half = quantile * float(np.sqrt(np.square(residuals).sum() / (n - 1) / n))
    return Interval(centre - half, centre + half, level, "student t", n)
