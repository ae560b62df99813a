"""The lattice dynamic program against every outcome sequence, and against closed forms."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.theory.exact.allocation.enumeration import Atoms, Betas, all_visits
from theory.allocation.beta_binomial import probability_effective
from theory.allocation.priors import BetaMixture, beta, mixture
from theory.exact.allocation import lattice

BETAS: Betas = [(Fraction(1, 2), Fraction(3, 2), Fraction(1, 2))]
ATOMS: Atoms = [
    (Fraction(1, 4), Fraction(0)),
    (Fraction(1, 8), Fraction(1)),
    (Fraction(1, 8), Fraction(1, 5)),
]
FULL = 7


def population() -> BetaMixture:
    return mixture(
        [(float(w), float(a), float(b)) for w, a, b in BETAS],
        [(float(w), float(x)) for w, x in ATOMS],
    )


def random_rules(seed: int, num_rules: int, horizon: int) -> lattice.SequentialRule:
    """Any actions at any place; groups of all sizes up to the full one."""
    rng = np.random.default_rng(seed)
    shape = (num_rules, horizon + 1, horizon + 1)
    lengths = np.broadcast_to(np.arange(horizon + 1)[:, None], shape)
    return lattice.SequentialRule(
        jnp.asarray(rng.random(shape) < 0.8),
        jnp.asarray(rng.random(shape) < 0.6),
        jnp.asarray(rng.integers(lengths, max(FULL, horizon) + 1)),
    )


COMPILED = jax.jit(lattice.characteristics, static_argnums=2)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6))
def test_characteristics_are_sums_over_all_outcome_sequences(seed: int) -> None:
    rules = random_rules(seed, num_rules=3, horizon=5)
    with jax.enable_x64(True):
        found = COMPILED(rules, population(), FULL)
    for k in range(3):
        goes_on, trains, group_size = (np.asarray(field[k]) for field in rules)
        rows = all_visits(goes_on, trains, group_size, BETAS, ATOMS, FULL)
        truth = {
            "rollouts": sum(p * v.rollouts for p, _, v in rows),
            "effective": sum(p for p, _, v in rows if v.trains and v.mixed),
            "ineffective": sum(p for p, _, v in rows if v.trains and not v.mixed),
            "abandoned": sum(p for p, _, v in rows if not v.trains),
            "abandoned_effective": sum(p for p, full, v in rows if not v.trains and full),
            "full_effective": sum(p for p, full, _ in rows if full),
        }
        for name, value in truth.items():
            actual = np.asarray(getattr(found, name))[k]
            np.testing.assert_allclose(actual, float(value), rtol=1e-12, err_msg=name)
        for t in range(6):
            trains_at = sum(p for p, _, v in rows if v.trains and v.stopped_after == t)
            abandons_at = sum(p for p, _, v in rows if not v.trains and v.stopped_after == t)
            np.testing.assert_allclose(found.trains_at[k, t], float(trains_at), rtol=1e-12)
            np.testing.assert_allclose(found.abandons_at[k, t], float(abandons_at), rtol=1e-12)


def test_shares_of_orders_are_counts_of_orders() -> None:
    """c(t, s) C(t, s) is the number of sequences of s successes in t rollouts that stop there."""
    rule = random_rules(3, num_rules=1, horizon=5)
    with jax.enable_x64(True):
        shares = np.asarray(lattice.stopped_shares(rule, jnp.zeros(())))[0]
    counts = np.zeros((6, 6))
    goes_on, trains, group_size = (np.asarray(field[0]) for field in rule)
    # An atom at 1/2 gives each sequence of five the same mass; a stop at t stands for 2^(5 - t) of them.
    half: Atoms = [(Fraction(1), Fraction(1, 2))]
    for outcomes, (_, _, ended) in zip(
        np.ndindex(*(2,) * 5),
        all_visits(goes_on, trains, group_size * 0 + 5, [], half, 5),
        strict=True,
    ):
        t = ended.stopped_after
        counts[t, sum(outcomes[:t])] += 2.0 ** (t - 5)
    orders = np.array([[stats.binom.pmf(s, t, 0.5) * 2.0**t for s in range(6)] for t in range(6)])
    np.testing.assert_allclose(shares * orders, counts, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("wide", [False, True])
def test_success_law(wide: bool) -> None:
    horizon = 128
    with jax.enable_x64(wide):
        law = np.asarray(lattice.success_law(mixture([(0.5, 1.5, 0.3)], [(0.5, 0.2)]), horizon))
    steps = np.arange(horizon + 1)
    truth = np.stack(
        [
            (stats.betabinom.pmf(steps, t, 1.5, 0.3) + stats.binom.pmf(steps, t, 0.2)) / 2
            for t in steps
        ]
    )
    np.testing.assert_allclose(law, truth, rtol=1e-11 if wide else 5e-4, atol=1e-30)
    np.testing.assert_allclose(law.sum(axis=1), 1, rtol=1e-12 if wide else 1e-4)


def test_laws_of_many_populations_at_once() -> None:
    with jax.enable_x64(True):
        singles = [mixture([(1.0, a, 2.0)], [(0.5, 1.0)]) for a in (0.5, 3.0)]
        stacked = BetaMixture(*(jnp.stack(fields) for fields in zip(*singles, strict=True)))
        together = lattice.success_law(stacked, 6)
        for law, prior in zip(together, singles, strict=True):
            np.testing.assert_array_equal(law, lattice.success_law(prior, 6))


def test_dynamic_sampling_costs_n_over_p() -> None:
    with jax.enable_x64(True):
        found = COMPILED(lattice.full_groups(8), population(), 8)
        effective = probability_effective(population(), 0, 0, 8)
        cost, missed = lattice.cost_per_effective_group(found), lattice.missed_share(found)
        np.testing.assert_allclose(cost, 8 / effective, rtol=1e-14)
        np.testing.assert_allclose(found.rollouts, 8, rtol=1e-14)
        assert (found.abandoned, missed) == (0, 0)


def test_every_visit_ends() -> None:
    rules = random_rules(5, num_rules=4, horizon=12)
    with jax.enable_x64(True):
        found = COMPILED(
            rules._replace(group_size=rules.group_size[0] * 0 + 12), beta(0.2, 3.0), 12
        )
        ends = found.trains_at.sum(axis=-1) + found.abandons_at.sum(axis=-1)
        np.testing.assert_allclose(ends, 1, rtol=1e-13)
        np.testing.assert_allclose(
            found.effective + found.ineffective + found.abandoned, 1, rtol=1e-13
        )


@pytest.mark.slow
def test_at_a_thousand_rollouts() -> None:
    """Stop at the first success: geometric, so P(stop at t) = E[p (1 - p)^(t - 1)]."""
    horizon = 1000
    at = lattice.places(horizon)
    nothing = jnp.zeros_like(at.exists)
    with jax.enable_x64(True):
        rule = lattice.SequentialRule(at.successes == 0, nothing, jnp.full(nothing.shape, horizon))
        found = COMPILED(rule, beta(1.0, 1.0), horizon)
    t = np.arange(1, horizon)
    np.testing.assert_allclose(found.abandons_at[1:-1], 1 / (t * (t + 1.0)), rtol=1e-11)
