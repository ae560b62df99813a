"""What a law says of the token that stands after it: the `Reduce` that scoring is made of."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def at_token(
    log_probs: Float[Array, "*batch V"], tokens: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The log probability of a token, for any leading shape.

    Args:
        log_probs: [..., V] natural log.
        tokens: [...].

    Returns:
        [...].
    """
    return jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]
