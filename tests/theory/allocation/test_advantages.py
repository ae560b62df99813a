"""Group advantages of ragged groups, against the formulas in exact arithmetic and against all outcomes."""

from collections.abc import Callable
from math import comb, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.allocation import advantages

FORMULAS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "grpo": (advantages.grpo, advantages.grpo_segments),
    "dr_grpo": (advantages.dr_grpo, advantages.dr_grpo_segments),
    "rloo": (advantages.rloo, advantages.rloo_segments),
}


def by_hand(name: str, group: list[float]) -> list[float]:
    """The formulas, one rollout after another."""
    size = len(group)
    if size <= 1 or min(group) == max(group):
        return [0.0] * size
    mean = sum(group) / size
    if name == "grpo":
        spread = sqrt(sum((r - mean) ** 2 for r in group) / size)
        return [(r - mean) / spread for r in group]
    if name == "dr_grpo":
        return [r - mean for r in group]
    return [r - (sum(group) - r) / (size - 1) for r in group]


GROUPS = st.lists(
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0, -3.0]), min_size=0, max_size=6),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", FORMULAS)
@given(groups=GROUPS, seed=st.integers(0, 100))
def test_ragged_groups_are_as_by_hand(name: str, groups: list[list[float]], seed: int) -> None:
    """Masked rows (holes anywhere, NaN in them) and shuffled segments both give every rollout its formula."""
    masked, segments = FORMULAS[name]
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        rewards = np.full((len(groups), 8), np.nan)
        mask = np.zeros(rewards.shape, bool)
        truth = np.zeros(rewards.shape)
        for row, group in enumerate(groups):
            places = rng.permutation(8)[: len(group)]
            rewards[row, places], mask[row, places] = group, True
            truth[row, places] = by_hand(name, group)
        found = masked(jnp.asarray(rewards), jnp.asarray(mask))
        np.testing.assert_allclose(found, truth, atol=1e-12)
        order = rng.permutation(rewards.size)
        ids = np.where(mask, np.arange(len(groups))[:, None], rng.choice([-1, len(groups), 99]))
        flat = segments(
            jnp.asarray(rewards.ravel()[order]), jnp.asarray(ids.ravel()[order]), len(groups)
        )
        np.testing.assert_allclose(flat, truth.ravel()[order], atol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_equal_rewards_have_advantage_zero(name: str, size: int) -> None:
    """Also where the mean of equal numbers misses them by a rounding, and in float32."""
    for value in (0.1, 1 / 3, 1e-30, -7.7):
        rewards = jnp.full((1, size), value, jnp.float32)
        assert not FORMULAS[name][0](rewards, jnp.ones((1, size), bool)).any()
        assert not FORMULAS[name][1](rewards[0], jnp.zeros(size, int), 1).any()


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.8])
def test_squares_in_expectation(size: int, p: float) -> None:
    """E[sum A^2 / G] is P(mixed), (G - 1) / G p (1 - p) and G / (G - 1) p (1 - p), over all outcomes."""
    wins = np.arange(size + 1)
    law = np.array([comb(size, k) * p**k * (1 - p) ** (size - k) for k in wins])
    with jax.enable_x64(True):
        rewards = jnp.asarray((np.arange(size)[None, :] < wins[:, None]).astype(float))
        mask = jnp.ones(rewards.shape, bool)
        squares = {
            name: law @ np.mean(np.asarray(masked(rewards, mask)) ** 2, axis=1)
            for name, (masked, _) in FORMULAS.items()
        }
    variance = p * (1 - p)
    assert squares["grpo"] == pytest.approx(1 - p**size - (1 - p) ** size, abs=1e-12)
    assert squares["dr_grpo"] == pytest.approx((size - 1) / size * variance, abs=1e-12)
    rloo = size / (size - 1) * variance if size > 1 else 0.0
    assert squares["rloo"] == pytest.approx(rloo, abs=1e-12)


def test_epsilon_is_added_to_the_deviation() -> None:
    """As trainers do; equal groups stay at zero."""
    rewards = jnp.array([[0.0, 1.0], [1.0, 1.0]])
    found = advantages.grpo(rewards, jnp.ones((2, 2), bool), epsilon=0.5)
    np.testing.assert_allclose(found, [[-0.5, 0.5], [0.0, 0.0]])


def test_padding_on_both_sides_has_no_advantage() -> None:
    """Group numbers below 0 and from num_groups on are padding, mixed rewards among them or not."""
    rewards, groups = jnp.array([1.0, 0.0, 6.0, 7.0, 3.0]), jnp.array([0, 0, -1, 9, 1])
    found = advantages.dr_grpo_segments(rewards, groups, 1)
    assert found.tolist() == [0.5, -0.5, 0.0, 0.0, 0.0]
