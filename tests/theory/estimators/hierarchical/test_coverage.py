"""The posteriors of coverage, given draws of the hyperparameters, against closed forms."""

import numpy as np
import pytest

from tests.stat_asserts import assert_mean
from theory.errors import InvalidInput
from theory.estimators.hierarchical.closed_forms import (
    Hyperparameters,
    after_samples,
    failure,
)
from theory.estimators.hierarchical.coverage import (
    population_pass_at_k,
    solved_after,
    summarised,
    tail_exponent,
    tail_exponent_seen_at,
    these_tasks_pass_at_k,
)
from theory.estimators.hierarchical.task_counts import TaskCounts, compress

COUNTS = compress(np.array([4] * 50 + [6] * 3), np.array([0] * 40 + [1] * 10 + [0, 6, 2]))
K = 9


def equal_draws(num_draws: int) -> Hyperparameters:
    """One law many times: what then varies are the tasks, independently from draw to draw."""
    return Hyperparameters(*(np.full(num_draws, value) for value in (0.2, 0.1, 0.5, 3.0)))


def exact_failures(k: int) -> tuple[float, float]:
    """Mean and variance over tasks' rates of the sum of (1 - p_i)^k."""
    law = Hyperparameters(*(part[0] for part in equal_draws(1)))
    after = after_samples(law, COUNTS.num_samples, COUNTS.num_correct)
    first, second = failure(after, k), failure(after, 2 * k)
    return (
        float(np.sum(COUNTS.num_tasks * first)),
        float(np.sum(COUNTS.num_tasks * (second - first**2))),
    )


def test_these_tasks_have_the_mean_and_variance_of_their_rates() -> None:
    num_tasks = COUNTS.num_tasks.sum()
    found = these_tasks_pass_at_k(np.random.default_rng(0), equal_draws(60_000), COUNTS, K)
    mean, variance = exact_failures(K)
    failed = num_tasks * (1 - found.draws)
    both = np.stack([failed, (failed - mean) ** 2], axis=1)
    assert_mean(both, [mean, variance], smallest_bias=[0.1, 0.05 * variance])


def test_solved_after_counts_what_was_solved_already() -> None:
    num_tasks = COUNTS.num_tasks.sum()
    found = solved_after(np.random.default_rng(1), equal_draws(80_000), COUNTS, 5)
    law = Hyperparameters(*(part[0] for part in equal_draws(1)))
    left = [float(failure(after_samples(law, n, 0), 5)) for n in (4, 6)]
    unsolved = 40 * left[0] + left[1]
    variance = 40 * left[0] * (1 - left[0]) + left[1] * (1 - left[1])
    counted = num_tasks * (1 - found.draws)
    assert np.array_equal(counted, np.rint(counted)) or np.allclose(counted, np.rint(counted))
    assert counted.max() <= 41
    both = np.stack([counted, (counted - unsolved) ** 2], axis=1)
    assert_mean(both, [unsolved, variance], smallest_bias=[0.15, 0.1 * variance])


def test_solved_tasks_only() -> None:
    counts = TaskCounts(*(np.array([value]) for value in (3, 2, 7)))
    assert (
        solved_after(np.random.default_rng(0), equal_draws(5), counts, 4).draws.tolist() == [1] * 5
    )


def test_the_population_knows_nothing_of_the_tasks() -> None:
    draws = Hyperparameters(
        np.array([0.0, 0.5]), np.array([0.0, 0.25]), np.array([1.0, 1.0]), np.array([1.0, 2.0])
    )
    # Beta(1, 1): 1/(k+1); Beta(1, 2): 2/(k+2).
    expected = [1 - 1 / 5, 1 - (0.5 + 0.25 * 2 / 6)]
    assert population_pass_at_k(draws, 4).draws == pytest.approx(expected)
    assert tail_exponent(draws).draws.tolist() == [1.0, 1.0]
    assert float(tail_exponent_seen_at(draws, 10**6).draws[0]) == pytest.approx(1, abs=1e-4)


def test_tails_are_equal() -> None:
    found = summarised(np.arange(101.0), 0.9)
    assert (found.mean, found.low, found.high) == pytest.approx((50.0, 5.0, 95.0), abs=1e-9)
    assert found.level == 0.9


def test_what_cannot_be_asked() -> None:
    rng, draws = np.random.default_rng(0), equal_draws(3)
    for ask in (
        lambda: population_pass_at_k(draws, 0),
        lambda: these_tasks_pass_at_k(rng, draws, COUNTS, 0),
        lambda: solved_after(rng, draws, COUNTS, 0),
    ):
        with pytest.raises(InvalidInput, match="at least 1"):
            ask()
    with pytest.raises(InvalidInput, match="level"):
        population_pass_at_k(draws, 1, 1.0)
    with pytest.raises(InvalidInput, match="no draws"):
        summarised(np.zeros(0), 0.9)
