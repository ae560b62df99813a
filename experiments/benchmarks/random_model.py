"""A transformer with random weights: the speed of a language model without its knowledge."""

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key

from models.transformer import Transformer, TransformerConfig, from_decoder, random_transformer

CONFIG = TransformerConfig(
    vocab_size=64,
    width=128,
    num_layers=4,
    num_heads=4,
    num_key_value_heads=4,
    head_dim=32,
    hidden=512,
    context=1024,
    norm="layer",
    gated=False,
    tied=False,
)
"""0.8 million parameters."""

EOS = 0


def random_model(
    key: Key[Array, ""], horizon: int, *, sharpness: float = 1.0, eos_logit: float | None = None
) -> Transformer:
    """Random weights, and control over how sharp the laws are and how soon sequences end.

    Args:
        key: consumed.
        horizon: most generated tokens.
        sharpness: standard deviation of the logits.
        eos_logit: logit of token 0, the eos, the same after every prefix; None for sequences of one length.

    Returns:
        The model.
    """
    config = CONFIG if eos_logit is None else dataclasses.replace(CONFIG, eos=(EOS,))
    decoder = random_transformer(key, config, horizon).decoder()
    assert decoder.head is not None
    head = sharpness * decoder.head[...]
    if eos_logit is not None:
        # The last coordinate is 1 after the norm, and eos alone looks at it.
        scale, bias = jnp.ones(config.width), jnp.zeros(config.width)
        decoder.norm.scale = nnx.Param(scale.at[-1].set(0.0))
        decoder.norm.bias = nnx.Param(bias.at[-1].set(1.0))  # pyright: ignore[reportAttributeAccessIssue]
        head = head.at[:, -1].set(0.0).at[EOS].set(0.0).at[EOS, -1].set(eos_logit)
    decoder.head = nnx.Param(head)
    return from_decoder(decoder, horizon)
