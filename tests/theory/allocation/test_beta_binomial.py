"""Predictors of a prompt's next rollouts, against enumeration of all outcome sequences in fractions, and against integrals."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from tests.planted_bugs.allocation import next_marginal_of_the_first_posterior
from tests.planted_bugs.damage.allocation import HIT_A, HIT_B, HITS, first_hit_law
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.allocation.exact_beta import moment
from theory.allocation import beta_binomial
from theory.allocation.priors import BetaMixture, beta, mixture, posterior

A, B = Fraction(3, 2), Fraction(1, 2)
WEIGHTS = (Fraction(1, 2), Fraction(1, 8), Fraction(3, 8))
SEEN = [(0, 0), (1, 0), (0, 1), (3, 0), (0, 3), (2, 1)]


def atomic() -> BetaMixture:
    """Half Beta(3/2, 1/2), an eighth at 0 and three eighths at 1."""
    return mixture([(0.5, 1.5, 0.5)], [(0.125, 0.0), (0.375, 1.0)])


def exact(successes: int, failures: int) -> Fraction:
    """E[p^s (1 - p)^f] under `atomic`."""
    half, zero, one = WEIGHTS
    return (
        half * moment(A, B, successes, failures) + zero * (successes == 0) + one * (failures == 0)
    )


def expected(
    value: Callable[[int, int], float | Fraction], s: int, f: int, extra: int
) -> float | Fraction:
    """E[value of the final counts | s, f], over every sequence of the rollouts to come."""
    total = Fraction(0)
    for outcomes in product((0, 1), repeat=extra):
        hits = sum(outcomes)
        share = exact(s + hits, f + extra - hits) / exact(s, f)
        total = total + share * value(s + hits, f + extra - hits)  # type: ignore[assignment]
    return total


def close(found: object, truth: float | Fraction) -> None:
    np.testing.assert_allclose(np.asarray(found), float(truth), rtol=1e-12)


@pytest.mark.parametrize(("s", "f"), SEEN)
def test_predictors_are_sums_over_all_outcome_sequences(s: int, f: int) -> None:
    n, extra, prior = 8, 8 - s - f, None
    with jax.enable_x64(True):
        prior = atomic()
        mixed = beta_binomial.probability_effective(prior, s, f, n)
        hit = beta_binomial.hit_utility(prior, s, f, extra)
        variance = beta_binomial.expected_final_variance(prior, s, f, n)
        deviation = beta_binomial.expected_group_deviation(prior, s, f, extra)
        mean = beta_binomial.posterior_mean(prior, s, f)
        both = beta_binomial.expected_bernoulli_variance(prior, s, f)
        come = jnp.arange(extra + 1)
        law = jnp.exp(beta_binomial.log_predictive(prior, s, f, come, extra - come))
    close(mixed, expected(lambda x, y: Fraction(x > 0 and y > 0), s, f, extra))
    close(hit, expected(lambda x, _: Fraction(x > s), s, f, extra))
    close(variance, expected(lambda x, y: Fraction(x * y, n * n), s, f, extra))
    close(deviation, expected(lambda x, y: math.sqrt(x * y) / n, s, f, extra))
    close(mean, exact(s + 1, f) / exact(s, f))
    close(both, exact(s + 1, f + 1) / exact(s, f))
    for hits in range(extra + 1):
        close(law[hits], expected(lambda x, _, h=hits: Fraction(x == s + h), s, f, extra))


def test_marginals_are_increments_are_recurrence_are_integrals() -> None:
    """M(l) four ways, to 1e-12, from the posterior of an uneven prior."""
    a, b, s, f, size = 0.7, 1.6, 2, 3, 60
    with jax.enable_x64(True):
        prior, extra = beta(a, b), jnp.arange(size)
        closed = beta_binomial.hit_marginal(prior, s, f, extra)
        utilities = beta_binomial.hit_utility(prior, s, f, jnp.arange(size + 1))
        law = posterior(prior, s, f)
        marginal = beta_binomial.posterior_mean(prior, s, f)
        chain = [marginal]
        for l in range(size - 1):
            step = (law.a[0], law.b[0], jnp.asarray(float(l)))
            chain.append(beta_binomial.next_hit_marginal(chain[-1], *step))
    np.testing.assert_allclose(np.diff(utilities), closed, atol=1e-14)
    np.testing.assert_allclose(np.asarray(jnp.stack(chain)), closed, rtol=1e-12)
    assert np.all(np.diff(closed) < 0)
    log_norm = math.lgamma(a + s) + math.lgamma(b + f) - math.lgamma(a + b + s + f)
    for l in (0, 1, 7, 59):
        truth, _ = integrate.quad(
            lambda p, l=l: p ** (a + s) * (1 - p) ** (b + f - 1 + l) * math.exp(-log_norm),
            0,
            1,
            epsabs=0,
            epsrel=1e-13,
            limit=200,
        )
        close(closed[l], truth)


def check_first_hits(following: Callable[..., jax.Array]) -> None:
    """First successes of simulated prompts have the law of the recurrence."""
    rng = np.random.default_rng(0)
    before = rng.geometric(rng.beta(HIT_A, HIT_B, 40_000)) - 1
    assert_counts(
        np.bincount(np.minimum(before, HITS), minlength=HITS + 1), first_hit_law(following)
    )


def test_the_recurrence_is_the_law_of_the_first_success() -> None:
    check_first_hits(beta_binomial.next_hit_marginal)


def test_a_planted_recurrence_is_rejected() -> None:
    assert_rejected(partial(check_first_hits, next_marginal_of_the_first_posterior))


def test_marginals_at_the_extremes() -> None:
    """Closed forms of allocation without special functions: no success, all successes, no data."""
    with jax.enable_x64(True):
        extra = jnp.arange(50.0)
        flat = beta(1.0, 1.0)
        none = beta_binomial.hit_marginal(flat, 0, 4, extra)
        np.testing.assert_allclose(none, 5 / ((5 + extra) * (6 + extra)), rtol=1e-13)
        hits = beta_binomial.hit_utility(flat, 0, 4, extra)
        np.testing.assert_allclose(hits, extra / (5 + extra), rtol=1e-13)
        fresh = beta_binomial.hit_marginal(flat, 0, 0, extra)
        np.testing.assert_allclose(fresh, 1 / ((extra + 1) * (extra + 2)), rtol=1e-13)


def test_probability_effective_of_sara() -> None:
    """The flat prior's table at n = 8: the first outcome says nothing, and m equal ones leave 1 - (m + 1) / 9."""
    with jax.enable_x64(True):
        counts = jnp.arange(8)
        table = [7 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9]
        for s, f in [(counts, 0), (0, counts)]:
            found = beta_binomial.probability_effective(beta(1.0, 1.0), s, f, 8)
            np.testing.assert_allclose(found, table, rtol=1e-14)


def test_probability_effective_of_finished_groups() -> None:
    with jax.enable_x64(True):
        s, f = jnp.array([0, 4, 3, 0, 9]), jnp.array([4, 0, 1, 7, 0])
        found = beta_binomial.probability_effective(beta(1.0, 1.0), s, f, 4)
        np.testing.assert_array_equal(found, [0, 0, 1, 0, 0])
        assert beta_binomial.probability_effective(beta(1.0, 1.0), 0, 0, 1) == 0


def test_small_probabilities_keep_their_digits() -> None:
    """Nearly everybody at 0 or 1: 1 - E[p^n] - E[(1 - p)^n] would be a difference of numbers near 1."""
    share = Fraction(1, 2**30)
    truth = share * (1 - 2 * moment(Fraction(1), Fraction(1), 8, 0))
    with jax.enable_x64(True):
        point = 0.5 - 0.5 * float(share)
        prior = mixture([(float(share), 1.0, 1.0)], [(point, 0.0), (point, 1.0)])
        close(beta_binomial.probability_effective(prior, 0, 0, 8), truth)


def test_atoms_alone() -> None:
    with jax.enable_x64(True):
        sure = mixture([], [(1.0, 0.0)])
        assert beta_binomial.probability_effective(sure, 0, 0, 8) == 0
        assert beta_binomial.probability_effective(sure, 0, 3, 8) == 0
        assert beta_binomial.hit_utility(sure, 0, 3, 8) == 0
        coin = mixture([], [(1.0, 0.5)])
        close(beta_binomial.probability_effective(coin, 0, 0, 8), 1 - 2 / 2**8)
        close(beta_binomial.expected_bernoulli_deviation(coin, 5, 2), 0.5)


def test_expected_deviation_is_its_integral() -> None:
    with jax.enable_x64(True):
        found = beta_binomial.expected_bernoulli_deviation(beta(1.5, 0.5), 2, 1)
    # p = sin(t)^2 takes both ends' singularities out: every power becomes smooth.
    num, _ = integrate.quad(lambda t: math.sin(t) ** 7 * math.cos(t) ** 3 * 2, 0, math.pi / 2)
    den, _ = integrate.quad(lambda t: math.sin(t) ** 6 * math.cos(t) ** 2 * 2, 0, math.pi / 2)
    close(found, num / den)


def test_finite_groups_push_less_than_the_limit() -> None:
    """At n = 8 and p = .05 the push of GRPO is .54 of sqrt(p (1 - p))."""
    with jax.enable_x64(True):
        point = mixture([], [(1.0, 0.05)])
        finite = beta_binomial.expected_group_deviation(point, 0, 0, 8)
        limit = beta_binomial.expected_bernoulli_deviation(point, 0, 0)
    assert round(float(finite / limit), 2) == 0.54


def test_at_a_million_rollouts() -> None:
    """Flat prior in closed form: H(m) = m / (b' + m) after failures alone; the predictive law is flat."""
    with jax.enable_x64(True):
        flat, size = beta(1.0, 1.0), 10**6
        close(beta_binomial.hit_utility(flat, 0, size, 3), Fraction(3, size + 4))
        close(
            beta_binomial.hit_marginal(flat, 0, size, size),
            Fraction(size + 1, (2 * size + 1) * (2 * size + 2)),
        )
        close(
            beta_binomial.probability_effective(flat, 0, size, 2 * size),
            Fraction(size, 2 * size + 1),
        )
        y = jnp.array([0, 1, 499_999, 10**6])
        law = beta_binomial.log_predictive(flat, 0, 0, y, size - y)
        np.testing.assert_allclose(law, -math.log(size + 1), rtol=1e-13)
        seen = beta_binomial.log_predictive(flat, size, size, 1, 1)
        close(jnp.exp(seen), Fraction(2 * (size + 1) ** 2, (2 * size + 2) * (2 * size + 3)))


@pytest.mark.slow
def test_float32_keeps_five_digits() -> None:
    prior_args = ([(0.5, 1.5, 0.5)], [(0.125, 0.0), (0.375, 1.0)])
    s, f = jnp.array([0, 0, 3, 500, 10**6]), jnp.array([0, 900_000, 0, 250, 4])
    results: list[np.ndarray] = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            prior = mixture(*prior_args)
            found = [
                beta_binomial.hit_utility(prior, s, f, 16),
                beta_binomial.hit_marginal(prior, s, f, 16),
                beta_binomial.posterior_mean(prior, s, f),
                beta_binomial.probability_effective(prior, s, f, 2 * 10**6),
            ]
            results.append(np.stack([np.asarray(each, np.float64) for each in found]))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-30)


def test_discounted_counts_are_the_discounted_beta() -> None:
    """S <- rho S + s gives a' <- rho a' + (1 - rho) a + s."""
    rho, a = 0.5, 1.0
    shape, count = a, jnp.asarray(0)
    for new in (3, 0, 5):
        shape = rho * shape + (1 - rho) * a + new
        count = beta_binomial.discounted_count(count, new, rho)
    assert float(a + count) == shape


def test_predictors_compile_once_for_all_counts() -> None:
    s, f = jnp.array([0, 4, 1]), jnp.array([2, 0, 1])
    prior = atomic()
    for predictor in (beta_binomial.probability_effective, beta_binomial.hit_utility):
        np.testing.assert_allclose(
            jax.jit(predictor)(prior, s, f, 8), predictor(prior, s, f, 8), rtol=1e-6
        )
