"""Laws of importance sampling at finite N: against every tuple of draws, against the moments, and in their limits."""

import itertools
import math

import numpy as np
import pytest

from models.tabular.toys import toy_b, toy_e, toy_f
from theory.errors import InvalidInput
from theory.exact import Layers, power_law, temperature_law, unroll
from theory.exact.importance_laws import log_evidence_moments, resampled_law
from theory.exact.importance_moments import (
    WeightedDraw,
    evidence_moments,
    self_normalised_moments,
    weighted_draw,
)

SETTINGS = [
    (unroll(make()), alpha, beta)
    for make in (toy_b, toy_e, toy_f)
    for alpha, beta in ((0.5, 1.0), (2.0, 2.0), (4.0, 1.0), (4.0, 4.0))
]


def draw_of(layers: Layers, alpha: float, beta: float) -> WeightedDraw:
    return weighted_draw(power_law(layers, alpha).law, temperature_law(layers, beta), len)


def target(draw: WeightedDraw) -> np.ndarray:
    return np.exp(draw.log_probs + draw.log_weights)


@pytest.mark.parametrize(("layers", "alpha", "beta"), SETTINGS)
@pytest.mark.parametrize("num_draws", [1, 2, 3])
def test_both_are_the_sums_over_every_tuple_of_draws(
    layers: Layers, alpha: float, beta: float, num_draws: int
) -> None:
    draw = draw_of(layers, alpha, beta)
    num_sequences = draw.log_probs.size
    tuples = np.array(list(itertools.product(range(num_sequences), repeat=num_draws)))
    probs = np.exp(draw.log_probs[tuples].sum(axis=1))
    weights = np.exp(draw.log_weights[tuples])
    log_evidence = np.log(weights.mean(axis=1))
    mean = probs @ log_evidence
    found = log_evidence_moments(draw, num_draws)
    assert found.mean == pytest.approx(mean, abs=1e-12)
    assert found.variance == pytest.approx(probs @ (log_evidence - mean) ** 2, abs=1e-12)
    law = np.zeros(num_sequences)
    for place in range(num_draws):
        np.add.at(law, tuples[:, place], probs * weights[:, place] / weights.sum(axis=1))
    np.testing.assert_allclose(resampled_law(draw, num_draws), law, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(("layers", "alpha", "beta"), SETTINGS)
def test_the_drawn_row_has_the_mean_of_the_self_normalised_estimate(
    layers: Layers, alpha: float, beta: float
) -> None:
    draw = draw_of(layers, alpha, beta)
    for num_draws in (1, 7, 100, 10_000):
        law = resampled_law(draw, num_draws)
        assert law.sum() == pytest.approx(1.0, abs=1e-12) and law.min() >= 0
        mean = self_normalised_moments(draw, num_draws).mean
        assert law @ draw.values == pytest.approx(mean, rel=1e-10)


@pytest.mark.parametrize(("layers", "alpha", "beta"), SETTINGS)
def test_the_drawn_row_goes_from_the_proposal_to_the_target(
    layers: Layers, alpha: float, beta: float
) -> None:
    draw = draw_of(layers, alpha, beta)
    np.testing.assert_allclose(resampled_law(draw, 1), np.exp(draw.log_probs), rtol=1e-10)
    gaps = [np.abs(resampled_law(draw, n) - target(draw)).sum() for n in (1, 10, 100, 10_000)]
    assert gaps == sorted(gaps, reverse=True) and 100 * gaps[-1] < gaps[0]


def test_log_evidence_follows_the_delta_method_at_large_n() -> None:
    layers = unroll(toy_e())
    draw = draw_of(layers, 2.0, 1.0)
    power = power_law(layers, 2.0)
    for num_draws in (1000, 10_000):
        relative = evidence_moments(power, temperature_law(layers, 1.0), num_draws)
        found = log_evidence_moments(draw, num_draws)
        assert found.mean == pytest.approx(-relative.relative_variance / 2, rel=2 / num_draws**0.5)
        assert found.variance == pytest.approx(relative.relative_variance, rel=2 / num_draws**0.5)
        assert found.mean < 0


def test_equal_weights_leave_no_bias_and_no_variance() -> None:
    draw = draw_of(unroll(toy_e()), 1.0, 1.0)
    for num_draws in (1, 50):
        found = log_evidence_moments(draw, num_draws)
        assert found.mean == pytest.approx(0.0, abs=1e-12)
        assert found.variance == pytest.approx(0.0, abs=1e-11)
        np.testing.assert_allclose(resampled_law(draw, num_draws), target(draw), rtol=1e-11)


def test_a_weight_of_zero_and_no_draws_are_refused() -> None:
    draw = draw_of(unroll(toy_e()), 2.0, 1.0)
    dead = draw._replace(log_weights=np.where(np.arange(31) == 3, -math.inf, draw.log_weights))
    for wrong in (log_evidence_moments, resampled_law):
        with pytest.raises(InvalidInput, match="weight 0"):
            wrong(dead, 2)
        with pytest.raises(InvalidInput, match="at least 1"):
            wrong(draw, 0)
