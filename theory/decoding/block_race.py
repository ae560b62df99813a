"""A draw from a large vocabulary in two small races: first for a block of tokens, then for a token in it.

    P(v) = P(block of v) P(v | block),    P(block) = sum of its tokens

The law is the same as that of one race over all V tokens, and so is the accuracy for rare tokens, since both factors are taken in log space.
But the race needs V / 128 + 128 Gumbels instead of V, which for tens of thousands of tokens cost more than a small model's forward pass.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from theory.decoding.noise import gumbels
from theory.decoding.pipeline import TokenLaw

BLOCK = 128


def draw_by_blocks(keys: Key[Array, " B"], law: TokenLaw) -> Int32[Array, " B"]:
    """One independent draw a row.

    Args:
        keys: [B] consumed.
        law: to draw from.

    Returns:
        [B] tokens; 0 in a failed row, never one off the support in any other.
    """
    num_blocks = -(-law.log_probs.shape[1] // BLOCK)
    split = jax.vmap(jax.random.split)(keys)
    return race_by_blocks(law, gumbels(split[:, 0], num_blocks), gumbels(split[:, 1], BLOCK))


def race_by_blocks(
    law: TokenLaw, block_noise: Float[Array, "B n"], token_noise: Float[Array, "B S"]
) -> Int32[Array, " B"]:
    """The winner of each row's two races.

    Args:
        law: to draw from.
        block_noise: [B, n] independent standard Gumbels, n = ceil(V / 128).
        token_noise: [B, 128] of the same kind.

    Returns:
        [B] tokens.
    """
    num_rows, vocab_size = law.log_probs.shape
    num_blocks = block_noise.shape[1]
    scores = jnp.where(law.support, law.log_probs, -jnp.inf)
    room = num_blocks * BLOCK - vocab_size
    scores = jnp.pad(scores, ((0, 0), (0, room)), constant_values=-jnp.inf)
    blocks = scores.reshape(num_rows, num_blocks, BLOCK)
    log_mass = jax.nn.logsumexp(blocks, axis=2)
    block = jnp.argmax(log_mass + block_noise.astype(log_mass.dtype), axis=1)
    within = jnp.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0]
    place = jnp.argmax(within + token_noise.astype(within.dtype), axis=1)
    token = block * BLOCK + place
    return jnp.where(law.failed, 0, token).astype(jnp.int32)
