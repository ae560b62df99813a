"""Pilot-Commit's bands, costs and evictions, against binomial sums, the lattice and the figures of the notes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.theory.exact.allocation.populations import flat, flat_with_atoms, known, law, u_shaped
from theory.allocation.priors import BetaMixture
from theory.exact.allocation import lattice, pilot_commit
from theory.exact.allocation.claims import dynamic_sampling_cost
from theory.exact.allocation.pilot_commit import Screening

PASSING = jax.jit(
    lambda screening, prior: pilot_commit.filed(
        screening, pilot_commit.filing(screening).commit, prior
    ),
    static_argnums=0,
)
AUDIT = jax.jit(pilot_commit.eviction_audit, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def costs(screening: Screening, prior: BetaMixture) -> dict[str, jax.Array]:
    """Rollouts for each trained prompt."""
    size = screening.pilots + screening.commits
    return {
        "coded": pilot_commit.coded_cost(screening, prior),
        "idealised": pilot_commit.idealised_cost(screening, prior),
        "full": dynamic_sampling_cost(prior, size),
        "batched": pilot_commit.batched_dynamic_sampling_cost(prior, size),
    }


def of_group(size: int) -> Screening:
    return Screening(pilots=size // 4, commits=size - size // 4)


def test_bands_as_coded() -> None:
    """[.125, .75] of p_hat: both ends are inside; eviction at 1 lies above the band."""
    filed = pilot_commit.filing(Screening(8, 24))
    np.testing.assert_array_equal(np.flatnonzero(filed.commit), [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(np.flatnonzero(filed.too_hard), [0])
    np.testing.assert_array_equal(np.flatnonzero(filed.too_easy), [7, 8])
    np.testing.assert_array_equal(np.flatnonzero(filed.evict), [8])
    lower = pilot_commit.filing(Screening(4, 12, lower=0.5, upper=0.25, evict=0.75))
    np.testing.assert_array_equal(np.flatnonzero(lower.commit), [2, 3])
    np.testing.assert_array_equal(np.flatnonzero(lower.evict), [3, 4])


@pytest.mark.parametrize("size", [4, 8, 16, 32])
def test_misfile_curve_is_the_binomial_sum(size: int) -> None:
    screening = Screening(size, 3 * size)
    rates = np.array([0.0, 0.02, 0.1, 0.3, 0.5, 0.9, 1.0])
    hits = np.arange(size + 1)
    band = (hits / size >= 0.125) & (hits / size <= 0.75)
    with jax.enable_x64(True):
        nothing = jnp.zeros((len(rates), 0))
        points = BetaMixture(
            nothing, nothing, nothing, jnp.zeros((len(rates), 1)), jnp.asarray(rates)[:, None]
        )
        passing = PASSING(screening, points)
    truth = stats.binom.pmf(hits, size, rates[:, None])[:, band].sum(axis=1)
    np.testing.assert_allclose(passing, truth, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("population", "size", "kappa"),
    [
        (flat, 16, 0.60),
        (lambda: law(1.0, 0.3, 0.3), 16, 0.34),
        (lambda: law(1.0, 0.15, 0.15), 16, 0.21),
        (u_shaped, 16, 0.27),
        (u_shaped, 64, 0.30),
        (flat_with_atoms, 64, 0.39),
    ],
)
def test_passing_rates_of_the_notes(population, size: int, kappa: float) -> None:  # type: ignore[no-untyped-def]
    screening = of_group(size)
    with jax.enable_x64(True):
        found = PASSING(screening, population())
    np.testing.assert_allclose(found, kappa, atol=0.005)


def test_costs_as_coded_and_idealised() -> None:
    """Beta(1, 1) at n = 16: dynamic sampling costs .76 of the coded rule and .97 of the idealised one."""
    with jax.enable_x64(True):
        found = costs(of_group(16), flat())
        full, coded, idealised = (float(found[name]) for name in ("full", "coded", "idealised"))
    # kappa = 3/5 is above 1/3: one round an update.
    np.testing.assert_allclose(coded, 3 * 4 + 12, rtol=1e-14)
    np.testing.assert_allclose(idealised, 4 / 0.6 + 12, rtol=1e-13)
    assert (round(full / coded, 2), round(full / idealised, 2)) == (0.76, 0.97)


def test_rounds_repeat_when_few_pass() -> None:
    """Below kappa = 1/3 both costs agree; GRPO, the rule and batched dynamic sampling cost 1, 1.5 and 3 above it."""
    with jax.enable_x64(True):
        few = costs(of_group(16), law(1.0, 0.15, 0.15))
        many = costs(of_group(16), flat())
        hard = costs(of_group(16), known(0.002))
        np.testing.assert_allclose(few["coded"], few["idealised"], rtol=1e-14)
        np.testing.assert_allclose([many["coded"], many["batched"]], [1.5 * 16, 3 * 16], rtol=1e-14)
        # Below P = 1/3 the batched form wastes no groups.
        np.testing.assert_allclose(hard["batched"], hard["full"], rtol=1e-14)


@pytest.mark.parametrize(
    ("population", "size", "ratio"),
    [
        (u_shaped, 16, 1.69),
        (u_shaped, 64, 1.75),
        (lambda: law(1.0, 0.15, 0.15), 16, 1.43),
        (lambda: law(1.0, 0.15, 0.15), 128, 0.92),
        (flat, 16, 0.97),
        (flat, 128, 0.89),
        (lambda: known(0.02), 16, 0.91),
        (lambda: known(0.02), 64, 0.20),
        (lambda: known(0.02), 128, 0.02),
    ],
)
def test_where_it_loses(population, size: int, ratio: float) -> None:  # type: ignore[no-untyped-def]
    """Idealised cost ratio of dynamic sampling to Pilot-Commit: below 1 screening costs more than it saves."""
    with jax.enable_x64(True):
        found = costs(of_group(size), population())
    ratio_found = float(found["full"]) / float(found["idealised"])
    np.testing.assert_allclose(ratio_found, ratio, atol=0.0151)


@pytest.mark.slow
def test_costs_are_those_of_the_lattice() -> None:
    screening = Screening(5, 7)
    with jax.enable_x64(True):
        rule = pilot_commit.screening_rule(screening)
        found = jax.jit(lattice.characteristics, static_argnums=2)(rule, u_shaped(), 12)
        kappa = PASSING(screening, u_shaped())
        np.testing.assert_allclose(found.trains_at.sum(), kappa, rtol=1e-13)
        np.testing.assert_allclose(
            found.rollouts / kappa, costs(screening, u_shaped())["idealised"], rtol=1e-13
        )


@pytest.mark.parametrize(("size", "regress"), [(16, 0.485), (32, 0.492)])
def test_evictions_under_the_flat_prior(size: int, regress: float) -> None:
    with jax.enable_x64(True):
        audit = AUDIT(Screening(size, 3 * size), flat(), size)
        point = AUDIT(Screening(size, 3 * size), known(0.9), size)
        np.testing.assert_allclose(point.probability, 0.9**size, rtol=1e-13)
        np.testing.assert_allclose(audit.probability, 1 / (size + 1), rtol=1e-13)
        np.testing.assert_allclose(audit.mean_rate, (size + 1) / (size + 2), rtol=1e-13)
        np.testing.assert_allclose(audit.not_solved, size / (2 * size + 1), rtol=1e-13)
    assert round(size / (2 * size + 1), 3) == regress


def test_evictions_over_several_counts() -> None:
    """A lower bar evicts more kinds of prompts: the mean over them, by direct sums."""
    screening = Screening(4, 4, lower=0.25, upper=0.5, evict=0.75)
    with jax.enable_x64(True):
        audit = AUDIT(screening, law(1.0, 2.0, 3.0), 6)
    share = stats.betabinom.pmf([3, 4], 4, 2, 3)
    a, b = np.array([5.0, 6.0]), np.array([4.0, 3.0])
    np.testing.assert_allclose(audit.probability, share.sum(), rtol=1e-12)
    np.testing.assert_allclose(
        audit.mean_rate, (share * a / (a + b)).sum() / share.sum(), rtol=1e-12
    )
    solved, failed = stats.betabinom.pmf(6, 6, a, b), stats.betabinom.pmf(0, 6, a, b)
    np.testing.assert_allclose(
        audit.not_solved, (share * (1 - solved)).sum() / share.sum(), rtol=1e-12
    )
    mixed = (share * (1 - solved - failed)).sum() / share.sum()
    np.testing.assert_allclose(audit.mixed, mixed, rtol=1e-12)
