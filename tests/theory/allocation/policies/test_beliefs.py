"""DPS, MoPPS, GRESO and the remembered rates: one update by hand, and the formulas of their programs written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.allocation.policies import cures, dps, greso, mopps
from theory.allocation.rates import predicted_rates, remembered_epochs


def dps_program(
    alpha: np.ndarray, before: np.ndarray, belief: np.ndarray, seen: int | None, lam: float
):
    """One prompt of the DPS program, as its class does it: update of the counts, then prediction."""
    transitions = alpha / alpha.sum(axis=0, keepdims=True)
    now = belief if seen is None else np.eye(3)[seen]
    update = np.zeros((3, 3))
    if seen is not None:
        update = np.outer(now, before) * transitions
        update /= update.sum()
    alpha = lam * alpha + (1 - lam) * np.ones((3, 3)) + update
    following = alpha / alpha.sum(axis=0, keepdims=True) @ now
    return alpha, now, following / following.sum()


def test_dps_by_hand() -> None:
    """A first look that shows a mixed group, at lam 1/2 and a flat start: a third of the count falls on each column of row 2."""
    state = dps.updated(
        dps.initial_belief(2), jnp.array([True, False]), jnp.array([3, 0]), jnp.array([5, 0])
    )
    expected = np.ones((3, 3))
    expected[1] += 1 / 3
    np.testing.assert_allclose(state.alpha[0], expected, rtol=1e-6)
    # Columns sum to 10/3, so that mixed is followed by mixed with 4/10.
    np.testing.assert_allclose(state.belief[0], [0.3, 0.4, 0.3], rtol=1e-6)
    np.testing.assert_allclose(state.before[0], [0, 1, 0])
    np.testing.assert_allclose(state.belief[1], np.full(3, 1 / 3), rtol=1e-6)


@settings(max_examples=20)
@given(
    st.lists(
        st.lists(st.sampled_from([None, 0, 1, 2]), min_size=3, max_size=3), min_size=1, max_size=6
    ),
    st.sampled_from([0.0, 0.5, 0.7, 1.0]),
)
def test_dps_is_its_program(looks: list[list[int | None]], lam: float) -> None:
    """Prompt by prompt over a history of looks."""
    with jax.enable_x64(True):
        state = dps.initial_belief(3)
        rows = [(np.ones((3, 3)), np.full(3, 1 / 3), np.full(3, 1 / 3)) for _ in range(3)]
        for shown in looks:
            wins = jnp.array([{None: 0, 0: 0, 1: 2, 2: 4}[each] for each in shown])
            visited = jnp.array([each is not None for each in shown])
            losses = jnp.where(visited, 4 - wins, 0)
            state = dps.updated(state, visited, wins, losses, lam)
            rows = [
                dps_program(alpha, before, belief, each, lam)
                for (alpha, before, belief), each in zip(rows, shown, strict=True)
            ]
        for place, (alpha, before, belief) in enumerate(rows):
            np.testing.assert_allclose(state.alpha[place], alpha, rtol=1e-12)
            np.testing.assert_allclose(state.before[place], before, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(state.belief[place], belief, rtol=1e-12)


def test_mopps_by_hand() -> None:
    """alpha <- lam alpha + (1 - lam) + s where visited; nothing changes elsewhere."""
    belief = mopps.MoppsBelief(jnp.array([3.0, 3.0]), jnp.array([5.0, 5.0]))
    after = mopps.updated(
        belief, jnp.array([True, False]), jnp.array([2, 2]), jnp.array([6, 6]), 0.25
    )
    np.testing.assert_allclose(after.alpha, [0.25 * 3 + 0.75 + 2, 3])
    np.testing.assert_allclose(after.beta, [0.25 * 5 + 0.75 + 6, 5])


def test_mopps_takes_what_is_near_the_target() -> None:
    """With certain rates the sample is the rate, and whole groups go to the nearest."""
    rates = jnp.array([0.02, 0.45, 0.9, 0.6])
    belief = mopps.MoppsBelief(rates * 1e7, (1 - rates) * 1e7)
    zero = jnp.zeros(4, jnp.int32)
    found = mopps.allocate(jax.random.key(0), belief, zero, zero, 19, 8)
    assert found.additional.tolist() == [0, 8, 0, 8]


def test_greso_by_hand() -> None:
    """Runs, the two adaptive probabilities, and the chance to be kept."""
    start = greso.initial_belief(5)
    visited = jnp.array([True, True, True, True, False])
    after = greso.updated(start, visited, jnp.array([8, 0, 4, 8, 0]), jnp.array([0, 8, 4, 0, 0]))
    assert after.easy_run.tolist() == [1, 0, 0, 1, 0] and after.hard_run.tolist() == [0, 1, 0, 0, 0]
    # Two of four were easy (target a twelfth), one of four hard (target a sixth): both are explored less.
    np.testing.assert_allclose([after.explore_easy, after.explore_hard], [0.49, 0.49], rtol=1e-6)
    np.testing.assert_allclose(after.zero_share, 0.75)
    np.testing.assert_allclose(greso.keep_probability(after), [0.49, 0.49, 1, 0.49, 1], rtol=1e-6)
    again = greso.updated(
        after, jnp.arange(5) == 0, jnp.array([8, 0, 0, 0, 0]), jnp.zeros(5, jnp.int32)
    )
    assert again.easy_run.tolist() == [2, 0, 0, 1, 0]
    # No hard group this time: hard ones are explored more.
    np.testing.assert_allclose([again.explore_easy, again.explore_hard], [0.48, 0.5], rtol=1e-6)
    np.testing.assert_allclose(greso.keep_probability(again)[0], 0.48**2, rtol=1e-6)
    long = again._replace(easy_run=jnp.full(5, 60))
    np.testing.assert_allclose(greso.keep_probability(long), 0.01)
    nothing = greso.updated(
        again, jnp.zeros(5, bool), jnp.zeros(5, jnp.int32), jnp.zeros(5, jnp.int32)
    )
    for before, now in zip(again, nothing, strict=True):
        np.testing.assert_array_equal(before, now)


def test_remembered_rates_by_hand() -> None:
    """S <- lam S + s at a visit; the mean under a flat prior."""
    source = remembered_epochs(0.5)
    state = source.init(jax.random.key(0), 2)
    visited = jnp.array([True, False])
    for _ in range(2):
        state = source.learn(state, visited, jnp.array([3, 3]), jnp.array([5, 5]))
    np.testing.assert_allclose(predicted_rates(state), [5.5 / 14, 0.5])
    # Opened, and nothing drawn: nothing is forgotten.
    zero = jnp.zeros(2, jnp.int32)
    np.testing.assert_allclose(
        predicted_rates(source.learn(state, visited, zero, zero)), [5.5 / 14, 0.5]
    )


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(0, 100))
def test_shares_are_whole_and_near(weights: list[float], budget: int) -> None:
    """CurES: R in all, each within one of its exact share."""
    found = np.asarray(cures.shares(jnp.array(weights), budget))
    assert found.sum() == budget
    total = sum(weights)
    exact = [budget * (w / total if total > 0 else 0.25) for w in weights]
    assert (abs(found - exact) < 1 + 1e-4 * budget).all()


@pytest.mark.parametrize("wide", [False, True])
def test_equal_shares_go_by_position(wide: bool) -> None:
    """p and 1 - p deserve the same, and what is left over goes to whoever stands first."""
    with jax.enable_x64(wide):
        shared = jax.jit(lambda rates, budget: cures.shares(cures.deviation(rates), budget))
        for right, size in ((3, 10), (7, 10), (1, 3), (5, 7), (11, 30)):
            rates = jnp.array([right / size, (size - right) / size, right / size])
            for budget in (1, 2, 4, 32):
                found = shared(rates, budget).tolist()
                assert found == sorted(found, reverse=True) and sum(found) == budget
