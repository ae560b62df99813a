"""The two norms of the published families, float32 inside whatever they are given."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Float32

from models.transformer.config import TransformerConfig


class RMSNorm(nnx.Module):
    """x / sqrt(mean(x^2) + epsilon) * scale, over the last axis (Zhang and Sennrich 2019)."""

    def __init__(self, size: int, epsilon: float) -> None:
        """Start with scale 1.

        Args:
            size: of the last axis.
            epsilon: under the root.
        """
        self.scale = nnx.Param(jnp.ones(size, jnp.float32))
        self.epsilon = epsilon

    def __call__(self, x: Float[Array, "*batch W"]) -> Float[Array, "*batch W"]:
        """Normalise.

        Args:
            x: [..., W].

        Returns:
            [..., W] in the precision of `x`.
        """
        wide = x.astype(jnp.float32)
        root = jax.lax.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + self.epsilon)
        return (wide * root * _along_last(self.scale[...], x.ndim)).astype(x.dtype)


class LayerNorm(nnx.Module):
    """(x - mean(x)) / sqrt(var(x) + epsilon) * scale + bias, over the last axis (Ba et al. 2016)."""

    def __init__(self, size: int, epsilon: float) -> None:
        """Start with scale 1 and bias 0.

        Args:
            size: of the last axis.
            epsilon: under the root.
        """
        self.scale = nnx.Param(jnp.ones(size, jnp.float32))
        self.bias = nnx.Param(jnp.zeros(size, jnp.float32))
        self.epsilon = epsilon

    def __call__(self, x: Float[Array, "*batch W"]) -> Float[Array, "*batch W"]:
        """Normalise.

        Args:
            x: [..., W].

        Returns:
            [..., W] in the precision of `x`.
        """
        wide = x.astype(jnp.float32)
        wide = wide - wide.mean(axis=-1, keepdims=True)
        root = jax.lax.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + self.epsilon)
        scale, bias = self.scale[...], self.bias[...]
        return (wide * root * _along_last(scale, x.ndim) + _along_last(bias, x.ndim)).astype(
            x.dtype
        )


def norm(config: TransformerConfig) -> RMSNorm | LayerNorm:
    """The norm of the residual stream.

    Args:
        config: which one.

    Returns:
        A new one.
    """
    kind = RMSNorm if config.norm == "rms" else LayerNorm
    return kind(config.width, config.norm_epsilon)


def _along_last(vector: Float32[Array, " W"], ndim: int) -> Float32[Array, "..."]:
    return vector.reshape((1,) * (ndim - 1) + vector.shape)
