"""The parts of a transformer as flax modules: norms, attention, perceptron, and the block that adds them up.

Weights may be bfloat16: then so are the residual stream and the inputs of matrix products, which add up in float32. Norms, rotations,
scores, softmax and logits are float32 always.
"""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, DTypeLike, Float, Float32, Int, Key

from models.transformer.cache import write
from models.transformer.config import Activation, TransformerConfig
from models.transformer.rotary import frequencies, rotate


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
    precision = jax.lax.Precision.HIGHEST if kernel.dtype == jnp.float32 else None
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


class Attention(nnx.Module):
    """Grouped-query attention (Ainslie et al. 2023).

    Projections are laid out by key head: [W, K, G + 2, D] holds, for each of K key heads, its G queries, its key and its value, so that a mesh
    that divides K divides attention without moving anything.
    """

    def __init__(
        self, config: TransformerConfig, layer: int, rngs: nnx.Rngs, dtype: DTypeLike
    ) -> None:
        """Random weights.

        Args:
            config: sizes.
            layer: its number, for its window.
            rngs: of the weights.
            dtype: of the weights.
        """
        heads, group, depth = config.num_key_value_heads, config.group, config.head_dim
        shape = (config.width, heads, group + 2, depth)
        self.query_key_value = nnx.Param(random_kernel(rngs.params(), shape, config.width, dtype))
        inputs = config.num_heads * depth * 2 * config.num_layers  # small where many layers add up
        self.out = nnx.Param(
            random_kernel(rngs.params(), (heads, group, depth, config.width), inputs, dtype)
        )
        self.query_key_value_bias = (
            nnx.Param(jnp.zeros(shape[1:], dtype)) if config.query_key_value_bias else None
        )
        self.out_bias = nnx.Param(jnp.zeros(config.width, dtype)) if config.out_bias else None
        self.query_norm = RMSNorm(depth, config.norm_epsilon) if config.query_key_norm else None
        self.key_norm = RMSNorm(depth, config.norm_epsilon) if config.query_key_norm else None
        self.rotary = config.rotary
        self.window = config.window(layer)

    def project(
        self, x: Float[Array, "B S W"], positions: Int[Array, "B S"]
    ) -> tuple[Float[Array, "B S K G D"], Float[Array, "B S K D"], Float[Array, "B S K D"]]:
        """Queries, keys and values at given positions.

        Args:
            x: [B, S, W] normalised.
            positions: [B, S].

        Returns:
            Queries [B, S, K, G, D], keys and values [B, S, K, D].
        """
        inner = matmul(x, self.query_key_value[...])
        if self.query_key_value_bias is not None:
            inner = inner + self.query_key_value_bias[...][None, None]
        queries, keys, values = inner[..., :-2, :], inner[..., -2, :], inner[..., -1, :]
        if self.query_norm is not None and self.key_norm is not None:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        if self.rotary is not None:
            radians = frequencies(self.rotary, keys.shape[-1])
            queries, keys = rotate(queries, positions, radians), rotate(keys, positions, radians)
        return queries, keys, values

    def whole(
        self, x: Float[Array, "B S W"], positions: Int[Array, "B S"], segments: Int[Array, "B S"]
    ) -> Float[Array, "B S W"]:
        """Attention inside blocks of rows, without a cache: training and scoring.

        Args:
            x: [B, S, W] normalised.
            positions: [B, S] ascending in each segment.
            segments: [B, S] a token sees only its own segment.

        Returns:
            [B, S, W].
        """
        queries, keys, values = self.project(x, positions)
        seen = segments[:, :, None] == segments[:, None, :]
        seen &= visible(positions, positions, self.window)
        flat = queries.reshape(*queries.shape[:2], -1, queries.shape[-1])
        mixed = jax.nn.dot_product_attention(flat, keys, values, mask=seen[:, None])
        return self._merge(mixed.reshape(queries.shape))

    def cached(
        self,
        x: Float[Array, "B C W"],
        positions: Int[Array, "B C"],
        places: Int[Array, "B C"],
        keys: Float[Array, "B K S D"],
        values: Float[Array, "B K S D"],
    ) -> tuple[Float[Array, "B C W"], Float[Array, "B K S D"], Float[Array, "B K S D"]]:
        """Attention of a few tokens to all that has been read, themselves included.

        Args:
            x: [B, C, W] normalised.
            positions: [B, C].
            places: [B, C] where their keys and values go; S or more: nowhere, they stand in the cache already or do not count.
            keys: [B, K, S, D] by position.
            values: [B, K, S, D] by position.

        Returns:
            [B, C, W], keys and values.
        """
        queries, new_keys, new_values = self.project(x, positions)
        keys, values = write(keys, new_keys, places), write(values, new_values, places)
        stored = jnp.arange(keys.shape[2], dtype=positions.dtype)[None]
        seen = visible(positions, stored, self.window)
        scores = jnp.einsum(
            "bckgd,bksd->bkcgs", queries, keys, preferred_element_type=jnp.float32
        ) / math.sqrt(keys.shape[-1])
        shares = jax.nn.softmax(jnp.where(seen[:, None, :, None], scores, -jnp.inf), axis=-1)
        # Adds up in float32 and is rounded once; asked for float32, XLA on a CPU has no such product of bfloat16.
        mixed = jnp.einsum("bkcgs,bksd->bckgd", shares.astype(values.dtype), values)
        return self._merge(mixed.astype(x.dtype)), keys, values

    def _merge(self, mixed: Float[Array, "B S K G D"]) -> Float[Array, "B S W"]:
        out = self.out[...]
        flat = mixed.reshape(*mixed.shape[:2], -1)
        merged = matmul(flat, out.reshape(-1, out.shape[-1]))
        return merged if self.out_bias is None else merged + self.out_bias[...][None, None]


def visible(
    queries: Int[Array, "B C"], keys: Int[Array, "B2 S"], window: int | None
) -> Bool[Array, "B C S"]:
    """Which keys a query sees: those before it and itself, within the window.

    Args:
        queries: [B, C] positions.
        keys: [B or 1, S] positions.
        window: positions seen, itself included; None for all.

    Returns:
        [B, C, S].
    """
    back = queries[:, :, None] - keys[:, None, :]
    return (back >= 0) if window is None else (back >= 0) & (back < window)


class Perceptron(nnx.Module):
    """Two layers: act(x U) D, or gated, (act(x G) * x U) D (Shazeer 2020)."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs, dtype: DTypeLike) -> None:
        """Random weights.

        Args:
            config: sizes.
            rngs: of the weights.
            dtype: of the weights.
        """
        num_up = 2 if config.gated else 1  # the gate comes first
        shape = (config.width, num_up, config.hidden)
        self.up = nnx.Param(random_kernel(rngs.params(), shape, config.width, dtype))
        inputs = config.hidden * 2 * config.num_layers
        self.down = nnx.Param(
            random_kernel(rngs.params(), (config.hidden, config.width), inputs, dtype)
        )
        has_bias = config.perceptron_bias
        self.up_bias = nnx.Param(jnp.zeros(shape[1:], dtype)) if has_bias else None
        self.down_bias = nnx.Param(jnp.zeros(config.width, dtype)) if has_bias else None
        self.activation: Activation = config.activation

    def __call__(self, x: Float[Array, "B S W"]) -> Float[Array, "B S W"]:
        """Apply.

        Args:
            x: [B, S, W] normalised.

        Returns:
            [B, S, W].
        """
        inner = matmul(x, self.up[...])
        if self.up_bias is not None:
            inner = inner + self.up_bias[...][None, None]
        active = activate(inner[:, :, 0], self.activation)
        if inner.shape[2] == 2:
            active = active * inner[:, :, 1]
        down = matmul(active, self.down[...])
        return down if self.down_bias is None else down + self.down_bias[...][None, None]


def activate(x: Float[Array, "*batch F"], activation: Activation) -> Float[Array, "*batch F"]:
    """The nonlinearity.

    Args:
        x: any.
        activation: its name.

    Returns:
        The same shape.
    """
    if activation == "silu":
        return jax.nn.silu(x)
    return jax.nn.gelu(x, approximate=activation == "gelu_tanh")


class Block(nnx.Module):
    """Attention and perceptron, each after its norm, each added to the residual stream."""

    def __init__(
        self, config: TransformerConfig, layer: int, rngs: nnx.Rngs, dtype: DTypeLike
    ) -> None:
        """Random weights.

        Args:
            config: sizes.
            layer: its number.
            rngs: of the weights.
            dtype: of the weights.
        """
        self.attention_norm = norm(config)
        self.attention = Attention(config, layer, rngs, dtype)
        self.perceptron_norm = norm(config)
        self.perceptron = Perceptron(config, rngs, dtype)

    def whole(
        self, x: Float[Array, "B S W"], positions: Int[Array, "B S"], segments: Int[Array, "B S"]
    ) -> Float[Array, "B S W"]:
        """Without a cache; see `Attention.whole`."""
        x = x + self.attention.whole(self.attention_norm(x), positions, segments)
        return x + self.perceptron(self.perceptron_norm(x))

    def cached(
        self,
        x: Float[Array, "B C W"],
        positions: Int[Array, "B C"],
        places: Int[Array, "B C"],
        keys: Float[Array, "B K S D"],
        values: Float[Array, "B K S D"],
    ) -> tuple[Float[Array, "B C W"], Float[Array, "B K S D"], Float[Array, "B K S D"]]:
        """With a cache; see `Attention.cached`."""
        mixed, keys, values = self.attention.cached(
            self.attention_norm(x), positions, places, keys, values
        )
        x = x + mixed
        return x + self.perceptron(self.perceptron_norm(x)), keys, values


def _along_last(vector: Float32[Array, " W"], ndim: int) -> Float32[Array, "..."]:
    return vector.reshape((1,) * (ndim - 1) + vector.shape)
