"""When a row of logits is a law, and which."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def has_law(logits: Float[Array, "B V"]) -> Bool[Array, " B"]:
    """Whether softmax of a row is defined: some token is finite, none is NaN or +inf.

    Args:
        logits: [B, V].

    Returns:
        [B].
    """
    return jnp.isfinite(jnp.max(logits, axis=-1))


def normalise(logits: Float[Array, "B V"]) -> Float[Array, "B V"]:
    """Log softmax that is never NaN.

        log p(v) = l(v) - log sum_u exp l(u)

    Args:
        logits: [B, V] natural log, unnormalised.

    Returns:
        [B, V] normalised; all -inf in a row that has no law.
    """
    lawful = has_law(logits)[:, None]
    log_probs = jax.nn.log_softmax(jnp.where(lawful, logits, 0.0), axis=-1)
    return jnp.where(lawful, log_probs, -jnp.inf)


def entropy(log_probs: Float[Array, "B V"]) -> Float[Array, "B 1"]:
    """Entropy of each row in nats: -sum_v p(v) log p(v), a zero counting 0.

    Args:
        log_probs: [B, V] natural log, normalised.

    Returns:
        [B, 1]; 0 for a row of -inf.
    """
    possible = log_probs > -jnp.inf
    terms = jnp.where(possible, jnp.exp(log_probs) * jnp.where(possible, log_probs, 0.0), 0.0)
    return -jnp.sum(terms, axis=-1, keepdims=True)


def reaches_floor(
    log_probs: Float[Array, "B V"], log_floor: Float[Array, "B 1"]
) -> Bool[Array, "B V"]:
    """Tokens with at least a given probability, and the lowest-index most likely token always.

    Args:
        log_probs: [B, V] natural log, normalised.
        log_floor: [B, 1] natural log.

    Returns:
        [B, V] mask, never empty.
    """
    mode = jnp.argmax(log_probs, axis=-1, keepdims=True)
    return (log_probs >= log_floor) | (jnp.arange(log_probs.shape[-1])[None] == mode)
