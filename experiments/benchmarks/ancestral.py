"""The reference of the overhead benchmarks: plain ancestral sampling, its state donated."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from models.transformer import Transformer
from theory.generation import Generation, generate, start
from theory.keys import Role, role_key, row_keys


def ancestral_rows(key: Key[Array, ""], model: Transformer, num_rows: int) -> Generation:
    """Draw rows from the model itself, from the empty prompt to eos or the horizon.

    Args:
        key: of the run; not consumed.
        model: of the tokens.
        num_rows: side by side.

    Returns:
        The rows, computed.
    """
    return jax.block_until_ready(_ancestral(key, model, _start_rows(model, num_rows)))


@functools.partial(jax.jit, static_argnums=1)
def _start_rows(model: Transformer, num_rows: int) -> Generation:
    none = jnp.zeros((num_rows, 0), jnp.int32)
    return start(model, none, jnp.zeros(num_rows, jnp.int32))


@functools.partial(jax.jit, donate_argnums=2)
def _ancestral(key: Key[Array, ""], model: Transformer, rows: Generation) -> Generation:
    num_rows = rows.trajectories.lengths.shape[0]
    keys = row_keys(role_key(key, Role.TOKEN), jnp.arange(num_rows))
    limits = jnp.full(num_rows, model.horizon, jnp.int32)
    return generate(keys, model, (), 1.0, rows, limits)
