"""Exact draws from any law over sequences: the backward pass is done, the forward pass draws.

The power law is sampled exactly wherever zeta is known (backward-forward, as in hidden Markov models): no burn-in, no weights.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int32, Key

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
        uniforms = _uniforms(fold_rows(keys, depth))[live]
        # Strict inequality: a token of probability 0 spans no uniforms, not even u = 0.
        levels = np.cumsum(np.exp(conditional), axis=1)
        levels /= levels[:, -1:]
        chosen = (levels[rows[live]] <= uniforms[:, None]).sum(axis=1)
        tokens[live, depth] = chosen
        lengths[live] += 1
        log_probs[live] += conditional[rows[live], chosen]
        rows[live] = layer.successor[rows[live], chosen]
    return Draws(tokens, lengths, log_probs)


def _uniforms(keys: Key[Array, " B"]) -> np.ndarray:
    """[B] uniforms in [0, 1) with 53 random bits."""
    bits = np.asarray(jax.vmap(lambda key: jax.random.bits(key, (2,), jnp.uint32))(keys))
    high, low = (bits[:, 0] >> 5).astype(np.float64), (bits[:, 1] >> 6).astype(np.float64)
    return (high * 2.0**26 + low) / 2.0**53
