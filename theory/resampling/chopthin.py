"""Chopthin: unequal weights, but never more than a factor eta apart.

A particle of weight w is expected to have

    h(w) = w / a             if w < a           (thinned: it survives with this probability, and then weighs a)
    h(w) = 1                 if a <= w < eta a / 2
    h(w) = 2 w / (eta a)     if eta a / 2 <= w  (chopped into floor h or more equal pieces)

offspring, where a solves sum_i h(w_i) = N. Both roundings are systematic. What thinning happens to add to or take from the total weight
is made up by the chopped particles in proportion to their fractions h - floor h, so that the total is conserved
exactly, the expected total weight of each particle's offspring is its own weight, exactly N particles result and

    largest / smallest <= eta,   hence   ESS >= 4 eta N / (1 + eta)^2.

At eta = 3 + sqrt(8) that is N / 2. Source: Gandy & Lau, "The chopthin algorithm for resampling", IEEE Transactions on Signal Processing 64
(2016), arXiv 1502.07532, algorithm 1 and equation 5 (numbers second-hand); the bound on the ESS is the Polya-Szego
inequality, stronger than their lemma 2.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, Key

from theory.errors import InvalidInput
from theory.log_weights import clean, relative_weights
from theory.resampling.ancestors import (
    certain_and_fraction,
    from_counts,
    in_place,
    unless_all_dead,
)
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import running_count
from theory.resampling.systematic import systematic_counts

# ESS of at least N / 2.
HALF_ESS_RATIO = 3 + math.sqrt(8)

# Pieces of w >= eta a / 2 weigh w / (floor h + 1) >= eta a / 4, which is at least a only from here on.
MIN_RATIO = 4.0


def chopthin(
    key: Key[Array, "*#batch"],
    log_weights: Float[Array, "*batch N"],
    largest_ratio: float = HALF_ESS_RATIO,
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Chopthin; see `Resampler`.

    Args:
        key: one, or one for each population. Consumed.
        log_weights: [..., N] natural log, unnormalised.
        largest_ratio: eta, at least 4.

    Returns:
        [..., N] ancestors, survivors in their own slots, and [..., N] the log weight of each offspring.

    Raises:
        InvalidInput: eta below 4.
    """
    uniforms = draw_uniforms(key, log_weights.shape[:-1], (2,), log_weights.dtype)
    return chopthin_from_uniforms(uniforms, log_weights, largest_ratio)


def chopthin_from_uniforms(
    uniforms: Float[Array, "*batch 2"],
    log_weights: Float[Array, "*batch N"],
    largest_ratio: float = HALF_ESS_RATIO,
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """Ancestors and log weights by explicit noise.

    Args:
        uniforms: [..., 2] in [0, 1); the first thins, the second chops.
        log_weights: [..., N] natural log, unnormalised.
        largest_ratio: eta, at least 4.

    Returns:
        [..., N] ancestors, survivors in their own slots, and [..., N] the log weight of each offspring.

    Raises:
        InvalidInput: eta below 4.
    """
    if not largest_ratio >= MIN_RATIO:
        raise InvalidInput(
            f"chopthin with a weight ratio of {largest_ratio}: must be at least {MIN_RATIO:g}"
        )
    weights = relative_weights(log_weights)
    threshold = _threshold(weights, largest_ratio)
    light = weights < threshold
    expected = _expected_offspring(weights, threshold, largest_ratio)
    certain, fractions = certain_and_fraction(jnp.where(light, 0.0, expected))
    num_left = log_weights.shape[-1] - jnp.sum(certain, axis=-1, dtype=jnp.int32)
    num_fractions = jnp.sum(fractions, axis=-1)

    thinned = _thin(uniforms[..., 0], jnp.where(light, expected, 0.0), num_left, num_fractions == 0)
    num_thinned = jnp.sum(thinned, axis=-1, dtype=jnp.int32)
    num_chopped = num_left - num_thinned
    per_fraction = 1 / jnp.where(num_fractions > 0, num_fractions, 1)
    chances = fractions * (num_chopped.astype(weights.dtype) * per_fraction)[..., None]
    counts = thinned + certain + _counts(uniforms[..., 1], chances, num_chopped)

    # What thinning took from the total, shared out over the fractions of the heavy.
    kept = threshold[..., 0] * num_thinned.astype(weights.dtype)
    missing = jnp.sum(jnp.where(light, weights, 0.0), axis=-1) - kept
    made_up = weights + fractions * (missing * per_fraction)[..., None]
    pieces = jnp.where(light, threshold, made_up / jnp.maximum(counts, 1).astype(weights.dtype))
    ancestors = unless_all_dead(in_place(from_counts(counts)), log_weights)
    log_scale = jnp.max(clean(log_weights)[0], axis=-1, keepdims=True)
    return ancestors, jnp.log(
        jnp.take_along_axis(pieces, ancestors, axis=-1, mode="clip")
    ) + log_scale


def _expected_offspring(
    weights: Float[Array, "*batch N"], threshold: Float[Array, "*batch 1"], largest_ratio: float
) -> Float[Array, "*batch N"]:
    """The function h of the module docstring."""
    scaled = weights * (1 / threshold)
    heavy = jnp.maximum(2 / largest_ratio * scaled, 1)
    return jnp.where(weights < threshold, jnp.minimum(scaled, 1), heavy)


def _threshold(weights: Float[Array, "*batch N"], largest_ratio: float) -> Float[Array, "*batch 1"]:
    """The a at which the expected offspring sum to N, by bisection in log a.

    2 w / (eta a) <= h(w) <= w / a, so a lies between 2 / eta and 1 times the mean weight. The lower end is returned, so
    that equal weights count as heavy and stay as they are.
    """
    size = weights.shape[-1]
    mean = jnp.mean(weights, axis=-1, keepdims=True)
    mean = jnp.where(mean > 0, mean, 1)

    def halve(_: Int[Array, ""] | int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = jnp.sqrt(low * high)
        expected = _expected_offspring(weights, middle, largest_ratio)
        enough = jnp.sum(expected, axis=-1, keepdims=True) >= size
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    # One halving for each bit of the type, and a few for the width of the bracket.
    num_halvings = jnp.finfo(weights.dtype).nmant + 8
    return jax.lax.fori_loop(0, num_halvings, halve, (2 / largest_ratio * mean, mean))[0]


def _thin(
    uniform: Float[Array, "*batch"],
    expected: Float[Array, "*batch N"],
    num_most: Int32[Array, "*batch"],
    exactly: Bool[Array, "*batch"],
) -> Int32[Array, "*batch N"]:
    """Systematic rounding to a sum that is itself random: at most `num_most`, and that where no fraction can make up for less."""
    whole, fraction = running_count(expected)
    num_thinned = whole[..., -1] + (uniform < fraction[..., -1]).astype(jnp.int32)
    total = jnp.where(exactly, num_most, jnp.minimum(num_thinned, num_most))
    return _counts(uniform, expected, total)


def _counts(
    uniform: Float[Array, "*batch"],
    expected: Float[Array, "*batch N"],
    total: Int32[Array, "*batch"],
) -> Int32[Array, "*batch N"]:
    """Systematic rounding of numbers to integers with the sum `total`."""
    cumulative = systematic_counts(uniform, expected, total)
    return jnp.diff(cumulative, axis=-1, prepend=0)
