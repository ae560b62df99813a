"""Exact draws from any law over sequences: the backward pass is done, the forward pass draws.

The power law is sampled exactly wherever zeta is known (backward-forward, as in hidden Markov models): no burn-in, no weights.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int32, Int64, Key

from theory.exact.laws import Law
from theory.keys import Role, fold_rows, role_key, row_keys


class Draws(NamedTuple):
    """B sequences.

    Attributes:
        tokens: [B, T] generated tokens, 0 past a row's length.
        lengths: [B] eos included.
        log_probs: [B] log probability of each row under the law that drew it.
    """

    tokens: Int32[np.ndarray, "B T"]
    lengths: Int32[np.ndarray, " B"]
    log_probs: Float64[np.ndarray, " B"]


def draw_sequences(key: Key[Array, ""], law: Law, num_rows: int, first_row: int = 0) -> Draws:
    """Independent exact draws, by inversion of each conditional in float64.

    Row i's numbers are addressed by its global id first_row + i: the same rows whatever the batch they are drawn in.

    Args:
        key: the run's key; not consumed.
        law: to draw from.
        num_rows: B.
        first_row: global id of the first row.

    Returns:
        The draws.
    """
    rows_of_key = jnp.arange(first_row, first_row + num_rows)
    keys = fold_rows(row_keys(role_key(key, Role.TOKEN), rows_of_key), 0)  # iteration 0
    tokens = np.zeros((num_rows, len(law.layers)), dtype=np.int32)
    lengths = np.zeros(num_rows, dtype=np.int32)
    log_probs = np.zeros(num_rows)
    rows = np.zeros(num_rows, dtype=np.int64)
    for depth, layer in enumerate(law.layers):
        live = np.flatnonzero(rows >= 0)
        if live.size == 0:
            break
        conditional = law.log_conditional(depth)
        uniforms = uniforms_of(fold_rows(keys, depth))[live]
        chosen = invert(np.exp(conditional), rows[live], uniforms)
        tokens[live, depth] = chosen
        lengths[live] += 1
        log_probs[live] += conditional[rows[live], chosen]
        rows[live] = layer.successor[rows[live], chosen]
    return Draws(tokens, lengths, log_probs)


def invert(
    laws: Float64[np.ndarray, "n V"],
    rows: Int64[np.ndarray, " B"],
    uniforms: Float64[np.ndarray, " B"],
) -> Int64[np.ndarray, " B"]:
    """Tokens by inversion of the cumulative law.

    Args:
        laws: [n, V] probabilities, each row normalised up to rounding.
        rows: [B] which law each draw is from.
        uniforms: [B] in [0, 1).

    Returns:
        [B] tokens, never one of probability 0.
    """
    levels = np.cumsum(laws, axis=1)
    # So that rounding leaves no gap at the top, and a token of probability 0 spans no uniforms, not even u = 0.
    levels /= levels[:, -1:]
    return (levels[rows] <= uniforms[:, None]).sum(axis=1)


def uniforms_of(keys: Key[Array, " B"]) -> Float64[np.ndarray, " B"]:
    """One uniform for each key.

    Args:
        keys: [B] consumed.

    Returns:
        [B] in [0, 1), with 53 random bits.
    """
    bits = np.asarray(jax.vmap(lambda key: jax.random.bits(key, (2,), jnp.uint32))(keys))
    high, low = (bits[:, 0] >> 5).astype(np.float64), (bits[:, 1] >> 6).astype(np.float64)
    return (high * 2.0**26 + low) / 2.0**53
