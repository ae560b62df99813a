"""Srinivasan sampling process: each number of offspring is floor(N w_i) or ceil(N w_i), negatively associated.

The fractions N w_i - floor(N w_i) are settled one at a time. An open particle with fraction a meets the next one, with fraction b.
If a + b < 1, one of them takes a + b and stays open, the other is settled at 0; otherwise one is settled at 1 and the other
stays open with a + b - 1. The odds are those that keep both expectations:

    P(open one keeps a + b) = a / (a + b),   P(open one is settled at 1) = (1 - b) / (2 - a - b).

Unlike systematic resampling it converges whatever the order of the particles. Its N steps are sequential. Source: Gerber, Chopin
& Whiteley, Annals of Statistics 47 (2019), algorithm 1 (SSP resampling).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from theory.resampling.ancestors import (
    certain_and_fraction,
    equal_log_weights,
    expected_offspring,
    from_counts,
    num_offspring,
    unless_all_dead,
)
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import positions


def ssp(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """SSP resampling; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending, and [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (num_particles,), log_weights.dtype)
    return ssp_from_uniforms(uniforms, log_weights), equal_log_weights(log_weights)


def ssp_from_uniforms(
    uniforms: Float[Array, "*batch N"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        uniforms: [..., N] in [0, 1); number i decides when particle i is met, number 0 decides nothing.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, ascending.
    """
    size = log_weights.shape[-1]
    certain, fractions = certain_and_fraction(expected_offspring(log_weights))
    settled, last_open = _settle(uniforms, fractions)
    counts = certain + num_offspring(settled, size)
    # The last fraction is 0 or 1 but for rounding: the sum decides which.
    missing = size - jnp.sum(counts, axis=-1, keepdims=True, dtype=jnp.int32)
    is_last = positions(counts.shape) == last_open[..., None]
    counts = jnp.where(is_last, counts + missing, counts)
    return unless_all_dead(from_counts(counts), log_weights)


def _settle(
    uniforms: Float[Array, "*batch N"], fractions: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Int32[Array, "*batch"]]:
    """Which particles were settled at 1, as N indices (N: settled at 0), and the one that stays open to the end."""
    size, batch = fractions.shape[-1], fractions.shape[:-1]

    def meet(
        state: tuple[Array, Array], arrival: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        open_one, a = state
        newcomer, b, uniform = arrival
        total = a + b
        fits = total < 1
        odds = jnp.where(fits, a / jnp.where(total > 0, total, 1), (1 - b) / (2 - total))
        # The odds favour the open one, which then stays open if the sum fits and is settled at 1 if it does not.
        stays = (uniform < odds) == fits
        settled = jnp.where(fits, size, jnp.where(stays, newcomer, open_one))
        open_one = jnp.where(stays, open_one, newcomer)
        return (open_one, jnp.where(fits, total, total - 1)), settled

    arrivals = (
        jnp.arange(size, dtype=jnp.int32),
        jnp.moveaxis(fractions, -1, 0),
        jnp.moveaxis(uniforms, -1, 0),
    )
    nobody = (jnp.zeros(batch, jnp.int32), jnp.zeros(batch, fractions.dtype))
    (last_open, _), settled = jax.lax.scan(meet, nobody, arrivals)
    return jnp.moveaxis(settled, 0, -1), last_open
