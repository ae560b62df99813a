"""What is said to be unbiased is, over every data set of a toy; what is said to be biased is too."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tests.theory.estimators.off_policy.toy import (
    BEHAVIOR,
    LAW,
    LENGTH,
    RATIOS,
    REWARDS,
    SAMPLER,
    TARGET,
    data_sets,
    expectation,
    tasks_of,
)
from theory.errors import InvalidInput
from theory.estimators.coverage import pass_at_k
from theory.estimators.off_policy import (
    corrected_verdicts,
    importance_mean,
    length_normalised_log_ratios,
    masked,
    noise_corrected_pass_at_k,
    off_policy_pass_at_k,
    off_policy_pass_at_ks,
    per_decision_mean,
    power_accuracy,
    power_log_weights,
    prefix_log_ratios,
    self_normalised_mean,
    sequence_log_ratios,
    truncated,
    turn_log_ratios,
    v_trace,
)
from theory.estimators.off_policy.pass_at_k import mean_of_subset_products

TRUTH = float(LAW @ REWARDS)
LOG_WEIGHTS = RATIOS.sum(axis=1)
ROWS = np.arange(0, 8 * LENGTH + 1, LENGTH).astype(np.int64)


def whole(num: int) -> np.ndarray:
    return np.array([0, num], np.int64)


def test_the_units_of_weights() -> None:
    flat = RATIOS.ravel()
    np.testing.assert_allclose(sequence_log_ratios(flat, ROWS), LOG_WEIGHTS)
    np.testing.assert_allclose(prefix_log_ratios(flat, ROWS), RATIOS.cumsum(axis=1).ravel())
    np.testing.assert_allclose(length_normalised_log_ratios(flat, ROWS), RATIOS.mean(axis=1))
    # Turns of two and one tokens.
    turns = np.sort(np.concatenate([ROWS, ROWS[:-1] + 2]))
    found = turn_log_ratios(flat, turns).reshape(8, 2)
    np.testing.assert_allclose(found[:, 0], RATIOS[:, :2].sum(axis=1))
    np.testing.assert_allclose(found.sum(axis=1), LOG_WEIGHTS)
    # Each is a ratio of laws: the mean weight under the sampler is 1, that of the geometric mean is not.
    assert SAMPLER @ np.exp(LOG_WEIGHTS) == pytest.approx(1)
    assert abs(SAMPLER @ np.exp(RATIOS.mean(axis=1)) - 1) > 1e-3


def test_prefixes_of_rows_of_all_lengths() -> None:
    tokens = np.array([1.0, 2, 4, np.nan, 8, 16, 32])
    found = prefix_log_ratios(tokens, np.array([0, 1, 1, 5, 7], np.int64))
    np.testing.assert_array_equal(found, [1, 2, 6, np.nan, np.nan, 16, 48])
    np.testing.assert_array_equal(
        sequence_log_ratios(tokens, np.array([0, 1, 1, 5, 7], np.int64)), [1, 0, np.nan, 48]
    )


def test_the_mean_by_exact_weights_is_unbiased_and_no_other_is() -> None:
    def mean(log_weights: np.ndarray) -> float:
        return expectation(
            2,
            lambda drawn: importance_mean(
                log_weights[drawn].ravel(), REWARDS[drawn].ravel(), tasks_of(drawn)
            ),
        )

    assert mean(LOG_WEIGHTS) == pytest.approx(TRUTH, abs=1e-12)
    assert mean(truncated(LOG_WEIGHTS, 1.2, "seq").log_weights) < TRUTH - 1e-3
    assert mean(masked(LOG_WEIGHTS, 0.5, 2.0, "seq").log_weights) < TRUTH - 1e-3
    for biased in (RATIOS.mean(axis=1), RATIOS[:, -1], np.zeros(8)):
        assert abs(mean(biased) - TRUTH) > 1e-3


def test_the_bias_of_self_normalised_weights_shrinks() -> None:
    def bias(num: int) -> float:
        mean = expectation(
            num,
            lambda drawn: self_normalised_mean(
                LOG_WEIGHTS[drawn].ravel() + 7.0, REWARDS[drawn].ravel(), tasks_of(drawn)
            ),
        )
        return abs(mean - TRUTH)

    one, two, four = bias(1), bias(2), bias(4)
    assert one == pytest.approx(abs(float(SAMPLER @ REWARDS) - TRUTH))
    assert one > two > four > 0


def test_rewards_of_steps() -> None:
    """The reward of a step depends on the tokens up to it; prefixes weigh it without bias and with less variance than whole sequences."""
    steps = np.stack([RATIOS[:, 0] > 0, RATIOS[:, 1] < 0, REWARDS], axis=1).astype(float)
    truth = float(LAW @ steps.sum(axis=1))
    found = per_decision_mean(RATIOS.ravel(), steps.ravel(), ROWS)
    assert SAMPLER @ found == pytest.approx(truth, abs=1e-12)
    sequences = np.exp(LOG_WEIGHTS) * steps.sum(axis=1)
    assert SAMPLER @ sequences == pytest.approx(truth, abs=1e-12)
    tokens = (np.exp(RATIOS) * steps).sum(axis=1)
    assert abs(SAMPLER @ tokens - truth) > 1e-3
    terminal = np.where(np.arange(3) == 2, steps, 0.0)
    np.testing.assert_allclose(
        per_decision_mean(RATIOS.ravel(), terminal.ravel(), ROWS), np.exp(LOG_WEIGHTS) * REWARDS
    )


def test_v_trace_by_its_definition() -> None:
    rng = np.random.default_rng(3)
    offsets = np.array([0, 4, 4, 5, 8], np.int64)
    log_ratios, rewards, values = rng.normal(size=(3, 8))
    options = {"rho_bar": 1.3, "c_bar": 0.8, "trace": 0.9, "discount": 0.7}
    found = v_trace(log_ratios, rewards, values, offsets, **options)
    rho = np.minimum(np.exp(log_ratios), 1.3)
    c = 0.9 * np.minimum(np.exp(log_ratios), 0.8)
    for begin, end in itertools.pairwise(offsets.tolist()):
        for t in range(begin, end):
            target = values[t]
            for s in range(t, end):
                after = values[s + 1] if s + 1 < end else 0.0
                difference = rho[s] * (rewards[s] + 0.7 * after - values[s])
                target += 0.7 ** (s - t) * c[t:s].prod() * difference
            assert found[t] == pytest.approx(target, abs=1e-12)


def test_v_trace_between_its_limits() -> None:
    flat, rewards = RATIOS.ravel(), np.where(np.arange(24) % 3 == 2, np.repeat(REWARDS, 3), 0.25)
    free = v_trace(flat, rewards, np.zeros(24), ROWS, rho_bar=np.inf, c_bar=np.inf)
    np.testing.assert_allclose(free[::3], per_decision_mean(flat, rewards, ROWS))
    # On policy, without a value, the targets are the rewards to go.
    own = v_trace(np.zeros(24), rewards, np.zeros(24), ROWS).reshape(8, 3)
    np.testing.assert_allclose(own, rewards.reshape(8, 3)[:, ::-1].cumsum(axis=1)[:, ::-1])


@pytest.mark.parametrize(("num", "k"), [(2, 1), (2, 2), (3, 2), (4, 3)])
def test_pass_at_k_of_the_target(num: int, k: int) -> None:
    def estimate(drawn: np.ndarray) -> np.ndarray:
        return off_policy_pass_at_k(LOG_WEIGHTS[drawn], REWARDS[drawn], k)

    def normalised(drawn: np.ndarray) -> np.ndarray:
        weights = np.exp(LOG_WEIGHTS[drawn])
        log_weights = np.log(weights / weights.mean(axis=1, keepdims=True))
        return off_policy_pass_at_k(log_weights, REWARDS[drawn], k)

    truth = 1 - (1 - TRUTH) ** k
    assert expectation(num, estimate) == pytest.approx(truth, abs=1e-12)
    # Weights that were normalised over the sample first are not unbiased.
    assert abs(expectation(num, normalised) - truth) > 1e-3


@pytest.mark.parametrize("k", [1, 2, 3])
def test_pass_at_k_through_a_grader_that_errs(k: int) -> None:
    """Over all sequences and all verdicts of three samples; from the target and from the sampler itself."""
    tpr, fpr = 0.9, 0.2
    passed = np.where(REWARDS == 1, tpr, fpr)
    drawn = data_sets(3)
    expected = np.zeros(3)
    for bits in itertools.product([0.0, 1.0], repeat=3):
        verdicts = np.broadcast_to(np.array(bits), drawn.shape).copy()
        chance = np.where(verdicts == 1, passed[drawn], 1 - passed[drawn])
        prob = (SAMPLER[drawn] * chance).prod(axis=1)
        right = corrected_verdicts(verdicts, tpr, fpr)
        none = np.zeros(drawn.shape)
        for place, (weights, values) in enumerate(
            ((LOG_WEIGHTS[drawn], right), (none, right), (none, verdicts))
        ):
            expected[place] += prob @ off_policy_pass_at_k(weights, values, k)
    own = float(SAMPLER @ REWARDS)
    assert expected[0] == pytest.approx(1 - (1 - TRUTH) ** k, abs=1e-12)
    assert expected[1] == pytest.approx(1 - (1 - own) ** k, abs=1e-12)
    assert abs(expected[2] - 1 + (1 - own) ** k) > 1e-3


@pytest.mark.parametrize(("tpr", "fpr"), [(0.9, 0.2), (1.0, 0.0), (0.6, 0.5)])
def test_pass_at_k_from_counts_of_verdicts(tpr: float, fpr: float) -> None:
    """Of all tasks of up to seven samples: the same as from the verdicts one by one, and right on average."""
    for n, k in ((1, 1), (4, 2), (7, 3), (7, 7)):
        passed = np.arange(n + 1)
        verdicts = (np.arange(n)[None] < passed[:, None]).astype(float)
        found = noise_corrected_pass_at_k(np.full(n + 1, n), passed, k, tpr, fpr)
        corrected = corrected_verdicts(verdicts, tpr, fpr)
        direct = off_policy_pass_at_k(np.zeros_like(verdicts), corrected, k)
        np.testing.assert_allclose(found, direct, rtol=1e-9, atol=1e-9)
        for rate in (0.0, 0.3, 1.0):
            law = binom.pmf(passed, n, rate * tpr + (1 - rate) * fpr)
            assert law @ found == pytest.approx(1 - (1 - rate) ** k, abs=1e-9)
    mixed = noise_corrected_pass_at_k(np.array([5, 3, 5]), np.array([2, 3, 2]), 3, 1.0, 0.0)
    np.testing.assert_allclose(mixed, pass_at_k(np.array([5, 3, 5]), np.array([2, 3, 2]), 3))


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda n, v: noise_corrected_pass_at_k(n, v, 1, 0.5, 0.5), "0 <= fpr < tpr <= 1"),
        (lambda n, v: noise_corrected_pass_at_k(n, v, 5, 0.9, 0.1), "k = 5"),
        (lambda n, v: noise_corrected_pass_at_k(v, n, 1, 0.9, 0.1), "passed samples"),
    ],
)
def test_counts_of_verdicts_that_have_no_answer(call: Any, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        call(np.array([4]), np.array([2]))


def test_products_over_subsets() -> None:
    factors = np.random.default_rng(5).normal(size=(3, 7)) * 3
    for k in range(1, 8):
        direct = [
            np.mean([np.prod(s) for s in itertools.combinations(row, k)])
            for row in factors.tolist()
        ]
        np.testing.assert_allclose(mean_of_subset_products(factors, k), direct, rtol=1e-10)
        np.testing.assert_allclose(mean_of_subset_products(factors[:, ::-1], k), direct, rtol=1e-10)
    weights = np.random.default_rng(6).normal(size=(3, 7))
    found = off_policy_pass_at_ks(weights, factors, (4, 1, 7))
    for place, k in enumerate((4, 1, 7)):
        np.testing.assert_array_equal(found[:, place], off_policy_pass_at_k(weights, factors, k))
    for ks in ((), (0, 1), (2, 8)):
        with pytest.raises(InvalidInput, match="must be from 1 to the 7"):
            off_policy_pass_at_ks(weights, factors, ks)


def test_equal_weights_give_pass_at_k() -> None:
    correct = np.repeat(np.array([[0.0, 1.0]]), [97, 3], axis=1)
    for k in (1, 10, 60, 100):
        found = off_policy_pass_at_k(np.zeros((1, 100)), correct, k)
        np.testing.assert_allclose(found, pass_at_k(np.array([100]), np.array([3]), k), rtol=1e-12)
    # Outside of [0, 1], and not clipped: clipping would bias it.
    assert off_policy_pass_at_k(np.log([[4.0, 4.0]]), np.ones((1, 2)), 2)[0] == pytest.approx(-8)
    assert off_policy_pass_at_k(np.array([[-np.inf, 0]]), np.ones((1, 2)), 1)[0] == 0.5


def test_power_needs_every_row_that_the_target_can_give() -> None:
    """With each sequence drawn once, weights of p^alpha over the uniform law give its exact accuracy."""
    log_probs = TARGET.sum(axis=1)
    uniform = np.full(8, -LENGTH * np.log(2))
    for alpha in (0.5, 2.0, 4.0):
        weights = power_log_weights(alpha, log_probs, uniform)
        law = LAW**alpha / (LAW**alpha).sum()
        found = power_accuracy(weights, REWARDS, whole(8), 1.0)
        assert found.value[0] == pytest.approx(law @ REWARDS)
        assert found.ess[0] == pytest.approx(1 / (law**2).sum()) and not found.refused[0]
        refused = power_accuracy(weights, REWARDS, whole(8), found.ess[0] + 0.01)
        assert refused.refused[0] and np.isnan(refused.value[0])
    flat = power_accuracy(BEHAVIOR.sum(axis=1) * 0, REWARDS, whole(8), 8.0)
    assert flat.value[0] == REWARDS.mean()
    # A row without a verdict is no part of the effective sample.
    some = np.append(REWARDS[:-1], np.nan)
    assert power_accuracy(np.zeros(8), some, whole(8), 1.0).ess[0] == 7
    dead = power_accuracy(np.full(2, -np.inf), np.ones(2), whole(2), 1.0)
    assert dead.refused[0] and np.isnan(dead.value[0])


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: corrected_verdicts(np.ones(1), 0.3, 0.3), "fpr < tpr"),
        (lambda: corrected_verdicts(np.ones(1), 0.2, 0.3), "fpr < tpr"),
        (lambda: corrected_verdicts(np.ones(1), 1.2, 0.3), "fpr < tpr"),
        (lambda: off_policy_pass_at_k(np.zeros((1, 2)), np.ones((1, 2)), 3), "k = 3"),
        (lambda: off_policy_pass_at_k(np.zeros((1, 2)), np.ones((1, 2)), 0), "k = 0"),
        (lambda: off_policy_pass_at_k(np.full((1, 2), np.inf), np.ones((1, 2)), 1), "weights"),
        (lambda: off_policy_pass_at_k(np.full((1, 2), 101.0), np.ones((1, 2)), 1), "weights"),
        (lambda: off_policy_pass_at_k(np.full((1, 2), np.nan), np.ones((1, 2)), 1), "weights"),
        (lambda: off_policy_pass_at_k(np.zeros((1, 2)), np.full((1, 2), np.nan), 1), "verdicts"),
        (lambda: truncated(np.zeros(2), 0.0, "seq"), "cap"),
        (lambda: masked(np.zeros(2), 2.0, 2.0, "seq"), "band"),
        (lambda: importance_mean(np.zeros(1), np.array([np.inf]), whole(1)), "finite"),
        (lambda: v_trace(np.zeros(1), np.zeros(1), np.zeros(1), whole(1), rho_bar=0.0), "rho_bar"),
        (
            lambda: v_trace(np.zeros(1), np.zeros(1), np.zeros(1), whole(1), discount=2.0),
            "discount",
        ),
        (lambda: power_log_weights(0.0, np.zeros(1), np.zeros(1)), "alpha"),
        (lambda: power_accuracy(np.zeros(1), np.ones(1), whole(1), 0.5), "least ESS"),
    ],
)
def test_what_is_refused(call: object, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        call()  # pyright: ignore[reportCallIssue]
