"""What a transformer is made of: sizes and the choices in which the published families differ."""

import dataclasses
from typing import Literal

from theory.errors import InvalidInput

Norm = Literal["rms", "layer"]
Activation = Literal["silu", "gelu", "gelu_tanh"]


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
    """Rotary frequencies stretched for contexts longer than those of pre-training, as Llama 3.1 does it.

    Wavelengths above `original_context / low_frequency_factor` are divided by `factor`, those below
    `original_context / high_frequency_factor` are kept, and those between are interpolated.

    Attributes:
        factor: by which slow frequencies are divided.
        low_frequency_factor: of the slow end.
        high_frequency_factor: of the fast end.
        original_context: positions of pre-training.
    """

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int


@dataclasses.dataclass(frozen=True)
class Rotary:
    """Positions as rotations of queries and keys (Su et al. 2021), halves paired as in the Llama family.

    Attributes:
        theta: base of the wavelengths.
        scaling: None, a factor that positions are divided by, or Llama 3.1's.
    """

    theta: float = 10_000.0
    scaling: float | Llama3Scaling | None = None


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """A decoder-only transformer with norms before attention and perceptron (pre-norm).

    Attributes:
        vocab_size: V.
        width: W of the residual stream.
        num_layers: layers.
        num_heads: H query heads.
        num_key_value_heads: K of them, a divisor of H; each serves H / K query heads.
        head_dim: D, even with rotary positions.
        hidden: width inside the perceptron.
        context: most positions: the table of learned ones, the length of training for rotary ones.
        rotary: None for learned positions.
        norm: root mean square, or layer norm with a bias.
        norm_epsilon: added under the root.
        activation: of the perceptron.
        gated: whether act(gate) * up replaces act(up) (SwiGLU, GeGLU).
        query_key_value_bias: whether these projections have one.
        out_bias: whether the projection out of attention has one.
        perceptron_bias: whether both layers of the perceptron have one.
        query_key_norm: root-mean-square norm of each query and key, before positions.
        windows: for each layer how many positions a token sees, itself included; None for all. Empty: all, everywhere.
        tied: whether the embedding is the head.
        embedding_scale: what embeddings are multiplied by when they are read.
        start_token: read in place of an empty prompt.
        eos: tokens that end a sequence.
    """

    vocab_size: int
    width: int
    num_layers: int
    num_heads: int
    num_key_value_heads: int
    head_dim: int
    hidden: int
    context: int
    rotary: Rotary | None = Rotary()
    norm: Norm = "rms"
    norm_epsilon: float = 1e-6
    activation: Activation = "silu"
    gated: bool = True
    query_key_value_bias: bool = False
    out_bias: bool = False
    perceptron_bias: bool = False
    query_key_norm: bool = False
    windows: tuple[int | None, ...] = ()
    tied: bool = True
    embedding_scale: float = 1.0
    start_token: int = 0
    eos: tuple[int, ...] = ()

    @property
    def group(self) -> int:
        """Query heads that share a key and a value head."""
        return self.num_heads // self.num_key_value_heads

    def window(self, layer: int) -> int | None:
        """Positions that a token of a layer sees; None for all."""
        return self.windows[layer] if self.windows else None


def check_config(config: TransformerConfig) -> TransformerConfig:
    """Refuse sizes that do not fit each other.

    Args:
        config: any.

    Returns:
        The same.

    Raises:
        InvalidInput: names the field and the mend.
    """
    sizes = ("vocab_size", "width", "num_layers", "num_heads", "num_key_value_heads", "head_dim")
    for name in (*sizes, "hidden", "context"):
        if getattr(config, name) < 1:
            raise InvalidInput(f"{name} {getattr(config, name)}: must be at least 1")
    if config.num_heads % config.num_key_value_heads:
        raise InvalidInput(
            f"num_key_value_heads {config.num_key_value_heads}: must divide num_heads {config.num_heads}"
        )
    if config.rotary is not None and config.head_dim % 2:
        raise InvalidInput(f"head_dim {config.head_dim}: must be even with rotary positions")
    if config.windows and len(config.windows) != config.num_layers:
        raise InvalidInput(
            f"windows: {len(config.windows)} of them for {config.num_layers} layers, give one a layer"
        )
    if any(window is not None and window < 1 for window in config.windows):
        raise InvalidInput(f"windows {config.windows}: must be at least 1 each, or None")
    for name, tokens in (("start_token", (config.start_token,)), ("eos", config.eos)):
        if not all(0 <= token < config.vocab_size for token in tokens):
            raise InvalidInput(f"{name} {tokens}: must be in 0..{config.vocab_size - 1}")
    return config
