"""Systematic resampling with one mistake each; `theory.resampling` has the right code.

Each is a function of its uniform, from log weights [M, N] to ancestors and log weights [M, N], and must be rejected by the
law of tests/theory/resampling/laws.py that certifies the right code.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from theory.log_weights import ess, log_mean_weight
from theory.resampling import multinomial_from_uniforms, systematic_from_uniforms
from theory.resampling.ancestors import equal_log_weights

Bug = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def _points(uniforms: jax.Array, size: int) -> jax.Array:
    return (jnp.arange(size, dtype=uniforms.dtype)[None] + uniforms[:, None]) / size


def _search(cumulative: jax.Array, points: jax.Array, side: str) -> jax.Array:
    return jax.vmap(lambda c, p: jnp.searchsorted(c, p, side=side))(cumulative, points)


def _cumulative(log_weights: jax.Array) -> jax.Array:
    return jnp.cumsum(jax.nn.softmax(log_weights, axis=-1), axis=-1)


def ancestor_off_by_one(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The neighbour of the right ancestor."""
    ancestors = systematic_from_uniforms(uniforms, log_weights)
    ancestors = jnp.minimum(ancestors + 1, log_weights.shape[-1] - 1)
    return ancestors, equal_log_weights(log_weights)


def zero_weight_chosen_at_zero(
    uniforms: jax.Array, log_weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A point on a boundary goes to the left: at u = 0 to particle 0, whatever its weight."""
    cumulative = _cumulative(log_weights)
    points = _points(uniforms, log_weights.shape[-1])
    ancestors = _search(cumulative / cumulative[:, -1:], points, "left")
    return ancestors, equal_log_weights(log_weights)


def float32_cumulative_end(
    uniforms: jax.Array, log_weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The last cumulative weight is left where rounding put it, and points may round to 1."""
    points = _points(uniforms, log_weights.shape[-1])
    ancestors = _search(_cumulative(log_weights), points, "right")
    return ancestors, equal_log_weights(log_weights)


def nan_weight_as_largest(
    uniforms: jax.Array, log_weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """NaN sorts last, hence largest: it becomes the weight of the heaviest particle."""
    largest = jnp.nanmax(log_weights, axis=-1, keepdims=True)
    log_weights = jnp.where(jnp.isnan(log_weights), largest, log_weights)
    return systematic_from_uniforms(uniforms, log_weights), equal_log_weights(log_weights)


def weights_ignored(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Everyone has the same chance."""
    ancestors = systematic_from_uniforms(uniforms, jnp.zeros_like(log_weights))
    return ancestors, equal_log_weights(log_weights)


def evidence_lost(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log weights are set to 0 afterwards."""
    return systematic_from_uniforms(uniforms, log_weights), jnp.zeros_like(log_weights)


def first_particle_always_kept(
    uniforms: jax.Array, log_weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Slot 0 keeps particle 0, as in conditional resampling, but the rest is unconditional."""
    ancestors = systematic_from_uniforms(uniforms, log_weights).at[:, 0].set(0)
    return ancestors, equal_log_weights(log_weights)


def sum_instead_of_mean(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Each of the resampled particles carries the total weight."""
    total = log_mean_weight(log_weights) + jnp.log(log_weights.shape[-1])
    after = jnp.broadcast_to(total[:, None], log_weights.shape)
    return systematic_from_uniforms(uniforms, log_weights), after


def all_dead_collapses(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where all are dead, particle 0 becomes everyone's ancestor."""
    dead = jnp.all(jnp.isneginf(log_weights), axis=-1, keepdims=True)
    ancestors = systematic_from_uniforms(uniforms, log_weights)
    return jnp.where(dead, 0, ancestors), equal_log_weights(log_weights)


def weights_kept(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log weights stay in their slots, though other particles stand there now."""
    return systematic_from_uniforms(uniforms, log_weights), log_weights


def weights_inherited(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Children keep their parent's weight, which their number has already paid for."""
    ancestors = systematic_from_uniforms(uniforms, log_weights)
    return ancestors, jnp.take_along_axis(log_weights, ancestors, axis=-1)


def one_uniform_for_all_draws(
    uniforms: jax.Array, log_weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Multinomial resampling with one uniform where N are needed: a single parent for everyone."""
    shared = jnp.broadcast_to(uniforms[:, None], log_weights.shape)
    return multinomial_from_uniforms(shared, log_weights), equal_log_weights(log_weights)


def residual_without_the_remainder(
    uniforms: jax.Array, log_weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """floor(N w) copies for certain; slots that are left over go to the heaviest particle instead of a draw."""
    certain = _certain(log_weights)
    rest = log_weights.shape[-1] - jnp.sum(certain, axis=-1, keepdims=True, dtype=jnp.int32)
    heaviest = jnp.arange(certain.shape[-1])[None] == jnp.argmax(certain, axis=-1)[:, None]
    return _repeat(certain + jnp.where(heaviest, rest, 0)), equal_log_weights(log_weights)


def residual_drawn_by_the_weights(
    uniforms: jax.Array, log_weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What is left over is drawn by the weights themselves, not by what the certain copies have not paid: N w - floor(N w)."""
    certain = _certain(log_weights)
    rest = log_weights.shape[-1] - jnp.sum(certain, axis=-1, keepdims=True, dtype=jnp.int32)
    drawn = jax.vmap(lambda c, u: jnp.searchsorted(c, u, side="right"))(
        _cumulative(log_weights), uniforms
    )
    slots = jnp.arange(log_weights.shape[-1], dtype=jnp.int32)
    mine = (drawn[..., None] == slots[None, None]) & (slots[None] < rest)[..., None]
    return _repeat(certain + jnp.sum(mine, axis=1, dtype=jnp.int32)), equal_log_weights(log_weights)


def _certain(log_weights: jax.Array) -> jax.Array:
    scaled = log_weights.shape[-1] * jax.nn.softmax(log_weights, axis=-1)
    return jnp.floor(scaled + 1e-9).astype(jnp.int32)


def _repeat(counts: jax.Array) -> jax.Array:
    slots = jnp.arange(counts.shape[-1], dtype=jnp.int32)
    ends = jnp.cumsum(counts, axis=-1, dtype=jnp.int32)
    return jax.vmap(lambda end: jnp.searchsorted(end, slots, side="right"))(ends)


def resamples_below_one_particle(log_weights: jax.Array, threshold: float) -> jax.Array:
    """In the place of `needs_resampling`: the effective sample size, which is at least 1, against a share of N."""
    size = ess(log_weights)
    return (size > 0) & (size < threshold)
