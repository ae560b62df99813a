"""The perceptron, and the block that adds attention and perceptron to the residual stream.

Weights may be bfloat16: then so are the residual stream and the inputs of matrix products, which add up in float32. Norms, rotations,
scores, softmax and logits are float32 always.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, DTypeLike, Float, Int

from models.transformer.attention import Attention
from models.transformer.config import Activation, TransformerConfig
from models.transformer.norms import norm
from models.transformer.products import matmul, random_kernel


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
