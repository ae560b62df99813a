"""Chopthin: unequal weights within a bound, at no cost in expectation or evidence."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.resampling.laws import (
    WEIGHTS,
    check_evidence,
    check_unbiased,
    chopthin_scheme,
    counts_of,
    outcomes,
    run_at_edges,
)
from theory.errors import InvalidInput
from theory.resampling import HALF_ESS_RATIO, chopthin

FOUR = tuple(weights for weights in WEIGHTS if len(weights) == 4)


@pytest.mark.parametrize("ratio", [4.0, 20.0])
def test_other_ratios_are_unbiased_too(ratio: float) -> None:
    check_unbiased(chopthin_scheme(ratio), FOUR)
    check_evidence(chopthin_scheme(ratio), FOUR)


@pytest.mark.parametrize("ratio", [4.0, HALF_ESS_RATIO, 20.0])
def test_weights_differ_by_no_more_than_the_ratio(ratio: float) -> None:
    for weights in FOUR:
        after = outcomes(chopthin_scheme(ratio), weights).log_weights
        assert np.ptp(after, axis=1).max() <= math.log(ratio) + 1e-12


def test_offspring_of_one_particle_weigh_the_same_and_survivors_stay() -> None:
    ancestors, after, _ = outcomes(chopthin_scheme(HALF_ESS_RATIO), (0.45, 0.0, 0.35, 2.2))
    alive = counts_of(ancestors, 4) > 0
    assert (ancestors == np.arange(4))[alive].all()
    for row, log_weights in zip(ancestors, after, strict=True):
        for parent in set(row):
            assert np.ptp(log_weights[row == parent]) == 0


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 30.0])
def test_half_of_the_particles_remain_effective(scale: float) -> None:
    log_weights = np.random.default_rng(4).normal(scale=scale, size=999)
    ancestors, after = run_at_edges(chopthin_scheme(HALF_ESS_RATIO), log_weights)
    assert (counts_of(ancestors, 999).sum(axis=1) == 999).all()
    weights = np.exp(after.astype(np.float64) - after.max())
    effective = weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)
    assert effective.min() >= 999 / 2 * (1 - 1e-6)
    assert np.ptp(after, axis=1).max() <= math.log(HALF_ESS_RATIO) + 1e-5
    total = np.logaddexp.reduce(after.astype(np.float64), axis=1)
    before = np.logaddexp.reduce(log_weights.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(total, before, atol=1e-5)


@pytest.mark.parametrize("ratio", [3.99, 0.0, -1.0, math.nan])
def test_small_ratios_are_refused(ratio: float) -> None:

    with pytest.raises(InvalidInput, match="at least 4"):
        chopthin(jax.random.key(0), jnp.zeros(3), ratio)
