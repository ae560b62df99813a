"""Whole rows in one forward pass without a cache: scoring, and what cached decoding is held against."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int

from models.transformer.laws import reduce_laws
from models.transformer.model import Transformer
from theory.reductions import at_token


def full_log_probs(
    model: Transformer, tokens: Int[Array, "B S"], lengths: Int[Array, " B"]
) -> Float32[Array, "B S V"]:
    """One forward pass over whole rows, without a cache: the law after each token.

    Args:
        model: the transformer.
        tokens: [B, S] right-padded, prompt and completion alike.
        lengths: [B].

    Returns:
        [B, S, V] natural log; past a row's length finite and unused.
    """
    decoder = model.decoder()
    places = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    within = places < lengths[:, None]
    positions = jnp.broadcast_to(places, tokens.shape)
    # Padding is a segment of its own.
    hidden = decoder.whole(jnp.where(within, tokens, 0), positions, within.astype(jnp.int32))
    return jax.nn.log_softmax(decoder.logits(hidden))


def full_token_log_probs(
    model: Transformer, tokens: Int[Array, "B S"], lengths: Int[Array, " B"]
) -> Float32[Array, "B S"]:
    """Log probability of every token but the first given those before it, by one forward pass without a cache.

    Args:
        model: the transformer.
        tokens: [B, S] right-padded, prompt and completion alike.
        lengths: [B].

    Returns:
        [B, S] natural log; 0 for the first token and past a row's length.
    """
    decoder = model.decoder()
    places = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    within = places < lengths[:, None]
    positions = jnp.broadcast_to(places, tokens.shape)
    tokens = jnp.where(within, tokens, 0)
    hidden = decoder.whole(tokens, positions, within.astype(jnp.int32))
    log_p = reduce_laws(decoder, hidden[:, :-1], tokens[:, 1:], at_token)
    return jnp.where(within, jnp.pad(log_p, ((0, 0), (1, 0))), 0.0)
