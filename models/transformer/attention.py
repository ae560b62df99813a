"""Grouped-query attention with a cache and without; scores and softmax are float32 always."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, DTypeLike, Float, Int

from models.transformer.cache import write
from models.transformer.config import TransformerConfig
from models.transformer.norms import RMSNorm
from models.transformer.products import matmul, precision_of, random_kernel
from models.transformer.rotary import frequencies, rotate


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
        highest = "highest" if x.dtype == jnp.float32 else None
        with jax.default_matmul_precision(highest):
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
        precision = precision_of(keys.dtype)
        scores = jnp.einsum(
            "bckgd,bksd->bkcgs",
            queries,
            keys,
            precision=precision,
            preferred_element_type=jnp.float32,
        ) / math.sqrt(keys.shape[-1])
        shares = jax.nn.softmax(jnp.where(seen[:, None, :, None], scores, -jnp.inf), axis=-1)
        # Adds up in float32 and is rounded once; asked for float32, XLA on a CPU has no such product of bfloat16.
        mixed = jnp.einsum(
            "bkcgs,bksd->bckgd", shares.astype(values.dtype), values, precision=precision
        )
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
