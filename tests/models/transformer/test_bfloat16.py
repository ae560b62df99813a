"""Weights in bfloat16: laws in float32, near those of the same weights in float32, decoded step by step or at once."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from models.transformer import Transformer, full_log_probs, random_transformer
from tests.models.transformer.families import CONFIGS


def test_cached_laws_of_rounded_weights() -> None:
    half = random_transformer(jax.random.key(2), CONFIGS["llama3"], 3, jnp.bfloat16)
    single = dataclasses.replace(
        half, params=jax.tree.map(lambda leaf: leaf.astype(jnp.float32), half.params)
    )
    tokens = np.array([[4, 1, 7, 6], [9, 3, 1, 10], [1, 0, 8, 3]], np.int32)
    whole = jax.jit(full_log_probs)(single, tokens, np.full(3, 4))
    # `jax.nn.dot_product_attention` mixes bfloat16 and float32 without saying so.
    with jax.numpy_dtype_promotion("standard"):
        at_once = jax.jit(full_log_probs)(half, tokens, np.full(3, 4))
    state, law = jax.jit(Transformer.init)(half, tokens[:, :2], np.full(3, 2))
    laws = [law]
    for place in (2, 3):
        state, law = jax.jit(Transformer.step)(half, state, tokens[:, place], np.ones(3, bool))
        laws.append(law)
    cached = jnp.stack(laws, axis=1)
    assert cached.dtype == at_once.dtype == jnp.float32
    assert state.cache.layers[0].dtype == jnp.bfloat16
    # Eight bits of a number, over a few dozen roundings; laws of different tokens are further apart.
    np.testing.assert_allclose(cached, whole[:, 1:], atol=0.06)
    np.testing.assert_allclose(at_once, whole, atol=0.06)
    assert np.abs(whole[:, 1] - whole[:, 2]).max(axis=1).min() > 0.5
