"""Fits of the law of rates: fixed points on exact laws of stopped data, the likelihood that never falls, and drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theory.allocation import empirical_bayes
from theory.allocation.beta_binomial import log_predictive
from theory.allocation.population import flat_grid
from theory.allocation.priors import BetaMixture, mixture
from theory.exact.allocation.claims import run_length_rules
from theory.exact.allocation.lattice import places, stopped_shares, success_law

FIT_WEIGHTS = jax.jit(empirical_bayes.fit_weights, static_argnums=4)
FIT_PARAMETERS = jax.jit(empirical_bayes.fit_parameters, static_argnums=4)


def population() -> BetaMixture:
    return mixture([(0.25, 2.5, 1.5), (0.25, 0.6, 4.0)], [(0.3, 0.0), (0.2, 1.0)])


def stopped_law(prior: BetaMixture) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Counts of infinitely many prompts whose groups of 12 were stopped after three equal outcomes: s, f and their share."""
    rule = run_length_rules(12, jnp.array([3]), jnp.array([3]))
    # A mixed group is completed: its counts are those of all 12 rollouts.
    shares = stopped_shares(
        rule._replace(goes_on=rule.goes_on | _open(rule.trains)[None]), prior.a
    )[0]
    law = shares * success_law(prior, 12)
    at = places(12)
    return at.successes.ravel(), at.failures.ravel(), law.ravel()


def _open(mixed: jax.Array) -> jax.Array:
    last = jnp.arange(mixed.shape[-2])[:, None] == mixed.shape[-2] - 1
    return mixed & ~jnp.broadcast_to(last, mixed.shape)


def weights(prior: BetaMixture) -> np.ndarray:
    return np.exp(np.concatenate([prior.log_weights, prior.log_point_weights]))


def test_the_true_law_is_a_fixed_point_on_stopped_groups() -> None:
    """On infinitely many stopped prompts expectation maximisation stays at the truth: stopping is ignorable."""
    with jax.enable_x64(True):
        prior = population()
        data = stopped_law(prior)
        np.testing.assert_allclose(np.sum(data[2]), 1, rtol=1e-13)
        fitted = FIT_WEIGHTS(prior, *data, 50)
        moved = FIT_PARAMETERS(prior, *data, 50)
    np.testing.assert_allclose(weights(fitted), weights(prior), rtol=1e-10)
    for found, truth in zip(moved, prior, strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-12)


def test_dropping_stopped_groups_is_not_ignorable() -> None:
    """The planted mistake: the same fit on finished groups alone leaves the truth by far."""
    with jax.enable_x64(True):
        prior = population()
        s, f, law = stopped_law(prior)
        finished = jnp.where(s + f == 12, law, 0)
        fitted = FIT_WEIGHTS(prior, s, f, finished, 50)
    assert np.abs(weights(fitted) - weights(prior)).max() > 0.1


def test_fits_find_the_law_from_elsewhere() -> None:
    with jax.enable_x64(True):
        prior = population()
        data = stopped_law(prior)
        start = prior._replace(
            log_weights=jnp.log(jnp.array([0.1, 0.4])),
            log_point_weights=jnp.log(jnp.array([0.1, 0.4])),
        )
        fitted = FIT_WEIGHTS(start, *data, 2000)
        single = mixture([(0.5, 0.8, 2.0)], [(0.5, 1.0)])
        counts = stopped_law(single)
        begin = mixture([(0.2, 1.0, 1.0)], [(0.8, 1.0)])
        moved = FIT_PARAMETERS(begin, *counts, 3000)
    np.testing.assert_allclose(weights(fitted), weights(prior), rtol=1e-4)
    np.testing.assert_allclose([moved.a[0], moved.b[0]], [0.8, 2.0], rtol=1e-6)
    np.testing.assert_allclose(weights(moved), weights(single), rtol=1e-6)


@pytest.mark.parametrize("fit", [FIT_WEIGHTS, FIT_PARAMETERS])
def test_no_step_lowers_the_likelihood(fit) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    s, f = (jnp.asarray(rng.integers(0, 9, 40)) for _ in range(2))
    counts = jnp.asarray(rng.integers(0, 4, 40))
    with jax.enable_x64(True):
        prior = mixture([(0.4, 0.5, 3.0), (0.3, 4.0, 1.0)], [(0.2, 0.0), (0.1, 0.3)])
        values: list[float] = []
        for _ in range(12):
            values.append(float(empirical_bayes.log_likelihood(prior, s, f, counts)))
            prior = fit(prior, s, f, counts, 1)
    assert np.all(np.diff(values) > -1e-10)
    assert values[-1] > values[0] + 1


def test_counts_stand_for_repeated_rows() -> None:
    s, f, counts = jnp.array([3, 0, 5]), jnp.array([1, 4, 0]), jnp.array([2, 0, 3])
    rows = jnp.array([0, 0, 2, 2, 2])
    with jax.enable_x64(True):
        prior = population()
        short = FIT_PARAMETERS(prior, s, f, counts, 5)
        long = FIT_PARAMETERS(prior, s[rows], f[rows], jnp.ones_like(rows), 5)
    for first, second in zip(short, long, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-12)


@pytest.mark.slow
def test_the_grid_has_the_law_of_any_population() -> None:
    """Predictions of a fitted grid on fresh groups, against those of the truth: within .01 in total variation."""
    with jax.enable_x64(True):
        prior = population()
        fitted = FIT_WEIGHTS(flat_grid(), *stopped_law(prior), 400)
        hits = jnp.arange(13)
        laws = [np.exp(log_predictive(each, 0, 0, hits, 12 - hits)) for each in (fitted, prior)]
    assert 0.5 * np.abs(laws[0] - laws[1]).sum() < 0.01
