"""Systematic resampling: one uniform, N evenly spaced points.

The points (j + u) / N, j = 0..N-1, are read off the cumulative weights. Particle i has floor(N w_i) or ceil(N w_i) offspring,
N w_i on average. Source: Carpenter, Clifford & Fearnhead, IEE Proc. Radar 146 (1999); Chopin & Papaspiliopoulos,
"An Introduction to Sequential Monte Carlo" (2020), section 9.6.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from theory.resampling.ancestors import (
    equal_log_weights,
    expected_offspring,
    from_cumulative_counts,
    unless_all_dead,
)
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import end_at, running_count


def systematic(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Systematic resampling; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending, and [..., N] the log mean weight.
    """
    uniform = draw_uniforms(key, log_weights.shape[:-1], (), log_weights.dtype)
    return systematic_from_uniforms(uniform, log_weights), equal_log_weights(log_weights)


def systematic_from_uniforms(
    uniform: Float[Array, "*batch"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        uniform: [...] in [0, 1).
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending.
    """
    num_particles = jnp.full(log_weights.shape[:-1], log_weights.shape[-1], jnp.int32)
    cumulative = systematic_counts(uniform, expected_offspring(log_weights), num_particles)
    return unless_all_dead(from_cumulative_counts(cumulative), log_weights)


def systematic_counts(
    uniform: Float[Array, "*batch"],
    expected: Float[Array, "*batch N"],
    total: Int32[Array, "*batch"],
) -> Int32[Array, "*batch N"]:
    """Numbers rounded to integers, as running sums: how many of the points j + u lie below the running sum of the numbers.

    Args:
        uniform: [...] u, in [0, 1).
        expected: [..., N] not negative; the expectation of what each is rounded to.
        total: [...] the sum of what they are rounded to, and of the numbers themselves but for rounding.

    Returns:
        [..., N] running sums; each number is rounded up or down.
    """
    # Of the points j + u, the first `whole` lie below whole + fraction, and one more if u < fraction.
    whole, fraction = running_count(expected)
    below = whole + (uniform[..., None] < fraction).astype(jnp.int32)
    return end_at(below, expected > 0, total)
