"""Mistakes in the form of what they replace, for `rolloutlab validate`, which runs the finished kernels and has to see them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from theory import resampling
from theory.generation import Generation
from theory.importance import token_log_weights
from theory.resampling import conditional_stratified_from_uniforms
from theory.resampling.ancestors import equal_log_weights
from theory.smc import step
from theory.smc.population import Population


def of_uniforms(bug: Callable[[jax.Array, jax.Array], Any]) -> Callable[..., Any]:
    """A resampler from a wrong function of one uniform a population (`tests.planted_bugs.resampling`)."""

    def resampler(keys: jax.Array, log_weights: jax.Array) -> Any:
        draw = jax.vmap(lambda key: jax.random.uniform(key, (), log_weights.dtype))
        return bug(draw(keys), log_weights)

    return resampler


def particles_not_rotated(keys: jax.Array, log_weights: jax.Array) -> Any:
    """In the place of `conditional_stratified`: the strata always begin with the reference."""
    size = log_weights.shape[-1]
    draw = jax.vmap(lambda key: jax.random.uniform(key, (size + 1,), log_weights.dtype))
    uniforms = draw(keys)
    first = jnp.zeros_like(uniforms[:, 0])
    ancestors = conditional_stratified_from_uniforms(
        first, uniforms[:, 0], uniforms[:, 1:], log_weights
    )
    return ancestors, equal_log_weights(log_weights)


_chopthin = resampling.chopthin


def survivors_not_made_heavier(keys: jax.Array, log_weights: jax.Array) -> Any:
    """In the place of `chopthin`: what survives the thinning weighs no more than it did."""
    ancestors, after = _chopthin(keys, log_weights)
    return ancestors, jnp.minimum(after, jnp.take_along_axis(log_weights, ancestors, axis=-1))


def whole_prefix_weighed_again(population: Population, after: Generation, alpha: Any) -> Population:
    """In the place of `theory.smc.step.weigh`: every step multiplies by the weight of all tokens so far."""
    gain = token_log_weights(after.trajectories, alpha).sum(axis=1)
    log_weights = population.log_weights + gain.reshape(population.log_weights.shape)
    return population._replace(generation=after, log_weights=log_weights)


_resample = step.resample


def evidence_lost_at_resampling(*arguments: Any) -> Any:
    """In the place of `theory.smc.step.resample`: children weigh 1, and what was gathered so far is forgotten."""
    population, info = _resample(*arguments)
    return population._replace(log_weights=jnp.zeros_like(population.log_weights)), info


def normaliser_forgotten(log_probs: jax.Array, alpha: Any) -> jax.Array:
    """In the place of `log_normaliser` in the adapted filter: all next tokens have the same normaliser."""
    return jnp.zeros(log_probs.shape[:1], jnp.float32)


def always_below(keys: jax.Array) -> jax.Array:
    """In the place of `log_uniforms`: a number that is below every log ratio."""
    return jnp.full(keys.shape, -jnp.inf, jnp.float32)
