"""The five learned priors against what they say they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theory.allocation import learned_priors
from theory.allocation.beta_binomial import posterior_mean
from theory.allocation.policies import hora
from theory.allocation.priors import mixture
from theory.errors import InvalidInput

S, F = np.array([0.0, 3.0, 8.0, 1.0]), np.array([8.0, 5.0, 0.0, 1.0])


def test_by_hand() -> None:
    """Discounted posterior, bins, neighbours: the formulas with numbers."""
    last = learned_priors.last_visit_prior(jnp.asarray(S), jnp.asarray(F), 0.5)
    np.testing.assert_allclose(last.a[:, 0], [1, 2.5, 5, 1.5])
    np.testing.assert_allclose(last.b[:, 0], [5, 3.5, 1, 1.5])
    bins = learned_priors.bin_prior(
        jnp.array([0, 1, 1, 0]), 2, jnp.asarray(S), jnp.asarray(F), 12.0
    )
    rates = np.array([2 / 12, 12 / 18, 12 / 18, 2 / 12])
    np.testing.assert_allclose(bins.a[:, 0], 12 * rates, rtol=1e-6)
    np.testing.assert_allclose(bins.b[:, 0], 12 * (1 - rates), rtol=1e-6)
    points = jnp.array([[0.0], [1.0], [50.0], [80.0]])
    near = learned_priors.neighbour_prior(points, jnp.asarray(S), jnp.asarray(F), 1.0, 2.0)
    weight = np.exp(-0.5)
    np.testing.assert_allclose(near.a[0, 0], 2 * (1 + 3 * weight) / (10 + 8 * weight), rtol=1e-6)
    np.testing.assert_allclose(near.a[2, 0], 2 * 9 / 10, rtol=1e-6)


def test_logistic_regression_is_stationary() -> None:
    """At the fit the gradient of the penalised likelihood vanishes, to 1e-8."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x = jnp.asarray(rng.normal(size=(60, 3)))
        truth = 1 / (1 + np.exp(-(np.asarray(x) @ [2.0, -1.0, 0.0] - 1)))
        s = jnp.asarray(rng.binomial(8, truth).astype(float))
        prior = learned_priors.logistic_prior(x, s, 8 - s, 0.5, 1.0)
        rates = np.asarray(prior.a[:, 0])
        logits = np.log(rates / (1 - rates))
        design = np.c_[np.asarray(x), np.ones(60)]
        weights = np.linalg.lstsq(design, logits, rcond=None)[0]
        gradient = design.T @ (np.asarray(s) - 8 * rates) - np.r_[np.full(3, 0.5), 5e-4] * weights
        np.testing.assert_allclose(gradient, 0, atol=1e-8)
        alike = learned_priors.logistic_prior(x, 0 * s, 0 * s + 8, 0.5, 1.0)
        assert np.isfinite(alike.a).all() and (np.asarray(alike.a) < 0.02).all()


def test_they_steer_hora() -> None:
    """A prior for each prompt is taken as it is: equal counts, more for the one that is thought harder."""
    prior = learned_priors.of_rates(jnp.array([0.9, 0.1, 0.5]), 4.0)
    zero = jnp.zeros(3, jnp.int32)
    np.testing.assert_allclose(posterior_mean(prior, zero, zero), [0.9, 0.1, 0.5], rtol=1e-5)
    rule = jax.jit(hora.allocate)
    found = rule(prior, zero, zero, jnp.asarray(30)).additional
    assert found[1] > found[2] > found[0]
    flat = learned_priors.global_prior(mixture([(0.5, 1.0, 1.0)], [(0.5, 0.0)]), 3)
    assert flat.points.shape == (3, 1)
    assert rule(flat, zero, zero, jnp.asarray(30)).additional.tolist() == [10, 10, 10]
    with pytest.raises(InvalidInput):
        learned_priors.of_rates(jnp.array([0.5]), 0.0)
