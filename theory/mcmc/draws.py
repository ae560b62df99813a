"""The two draws of a move that are not tokens: an index by weight, and a uniform to compare with."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, Key

from theory.decoding.noise import gumbels


def draw_index(keys: Key[Array, " B"], log_weights: Float[Array, "B N"]) -> Int32[Array, " B"]:
    """One index a row, in proportion to the weights, by a Gumbel race.

    Args:
        keys: [B] consumed.
        log_weights: [B, N] natural log, unnormalised.

    Returns:
        [B] never an index of weight zero, unless all are.
    """
    noise = gumbels(keys, log_weights.shape[1])
    return jnp.argmax(log_weights + noise, axis=1).astype(jnp.int32)


def log_uniforms(keys: Key[Array, " B"]) -> Float32[Array, " B"]:
    """Logs of uniform numbers, for comparison with a log ratio: no ratio is ever exponentiated.

    A standard Gumbel is -log E with E exponential, and -E is the log of a uniform; this one is right in both tails.

    Args:
        keys: [B] consumed.

    Returns:
        [B] below 0.
    """
    return -jnp.exp(-gumbels(keys, 1)[:, 0])
