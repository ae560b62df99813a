"""Weights, their sizes and rejection against exact sums over all sequences; each wrong twin fails the check that the right code passes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.planted_bugs import importance as planted
from tests.planted_bugs.damage import importance as exact
from theory import log_weights as lw
from theory.decoding import temperature, top_k
from theory.errors import InvalidInput
from theory.importance import check_full_support, self_normalised_estimate, token_log_weights
from theory.rejection import proven_log_bound

# Rows are float32, as they are recorded.
ROUNDING = 1e-5


@pytest.mark.parametrize(
    ("bug", "proposal_alpha", "damage"),
    [
        (planted.alpha_missing, 2.0, 7.22020),
        (planted.alpha_for_alpha_minus_one, 1.0, 0.840056),
        (planted.mean_over_tokens, 1.0, 2.04633),
        (planted.processed_log_prob_for_base, 2.0, 0.494655),
        (planted.log_prob_divided_by_temperature, 2.0, 7.22020),
        (planted.scored_at_temperature_one, 2.0, 0.0224239),
        (planted.log_z_counted_twice, 2.0, 0.786395),
        (planted.eos_omitted_from_the_target, 2.0, 11.2273),
        (planted.eos_masked_as_padding, 2.0, 1.23075),
    ],
)
def test_wrong_weights_have_another_mean(
    bug: Callable[..., Any], proposal_alpha: float, damage: float
) -> None:
    """The mean of the weights over all sequences is Z, from every proposal with full support."""
    assert exact.of_weights(proposal_alpha)(token_log_weights) < ROUNDING
    assert exact.of_weights(proposal_alpha)(bug) == pytest.approx(damage, rel=ROUNDING)


@pytest.mark.parametrize("proposal_alpha", [0.5, 1.0, 1.7, 2.0, 4.0])
def test_the_mean_weight_is_z_from_every_temperature(proposal_alpha: float) -> None:
    assert exact.of_weights(proposal_alpha)(token_log_weights) < ROUNDING


def test_without_alpha_or_normaliser_z_would_be_one() -> None:
    """Both twins say that p is the target, whose sum is 1."""
    for bug in (planted.alpha_missing, planted.log_prob_divided_by_temperature):
        one = np.exp(-exact.LOG_Z) - 1
        assert exact.of_weights(2.0)(bug) == pytest.approx(one, rel=ROUNDING)


def test_a_forced_eos_is_another_law() -> None:
    """By just the mass of the rows that the horizon cuts off."""
    _, rows, probs = exact.all_rows(1.0)
    cut_off = float(probs[~np.asarray(rows.ended)].sum())
    assert exact.of_forced_eos(exact.as_drawn) == 0
    assert exact.of_forced_eos(planted.eos_forced_at_the_horizon) == pytest.approx(cut_off)
    assert cut_off == pytest.approx(0.1898, abs=1e-9)


def test_a_truncated_proposal_misses_mass() -> None:
    with pytest.raises(InvalidInput, match="proposal rule top_k"):
        check_full_support((top_k(2),))
    check_full_support((temperature(0.5),))
    assert exact.of_support(check_full_support) == 0
    assert exact.of_support(planted.no_support_check) == pytest.approx(0.354820, abs=1e-6)


@pytest.mark.parametrize(
    ("measure", "right", "bug", "damage"),
    [
        (exact.of_constants, self_normalised_estimate, planted.over_n_minus_one, 1 / 7),
        (exact.of_pairs, lw.log_mean_weight, planted.geometric_mean_weight, 0.121141),
        (exact.of_small_weights, lw.log_mean_weight, planted.mean_weight_in_linear_space, 1.0),
        (exact.of_size, lw.ess, planted.ess_of_unnormalised_weights, 0.99),
        (exact.of_size, lw.ess, planted.ess_always_one, 0.7),
        (
            exact.of_evidence_after,
            exact.ess_of_a_copy,
            planted.ess_that_normalises_in_place,
            0.9,
        ),
    ],
)
def test_sizes_of_weights(
    measure: Callable[[Any], float], right: Any, bug: Any, damage: float
) -> None:
    assert measure(right) < ROUNDING
    assert measure(bug) == pytest.approx(damage, rel=ROUNDING)


def test_rejection_needs_its_bound_and_counts_all_proposals() -> None:
    """With a bound that is none every proposal is accepted: what comes out is the proposal."""
    assert exact.of_bound(proven_log_bound) < 1e-12
    assert exact.of_bound(planted.bound_of_one) == pytest.approx(0.249354, abs=1e-6)
    assert exact.of_rate(exact.rate_of_all) < 1e-9
    success = np.exp(exact.LOG_Z)
    lucky = -np.log(success) / (1 - success) - 1
    assert exact.of_rate(planted.rate_of_rows) == pytest.approx(lucky, rel=1e-9)
