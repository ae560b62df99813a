"""Stable orders of the vocabulary and their smallest prefix with a given mass."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def stable_order(priority: Float[Array, "B V"]) -> tuple[Int[Array, "B V"], Int[Array, "B V"]]:
    """Tokens in ascending order of priority, ties by token id.

    Args:
        priority: [B, V] without NaN.

    Returns:
        [B, V] the token at each rank, and [B, V] the rank of each token.
    """
    order = jnp.argsort(priority, axis=-1, stable=True)
    places = jnp.broadcast_to(jnp.arange(order.shape[-1], dtype=order.dtype), order.shape)
    ranks = jnp.put_along_axis(jnp.zeros_like(order), order, places, axis=-1, inplace=False)
    return order, ranks


def smallest_prefix(
    priority: Float[Array, "B V"], log_probs: Float[Array, "B V"], mass: Float[Array, "B 1"]
) -> Bool[Array, "B V"]:
    """The fewest tokens, taken in ascending order of priority, that together have at least `mass`.

    The token that crosses the mass belongs to them, the one after an exact hit does not, and the first always does. At mass 1
    every token belongs, those of probability 0 too: they are no more cut off than they were.

    Masses are sums in floating point. A prefix that falls short of `mass` by less than 4 units of rounding (5e-7 in float32)
    counts as having reached it, so that .5 + .3 reaches .8 on every platform.

    Args:
        priority: [B, V] without NaN; ties go by token id.
        log_probs: [B, V] natural log, normalised.
        mass: [B, 1] in 0..1.

    Returns:
        [B, V] mask, never empty.
    """
    order, ranks = stable_order(priority)
    probs = jnp.exp(jnp.take_along_axis(log_probs, order, axis=-1))
    reached = jnp.cumsum(probs, axis=-1) >= mass - 4 * jnp.finfo(probs.dtype).eps
    # The first that reaches it, not the number of those that do not: a parallel sum need not be monotone.
    crossing = jnp.argmax(reached, axis=-1, keepdims=True)
    everything = (mass >= 1) | ~jnp.any(reached, axis=-1, keepdims=True)
    return everything | (ranks <= crossing.astype(ranks.dtype))
