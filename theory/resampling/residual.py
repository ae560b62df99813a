"""Residual resampling: floor(N w_i) offspring for certain, the rest multinomial.

The R = N - sum_i floor(N w_i) offspring that remain are drawn independently, with probabilities proportional to
N w_i - floor(N w_i). Source: Liu & Chen, JASA 93 (1998); Chopin & Papaspiliopoulos, "An Introduction to Sequential Monte Carlo"
(2020), section 9.6.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from theory.resampling.ancestors import (
    certain_and_fraction,
    equal_log_weights,
    expected_offspring,
    from_counts,
    invert,
    num_offspring,
    unless_all_dead,
)
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import positions


def residual(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Residual resampling; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending, and [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (num_particles,), log_weights.dtype)
    return residual_from_uniforms(uniforms, log_weights), equal_log_weights(log_weights)


def residual_from_uniforms(
    uniforms: Float[Array, "*batch N"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        uniforms: [..., N] in [0, 1); the first R choose the offspring that remain, the others are not read.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending.
    """
    size = log_weights.shape[-1]
    certain, fractions = certain_and_fraction(expected_offspring(log_weights))
    num_left = size - jnp.sum(certain, axis=-1, keepdims=True, dtype=jnp.int32)
    drawn = invert(uniforms, fractions)
    drawn = jnp.where(positions(drawn.shape) < num_left, drawn, size)
    counts = certain + num_offspring(drawn, size)
    return unless_all_dead(from_counts(counts), log_weights)
