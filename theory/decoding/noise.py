"""Exponential and Gumbel noise that is right in both tails.

A token of probability p wins a Gumbel race when its noise is about -log p above the others'. Noise made from the 23 random bits of a float32
uniform ends at 15.9 (23 log 2), so tokens whose logit is some 21 below the largest are never drawn. Here 64 bits are used, and each
half of the unit interval is measured from its own end: the noise reaches 45, probabilities down to 1e-12 are drawn with a relative error of
a few units of float32 rounding, and none above 2^-65 = 3e-20 is out of reach.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key, UInt32


def exponential_from_bits(
    high: UInt32[Array, "*batch"], low: UInt32[Array, "*batch"]
) -> Float32[Array, "*batch"]:
    """A standard exponential from 64 random bits.

        E = -log(1 - v),   v = (2^32 high + low + 1/2) / 2^64

    Args:
        high: [...] the upper 32 bits.
        low: [...] the lower 32 bits.

    Returns:
        [...] in [2^-65, 65 log 2], to float32 precision at both ends.
    """

    def fraction(upper: UInt32[Array, "*batch"], lower: UInt32[Array, "*batch"]) -> Array:
        return upper.astype(jnp.float32) * 2.0**-32 + (lower.astype(jnp.float32) + 0.5) * 2.0**-64

    # 1 - v has the complement of v's bits: no subtraction, so no digit is lost where v is close to 1.
    from_zero = -jnp.log1p(-fraction(high, low))
    from_one = -jnp.log(fraction(~high, ~low))
    return jnp.where(high >> 31 == 0, from_zero, from_one)


def random_words(
    keys: Key[Array, " B"], num: int
) -> tuple[UInt32[Array, "B num"], UInt32[Array, "B num"]]:
    """Pairs of independent random words, each row from its own key.

    Args:
        keys: [B] consumed.
        num: pairs in a row; the first of them do not depend on how many there are.

    Returns:
        The upper and the lower words, [B, num] each.
    """

    def words(key: Key[Array, ""]) -> tuple[Array, Array]:
        # Two keys, and not one draw of twice the size: the first `num` stay what they are when `num` grows.
        upper, lower = jax.random.split(key)
        return jax.random.bits(upper, (num,), jnp.uint32), jax.random.bits(
            lower, (num,), jnp.uint32
        )

    return jax.vmap(words)(keys)


def gumbels(keys: Key[Array, " B"], num: int) -> Float32[Array, "B num"]:
    """Standard Gumbel noise, each row from its own key.

        G = -log E

    Args:
        keys: [B] consumed.
        num: numbers in a row; the first of them do not depend on how many there are.

    Returns:
        [B, num] in [-3.9, 45.1].
    """
    return -jnp.log(exponential_from_bits(*random_words(keys, num)))
