"""Moments of the law of success rates, against fractions, numerical integrals and the published toy."""

from fractions import Fraction
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from theory.errors import InvalidInput
from theory.estimators.hierarchical.closed_forms import (
    Hyperparameters,
    TaskLaw,
    after_samples,
    failure,
    tail_exponent_at,
)
from theory.estimators.hierarchical.task_counts import compress

rates = st.floats(0.05, 8.0)
shares = st.floats(0.0, 0.45)


def law_of(zero: float, one: float, a: float, b: float) -> Hyperparameters:
    return Hyperparameters(*(np.array(value, np.float64) for value in (zero, one, a, b)))


def moment(law: Hyperparameters | TaskLaw, successes: int, failures: int) -> float:
    """E[p^s (1-p)^f] by numerical integration, the end points' singularities taken by the weight of the rule."""
    a, b = float(law.a), float(law.b)
    inner, _ = integrate.quad(
        lambda p: p**successes * (1 - p) ** failures, 0, 1, weight="alg", wvar=(a - 1, b - 1)
    )
    whole, _ = integrate.quad(lambda p: 1.0, 0, 1, weight="alg", wvar=(a - 1, b - 1))
    zero, one = float(law.weight_zero), float(law.weight_one)
    return zero * (successes == 0) + one * (failures == 0) + (1 - zero - one) * inner / whole


@pytest.mark.parametrize(("k", "printed"), [(100, 0.3344), (1000, 0.1688), (10_000, 0.0847)])
def test_the_published_toy(k: int, printed: float) -> None:
    law = law_of(0, 0, 0.3, 3.0)
    assert abs(float(failure(law, k)) - printed) <= 5.1e-5
    assert float(tail_exponent_at(law, 10**7)) == pytest.approx(0.3, abs=1e-6)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 30))
def test_whole_parameters_give_fractions(a: int, b: int, k: int) -> None:
    exact = Fraction(factorial(a + b - 1) * factorial(b + k - 1))
    exact /= factorial(b - 1) * factorial(a + b + k - 1)
    law = law_of(0.25, 0.125, a, b)
    assert float(failure(law, k)) == pytest.approx(0.25 + 0.625 * float(exact), rel=1e-11)


def test_digits_are_kept_far_out() -> None:
    # Beta(1, 1): 1 / (k + 1), where log-gamma functions of 1e12 differ in their last digits only.
    assert float(failure(law_of(0, 0, 1, 1), 10**12)) == pytest.approx(1e-12, rel=1e-9)


@given(shares, shares, rates, rates, st.integers(0, 5), st.integers(0, 5), st.integers(1, 6))
def test_bayes_rule_is_a_ratio_of_moments(
    zero: float, one: float, a: float, b: float, c: int, wrong: int, k: int
) -> None:
    if c + wrong == 0:
        wrong = 1
    law = law_of(zero, one, a, b)
    after = after_samples(law, c + wrong, c)
    expected = moment(law, c, wrong + k) / moment(law, c, wrong)
    assert float(failure(after, k)) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert float(after.weight_zero) <= (c == 0) and float(after.weight_one) <= (wrong == 0)


@given(shares, shares, rates, rates, st.integers(1, 12), st.integers(1, 12))
def test_learning_from_n_samples_is_a_martingale(
    zero: float, one: float, a: float, b: float, n: int, k: int
) -> None:
    law = law_of(zero, one, a, b)
    c = np.arange(n + 1)
    chances = (1 - zero - one) * stats.betabinom.pmf(c, n, a, b) + zero * (c == 0) + one * (c == n)
    mean = float(np.sum(chances * failure(after_samples(law, n, c), k)))
    assert mean == pytest.approx(float(failure(law, k)), rel=1e-8, abs=1e-12)


@given(shares, rates, rates, st.integers(2, 1000))
def test_the_slope_is_a_derivative(zero: float, a: float, b: float, k: int) -> None:
    law = law_of(zero, 0.1, a, b)
    # Minus d log F / d log k, by a symmetric quotient at real k: exact to the square of its width.
    width = 1e-4
    at = [k * np.exp(side * width) for side in (-1, 1)]
    betas = [np.exp(special.betaln(a, b + real) - special.betaln(a, b)) for real in at]
    ends = [zero + (0.9 - zero) * each for each in betas]
    slope = -np.log(ends[1] / ends[0]) / (2 * width)
    assert float(tail_exponent_at(law, k)) == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_a_floor_ends_the_power_law() -> None:
    assert float(tail_exponent_at(law_of(0.01, 0, 0.5, 2), 10**9)) < 0.01


def test_pairs_are_counted() -> None:
    counts = compress(np.array([4, 8, 4, 4]), np.array([0, 3, 0, 4]))
    assert [part.tolist() for part in counts] == [[4, 4, 8], [0, 4, 3], [2, 1, 1]]


@pytest.mark.parametrize(
    ("n", "c", "said"),
    [
        ([4], [5], "task 0: 5 correct of 4"),
        ([4, 4], [1, -1], "task 1: -1 correct"),
        ([1, 0], [0, 0], "task 1: 0 correct of 0"),
        ([4, 4], [1], "2 num_samples and 1 num_correct"),
        ([], [], "at least one task"),
    ],
)
def test_what_are_no_counts(n: list[int], c: list[int], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        compress(np.array(n, np.int64), np.array(c, np.int64))


def test_k_below_one() -> None:
    for function in (failure, tail_exponent_at):
        with pytest.raises(InvalidInput, match="at least 1"):
            function(law_of(0, 0, 1, 1), 0)
