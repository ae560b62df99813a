"""What the tests of sharding run: small models, eight rows, and samplers written for one device."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from models.transformer import Transformer, random_transformer
from tests.models.transformer.families import BASE
from theory.generation import Generation, generate, start
from theory.keys import Role, role_key, row_keys

KEY = jax.random.key(11)


class Rows(NamedTuple):
    """Prompts, their lengths and the rows' global ids."""

    prompts: Any
    lengths: Any
    ids: Any


# Some prompts are empty; ids are far from the rows' places.
ROWS = Rows(
    np.arange(24, dtype=np.int32).reshape(8, 3) % 7,
    np.array([3, 1, 0, 2, 2, 3, 0, 1], np.int32),
    np.array([40, 7, 19, 3, 28, 11, 0, 5], np.int32),
)


def divisible(horizon: int = 6, num_layers: int = 1) -> Transformer:
    """A model of which every divided axis is a multiple of 4."""
    config = replace(
        BASE, vocab_size=12, num_heads=8, num_layers=num_layers, tied=False, eos=(2, 5, 7)
    )
    model = random_transformer(jax.random.key(5), config, horizon)
    params = jax.tree.map(lambda leaf: 1.5 * leaf, model.params)
    return replace(model, params=params)


def ancestral(key: jax.Array, model: Any, rows: Rows) -> Generation:
    """Rows drawn from the model, as code for one device."""
    keys = row_keys(role_key(key, Role.TOKEN), rows.ids)
    limits = jnp.full(rows.ids.shape, model.horizon, jnp.int32)
    return generate(keys, model, (), 2.0, start(model, rows.prompts, rows.lengths), limits)


def in_batches(function: Any, num_batches: int, model: Any, rows: Any) -> Any:
    """One batch after the other on one device, each as large as a shard."""
    run, size = jax.jit(function), len(rows[0]) // num_batches

    def batch(i: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[i * size : (i + 1) * size], rows)

    results = [run(KEY, model, batch(i)) for i in range(num_batches)]
    return jax.tree.map(lambda *parts: np.concatenate(parts), *results)
