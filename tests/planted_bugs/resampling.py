"""Systematic resampling with one mistake each; `theory.resampling` has the right code.

Each is a function of its uniform, from log weights [M, N] to ancestors and log weights [M, N], and must be rejected by the
law of tests/theory/resampling/laws.py that certifies the right code.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from theory.log_weights import log_mean_weight
from theory.resampling import systematic_from_uniforms
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
