"""Matrix products and the random weights that go into them."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Key


def precision_of(dtype: DTypeLike) -> jax.lax.Precision | None:
    """Of matrix products: float32 is not rounded to less on any device.

    Args:
        dtype: of the factors.

    Returns:
        HIGHEST for float32; None, the device's own, for less.
    """
    return jax.lax.Precision.HIGHEST if dtype == jnp.float32 else None


def matmul(
    x: Float[Array, "B S I"], kernel: Float[Array, "I O *rest"]
) -> Float[Array, "B S O *rest"]:
    """Matrix product in the precision of the weights; a float32 one is not rounded to less on any device.

    Args:
        x: [B, S, I].
        kernel: [I, ...].

    Returns:
        [B, S, ...].
    """
    precision = precision_of(kernel.dtype)
    # Not as one flat matrix: a mesh that divides the last axis would have to put the kernel together first.
    return jnp.tensordot(x, kernel, axes=1, precision=precision)


def random_kernel(
    key: Key[Array, ""], shape: tuple[int, ...], num_inputs: int, dtype: DTypeLike
) -> Float[Array, "..."]:
    """Normal weights of variance 1 / inputs.

    Args:
        key: consumed.
        shape: of the kernel.
        num_inputs: of each output.
        dtype: of the weights.

    Returns:
        The kernel.
    """
    return (jax.random.normal(key, shape, jnp.float32) / math.sqrt(num_inputs)).astype(dtype)
