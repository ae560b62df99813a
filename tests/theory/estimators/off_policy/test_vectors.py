"""Numbers that can be checked by hand, and published rollouts."""

import numpy as np
import pytest

from theory.estimators.off_policy import (
    importance_mean,
    largest_alpha,
    length_normalised_log_ratios,
    masked,
    missing_sequence_log_probs,
    power_log_weights,
    self_normalised_mean,
    sequence_log_ratios,
    truncated,
    weight_info,
)

WHOLE = np.array([0, 4], np.int64)
LOG_WEIGHTS = np.log(np.array([0.5, 1.0, 2.0, 4.0]))
REWARDS = np.array([0.0, 1.0, 0.0, 1.0])


def test_means_of_four_rows() -> None:
    cut = truncated(LOG_WEIGHTS, 2.0, "seq").log_weights
    kept = masked(LOG_WEIGHTS, 0.5, 2.0, "seq").log_weights
    assert importance_mean(LOG_WEIGHTS, REWARDS, WHOLE)[0] == pytest.approx(1.25)
    assert self_normalised_mean(LOG_WEIGHTS, REWARDS, WHOLE)[0] == pytest.approx(2 / 3)
    assert importance_mean(cut, REWARDS, WHOLE)[0] == pytest.approx(0.75)
    assert self_normalised_mean(cut, REWARDS, WHOLE)[0] == pytest.approx(6 / 11)
    assert importance_mean(kept, REWARDS, WHOLE)[0] == pytest.approx(0.25)
    assert weight_info(LOG_WEIGHTS, WHOLE).ess[0] == pytest.approx(2.647, abs=5e-4)
    assert weight_info(cut, WHOLE).ess[0] == pytest.approx(3.270, abs=5e-4)


def test_effective_sizes() -> None:
    heavy = np.log(np.array([1.0, 1, 1, 1000]))
    assert weight_info(heavy, WHOLE).ess[0] == pytest.approx(1.006, abs=5e-4)
    capped = weight_info(truncated(heavy, 2.0, "seq").log_weights, WHOLE)
    assert capped.ess_fraction[0] == pytest.approx(0.8929, abs=5e-5)
    far = weight_info(np.array([-1000.0, -1001, -1002]), np.array([0, 3], np.int64))
    assert far.ess[0] == pytest.approx(1.9587, abs=5e-5)
    assert far.largest_share[0] == pytest.approx(0.6652, abs=5e-5)
    assert np.isnan(weight_info(np.full(4, -np.inf), WHOLE).ess[0])


def test_sequence_ratios_are_products() -> None:
    tokens, one = np.full(200, 0.01), np.array([0, 200], np.int64)
    assert np.exp(sequence_log_ratios(tokens, one)[0]) == pytest.approx(7.389, abs=5e-4)
    assert np.exp(length_normalised_log_ratios(tokens, one)[0]) == pytest.approx(1.0101, abs=5e-5)


def test_power_of_published_rollouts() -> None:
    log_probs = np.array([-172.42, -175.45, -160.04, -208.00, -187.37])
    five = np.array([0, 5], np.int64)
    for alpha, ess in ((1.01, 4.883), (1.1, 2.194), (1.5, 1.005), (2.0, 1.0)):
        weights = power_log_weights(alpha, log_probs, log_probs)
        assert weight_info(weights, five).ess[0] == pytest.approx(ess, abs=5e-4)
    alpha = largest_alpha(log_probs, log_probs, five, 2.0)
    at = weight_info(power_log_weights(alpha, log_probs, log_probs), five).ess[0]
    assert at == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("nats", "tokens", "missing"),
    [
        (-12_000.0, 12_001.0, False),
        (-12_000.0, 12_000.0, True),
        (-12_000.0, np.nan, True),
        (-9_999.0, 20.0, True),
        (-100.0, 20.0, False),
        (0.0, 0.0, False),
        (-np.inf, 1e9, True),
        (0.5, 1e9, True),
        (np.nan, 1e9, True),
    ],
)
def test_a_sum_over_a_long_sequence_is_no_sentinel(
    nats: float, tokens: float, missing: bool
) -> None:
    assert missing_sequence_log_probs(np.array([nats]), np.array([tokens]))[0] == missing


def test_a_weight_beyond_the_range_counts_by_what_its_row_is_worth() -> None:
    for huge in (50.0, 800.0, 1e300):
        log_weights = np.array([huge, 0.0, -np.inf, np.nan])
        mean = importance_mean(log_weights, np.array([0.0, 1.0, 5.0, 0.0]), WHOLE)[0]
        assert mean == 1 / 3
    assert importance_mean(np.array([800.0, 0.0]), np.ones(2), np.array([0, 2]))[0] == np.inf
    assert importance_mean(np.full(2, 800.0), np.array([1.0, -1.0]), np.array([0, 2]))[0] == 0
