"""How often each row has generated each token: what penalties and minimum lengths read.

Prompts are not counted, and pads are not: a pad is a position past a row's length, whatever token stands there.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32


def no_counts(log_probs: Float[Array, "B V"]) -> Int32[Array, "B V"]:
    """Counts of rows that have generated nothing; also for pipelines that do not read counts.

    Args:
        log_probs: [B, V] for the shape.

    Returns:
        [B, V] zeros.
    """
    return jnp.zeros(log_probs.shape, jnp.int32)


def add_tokens(
    counts: Int32[Array, "B V"], tokens: Int[Array, " B"], active: Bool[Array, " B"]
) -> Int32[Array, "B V"]:
    """Counts after one more token in each active row.

    Args:
        counts: [B, V].
        tokens: [B]; read only where active.
        active: [B] rows that emitted a token.

    Returns:
        [B, V].
    """
    return counts.at[jnp.arange(tokens.shape[0]), tokens].add(active.astype(jnp.int32))


def token_counts(
    tokens: Int[Array, "B T"], lengths: Int[Array, " B"], vocab_size: int
) -> Int32[Array, "B V"]:
    """Counts of whole rows.

    Args:
        tokens: [B, T] generated tokens, right-padded.
        lengths: [B] tokens that count.
        vocab_size: V.

    Returns:
        [B, V].
    """
    inside = jnp.arange(tokens.shape[1])[None] < lengths[:, None]
    rows = jnp.arange(tokens.shape[0])[:, None]
    counts = jnp.zeros((tokens.shape[0], vocab_size), jnp.int32)
    return counts.at[rows, tokens].add(inside.astype(jnp.int32))
