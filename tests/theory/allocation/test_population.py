"""The population learnt on the way, against what EM must do."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from theory.allocation.population import fitted, flat_grid, learn_visits, start_fit
from theory.allocation.priors import log_moment, mixture


def all_cells(n: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(s, d - s) for d in range(n + 1) for s in range(d + 1)]
    return np.array([s for s, _ in pairs]), np.array([f for _, f in pairs])


def test_em_never_lowers_the_posterior_of_the_weights() -> None:
    """Likelihood of the table times the Dirichlet prior, step by step, abandoned visits included."""
    with jax.enable_x64(True):
        n, grid = 4, flat_grid()
        s, f = all_cells(n)
        rng = np.random.default_rng(7)
        seen = jnp.asarray(rng.integers(0, 2, s.size).astype(bool))
        args = (grid, seen, jnp.asarray(s), jnp.asarray(f))

        def score(steps: int) -> float:
            fit = learn_visits(args[0], start_fit(grid, n), *args[1:], 1.0, steps)
            weights = jnp.concatenate([fit.log_weights, fit.log_point_weights])
            np.testing.assert_allclose(jnp.exp(weights).sum(), 1.0, rtol=1e-13)
            likelihood = log_moment(fitted(grid, fit), jnp.asarray(s), jnp.asarray(f))
            return float(jnp.sum(jnp.where(seen, likelihood, 0)) + weights.mean())

        scores = [score(steps) for steps in range(6)]
        assert all(after >= before - 1e-12 for before, after in itertools.pairwise(scores))
        assert scores[-1] > scores[0] + 0.1


def test_the_true_weights_are_where_em_stands_still() -> None:
    """On the expected table of a population the fit stays at it, but for the prior's one visit."""
    with jax.enable_x64(True):
        n = 6
        truth = mixture(((0.3, 3.0, 27.0), (0.3, 15.0, 15.0)), ((0.15, 0.0), (0.25, 1.0)))
        s, f = np.arange(n + 1), n - np.arange(n + 1)
        log_ways = np.array(
            [
                np.log(float(np.prod(np.arange(n, n - k, -1)) / np.prod(np.arange(1, k + 1))))
                for k in s
            ]
        )
        share = np.exp(np.asarray(log_moment(truth, jnp.asarray(s), jnp.asarray(f))) + log_ways)
        number = 1e9
        fit = start_fit(truth, n)
        counts = jnp.zeros((n + 1, n + 1)).at[s, f].set(number * share)
        nobody = jnp.zeros(1, bool)
        zero = jnp.zeros(1, jnp.int32)
        after = learn_visits(truth, fit._replace(counts=counts), nobody, zero, zero, 1.0)
        np.testing.assert_allclose(after.log_weights, truth.log_weights, atol=1e-7)
        np.testing.assert_allclose(after.log_point_weights, truth.log_point_weights, atol=1e-7)


def test_old_visits_are_discounted_and_others_not_read() -> None:
    fit = start_fit(flat_grid(), 3)
    s, f = jnp.array([3, 1, 0]), jnp.array([0, 1, 3])
    first = learn_visits(flat_grid(), fit, jnp.array([True, True, False]), s, f, 0.5)
    second = learn_visits(flat_grid(), first, jnp.array([False, True, False]), s, f, 0.5)
    expected = np.zeros((4, 4))
    expected[3, 0], expected[1, 1] = 0.5, 1.5
    np.testing.assert_allclose(second.counts, expected)


def test_no_part_dies() -> None:
    """After very many mastered prompts a hopeless one is still possible."""
    fit = start_fit(flat_grid(), 4)
    mastered = jnp.full(1000, 4), jnp.zeros(1000, jnp.int32)
    for _ in range(20):
        fit = learn_visits(flat_grid(), fit, jnp.ones(1000, bool), *mastered, 1.0)
    assert bool(jnp.isfinite(fit.log_weights).all() & jnp.isfinite(fit.log_point_weights).all())
    assert float(fit.log_point_weights[1]) > np.log(0.5)
