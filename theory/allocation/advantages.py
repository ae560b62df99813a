"""Advantages inside ragged groups: rollouts of a prompt against each other.

Groups differ in size, so they come as a padded row with a mask or as one flat array with group ids (segments). Every formula is defined
everywhere: a group of one rollout and a group of equal rewards have advantage 0 (an equal group is found by its extremes, since the
mean of equal numbers may miss them by a rounding). What the mask leaves out is never read, NaN included, and gets 0.

With rbar the mean of a group of G rewards r_i, for binary rewards of success probability p:

    GRPO      (r_i - rbar) / (s + epsilon), s^2 = sum (r_j - rbar)^2 / G     E[sum A^2 / G] = P(mixed) at epsilon 0
    Dr. GRPO  r_i - rbar                                                     E[A^2] = (G - 1) / G p (1 - p)
    RLOO      r_i - mean of the others = G / (G - 1) (r_i - rbar)            E[A^2] = G / (G - 1) p (1 - p)

Only RLOO has a baseline without the rollout itself: its mean of A times the score is unbiased for the gradient of p; that of Dr. GRPO is
(1 - 1/G) of it, that of GRPO the gradient of another objective (2 arcsin sqrt p as G grows). Sources: Shao et al. 2024, arXiv 2402.03300;
Liu et al. 2025, arXiv 2503.20783; Ahmadian et al. 2024, arXiv 2402.14740. Trainers differ in s: verl and TRL divide by G - 1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class GroupSums(NamedTuple):
    """What the formulas need of the group that a rollout is in, once for each rollout.

    Attributes:
        size: rollouts of the group.
        mean: of its rewards.
        variance: of its rewards, over `size`.
        mixed: whether two of its rewards differ.
    """

    size: Float[Array, "*batch"]
    mean: Float[Array, "*batch"]
    variance: Float[Array, "*batch"]
    mixed: Bool[Array, "*batch"]


Formula = Callable[[Float[Array, "*batch"], GroupSums], Float[Array, "*batch"]]


def grpo(
    rewards: Float[Array, "*batch G"], mask: Bool[Array, "*batch G"], epsilon: float = 0.0
) -> Float[Array, "*batch G"]:
    """GRPO: centred and divided by the standard deviation of the group.

    Args:
        rewards: [..., G] padded groups.
        mask: [..., G] which entries are rollouts.
        epsilon: added to the standard deviation; trainers use 1e-6 to 1e-4.

    Returns:
        [..., G] advantages, 0 outside the mask.
    """
    return _masked(rewards, mask, _grpo(epsilon))


def dr_grpo(
    rewards: Float[Array, "*batch G"], mask: Bool[Array, "*batch G"]
) -> Float[Array, "*batch G"]:
    """Dr. GRPO: centred only.

    Args:
        rewards: [..., G] padded groups.
        mask: [..., G] which entries are rollouts.

    Returns:
        [..., G] advantages, 0 outside the mask.
    """
    return _masked(rewards, mask, _dr_grpo)


def rloo(
    rewards: Float[Array, "*batch G"], mask: Bool[Array, "*batch G"]
) -> Float[Array, "*batch G"]:
    """RLOO: against the mean of the other rollouts of the group.

    Args:
        rewards: [..., G] padded groups.
        mask: [..., G] which entries are rollouts.

    Returns:
        [..., G] advantages, 0 outside the mask.
    """
    return _masked(rewards, mask, _rloo)


def grpo_segments(
    rewards: Float[Array, " B"], groups: Int[Array, " B"], num_groups: int, epsilon: float = 0.0
) -> Float[Array, " B"]:
    """GRPO on rollouts in one flat array.

    Args:
        rewards: [B] one a rollout.
        groups: [B] its group, from 0; a rollout outside 0..num_groups-1 is padding.
        num_groups: how many groups there are.
        epsilon: see `grpo`.

    Returns:
        [B] advantages, 0 for padding.
    """
    return _segments(rewards, groups, num_groups, _grpo(epsilon))


def dr_grpo_segments(
    rewards: Float[Array, " B"], groups: Int[Array, " B"], num_groups: int
) -> Float[Array, " B"]:
    """Dr. GRPO on rollouts in one flat array; see `grpo_segments`."""
    return _segments(rewards, groups, num_groups, _dr_grpo)


def rloo_segments(
    rewards: Float[Array, " B"], groups: Int[Array, " B"], num_groups: int
) -> Float[Array, " B"]:
    """RLOO on rollouts in one flat array; see `grpo_segments`."""
    return _segments(rewards, groups, num_groups, _rloo)


def _grpo(epsilon: float) -> Formula:
    def formula(rewards: Float[Array, "*batch"], group: GroupSums) -> Float[Array, "*batch"]:
        spread = jnp.where(group.mixed, jnp.sqrt(group.variance), 1.0) + epsilon
        return (rewards - group.mean) / spread

    return formula


def _dr_grpo(rewards: Float[Array, "*batch"], group: GroupSums) -> Float[Array, "*batch"]:
    return rewards - group.mean


def _rloo(rewards: Float[Array, "*batch"], group: GroupSums) -> Float[Array, "*batch"]:
    return (rewards - group.mean) * group.size / jnp.maximum(group.size - 1, 1)


def _masked(
    rewards: Float[Array, "*batch G"], mask: Bool[Array, "*batch G"], formula: Formula
) -> Float[Array, "*batch G"]:
    values = jnp.where(mask, rewards, 0)

    def per_rollout(reduced: Float[Array, "*batch 1"]) -> Float[Array, "*batch G"]:
        return jnp.broadcast_to(reduced, values.shape)

    count = per_rollout(jnp.sum(mask, axis=-1, keepdims=True, dtype=values.dtype))
    mean = per_rollout(jnp.sum(values, axis=-1, keepdims=True)) / jnp.maximum(count, 1)
    squares = jnp.where(mask, (values - mean) ** 2, 0)
    variance = per_rollout(jnp.sum(squares, axis=-1, keepdims=True)) / jnp.maximum(count, 1)
    largest = jnp.max(jnp.where(mask, values, -jnp.inf), axis=-1, keepdims=True)
    smallest = jnp.min(jnp.where(mask, values, jnp.inf), axis=-1, keepdims=True)
    mixed = jnp.broadcast_to(largest > smallest, values.shape)
    return _defined(formula(values, GroupSums(count, mean, variance, mixed)), mask & mixed)


def _segments(
    rewards: Float[Array, " B"], groups: Int[Array, " B"], num_groups: int, formula: Formula
) -> Float[Array, " B"]:
    inside = (groups >= 0) & (groups < num_groups)
    ids = jnp.where(inside, groups, num_groups)
    values = jnp.where(inside, rewards, 0)

    def total(entries: Float[Array, " B"]) -> Float[Array, " B"]:
        return jax.ops.segment_sum(entries, ids, num_groups + 1)[ids]

    count = total(jnp.ones_like(values))
    mean = total(values) / count
    variance = total((values - mean) ** 2) / count
    largest = jax.ops.segment_max(values, ids, num_groups + 1)[ids]
    smallest = jax.ops.segment_min(values, ids, num_groups + 1)[ids]
    mixed = largest > smallest
    return _defined(formula(values, GroupSums(count, mean, variance, mixed)), inside & mixed)


def _defined(
    advantages: Float[Array, "*batch"], where: Bool[Array, "*batch"]
) -> Float[Array, "*batch"]:
    return jnp.where(where, advantages, 0)
