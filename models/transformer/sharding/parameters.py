"""Weights over devices, for models larger than one of them.

Attention is divided by key heads, each with its queries, its key, its value and its rows of the projection out; the perceptron by its hidden
units; embedding and head by tokens. Keys and values in the cache follow their heads. Two sums over devices a layer are what this costs (Shoeybi et al.,
"Megatron-LM", arXiv 1909.08053, section 3); the compiler puts them in.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from models.transformer.config import TransformerConfig
from models.transformer.model import Transformer
from models.transformer.sharding.rows import HEADS
from theory.errors import InvalidInput

WHOLE = PartitionSpec()
SPECS = {
    "query_key_value": PartitionSpec(None, HEADS),  # [W, K, G + 2, D]
    "query_key_value_bias": PartitionSpec(HEADS),  # [K, G + 2, D]
    "out": PartitionSpec(HEADS),  # [K, G, D, W]
    "up": PartitionSpec(None, None, HEADS),  # [W, n, F]
    "up_bias": PartitionSpec(None, HEADS),  # [n, F]
    "down": PartitionSpec(HEADS),  # [F, W]
    "embedding": PartitionSpec(HEADS),  # [V, W]
    "head": PartitionSpec(HEADS),  # [V, W]
    "out_bias": WHOLE,
    "down_bias": WHOLE,
    "positions": WHOLE,
    "scale": WHOLE,
    "bias": WHOLE,
}
BY_TOKEN = ("embedding", "head")


def parameter_specs(mesh: Mesh, model: Transformer) -> PyTree:
    """How each parameter is divided.

    Args:
        mesh: of `device_mesh`.
        model: the transformer.

    Returns:
        A `PartitionSpec` in the place of each parameter. Embedding and head are whole everywhere if the mesh does not divide V.

    Raises:
        InvalidInput: the mesh does not divide the key heads or the hidden units; names the field.
    """
    shards = mesh.shape[HEADS]
    _check_divides(shards, model.config)

    def spec(path: tuple[Any, ...], _: Any) -> PartitionSpec:
        # A path ends with the parameter's name and the name of its value.
        name = path[-2].key
        return WHOLE if name in BY_TOKEN and model.vocab_size % shards else SPECS[name]

    return jax.tree_util.tree_map_with_path(spec, model.params)


def shard_parameters(mesh: Mesh, model: Transformer) -> Transformer:
    """Put every parameter on the devices of the mesh: divided over "heads", the same on every row shard.

    Args:
        mesh: of `device_mesh`.
        model: with its parameters in host memory (or on one device, if they fit), the same in every process.

    Returns:
        The model, for `shard_rows` on this mesh and for any compiled function.

    Raises:
        InvalidInput: the mesh does not divide the key heads or the hidden units.
    """

    def place(leaf: Array, spec: PartitionSpec) -> Array:
        host = np.asarray(leaf)
        sharding = NamedSharding(mesh, spec)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    params = jax.tree.map(place, model.params, parameter_specs(mesh, model))
    return dataclasses.replace(model, params=params)


def _check_divides(shards: int, config: TransformerConfig) -> None:
    for name in ("num_key_value_heads", "hidden"):
        if getattr(config, name) % shards:
            raise InvalidInput(
                f"{name} {getattr(config, name)}: must be a multiple of the mesh's {shards} head shards, take fewer of them"
            )
