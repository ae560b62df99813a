"""Rules that size groups, against exhaustive search: VIP, Knapsack, PODS; and the rounds of Reinforce-Ada, AR3PO and SPEED."""

import itertools
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.allocation.policies import ar3po, knapsack, pods, reinforce_ada, speed, vip
from theory.allocation.records import Decision
from theory.allocation.sources import epochs

RATES = st.lists(
    st.sampled_from([0.0, 0.02, 0.1, 0.25, 0.5, 0.7, 0.97, 1.0]), min_size=3, max_size=3
)
SOLVE = jax.jit(partial(knapsack.solve, budget=9, most=6))
VIP = jax.jit(vip.allocate)


def names(decisions: jnp.ndarray) -> list[str]:
    """Decisions in words."""
    return [Decision(int(each)).name.lower() for each in decisions]


@settings(max_examples=30)
@given(RATES, st.integers(0, 9))
def test_knapsack_is_exhaustive_search(rates: list[float], budget: int) -> None:
    """No allowed sizes within the budget are worth more; N = 1 is never given."""

    def worth(sizes: tuple[int, ...]) -> float:
        return sum(
            (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2
            for p, n in zip(rates, sizes, strict=True)
            if n
        )

    allowed = [0, 2, 3, 4, 5, 6]
    best = max(worth(s) for s in itertools.product(allowed, repeat=3) if sum(s) <= budget)
    with jax.enable_x64(True):
        found = tuple(np.asarray(SOLVE(jnp.asarray(rates), limit=jnp.asarray(budget))).tolist())
    assert sum(found) <= budget and set(found) <= set(allowed)
    assert worth(found) == pytest.approx(best, abs=1e-13)


def test_knapsack_ties_go_to_the_first() -> None:
    """Equal prompts: what cannot be shared evenly goes to the earlier ones, and hopeless ones get nothing."""
    s, f = jnp.array([2, 2, 0, 4]), jnp.array([2, 2, 4, 0])
    found = knapsack.allocate(s, f, 5)
    assert found.additional.tolist() == [3, 2, 0, 0]
    assert names(found.decision) == ["commit", "commit", "none", "none"]
    assert knapsack.allocate(s, f, 1).additional.tolist() == [0, 0, 0, 0]
    assert knapsack.allocate(s, f, 0).additional.tolist() == [0, 0, 0, 0]


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from([0.05, 0.2, 0.5, 0.9]), min_size=3, max_size=3),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
    st.integers(0, 9),
)
def test_vip_is_exhaustive_search(rates: list[float], seen: list[int], budget: int) -> None:
    """Once every group has two rollouts, no other way to spend the rest has less variance."""
    with jax.enable_x64(True):
        s = jnp.asarray(seen)
        found = np.asarray(VIP(jnp.asarray(rates), s, 0 * s, jnp.asarray(budget)).additional)
    assert found.sum() == budget and (found >= 0).all()
    first = [max(2 - size, 0) for size in seen]
    if sum(first) > budget:
        return
    assert (np.array(seen) + found >= 2).all()

    def variance(extra: tuple[int, ...]) -> float:
        return sum(
            p * (1 - p) / (size + more - 1)
            for p, size, more in zip(rates, seen, extra, strict=True)
        )

    best = min(
        variance(extra)
        for extra in itertools.product(range(budget + 1), repeat=3)
        if sum(extra) == budget and all(m >= low for m, low in zip(extra, first, strict=True))
    )
    assert variance(tuple(found.tolist())) == pytest.approx(best, rel=1e-12)


def test_vip_compares_the_next_rollouts_exactly() -> None:
    """One rollout goes to the larger p (1 - p) / (n (n - 1)), to the first of equal ones: every pair of sizes and of rates, in fractions."""
    shares = [Fraction(k, 40) for k in (1, 2, 4, 5, 8, 11, 15, 20)]
    cases = [(a, b, n, m) for a in shares for b in shares for n in range(2, 7) for m in range(2, 7)]
    first = [a * (1 - a) / (n * (n - 1)) >= b * (1 - b) / (m * (m - 1)) for a, b, n, m in cases]
    distinct = [a * (1 - a) / (n * (n - 1)) != b * (1 - b) / (m * (m - 1)) for a, b, n, m in cases]
    with jax.enable_x64(True):
        rates = jnp.asarray([(float(a), float(b)) for a, b, _, _ in cases])
        sizes = jnp.asarray([(n, m) for _, _, n, m in cases])
        found = jax.jit(jax.vmap(lambda p, s: vip.allocate(p, s, 0 * s, 1).additional))(
            rates, sizes
        )
    assert (np.asarray(found).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(np.asarray(found)[distinct, 0], np.array(first)[distinct])


def test_the_largest_group_of_vip_is_four_times_the_mean() -> None:
    """One prompt that is worth all the rollouts gets 4 n of B n, and every other one shares in the rest."""
    rates = jnp.asarray([1e-6, 1e-6, 0.5, 1e-6, 1e-6, 1e-6])
    allocator = vip.allocator(6, 8, epochs(), lambda belief: rates)
    state = allocator.init(jax.random.key(0), 6)
    found = jax.jit(allocator.propose, static_argnums=1)(state, 10**6)
    assert found.additional.tolist() == [4, 3, 32, 3, 3, 3]


MASK = jax.jit(pods.max_variance_mask, static_argnums=1)


@settings(max_examples=30)
@given(st.lists(st.floats(-2, 2), min_size=6, max_size=6), st.sampled_from([1, 3, 4, 6]))
def test_pods_is_exhaustive_search(rewards: list[float], kept: int) -> None:
    """The subset of m with the largest variance, for any rewards."""
    with jax.enable_x64(True):
        mask = np.asarray(MASK(jnp.asarray(rewards), kept))
    assert mask.sum() == kept
    best = max(np.var(subset) for subset in itertools.combinations(rewards, kept))
    assert np.var(np.array(rewards)[mask]) == pytest.approx(best, abs=1e-9)


def test_reinforce_ada_rounds() -> None:
    """A round of 8 for those that have not shown enough; a broken round is completed; at the end mixed groups count."""
    s = jnp.array([0, 2, 1, 3, 0, 1, 8])
    f = jnp.array([0, 6, 7, 2, 32, 31, 0])
    leaves = reinforce_ada.leaves_balanced(s, f)
    found = reinforce_ada.allocate(s, f, leaves, 1000)
    assert found.additional.tolist() == [8, 0, 8, 3, 0, 0, 8]
    assert names(found.decision) == [
        *["continue", "commit", "continue", "continue", "abandon", "commit", "continue"]
    ]
    positive = reinforce_ada.allocate(s, f, reinforce_ada.leaves_positive(s, f), 10)
    assert positive.additional.tolist() == [8, 0, 0, 2, 0, 0, 0]


def test_ar3po_stages() -> None:
    """Stages of 4 until a success; what is stored saves a group that failed."""
    s, f = jnp.array([0, 1, 0, 0, 0]), jnp.array([0, 3, 4, 8, 8])
    found = ar3po.allocate(s, f, jnp.array([False, False, False, True, False]), 1000)
    assert found.additional.tolist() == [4, 0, 4, 0, 0]
    assert names(found.decision) == ["continue", "commit", "continue", "commit", "abandon"]
    belief = ar3po.StoredState(None, jnp.array([False, True, False, True, True]))
    right, wrong, added = ar3po.replayed(belief, s, f)
    assert right.tolist() == [0, 1, 0, 1, 1] and added.tolist() == [0, 0, 0, 1, 1]
    assert wrong.tolist() == f.tolist()


def test_ar3po_keeps_a_success_for_ever_and_only_of_what_was_visited() -> None:
    """Update after update, as a set."""
    source, rng, kept = ar3po.remembering(epochs()), np.random.default_rng(9), set[int]()
    belief = source.init(jax.random.key(0), 12)
    for _ in range(4):
        visited, s = rng.random(12) < 0.4, rng.integers(0, 2, 12)
        belief = source.learn(belief, jnp.asarray(visited), jnp.asarray(s), jnp.asarray(1 - s))
        kept |= set(np.flatnonzero(visited & (s > 0)).tolist())
        assert set(np.flatnonzero(np.asarray(belief.stored)).tolist()) == kept
    assert 3 < len(kept) < 12


def test_speed_screens() -> None:
    """4 first; mixed ones get 20 more, the others nothing."""
    s, f = jnp.array([0, 1, 4, 0, 2]), jnp.array([1, 3, 0, 5, 22])
    found = speed.allocate(s, f, 1000)
    assert found.additional.tolist() == [3, 20, 0, 0, 0]
    assert names(found.decision) == ["continue", "commit", "abandon", "abandon", "commit"]
    assert speed.allocate(s, f, 10).additional.tolist() == [3, 7, 0, 0, 0]
