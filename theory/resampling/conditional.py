"""Conditional resampling: slot 0 keeps particle 0, and the rest is as if that had happened by chance.

Conditional SMC and particle Gibbs keep a reference path in slot 0. They are valid if the other ancestors follow the law of
a resampling scheme *given* that the ancestor of slot 0 is 0, if under that scheme slot 0 has ancestor i with probability w_i, and if the
scheme does not care which of the particles is the reference: the names of particles and slots can be changed so that it is number 0.
A scheme whose slots or particles are ordered has these properties only after a shuffle:

- multinomial needs nothing: the other slots are independent draws;
- systematic rotates its slots by a uniform number, which makes the point of slot 0 uniform on [0, 1): given ancestor 0 it is uniform
  on [0, w_0). The points are evenly spaced on a circle, so it does not matter with which particle the circle begins;
- stratified rotates its slots too, and since its strata begin with the first particle the particles as well: given ancestor 0 all
  N rotations are equally likely. Without the second rotation the third property fails from three particles on;
- killing swaps slot 0 with a uniform one, K. Given that the offspring that came to slot 0 is of particle 0, P(K = k) =
  (1 - w_k / max w) / N for k > 0, where slot k was killed and drew particle 0, and what remains is K = 0.

Drawing the pivot from the weights and then the rest from here gives the unconditional scheme back (Bayes). The
weight of particle 0 must not be zero; where all are dead nothing is resampled.

Source: Andrieu, Doucet & Holenstein, JRSS B 72 (2010), section 4.3; Chopin & Singh, Bernoulli 21 (2015), for systematic;
Karppinen, Singh & Vihola (2023) for killing.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from theory.log_weights import relative_weights
from theory.resampling.ancestors import (
    equal_log_weights,
    expected_offspring,
    invert,
    unless_all_dead,
)
from theory.resampling.killing import killing_from_uniforms
from theory.resampling.multinomial import multinomial_from_uniforms
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import positions, running_count
from theory.resampling.stratified import stratified_from_uniforms
from theory.resampling.systematic import systematic_from_uniforms


def conditional_multinomial(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Multinomial resampling given that slot 0 keeps particle 0; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0, and [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (num_particles,), log_weights.dtype)
    ancestors = conditional_multinomial_from_uniforms(uniforms, log_weights)
    return ancestors, equal_log_weights(log_weights)


def conditional_multinomial_from_uniforms(
    uniforms: Float[Array, "*batch N"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        uniforms: [..., N] in [0, 1); number j chooses ancestor j, number 0 is not read.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0.
    """
    return multinomial_from_uniforms(uniforms.at[..., 0].set(0), log_weights).at[..., 0].set(0)


def conditional_systematic(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Systematic resampling given that slot 0 keeps particle 0; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0, and [..., N] the log mean weight.
    """
    uniform = draw_uniforms(key, log_weights.shape[:-1], (), log_weights.dtype)
    ancestors = conditional_systematic_from_uniforms(uniform, log_weights)
    return ancestors, equal_log_weights(log_weights)


def conditional_systematic_from_uniforms(
    uniform: Float[Array, "*batch"], log_weights: Float[Array, "*batch N"]
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        uniform: [...] in [0, 1); places the point of slot 0 among those of particle 0.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0.
    """
    stratum, within = _pivot_point(uniform, log_weights)
    return _rotate(systematic_from_uniforms(within, log_weights), stratum)


def conditional_stratified(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Stratified resampling given that slot 0 keeps particle 0; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0, and [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (num_particles + 2,), log_weights.dtype)
    ancestors = conditional_stratified_from_uniforms(
        uniforms[..., 0], uniforms[..., 1], uniforms[..., 2:], log_weights
    )
    return ancestors, equal_log_weights(log_weights)


def conditional_stratified_from_uniforms(
    place_uniform: Float[Array, "*batch"],
    pivot_uniform: Float[Array, "*batch"],
    uniforms: Float[Array, "*batch N"],
    log_weights: Float[Array, "*batch N"],
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        place_uniform: [...] in [0, 1); how many particles stand before particle 0 when the strata are laid.
        pivot_uniform: [...] in [0, 1); places the point of slot 0 among those of particle 0.
        uniforms: [..., N] in [0, 1); number j places the point of stratum j, unless slot 0 has it.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0.
    """
    size = log_weights.shape[-1]
    slots = positions(log_weights.shape)
    place = jnp.minimum(jnp.floor(place_uniform * size).astype(jnp.int32), size - 1)[..., None]
    rotated = jnp.take_along_axis(log_weights, (slots - place) % size, axis=-1, mode="clip")
    expected = expected_offspring(rotated)
    ends = running_count(expected)
    whole, fraction = (
        jnp.where(slots == place - 1, end, 0).sum(axis=-1, keepdims=True, dtype=end.dtype)
        for end in ends
    )
    share = jnp.take_along_axis(expected, place, axis=-1, mode="clip")
    point = fraction + pivot_uniform[..., None] * share
    carry = jnp.floor(point)
    stratum = jnp.minimum(whole + carry.astype(jnp.int32), size - 1)
    uniforms = jnp.where(slots == stratum, point - carry, uniforms)
    ancestors = _rotate(stratified_from_uniforms(uniforms, rotated), stratum[..., 0])
    # Rounding may give the point of slot 0 to a neighbour.
    ancestors = jnp.where(slots == 0, 0, (ancestors - place) % size)
    return unless_all_dead(ancestors, log_weights)


def conditional_killing(
    key: Key[Array, "*#batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Killing given that slot 0 keeps particle 0; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0, and [..., N] the log mean weight.
    """
    batch, num_particles = log_weights.shape[:-1], log_weights.shape[-1]
    uniforms = draw_uniforms(key, batch, (2 * num_particles + 1,), log_weights.dtype)
    ancestors = conditional_killing_from_uniforms(
        uniforms[..., 0],
        uniforms[..., 1 : num_particles + 1],
        uniforms[..., num_particles + 1 :],
        log_weights,
    )
    return ancestors, equal_log_weights(log_weights)


def conditional_killing_from_uniforms(
    slot_uniform: Float[Array, "*batch"],
    survival_uniforms: Float[Array, "*batch N"],
    replacement_uniforms: Float[Array, "*batch N"],
    log_weights: Float[Array, "*batch N"],
) -> Int32[Array, "*batch N"]:
    """Ancestors by explicit noise.

    Args:
        slot_uniform: [...] in [0, 1); chooses the slot K that slot 0 is swapped with.
        survival_uniforms: [..., N] in [0, 1); see `killing_from_uniforms`.
        replacement_uniforms: [..., N] in [0, 1); see `killing_from_uniforms`.
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] ancestors, the first 0, survivors but particle 0 in their own slots unless that is K.
    """
    weights = relative_weights(log_weights)
    slots = positions(weights.shape)
    # N P(K = k): a slot k > 0 was killed; 1 + sum_{k > 0} w_k / max w is what remains.
    killed = jnp.where(slots == 0, 0, 1 - weights)
    remains = 1 + jnp.sum(weights[..., 1:], axis=-1, keepdims=True)
    slot = invert(slot_uniform[..., None], jnp.where(slots == 0, remains, killed))
    ancestors = killing_from_uniforms(survival_uniforms, replacement_uniforms, log_weights)
    ancestors = jnp.where(slots == slot, ancestors[..., :1], ancestors)
    return unless_all_dead(jnp.where(slots == 0, 0, ancestors), log_weights)


def _pivot_point(
    uniform: Float[Array, "*batch"], log_weights: Float[Array, "*batch N"]
) -> tuple[Int32[Array, "*batch"], Float[Array, "*batch"]]:
    """A uniform point among those of particle 0: its stratum, and where in it."""
    end = expected_offspring(log_weights)[..., 0]
    point = jnp.minimum(uniform * end, jnp.nextafter(end, jnp.zeros_like(end)))
    stratum = jnp.floor(point)
    return stratum.astype(jnp.int32), point - stratum


def _rotate(
    ancestors: Int32[Array, "*batch N"], start: Int32[Array, "*batch"]
) -> Int32[Array, "*batch N"]:
    """Begin at slot `start` and go round."""
    size = ancestors.shape[-1]
    slots = positions(ancestors.shape)
    return jnp.take_along_axis(ancestors, (slots + start[..., None]) % size, axis=-1, mode="clip")
