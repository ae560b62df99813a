"""Multinomial resampling: N independent draws, in O(N) by sorted uniforms.

The order statistics of N uniforms are the running sums of N + 1 exponentials over their total, so that nothing is sorted
and no N x N array is made. The variance of the number of offspring is N w_i (1 - w_i). Source: Chopin &
Papaspiliopoulos, "An Introduction to Sequential Monte Carlo" (2020), algorithm 9.2 and proposition 9.1.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from theory.log_weights import relative_weights
from theory.resampling.ancestors import equal_log_weights, invert, unless_all_dead
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import running_sum


def multinomial(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Multinomial resampling; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending: the slots are not exchangeable, the numbers of offspring are multinomial; and
        [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (num_particles + 1,), log_weights.dtype)
    points = sorted_points(uniforms)
    return multinomial_from_uniforms(points, log_weights), equal_log_weights(log_weights)


def multinomial_from_uniforms(
    uniforms: Float[Array, "*batch N"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        uniforms: [..., N] in [0, 1), in any order: number j chooses ancestor j.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, in the order of the uniforms.
    """
    return unless_all_dead(invert(uniforms, relative_weights(log_weights)), log_weights)


def sorted_points(uniforms: Float[Array, "*batch N1"]) -> Float[Array, "*batch N"]:
    """Order statistics of N uniforms from N + 1 independent ones, by exponential spacings.

        U_(j) = (E_1 + ... + E_j) / (E_1 + ... + E_{N+1}),   E = -log(1 - u)

    Args:
        uniforms: [..., N + 1] in [0, 1).

    Returns:
        [..., N] ascending, in [0, 1] (rounding may reach 1).
    """
    sums = running_sum(-jnp.log1p(-uniforms))
    total = sums[..., -1:]
    return sums[..., :-1] / jnp.where(total > 0, total, 1)
