"""Stratified resampling: one uniform point in each of N equal strata.

The points (j + u_j) / N, j = 0..N-1, are read off the cumulative weights. Particle i has N w_i offspring on average, and its
number differs from that by less than 2. Source: Kitagawa, JCGS 5 (1996); Chopin & Papaspiliopoulos,
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


def stratified(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Stratified resampling; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending, and [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (num_particles,), log_weights.dtype)
    return stratified_from_uniforms(uniforms, log_weights), equal_log_weights(log_weights)


def stratified_from_uniforms(
    uniforms: Float[Array, "*batch N"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        uniforms: [..., N] in [0, 1); number j places the point of stratum j.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending.
    """
    size = log_weights.shape[-1]
    expected = expected_offspring(log_weights)
    # The first `whole` points lie below whole + fraction, and that of the stratum it falls into if u < fraction.
    whole, fraction = running_count(expected)
    uniform = jnp.take_along_axis(uniforms, jnp.minimum(whole, size - 1), axis=-1, mode="clip")
    num_particles = jnp.full(log_weights.shape[:-1], size, jnp.int32)
    cumulative = end_at(whole + (uniform < fraction).astype(jnp.int32), expected > 0, num_particles)
    return unless_all_dead(from_cumulative_counts(cumulative), log_weights)
