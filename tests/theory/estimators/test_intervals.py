"""Intervals over tasks: the bootstrap law enumerated, coverage as an exact sum, and what pairing is for."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.planted_bugs import estimators as planted
from tests.planted_bugs.damage import estimators as exact
from theory.errors import InvalidInput
from theory.estimators import (
    Interval,
    difference_interval,
    mean_interval,
    percentile_interval,
    ratio_difference_interval,
    ratio_interval,
    resample_counts,
    resampled_means,
    t_interval,
    t_interval_of_ratio,
)

RNG = np.random.default_rng(4)
A, B = RNG.gamma(1.0, size=(2, 5))
C, D = RNG.gamma(2.0, size=(2, 5))


def all_resamples(num_tasks: int) -> np.ndarray:
    """[n^n, n] counts of every resample, each as likely as any other."""
    drawn = np.array(list(itertools.product(range(num_tasks), repeat=num_tasks)))
    return np.stack([(drawn == task).sum(axis=1) for task in range(num_tasks)], 1).astype(np.int32)


def by_hand(replicates: list[float], level: float) -> tuple[float, float]:
    """The ends, by counting."""
    ordered, num = sorted(replicates), len(replicates)
    ranks = (int(np.ceil(num * share - 1e-9)) for share in ((1 - level) / 2, (1 + level) / 2))
    low, high = (ordered[rank - 1] for rank in ranks)
    return low, high


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_ends_are_quantiles_of_the_enumerated_law(level: float) -> None:
    counts = all_resamples(5)
    drawn = [list(row) for row in itertools.product(range(5), repeat=5)]
    means = [A[row].mean() for row in drawn]
    ratios = [A[row].sum() / B[row].sum() for row in drawn]
    paired = [(A[row] - B[row]).mean() for row in drawn]
    gaps = [A[row].sum() / B[row].sum() - C[row].sum() / D[row].sum() for row in drawn]
    for found, replicates in (
        (mean_interval(counts, A, level), means),
        (ratio_interval(counts, A, B, level), ratios),
        (difference_interval(counts, A, B, level), paired),
        (ratio_difference_interval(counts, (A, B), (C, D), level), gaps),
    ):
        assert (found.low, found.high) == pytest.approx(by_hand(replicates, level), rel=1e-12)
        assert found[2:] == (level, "percentile bootstrap", 5)


def test_ends_are_replicates() -> None:
    """The smallest with a quarter, and with three quarters, of all at or below it."""
    assert percentile_interval(np.array([4.0, 1.0, 3.0, 2.0]), 0.5, 9)[:2] == (1.0, 3.0)


def test_resamples_are_draws_with_replacement_and_reproducible() -> None:
    counts = resample_counts(np.random.default_rng(3), 4, 20_000)
    again = resample_counts(np.random.default_rng(3), 4, 20_000)
    np.testing.assert_array_equal(counts, again)
    np.testing.assert_array_equal(counts.sum(axis=1), 4)
    exact.assert_resamples_follow_their_law(counts)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = resample_counts(np.random.default_rng(3), 7, 50)
    values = RNG.normal(size=(7, 2, 3))
    means = resampled_means(counts, values)
    monkeypatch.setattr("theory.estimators.bootstrap._BLOCK", 21)
    monkeypatch.setattr("theory.estimators.bootstrap._DRAWS", 21)
    np.testing.assert_array_equal(resample_counts(np.random.default_rng(3), 7, 50), counts)
    np.testing.assert_allclose(resampled_means(counts, values), means, rtol=1e-14)
    one = [values[np.repeat(np.arange(7), row)].mean(axis=0) for row in counts]
    np.testing.assert_allclose(means, one, rtol=1e-12, atol=1e-15)


def test_student_intervals_are_those_of_scipy() -> None:
    low, high = stats.t.interval(0.9, 4, loc=A.mean(), scale=A.std(ddof=1) / np.sqrt(5))
    found = t_interval(A, 0.9)
    assert found[:2] == pytest.approx((low, high), rel=1e-12)
    assert found[2:] == (0.9, "student t", 5)
    # With constant denominators a ratio of means is a mean.
    alike = t_interval_of_ratio(A, np.full(5, 2.0), 0.9)
    assert alike[:2] == pytest.approx(t_interval(A / 2, 0.9)[:2], rel=1e-12)


def test_the_interval_of_a_ratio_is_linearised_by_influence() -> None:
    """The residuals are n times the derivatives of the ratio by the tasks' weights."""
    step, weights = 1e-6, np.ones(5)

    def ratio(w: np.ndarray) -> float:
        return float((w * A).sum() / (w * B).sum())

    nudges = step * np.eye(5)
    slopes = [5 * (ratio(weights + e) - ratio(weights - e)) / (2 * step) for e in nudges]
    half = stats.t.ppf(0.975, 4) * np.sqrt(np.square(slopes).sum() / 4 / 5)
    found = t_interval_of_ratio(A, B)
    assert (found.low + found.high) / 2 == pytest.approx(A.sum() / B.sum(), rel=1e-12)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=1e-8)


@given(shift=st.floats(-5, 5), scale=st.floats(0.1, 10), seed=st.integers(0, 2**32 - 1))
def test_intervals_move_with_the_values(shift: float, scale: float, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=8)
    counts = resample_counts(np.random.default_rng(1), 8, 200)
    makers: tuple[Callable[[np.ndarray], Interval], ...] = (
        t_interval,
        lambda x: mean_interval(counts, x),
    )
    for make in makers:
        before, after = make(values), make(shift + scale * values)
        moved = (shift + scale * before.low, shift + scale * before.high)
        assert after[:2] == pytest.approx(moved, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("success", [0.3, 0.5])
def test_coverage_over_tasks_holds_and_over_pooled_rollouts_it_does_not(success: float) -> None:
    """All eight rollouts of a task fare alike. Exact: the number of solved tasks is binomial."""
    over_tasks = exact.coverage(exact.bootstrap_over_tasks, 40, success)
    pooled = exact.coverage(planted.bootstrap_over_pooled_rollouts, 40, success)
    assert 0.9 < over_tasks < 0.97
    # Ends at +- 1.96 s / sqrt(8): P(|normal| < .69) = .51, in steps of a binomial.
    assert 0.4 < pooled < 0.6


def test_few_tasks_cover_too_little() -> None:
    # None solved gives 0..0, and of four or five solved the lower end is above .3.
    covered = stats.binom.pmf([1, 2, 3], 5, 0.3).sum()
    assert exact.coverage(exact.bootstrap_over_tasks, 5, 0.3) == pytest.approx(covered, abs=1e-12)
    assert covered < 0.81


def test_the_squared_length_is_unbiased_over_tasks_only() -> None:
    assert exact.of_length(exact.student_over_tasks) < 1e-12
    assert exact.of_length(planted.student_over_pooled_rollouts) == pytest.approx(
        0.608243, abs=1e-6
    )
    assert exact.of_paired_length(exact.student_of_differences) < 1e-12
    assert exact.of_paired_length(planted.unpaired_difference) == pytest.approx(4.375, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: t_interval(np.ones(1)), "1 task"),
        (lambda: t_interval(np.array([1.0, np.nan])), "task 1"),
        (lambda: t_interval(np.ones(3), 1.0), "level 1.0"),
        (lambda: t_interval_of_ratio(np.ones(3), np.array([1.0, -1.0, 0.0])), "sum to 0"),
        (lambda: t_interval_of_ratio(np.ones(3), np.ones(2)), "3 numerators and 2 denominators"),
        (lambda: resample_counts(np.random.default_rng(0), 1), "at least 2"),
        (lambda: resample_counts(np.random.default_rng(0), 2, 0), "0 resamples"),
        (lambda: mean_interval(all_resamples(3), np.ones(4)), "values of 4 tasks"),
        (lambda: mean_interval(all_resamples(3), np.ones(3), 0.0), "level 0.0"),
        (lambda: ratio_interval(all_resamples(2), np.ones(2), np.array([0.0, 1.0])), "1 of 4"),
        (lambda: difference_interval(all_resamples(2), np.ones(2), np.ones(3)), "same tasks"),
        (lambda: percentile_interval(np.array([1.0, np.nan]), 0.9, 2), "not defined in 1 of 2"),
    ],
)
def test_what_is_no_interval_is_refused(call: Callable[[], Interval], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()
