"""The sixteen tokens that the arithmetic tasks share, and what their operators do."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

DIGIT_ZERO = 1  # digit d is token 1 + d
PLUS, MINUS, TIMES = 11, 12, 13
OPERATORS = (PLUS, MINUS, TIMES)
EQUALS = 14
EOS = 15
LABELS = ("<pad>", *"0123456789", "+", "-", "*", "=", "<eos>")


def apply_operators(
    operators: Int[Array, "*batch"], left: Int[Array, "*batch"], right: Int[Array, "*batch"]
) -> Int[Array, "*batch"]:
    """Left + right, left - right or left * right.

    Args:
        operators: [...] tokens; one that is no operator multiplies.
        left: [...] integers.
        right: [...] integers.

    Returns:
        [...] integers.
    """
    product = left * right
    return jnp.where(
        operators == PLUS, left + right, jnp.where(operators == MINUS, left - right, product)
    )


def is_digit(tokens: Int[Array, "*batch"], least: int = 0) -> Bool[Array, "*batch"]:
    """Whether each token is a digit, and at least the given one.

    Args:
        tokens: [...].
        least: smallest digit that counts.

    Returns:
        [...].
    """
    return (tokens >= DIGIT_ZERO + least) & (tokens <= DIGIT_ZERO + 9)


def is_operator(tokens: Int[Array, "*batch"]) -> Bool[Array, "*batch"]:
    """Whether each token is one of + - *.

    Args:
        tokens: [...].

    Returns:
        [...].
    """
    return (tokens >= PLUS) & (tokens <= TIMES)
