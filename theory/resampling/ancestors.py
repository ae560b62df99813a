"""From weights to ancestors: the steps that the schemes share.

A scheme decides how many offspring each particle has, or at which points of [0, 1) the cumulative weights are read.
Ancestors follow by counting, in O(N). What every scheme keeps: counts sum to N, a weight of zero has no offspring
whatever the uniforms, no ancestor lies outside 0..N-1, and where all are dead nothing is resampled.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Int32

from theory.log_weights import all_dead, log_mean_weight, relative_weights
from theory.resampling.running_sum import positions, running_sum


def expected_offspring(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch N"]:
    """N times the normalised weights.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] all 0 where all are dead.
    """
    weights = relative_weights(log_weights)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    # One factor a row, so that equal weights have exactly one offspring each.
    return weights * (log_weights.shape[-1] / jnp.maximum(total, 1))


def certain_and_fraction(
    expected: Float[Array, "*batch N"],
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Split expected numbers of offspring into those that are certain and the fraction that is left to chance.

    Args:
        expected: [..., N] not negative.

    Returns:
        [..., N] floor and [..., N] what lies above it.
    """
    floor = jnp.floor(expected)
    # A fused multiply-add subtracts from the unrounded product, which may lie just below its own floor.
    return floor.astype(jnp.int32), jnp.maximum(expected - floor, 0)


def equal_log_weights(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch N"]:
    """What particles weigh after a resampling that leaves them equal: the mean, so that no evidence is lost.

    Args:
        log_weights: [..., N] before resampling; natural log, unnormalised.

    Returns:
        [..., N] the log mean weight, -inf where all are dead.
    """
    return jnp.broadcast_to(log_mean_weight(log_weights)[..., None], log_weights.shape)


def invert(
    points: Float[Array, "*batch M"], weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch M"]:
    """Read the cumulative weights at points: the first particle whose cumulative share lies above the point.

    A point on a boundary belongs to the right, so that a weight of zero owns no point, not even 0. In float32 mass is misplaced by
    some 1e-7 of the total.

    Args:
        points: [..., M] in [0, 1), in any order.
        weights: [..., N] not negative, unnormalised.

    Returns:
        [..., M] indices of positive weights; 0 where there is none.
    """
    cumulative = running_sum(weights)
    total = cumulative[..., -1:]
    # The points are scaled, not the weights: no rounding may move the last one past the end.
    below_total = jnp.nextafter(total, jnp.zeros_like(total))
    scaled = jnp.minimum(points * total, below_total)
    return jnp.where(total > 0, num_not_above(cumulative, scaled), 0)


def num_not_above(
    sorted_values: Float[Array, "*batch N"], points: Float[Array, "*batch M"]
) -> Int32[Array, "*batch M"]:
    """How many values are at most as large as each point: `searchsorted(..., side="right")`, batched.

    Binary search in strides of powers of two; on CPU three times as fast as a vmapped `searchsorted`.

    Args:
        sorted_values: [..., N] never decreasing.
        points: [..., M].

    Returns:
        [..., M] in 0..N.
    """
    # Without the barrier the compiler computes the points anew at every stride.
    sorted_values, points = jax.lax.optimization_barrier((sorted_values, points))
    size = sorted_values.shape[-1]
    rows = math.prod(sorted_values.shape[:-1])
    before_row = size * jnp.arange(rows, dtype=jnp.int32)[:, None] - 1
    flat_values, flat_points = sorted_values.ravel(), points.reshape(rows, points.shape[-1])

    def lengthen(step: Int[Array, ""] | int, found: Array) -> Array:
        further = found + (1 << (num_steps - 1 - step))
        last = flat_values[before_row + jnp.minimum(further, size)]
        return jnp.where((further <= size) & (last <= flat_points), further, found)

    num_steps = size.bit_length()
    start = jnp.zeros(flat_points.shape, jnp.int32)
    return jax.lax.fori_loop(0, num_steps, lengthen, start).reshape(points.shape)


def num_offspring(
    ancestors: Int[Array, "*batch M"], num_particles: int
) -> Int32[Array, "*batch N"]:
    """How often each particle is an ancestor.

    Args:
        ancestors: [..., M] in any order; numbers outside 0..N-1 are not counted.
        num_particles: N.

    Returns:
        [..., N] counts.
    """
    batch = ancestors.shape[:-1]
    rows = math.prod(batch)
    offsets = num_particles * jnp.arange(rows, dtype=jnp.int32)[:, None]
    ancestors = ancestors.reshape(rows, ancestors.shape[-1])
    inside = (ancestors >= 0) & (ancestors < num_particles)
    index = jnp.where(inside, ancestors + offsets, rows * num_particles)
    counts = jnp.zeros(rows * num_particles, jnp.int32).at[index].add(1, mode="drop")
    return counts.reshape(*batch, num_particles)


def from_cumulative_counts(cumulative: Int32[Array, "*batch N"]) -> Int32[Array, "*batch N"]:
    """Ancestors, ascending, of particles with these cumulative numbers of offspring.

        a_j = number of i with K_i <= j

    Args:
        cumulative: [..., N] never decreasing; entries from N on are not reached.

    Returns:
        [..., N] ancestors, below N where the last cumulative count is N.
    """
    return running_sum(num_offspring(cumulative, cumulative.shape[-1]))


def from_counts(counts: Int[Array, "*batch N"]) -> Int32[Array, "*batch N"]:
    """Ancestors, ascending, of particles with these numbers of offspring.

    Args:
        counts: [..., N] not negative, with sum N (if it is less, the places that remain hold N).

    Returns:
        [..., N] ancestors.
    """
    return from_cumulative_counts(running_sum(counts.astype(jnp.int32)))


def in_place(ancestors: Int[Array, "*batch N"]) -> Int32[Array, "*batch N"]:
    """Give every survivor its own slot: the same ancestors, reordered so that a_i = i whenever i is an ancestor at all.

    Further offspring fill the slots of the dead, in ascending order. What stays need not be copied: only slots of the dead
    are written, and never one that is still to be read. Not for populations whose weights differ between
    the offspring of one particle.

    Args:
        ancestors: [..., N] in any order.

    Returns:
        [..., N] the same multiset.
    """
    counts = num_offspring(ancestors, ancestors.shape[-1])
    dead = counts == 0
    spare = from_counts(jnp.maximum(counts - 1, 0))
    rank = running_sum(dead.astype(jnp.int32)) - 1
    filler = jnp.take_along_axis(spare, jnp.maximum(rank, 0), axis=-1, mode="clip")
    return jnp.where(dead, filler, positions(counts.shape))


def unless_all_dead(
    ancestors: Int[Array, "*batch N"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors, or everyone its own where all are dead and there is nothing to draw from.

    Args:
        ancestors: [..., N].
        log_weights: [..., N] from which they were drawn.

    Returns:
        [..., N].
    """
    slots = positions(ancestors.shape)
    return jnp.where(all_dead(log_weights)[..., None], slots, ancestors.astype(jnp.int32))
