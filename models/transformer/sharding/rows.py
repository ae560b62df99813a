"""Rows over devices.

Rows are independent and a population stays on one device, so a sampler runs on each shard of the rows as it runs on one device, early exit
included, and devices say nothing to each other. Random numbers are addressed by the rows' global ids: the tokens are those of any other split.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key, PyTree

from theory.errors import InvalidInput
from theory.ledger import Ledger

ROWS, HEADS = "rows", "heads"


def device_mesh(num_head_shards: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """Devices as a grid: rows are divided along its first axis, the weights of one model along its second.

    Args:
        num_head_shards: devices that hold one model together; 1: every device holds all of it.
        devices: all of all processes by default.

    Returns:
        A mesh with axes "rows" and "heads".

    Raises:
        InvalidInput: `num_head_shards` does not divide the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    if num_head_shards < 1 or len(devices) % num_head_shards:
        raise InvalidInput(
            f"head shards {num_head_shards}: must be at least 1 and divide the {len(devices)} devices"
        )
    shape = (len(devices) // num_head_shards, num_head_shards)
    kinds = (AxisType.Auto, AxisType.Auto)
    return jax.make_mesh(shape, (ROWS, HEADS), axis_types=kinds, devices=devices)


def shard_rows(mesh: Mesh, function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a whole sampler on every shard of its rows.

    The function is the code of one device: it gets that device's rows, and returns arrays with as many rows, or any fixed number of them for
    each (particles, population after population), along their first axes. A `Ledger` in its result gets a leading axis of shards, over which
    `theory.ledger.totals` sums. A model that knows the rows of its batch (`SharedPrompts`) is made inside.

    Args:
        mesh: of `device_mesh`.
        function: (key, model, *rows) -> pytree, where rows are pytrees of arrays [B, ...].

    Returns:
        A compiled function of the same arguments, for all rows; key and model are the same on every row shard. It raises
        `InvalidInput` if the number of rows is no multiple of the mesh's row shards.
    """

    def on_one_device(key: Key[Array, ""], model: Any, rows: tuple[PyTree, ...]) -> PyTree:
        return _by_shard(function(key, model, *rows))

    # The heads axis is left to the compiler, which follows the weights. Values that differ between shards are not tracked: samplers
    # start loops from constants.
    mapped = jax.jit(
        jax.shard_map(
            on_one_device,
            mesh=mesh,
            in_specs=(PartitionSpec(), PartitionSpec(), PartitionSpec(ROWS)),
            out_specs=PartitionSpec(ROWS),
            axis_names={ROWS},
            check_vma=False,
        )
    )

    def run(key: Key[Array, ""], model: Any, *rows: PyTree) -> PyTree:
        for leaf in jax.tree.leaves(rows):
            _check_rows(mesh, leaf.shape[0])
        return mapped(key, model, rows)

    return run


def place_rows(mesh: Mesh, rows: PyTree) -> PyTree:
    """Put rows on the devices that will run them. With several processes `shard_rows` takes its rows from here.

    Args:
        mesh: of `device_mesh`.
        rows: pytree of arrays [B, ...] on the host, all rows, the same in every process; each hands over those of its own devices.

    Returns:
        The same rows as arrays over the mesh.

    Raises:
        InvalidInput: B is no multiple of the mesh's row shards.
    """
    sharding = NamedSharding(mesh, PartitionSpec(ROWS))

    def place(leaf: Any) -> Array:
        host = np.asarray(leaf)
        _check_rows(mesh, host.shape[0])
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(place, rows)


def _check_rows(mesh: Mesh, num_rows: int) -> None:
    shards = mesh.shape[ROWS]
    if num_rows % shards:
        raise InvalidInput(
            f"{num_rows} rows: must be a multiple of the mesh's {shards} row shards, add rows or take fewer devices"
        )


def _by_shard(result: PyTree) -> PyTree:
    """Ledgers with a leading axis, all else as it is."""

    def lift(leaf: Any) -> Any:
        return jax.tree.map(lambda count: count[None], leaf) if _is_ledger(leaf) else leaf

    return jax.tree.map(lift, result, is_leaf=_is_ledger)


def _is_ledger(leaf: Any) -> bool:
    return isinstance(leaf, Ledger)
