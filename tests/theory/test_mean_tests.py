"""P-values of skewed means: never smaller than those of the t-test, valid where the t-test is not, and with the power that is stated."""

import numpy as np
import pytest
from scipy import stats

from theory.mean_tests import (
    POWER,
    minimum_detectable,
    skewed_minimum_detectable,
    skewed_p_value,
)


def test_without_skewness_it_is_student() -> None:
    for t in (0.0, -1.3, 4.9):
        assert skewed_p_value(t, 0.0, 50) == pytest.approx(2 * stats.t.sf(abs(t), 49))


def test_skewness_costs_and_large_t_does_not_cost_more() -> None:
    p_values = [skewed_p_value(t, 2.0, 100) for t in np.linspace(0, 20, 41)]
    assert p_values == sorted(p_values, reverse=True)
    # Beyond sqrt(n) / |skewness| = 5 nothing is gained.
    assert skewed_p_value(20.0, 2.0, 100) == skewed_p_value(5.0, 2.0, 100)
    assert skewed_p_value(4.0, 2.0, 100) > skewed_p_value(4.0, 0.0, 100)
    assert skewed_p_value(4.0, 2.0, 100) == skewed_p_value(-4.0, -2.0, 100)
    expected = 2 * stats.t.sf(4.0, 99) * np.exp(4.0**3 * 2.0 / (3 * 10))
    assert skewed_p_value(4.0, 2.0, 100) == pytest.approx(expected)


@pytest.mark.slow
def test_the_level_holds_for_exponential_replicates() -> None:
    """The t-test at level .002 errs more than twice as often here."""
    rng = np.random.default_rng(3)
    n, runs, level = 100, 20_000, 0.002
    values = rng.exponential(size=(runs, n))
    t = (values.mean(axis=1) - 1) / (values.std(axis=1, ddof=1) / np.sqrt(n))
    plain = np.mean(2 * stats.t.sf(np.abs(t), n - 1) < level)
    skewed = np.mean([skewed_p_value(each, 2.0, n) < level for each in t.tolist()])
    assert plain > 2 * level
    assert skewed < level


def test_the_smallest_bias_is_seen_with_the_power() -> None:
    rng = np.random.default_rng(4)
    n, runs, level = 4_000, 2_000, 1e-4
    bias = skewed_minimum_detectable(1.0, 2.0, n, level)
    assert bias > minimum_detectable(1.0, n, level)
    values = rng.exponential(size=(runs, n))
    standard_errors = values.std(axis=1, ddof=1) / np.sqrt(n)
    for sign in (1, -1):
        t = (values.mean(axis=1) - (1 - sign * bias)) / standard_errors
        seen = np.mean([skewed_p_value(each, 2.0, n) < level for each in t.tolist()])
        assert seen > POWER - 0.04


def test_too_few_replicates_see_nothing() -> None:
    assert skewed_minimum_detectable(1.0, 5.0, 100, 1e-6) == np.inf
    assert np.isfinite(skewed_minimum_detectable(1.0, 5.0, 4_000, 1e-6))
