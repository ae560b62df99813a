"""The statistical assertions themselves: their false-alarm level and power by exact computation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.stat_asserts import (
    LEVEL,
    POWER,
    Budget,
    Rejected,
    assert_counts,
    assert_mean,
    assert_rejected,
    mean_p_values,
    minimum_detectable,
    tail_inflation,
)
from theory import goodness_of_fit
from theory.goodness_of_fit import counts_p_value


def _compositions(total: int, num_cells: int) -> np.ndarray:
    """Every way to put `total` draws into the cells."""
    head = np.array(list(product(range(total + 1), repeat=num_cells - 1)))
    head = head[head.sum(axis=1) <= total]
    return np.column_stack([head, total - head.sum(axis=1)])


@pytest.mark.parametrize(
    "probs", [(0.25, 0.75), (0.5, 0.3, 0.2), (0.34, 0.33, 0.33), (0.8, 0.17, 0.03)]
)
def test_counts_p_value_is_never_too_small(probs: tuple[float, ...]) -> None:
    # The exact law of the p-value over all multinomial outcomes: P(p <= a) <= a at every attainable a.
    outcomes = _compositions(30, len(probs))
    outcome_probs = stats.multinomial(30, probs).pmf(outcomes)
    p_values = np.array([counts_p_value(outcome, probs) for outcome in outcomes])
    order = np.argsort(p_values)
    # Outcomes that tie up to rounding are alarms together.
    attained = p_values[order] * (1 + 1e-9)
    last_of_tie = np.searchsorted(attained, p_values[order] * (1 + 1e-8), side="right") - 1
    false_alarm = np.cumsum(outcome_probs[order])[last_of_tie]
    assert np.all(false_alarm <= p_values[order] * (1 + 1e-6))


def test_pearson_chi_square_would_break_the_level() -> None:
    # The reason why `assert_counts` is not a chi-square test: its exact level with one cell expected 5 times.
    num_draws, prob = 1000, 0.005
    hits = np.arange(num_draws + 1)
    statistic = (hits - num_draws * prob) ** 2 / (num_draws * prob * (1 - prob))
    pmf = stats.binom.pmf(hits, num_draws, prob)
    assert pmf[stats.chi2.sf(statistic, 1) < 1e-6].sum() == pytest.approx(65e-6, rel=0.01)
    p_values = np.array([counts_p_value([h, num_draws - h], [prob, 1 - prob]) for h in range(60)])
    assert pmf[:60][p_values < 1e-6].sum() < 1e-6


def test_counts_p_value_of_two_cells_is_the_binomial_one() -> None:
    expected = 2 * stats.binom.sf(69, 100, 0.5)
    assert counts_p_value([30, 70], [0.5, 0.5]) == pytest.approx(expected, rel=1e-9)


def test_impossible_cell_is_rejected_at_once() -> None:
    assert counts_p_value([50, 49, 1], [0.5, 0.5, 0.0]) == 0.0
    with pytest.raises(Rejected):
        assert_counts([50, 49, 1], [0.5, 0.5, 0.0])
    assert counts_p_value([50, 50, 0], [0.5, 0.5, 0.0]) == counts_p_value([50, 50], [0.5, 0.5])


def test_rare_cells_are_pooled() -> None:
    # 1000 cells, 200 draws: everything but the first cell is one cell.
    probs = np.append(0.5, np.full(999, 0.5 / 999))
    counts = np.append(130, np.append(np.ones(70, int), np.zeros(929, int)))
    assert counts_p_value(counts, probs) == pytest.approx(counts_p_value([130, 70], [0.5, 0.5]))


@given(st.lists(st.floats(1e-4, 1.0), min_size=2, max_size=20), st.integers(10, 10_000))
def test_pooling_keeps_draws_and_probability(weights: list[float], num_draws: int) -> None:
    probs = np.array(weights) / np.sum(weights)
    counts = np.random.default_rng(0).multinomial(num_draws, probs)
    pooled, law = goodness_of_fit.pool_rare_cells(counts, probs)
    assert pooled.sum() == num_draws
    assert law.sum() == pytest.approx(1.0)
    assert np.all(num_draws * law >= goodness_of_fit.MIN_EXPECTED * (1 - 1e-12))
    assert law.size <= (num_draws * probs >= goodness_of_fit.MIN_EXPECTED).sum() + 1


@pytest.mark.parametrize(
    ("counts", "probs", "message"),
    [
        ([5, 5], [0.5, 0.6], "sum to 1.1"),
        ([5, 5], [1.5, -0.5], "negative"),
        ([5, 5], [1.0], "2 counts for 1"),
        ([2, 2], [0.5, 0.5], "draw more"),
    ],
)
def test_counts_set_up_wrongly(counts: list[int], probs: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        counts_p_value(counts, probs)


def test_power_of_counts_against_a_planted_bias() -> None:
    # A coin of 0.5 that falls 0.55: with n from the normal formula, the exact power is as promised (to 1 %).
    bias, sigma = 0.05, 0.5
    num_draws = int(np.ceil((minimum_detectable(sigma, 1) / bias) ** 2))
    heads = np.arange(num_draws + 1)
    near = np.abs(heads - 0.55 * num_draws) < 8 * sigma * np.sqrt(num_draws)
    p_values = np.array(
        [counts_p_value([h, num_draws - h], [0.5, 0.5]) for h in heads[near].tolist()]
    )
    power = stats.binom.pmf(heads[near], num_draws, 0.55)[p_values < LEVEL].sum()
    assert power > POWER - 0.01


def _coins(num_heads: int, num_draws: int) -> np.ndarray:
    return np.repeat([1.0, 0.0], [num_heads, num_draws - num_heads])


def _rejection_probability(num_draws: int, claimed: float, actual: float) -> float:
    """Exact probability that the t-test of `assert_mean` rejects, for Bernoulli replicates."""

    def rejects(heads: int) -> bool:
        return bool(mean_p_values(_coins(heads, num_draws), claimed) < LEVEL)

    # The p-value falls on both sides of the claim: find the two edges of the rejection region by bisection.
    centre = round(claimed * num_draws)
    edges: list[int] = []
    for inside, outside in ((centre, 1), (centre, num_draws - 1)):
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            inside, outside = (inside, middle) if rejects(middle) else (middle, outside)
        edges.append(outside)
    law = stats.binom(num_draws, actual)
    return float(law.cdf(edges[0]) + law.sf(edges[1] - 1))


@pytest.mark.parametrize(("num_draws", "prob"), [(2_000, 0.5), (30_000, 0.1)])
def test_level_of_the_t_test(num_draws: int, prob: float) -> None:
    # One tail is inflated at most MAX_TAIL_INFLATION times and the other shrinks, so the sum stays below 1.25 levels.
    assert tail_inflation(_coins(round(prob * num_draws), num_draws), LEVEL) < 2.0
    assert _rejection_probability(num_draws, prob, prob) < 1.25 * LEVEL


def test_skewed_replicates_would_break_the_level_and_are_refused() -> None:
    coins = _coins(50, 5_000)
    assert _rejection_probability(5_000, 0.01, 0.01) > 5 * LEVEL
    with pytest.raises(ValueError, match="too skewed"):
        assert_mean(coins, 0.01, smallest_bias=0.1)


def test_power_of_the_t_test() -> None:
    num_draws = 10_000
    bias = float(minimum_detectable(0.5, num_draws))
    power = _rejection_probability(num_draws, claimed=0.5, actual=0.5 + bias)
    assert power == pytest.approx(POWER, abs=0.005)


def test_minimum_detectable_by_hand() -> None:
    # z_{.975} + z_{.8} = 1.959964 + 0.841621
    assert minimum_detectable(2.0, 100, level=0.05, power=0.8) == pytest.approx(0.5603170)


def test_assert_mean_sees_a_bias_in_one_cell() -> None:
    replicates = np.random.default_rng(1).normal([0.0, 1.0, 2.0], 1.0, size=(10_000, 3))
    assert_mean(replicates, [0.0, 1.0, 2.0], smallest_bias=0.1)
    with pytest.raises(Rejected, match=r"cell \(1,\)"):
        assert_mean(replicates, [0.0, 1.1, 2.0], smallest_bias=0.1)


def test_assert_mean_refuses_to_be_underpowered() -> None:
    replicates = np.random.default_rng(2).normal(size=100)
    with pytest.raises(ValueError, match="draw more"):
        assert_mean(replicates, 0.0, smallest_bias=0.1)
    with pytest.raises(ValueError, match="all replicates are equal"):
        mean_p_values(np.ones(100), 1.0)


def test_assert_rejected_takes_nothing_but_a_rejection() -> None:
    def rejects() -> None:
        assert_counts([90, 10], [0.5, 0.5])

    def accepts() -> None:
        assert_counts([50, 50], [0.5, 0.5])

    def is_set_up_wrongly() -> None:
        assert_counts([50, 50], [0.5, 0.6])

    used = Budget.used
    assert_rejected(rejects)
    with pytest.raises(AssertionError, match="not rejected"):
        assert_rejected(accepts)
    with pytest.raises(ValueError, match="sum to"):
        assert_rejected(is_set_up_wrongly)
    assert Budget.used == used
    accepts()
    assert Budget.used == used + 1
