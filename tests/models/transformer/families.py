"""Tiny transformers with random weights, one for each way in which the published families differ."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from flax import nnx

from models.transformer import (
    Llama3Scaling,
    Rotary,
    Transformer,
    TransformerConfig,
    random_transformer,
)

BASE = TransformerConfig(
    vocab_size=11,
    width=16,
    num_layers=2,
    num_heads=4,
    num_key_value_heads=4,
    head_dim=4,
    hidden=24,
    context=64,
    start_token=3,
    eos=(2, 5),
)


CONFIGS = {
    "gpt2": replace(
        BASE,
        rotary=None,
        norm="layer",
        activation="gelu_tanh",
        gated=False,
        query_key_value_bias=True,
        out_bias=True,
        perceptron_bias=True,
    ),
    "llama2": replace(BASE, tied=False),
    "llama3": replace(
        BASE,
        num_key_value_heads=2,
        tied=False,
        rotary=Rotary(5e5, Llama3Scaling(8.0, 1.0, 4.0, 16)),
    ),
    "qwen2": replace(BASE, num_key_value_heads=2, query_key_value_bias=True),
    "qwen3": replace(BASE, num_key_value_heads=1, head_dim=6, query_key_norm=True),
    "mistral": replace(BASE, num_key_value_heads=2, windows=(3, None)),
    "gemma": replace(BASE, num_key_value_heads=1, activation="gelu_tanh", embedding_scale=4.0),
}


def tiny(family: str, horizon: int = 5) -> Transformer:
    """A model of which no weight is 0 or 1 and whose laws are far from uniform."""
    model = random_transformer(jax.random.key(7), CONFIGS[family], horizon)
    leaves, structure = jax.tree.flatten(model.params)
    keys = jax.random.split(jax.random.key(8), len(leaves))
    noisy = [
        leaf + 0.3 * jax.random.normal(key, leaf.shape, leaf.dtype)
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    params = jax.tree.unflatten(structure, noisy)
    assert isinstance(params, nnx.State)
    assert all(leaf.dtype == jnp.float32 for leaf in noisy)
    return Transformer(params, model.graph, model.config, horizon)
