"""Norms, attention and perceptron against their formulas."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jaxtyping import DTypeLike

from models.transformer.attention import Attention, visible
from models.transformer.config import Activation
from models.transformer.layers import Perceptron, activate
from models.transformer.norms import LayerNorm, RMSNorm
from tests.models.transformer.families import BASE

RNG = np.random.default_rng(1)
X = RNG.normal(size=(2, 6, BASE.width)).astype(np.float32)
POSITIONS = np.broadcast_to(np.arange(6, dtype=np.int32), (2, 6))
SEGMENTS = np.zeros((2, 6), np.int32)


def attention(dtype: DTypeLike = jnp.float32, **changes: Any) -> Attention:
    return Attention(replace(BASE, **changes), 0, nnx.Rngs(params=0), dtype)


def mixed(layer: Attention, x: np.ndarray) -> np.ndarray:
    return np.asarray(_whole(layer, jnp.asarray(x)))


@nnx.jit
def _whole(layer: Attention, x: jax.Array) -> jax.Array:
    return layer.whole(x, jnp.asarray(POSITIONS), jnp.asarray(SEGMENTS))


@nnx.jit
def _cached(layer: Attention, x: jax.Array) -> jax.Array:
    heads, depth = layer.query_key_value[...].shape[1], layer.query_key_value[...].shape[-1]
    empty = jnp.zeros((2, heads, 6, depth), x.dtype)
    places = jnp.asarray(POSITIONS)
    return layer.cached(x, places, places, empty, empty)[0]


def test_shared_heads_are_repeated_heads() -> None:
    """Two key heads for four queries are four key heads, two and two alike."""
    shared, plain = attention(num_key_value_heads=2), attention()
    inner = np.asarray(shared.query_key_value[...])  # [W, K, G + 2, D]
    queries = inner[:, :, :2].reshape(16, 4, 1, 4)
    keys, values = (np.repeat(inner[:, :, i], 2, axis=1)[:, :, None] for i in (2, 3))
    plain.query_key_value[...] = jnp.asarray(np.concatenate([queries, keys, values], axis=2))
    plain.out[...] = jnp.reshape(shared.out[...], (4, 1, 4, 16))
    np.testing.assert_allclose(mixed(shared, X), mixed(plain, X), atol=1e-5)
    ours, theirs = (_cached(layer, jnp.asarray(X)) for layer in (shared, plain))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(ours, mixed(shared, X), atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_bfloat16_attention_is_that_of_the_same_numbers_in_float32(heads: int) -> None:
    """Products add up in float32 on every device, whatever the number of shared heads."""
    narrow = attention(jnp.bfloat16, num_key_value_heads=heads)
    wide = attention(num_key_value_heads=heads)
    wide.query_key_value[...] = narrow.query_key_value[...].astype(jnp.float32)
    wide.out[...] = narrow.out[...].astype(jnp.float32)
    x = jnp.asarray(X, jnp.bfloat16)
    got, exact = _cached(narrow, x), np.asarray(_cached(wide, x.astype(jnp.float32)))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(got, float), exact, atol=0.03 * np.abs(exact).max())


def test_attention_is_the_formula() -> None:
    """softmax(q k / sqrt(D)) v of one row, head by head, without positions."""
    layer = attention(rotary=None)
    inner = np.einsum("sw,whid->shid", X[0].astype(float), np.asarray(layer.query_key_value[...]))
    out = np.zeros((6, BASE.width))
    for head in range(4):
        query, key, value = (inner[:, head, i] for i in range(3))
        scores = query @ key.T / math.sqrt(4)
        scores[np.triu_indices(6, 1)] = -np.inf
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        out += shares @ value @ np.asarray(layer.out[...])[head, 0]
    np.testing.assert_allclose(mixed(layer, X)[0], out, atol=1e-5)


def test_a_window_ends_where_it_should() -> None:
    layer = attention(windows=(3, None))
    before = mixed(layer, X)
    for changed in range(6):
        x = X.copy()
        x[:, changed] += 1.0
        moved = np.abs(mixed(layer, x) - before).max(axis=(0, 2)) > 1e-4
        np.testing.assert_array_equal(moved, [changed <= t < changed + 3 for t in range(6)])


def test_a_token_sees_itself_and_what_comes_before() -> None:
    queries, keys = jnp.array([[0, 2, 3]]), jnp.arange(5)[None]
    whole = [[t <= q for t in range(5)] for q in (0, 2, 3)]
    np.testing.assert_array_equal(visible(queries, keys, None)[0], whole)
    last_two = [[q - 1 <= t <= q for t in range(5)] for q in (0, 2, 3)]
    np.testing.assert_array_equal(visible(queries, keys, 2)[0], last_two)


def test_normed_queries_and_keys_have_no_scale() -> None:
    layer = attention(query_key_norm=True, rotary=None)
    x, positions = jnp.asarray(X), jnp.asarray(POSITIONS)
    queries, keys, values = (np.asarray(part) for part in layer.project(x, positions))
    for part in (queries, keys):
        np.testing.assert_allclose((part**2).mean(axis=-1), 1.0, rtol=1e-3)
    assert np.abs((values**2).mean(axis=-1) - 1).max() > 0.1
    assert layer.query_norm is not None
    layer.query_norm.scale[...] = jnp.full(4, 2.0)
    doubled = np.asarray(layer.project(x, positions)[0])
    np.testing.assert_allclose(doubled, 2 * queries, rtol=1e-6)


def test_norms_are_their_formulas() -> None:
    x = X[0].astype(float) + 0.5
    rms, layer = RMSNorm(16, 0.1), LayerNorm(16, 0.1)
    scale, bias = np.linspace(0.5, 2, 16), np.linspace(-1, 1, 16)
    rms.scale[...] = layer.scale[...] = jnp.asarray(scale, jnp.float32)
    layer.bias[...] = jnp.asarray(bias, jnp.float32)
    wide = jnp.asarray(x, jnp.float32)
    expected = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 0.1) * scale
    np.testing.assert_allclose(rms(wide), expected, atol=1e-5)
    centred = x - x.mean(axis=-1, keepdims=True)
    expected = centred / np.sqrt(x.var(axis=-1, keepdims=True) + 0.1) * scale + bias
    np.testing.assert_allclose(layer(wide), expected, atol=1e-5)
    for each in (rms, layer):
        narrow = each(wide.astype(jnp.bfloat16))
        assert narrow.dtype == jnp.bfloat16
        # Only the input and the output are rounded.
        exact = each(wide.astype(jnp.bfloat16).astype(jnp.float32)).astype(jnp.bfloat16)
        np.testing.assert_array_equal(narrow, exact)


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_nonlinearities_are_their_formulas(activation: Activation) -> None:
    x = np.linspace(-4, 4, 33)
    bent = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    expected = {
        "silu": x / (1 + np.exp(-x)),
        "gelu": x * np.array([math.erf(v / math.sqrt(2)) + 1 for v in x]) / 2,
        "gelu_tanh": x * (1 + np.tanh(bent)) / 2,
    }[activation]
    got = activate(jnp.asarray(x, jnp.float32), activation)
    np.testing.assert_allclose(got, expected, atol=2e-6)


@pytest.mark.parametrize("gated", [True, False])
def test_a_perceptron_is_its_formula(gated: bool) -> None:
    """The gate is what goes through the nonlinearity."""
    config = replace(BASE, gated=gated, perceptron_bias=True)
    layer = Perceptron(config, nnx.Rngs(params=0), jnp.float32)
    assert layer.up_bias is not None and layer.down_bias is not None
    keys = jax.random.split(jax.random.key(0))
    layer.up_bias[...] = jax.random.normal(keys[0], layer.up_bias[...].shape)
    layer.down_bias[...] = jax.random.normal(keys[1], layer.down_bias[...].shape)
    up, down = np.asarray(layer.up[...], float), np.asarray(layer.down[...], float)
    inner = np.einsum("bsw,wuf->bsuf", X, up) + np.asarray(layer.up_bias[...])
    active = inner[..., 0, :] / (1 + np.exp(-inner[..., 0, :]))
    active = active * inner[..., 1, :] if gated else active
    expected = active @ down + np.asarray(layer.down_bias[...])
    np.testing.assert_allclose(layer(jnp.asarray(X)), expected, atol=1e-5)


def test_random_weights_have_variance_one_over_their_inputs() -> None:
    """Those into the residual stream share it among the two additions of each layer."""
    config = replace(BASE, num_key_value_heads=2)
    rngs = nnx.Rngs(params=3)
    draws = [
        jax.random.normal(rngs.params(), shape)
        for shape in ((16, 2, 2 + 2, 4), (2, 2, 4, 16), (16, 2, 24), (24, 16))
    ]
    again = nnx.Rngs(params=3)
    attends = Attention(config, 0, again, jnp.float32)
    bends = Perceptron(config, again, jnp.float32)
    weights = (attends.query_key_value, attends.out, bends.up, bends.down)
    num_inputs = (16, 4 * 4 * 2 * config.num_layers, 16, 24 * 2 * config.num_layers)
    for weight, draw, inputs in zip(weights, draws, num_inputs, strict=True):
        np.testing.assert_allclose(weight[...] * math.sqrt(inputs), draw, rtol=1e-6)
