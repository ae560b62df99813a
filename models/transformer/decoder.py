"""Embedding, blocks, norm and head: from tokens to hidden states and from hidden states to logits."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, DTypeLike, Float, Float32, Int

from models.transformer.cache import Layers
from models.transformer.config import TransformerConfig
from models.transformer.layers import Block
from models.transformer.norms import norm
from models.transformer.products import precision_of, random_kernel


class Decoder(nnx.Module):
    """A decoder-only transformer: all parameters, and the two ways to run them, with a cache and without."""

    def __init__(
        self, config: TransformerConfig, rngs: nnx.Rngs, dtype: DTypeLike = jnp.float32
    ) -> None:
        """Random weights.

        Args:
            config: sizes and choices, checked (`check_config`).
            rngs: of the weights.
            dtype: of all weights but those of norms, which are float32.
        """
        # Logits of a tied head are of order 1 at the start.
        shape = (config.vocab_size, config.width)
        self.embedding = nnx.Param(random_kernel(rngs.params(), shape, config.width, dtype))
        self.positions = (
            nnx.Param(
                random_kernel(rngs.params(), (config.context, config.width), config.width, dtype)
            )
            if config.rotary is None
            else None
        )
        self.blocks = nnx.List(
            [Block(config, layer, rngs, dtype) for layer in range(config.num_layers)]
        )
        self.norm = norm(config)
        self.head = (
            None
            if config.tied
            else nnx.Param(random_kernel(rngs.params(), shape, config.width, dtype))
        )
        self.config = config

    def whole(
        self, tokens: Int[Array, "B S"], positions: Int[Array, "B S"], segments: Int[Array, "B S"]
    ) -> Float[Array, "B S W"]:
        """Hidden states of rows read at once. Several sequences may stand in a row, each its own segment (packing).

        Args:
            tokens: [B, S].
            positions: [B, S] each token's place in its sequence.
            segments: [B, S] which sequence of the row; tokens see only their own.

        Returns:
            [B, S, W] after the last norm.
        """
        x = self._embed(tokens, positions)
        for block in self.blocks:
            x = block.whole(x, positions, segments)
        return self.norm(x)

    def cached(
        self,
        layers: Layers,
        tokens: Int[Array, "B C"],
        positions: Int[Array, "B C"],
        places: Int[Array, "B C"],
    ) -> tuple[Float[Array, "B C W"], Layers]:
        """Hidden states of a few tokens after all that has been read.

        Args:
            layers: keys and values by layer and position.
            tokens: [B, C].
            positions: [B, C].
            places: [B, C] where their keys and values go; past the end: nowhere.

        Returns:
            [B, C, W] after the last norm, and the layers.
        """
        x = self._embed(tokens, positions)
        after: list[Array] = []
        for index, block in enumerate(self.blocks):
            x, keys, values = block.cached(
                x, positions, places, layers[2 * index], layers[2 * index + 1]
            )
            after += [keys, values]
        return self.norm(x), tuple(after)

    def logits(self, hidden: Float[Array, "*batch W"]) -> Float32[Array, "*batch V"]:
        """Unnormalised log probabilities of the next token.

        Args:
            hidden: [..., W] of `whole` or `cached`.

        Returns:
            [..., V].
        """
        head = (self.embedding if self.head is None else self.head)[...]
        precision = precision_of(head.dtype)
        return jnp.einsum(
            "...w,vw->...v", hidden, head, precision=precision, preferred_element_type=jnp.float32
        )

    def _embed(
        self, tokens: Int[Array, "B S"], positions: Int[Array, "B S"]
    ) -> Float[Array, "B S W"]:
        x = self.embedding[...][tokens]
        if self.config.embedding_scale != 1.0:
            x = x * jnp.asarray(self.config.embedding_scale, x.dtype)
        if self.positions is None:
            return x
        table = self.positions[...]
        return x + table[jnp.clip(positions, 0, table.shape[0] - 1)]
