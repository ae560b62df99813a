"""What the posterior says of coverage, under names that keep four questions apart.

- `population_pass_at_k`: mean pass@k of the population that tasks come from, equally the posterior predictive of a new task.
- `these_tasks_pass_at_k`: mean over the tasks at hand of 1 - (1 - p_i)^k, k fresh samples of each; their rates stay unknown.
- `solved_after`: the share of the tasks at hand with a correct sample once m more of each are drawn; an observable, so its interval also has
  the luck of those samples.
- `tail_exponent`: a of the Beta part.

Intervals are credible intervals with equal tails: right on average over the prior, with no promise of coverage for a law of another form.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.estimators.hierarchical.closed_forms import (
    Hyperparameters,
    TaskLaw,
    after_samples,
    failure,
    tail_exponent_at,
)
from theory.estimators.hierarchical.task_counts import TaskCounts
from theory.estimators.interval import check_level

# Tasks of one pair are drawn one by one up to here; beyond, the mean of so many draws is rescaled to the right variance.
MAX_RATES_DRAWN = 32


class Posterior(NamedTuple):
    """A number's posterior.

    Attributes:
        mean: the posterior mean.
        low: lower end of the credible interval.
        high: upper end.
        level: posterior probability inside.
        draws: [draws] of the number.
    """

    mean: float
    low: float
    high: float
    level: float
    draws: Float64[np.ndarray, " draws"]


def population_pass_at_k(draws: Hyperparameters, k: int, level: float = 0.95) -> Posterior:
    """Mean pass@k of the population, 1 - E[(1 - p)^k]; its posterior mean is the predictive probability that a new task is solved by k samples.

    Args:
        draws: of the posterior.
        k: samples, within or beyond n.
        level: of the interval.

    Returns:
        The posterior.

    Raises:
        InvalidInput: k below 1 or a level outside (0, 1).
    """
    return summarised(1 - failure(draws, k), level)


def these_tasks_pass_at_k(
    rng: np.random.Generator,
    draws: Hyperparameters,
    counts: TaskCounts,
    k: int,
    level: float = 0.95,
) -> Posterior:
    """Mean over the tasks at hand of 1 - (1 - p_i)^k.

    Each draw of the hyperparameters draws the rates of the tasks. Of more than 32 tasks with one (n, c) 32 rates are drawn and their mean's
    deviation is scaled by sqrt(32 / tasks): mean and variance are right, and by then the mean is nearly normal.

    Args:
        rng: of the rates; advanced.
        draws: of the posterior.
        counts: the data that were fitted.
        k: fresh samples of each task.
        level: of the interval.

    Returns:
        The posterior; at k <= n shrunk towards the population, where the U-statistic is not.

    Raises:
        InvalidInput: k below 1 or a level outside (0, 1).
    """

    def failures(law: TaskLaw, num_tasks: int) -> Float64[np.ndarray, " draws"]:
        num_drawn = min(num_tasks, MAX_RATES_DRAWN)
        expected = failure(law, k)
        deviation = _failures(rng, law, k, num_drawn).mean(axis=0) - expected
        return num_tasks * (expected + deviation * np.sqrt(num_drawn / num_tasks))

    failed = _over_pairs(failures, draws, counts) / counts.num_tasks.sum()
    return summarised(np.clip(1 - failed, 0.0, 1.0), level)


def solved_after(
    rng: np.random.Generator,
    draws: Hyperparameters,
    counts: TaskCounts,
    num_more: int,
    level: float = 0.95,
) -> Posterior:
    """Share of the tasks at hand with at least one correct sample after `num_more` further samples of each.

    With n the same for all this is pass@(n + m) as it would then be computed from all n + m samples.

    Args:
        rng: of the outcomes; advanced.
        draws: of the posterior.
        counts: the data that were fitted.
        num_more: m, at least 1.
        level: of the interval.

    Returns:
        The posterior predictive; exact given each draw.

    Raises:
        InvalidInput: m below 1 or a level outside (0, 1).
    """
    unsolved = TaskCounts(*(part[counts.num_correct == 0] for part in counts))

    def still_unsolved(law: TaskLaw, num_tasks: int) -> Float64[np.ndarray, " draws"]:
        return rng.binomial(num_tasks, np.clip(failure(law, num_more), 0, 1)).astype(np.float64)

    failure(draws, num_more)
    return summarised(
        1 - _over_pairs(still_unsolved, draws, unsolved) / counts.num_tasks.sum(), level
    )


def tail_exponent(draws: Hyperparameters, level: float = 0.95) -> Posterior:
    """The exponent a of the coverage law 1 - pass@k ~ pi_0 + (1 - pi_0 - pi_1) Gamma(a + b) / Gamma(b) k^-a.

    A power law of 1 - pass@k only where pi_0 is 0: look at its posterior too, or at `tail_exponent_seen_at`.

    Args:
        draws: of the posterior.
        level: of the interval.

    Returns:
        The posterior.

    Raises:
        InvalidInput: a level outside (0, 1).
    """
    return summarised(draws.a, level)


def tail_exponent_seen_at(draws: Hyperparameters, k: int, level: float = 0.95) -> Posterior:
    """-d log(1 - pass@k) / d log k of the population at k, the floor pi_0 included.

    Args:
        draws: of the posterior.
        k: where.
        level: of the interval.

    Returns:
        The posterior.

    Raises:
        InvalidInput: k below 1 or a level outside (0, 1).
    """
    return summarised(tail_exponent_at(draws, k), level)


def summarised(draws: Float64[np.ndarray, " draws"], level: float) -> Posterior:
    """Mean and equal-tailed interval of draws.

    Args:
        draws: of one number.
        level: of the interval.

    Returns:
        The posterior.

    Raises:
        InvalidInput: no draws, or a level outside (0, 1).
    """
    check_level(level)
    if draws.size == 0:
        raise InvalidInput("no draws of the posterior: give at least one")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Posterior(float(draws.mean()), float(low), float(high), level, draws)


def _over_pairs(
    one_pair: Callable[[TaskLaw, int], Float64[np.ndarray, " draws"]],
    draws: Hyperparameters,
    counts: TaskCounts,
) -> Float64[np.ndarray, " draws"]:
    total = np.zeros(draws.a.shape)
    for n, c, num_tasks in zip(*(part.tolist() for part in counts), strict=True):
        total += one_pair(after_samples(draws, n, c), num_tasks)
    return total


def _failures(
    rng: np.random.Generator, law: TaskLaw, k: int, num_rates: int
) -> Float64[np.ndarray, "rates draws"]:
    """(1 - p)^k of rates drawn from a task's law."""
    shape = (num_rates, law.a.size)
    place = rng.random(shape)
    with np.errstate(divide="ignore"):
        beta = np.exp(k * np.log1p(-rng.beta(law.a, law.b, shape)))
    is_one = place >= np.broadcast_to(1 - law.weight_one, shape)
    return np.where(place < law.weight_zero, 1.0, np.where(is_one, 0.0, beta))
