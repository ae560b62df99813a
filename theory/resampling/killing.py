"""Killing: particle i survives in its own slot with probability w_i / max w, and the killed are drawn anew.

A killed slot takes an independent draw from the weights. The heaviest particle always survives, slots are independent given the weights, and
what survives need not be copied. N w_i offspring on average:

    w_i / m + sum_j (1 - w_j / m) w_i = N w_i   for weights with sum 1 and largest m.

Source: Del Moral, "Feynman-Kac Formulae" (2004), section 2.5.3; as a resampling scheme in Karppinen, Singh & Vihola,
Scandinavian Journal of Statistics (2023), killing resampling (section numbers from memory).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from theory.log_weights import relative_weights
from theory.resampling.ancestors import equal_log_weights, invert, unless_all_dead
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import positions


def killing(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Killing; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, survivors in their own slots, and [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (2, num_particles), log_weights.dtype)
    ancestors = killing_from_uniforms(uniforms[..., 0, :], uniforms[..., 1, :], log_weights)
    return ancestors, equal_log_weights(log_weights)


def killing_from_uniforms(
    survival_uniforms: Float[Array, "*batch N"],
    replacement_uniforms: Float[Array, "*batch N"],
    log_weights: Float[Array, "*batch N"],
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        survival_uniforms: [..., N] in [0, 1); number i decides whether particle i survives.
        replacement_uniforms: [..., N] in [0, 1); number i chooses who takes slot i, and is read only if i is killed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors.
    """
    weights = relative_weights(log_weights)
    replacements = invert(replacement_uniforms, weights)
    survives = survival_uniforms < weights
    ancestors = jnp.where(survives, positions(weights.shape), replacements)
    return unless_all_dead(ancestors, log_weights)
