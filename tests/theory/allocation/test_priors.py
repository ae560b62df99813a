"""Mixtures of Betas and atoms: conjugacy, atoms at 0 and 1, and posteriors at counts of 10^6."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from tests.theory.allocation.exact_beta import log_moment as exact_log_moment
from tests.theory.allocation.exact_beta import moment
from theory.allocation.priors import (
    BetaMixture,
    beta,
    log_moment,
    log_moment_ratio,
    log_relative_likelihood,
    mixture,
    one_minus_moment,
    posterior,
)
from theory.errors import InvalidInput

BETAS = ((0.5, Fraction(1, 2), Fraction(3, 2)), (0.25, Fraction(2), Fraction(3)))
ATOMS = ((0.125, Fraction(0)), (0.0625, Fraction(1)), (0.0625, Fraction(1, 4)))


def uneven() -> BetaMixture:
    return mixture(
        [(w, float(a), float(b)) for w, a, b in BETAS], [(w, float(x)) for w, x in ATOMS]
    )


def exact(successes: int, failures: int) -> Fraction:
    """E[p^s (1 - p)^f] in fractions; in Python 0 ** 0 is 1."""
    total = sum(Fraction(w) * moment(a, b, successes, failures) for w, a, b in BETAS)
    return total + sum(
        (Fraction(w) * x**successes * (1 - x) ** failures for w, x in ATOMS), Fraction(0)
    )


COUNTS = [(0, 0), (1, 0), (0, 1), (3, 0), (0, 5), (2, 7), (40, 1)]


@pytest.mark.parametrize(("successes", "failures"), COUNTS)
def test_moments_are_exact(successes: int, failures: int) -> None:
    with jax.enable_x64(True):
        found = jnp.exp(log_moment(uneven(), successes, failures))
        rest = one_minus_moment(uneven(), successes, failures)
    truth = exact(successes, failures)
    np.testing.assert_allclose(found, float(truth), rtol=1e-13)
    np.testing.assert_allclose(rest, float(1 - truth), rtol=1e-13, atol=0)


@pytest.mark.parametrize(("successes", "failures"), COUNTS)
def test_moments_of_the_posterior_are_ratios_of_moments(successes: int, failures: int) -> None:
    with jax.enable_x64(True):
        law = posterior(uneven(), successes, failures)
        weights = np.exp(np.concatenate([law.log_weights, law.log_point_weights]))
        found = jnp.exp(log_moment_ratio(uneven(), successes, failures, 2, 1))
    np.testing.assert_allclose(np.sum(weights), 1, rtol=1e-14)
    np.testing.assert_array_equal(law.a, [float(a) + successes for _, a, _ in BETAS])
    np.testing.assert_array_equal(law.b, [float(b) + failures for _, _, b in BETAS])
    truth = exact(successes + 2, failures + 1) / exact(successes, failures)
    np.testing.assert_allclose(found, float(truth), rtol=1e-13)
    # An atom that cannot have made the data is out, for good.
    assert (weights[2] == 0) == (successes > 0)
    assert (weights[3] == 0) == (failures > 0)


def test_posterior_of_a_posterior_is_that_of_all_counts() -> None:
    with jax.enable_x64(True):
        once = posterior(uneven(), 5, 4)
        twice = posterior(posterior(uneven(), 2, 3), 3, 1)
        for first, second in zip(once, twice, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-13)


def test_moments_are_integrals() -> None:
    with jax.enable_x64(True):
        found = jnp.exp(log_moment(beta(0.7, 1.6), jnp.array([2.0, 0.5]), jnp.array([3.0, 0.5])))
    for value, (s, f) in zip(found, [(2, 3), (0.5, 0.5)], strict=True):
        # t = p^.7 takes the singularity at 0 out.
        truth, _ = integrate.quad(
            lambda p, s=s, f=f: p**s * (1 - p) ** f * stats.beta.pdf(p, 0.7, 1.6), 0, 1
        )
        np.testing.assert_allclose(value, truth, rtol=1e-9)


@pytest.mark.parametrize("wide", [False, True])
def test_posterior_weights_at_a_million_rollouts(wide: bool) -> None:
    """Two Betas whose log likelihoods are both near -693,000 and differ by less than one."""
    s, f = 500_123, 499_877
    with jax.enable_x64(wide):
        prior = mixture(((0.5, 1.0, 1.0), (0.5, 2.5, 1.5)), ((0.25, 0.5),))
        law = posterior(prior, s, f)
        eps = float(jnp.finfo(law.a.dtype).eps)
        log_weights = np.concatenate([law.log_weights, law.log_point_weights]).astype(float)
    truth = np.log(np.array([0.4, 0.4, 0.2]))
    truth[0] += float(exact_log_moment(1, 1, s, f)[1])
    truth[1] += float(exact_log_moment(2.5, 1.5, s, f)[1])
    rate = s / (s + f)
    truth[2] += s * np.log1p((0.5 - rate) / rate) + f * np.log1p((rate - 0.5) / (1 - rate))
    truth -= np.logaddexp.reduce(truth)
    np.testing.assert_allclose(log_weights, truth, atol=100 * eps)


def test_relative_likelihood_is_the_moment_over_its_peak() -> None:
    s, f = np.array([0, 3, 0, 4]), np.array([0, 0, 6, 4])
    num = np.maximum(s + f, 1)
    peak = (s / num) ** s * (f / num) ** f
    with jax.enable_x64(True):
        found = log_relative_likelihood(uneven(), jnp.asarray(s), jnp.asarray(f))
        moments = log_moment(uneven(), jnp.asarray(s), jnp.asarray(f))
    np.testing.assert_allclose(np.exp(found) * peak, np.exp(moments), rtol=1e-13)


def test_every_prompt_may_have_a_prior_of_its_own() -> None:
    with jax.enable_x64(True):
        singles = [beta(0.5, 1.0), beta(2.0, 3.0), beta(1.0, 1.0)]
        stacked = BetaMixture(*(jnp.stack(fields) for fields in zip(*singles, strict=True)))
        s, f = jnp.array([0, 4, 2]), jnp.array([1, 0, 2])
        together = log_moment_ratio(stacked, s, f, 1, 2)
        alone = [log_moment_ratio(prior, s[at], f[at], 1, 2) for at, prior in enumerate(singles)]
    np.testing.assert_array_equal(together, jnp.stack(alone))


def test_what_the_prior_excludes() -> None:
    """An atom at 0 excludes a success: log 0 for the moment, and no posterior."""
    with jax.enable_x64(True):
        sure = mixture((), ((1.0, 0.0),))
        assert log_moment(sure, 1, 0) == -jnp.inf
        assert log_moment(sure, 0, 9) == 0
        assert one_minus_moment(sure, 0, 9) == 0
        assert one_minus_moment(sure, 1, 9) == 1
        assert jnp.isnan(posterior(sure, 1, 0).log_point_weights[0])


@pytest.mark.parametrize(
    ("betas", "atoms", "says"),
    [
        ([(1.0, 0.0, 1.0)], [], "a and b must be above 0"),
        ([(1.0, 1.0, float("nan"))], [], "a and b must be above 0"),
        ([(1.0, 1.0, float("inf"))], [], "a and b must be above 0"),
        ([(-1.0, 1.0, 1.0)], [(2.0, 0.5)], "prior weights"),
        ([(float("nan"), 1.0, 1.0)], [], "prior weights"),
        ([(0.0, 1.0, 1.0)], [], "prior weights"),
        ([], [], "prior weights"),
        ([], [(1.0, 1.5)], r"\[0, 1\]"),
        ([], [(1.0, float("nan"))], r"\[0, 1\]"),
    ],
)
def test_bad_priors_are_one_line(
    betas: list[tuple[float, float, float]], atoms: list[tuple[float, float]], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        mixture(betas, atoms)
    assert "\n" not in str(caught.value)
