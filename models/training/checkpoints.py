"""States of training on disk, through orbax: a checkpoint is there as a whole or not at all.

Leaves are stored under their paths in the state, so that a file does not depend on how the containers of a version of flax or optax
are written, and with their digest, since the file format notices a byte that is missing but not one that has changed. Orbax writes into a folder of another name and renames it at the end; what a killed process left under such a name is no
checkpoint, and is removed.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import Array, UInt8

from theory.errors import InvalidInput

StateT = TypeVar("StateT")
_DIGEST = "sha256 of all leaves"


class TrainingCheckpoints:
    """The newest checkpoints of one training run."""

    def __init__(self, folder: Path, num_kept: int = 2) -> None:
        """Open a folder of checkpoints.

        Args:
            folder: is made if it does not exist.
            num_kept: how many of the newest stay.
        """
        # Of this process alone, and done when `save` returns: the states of these models are small.
        options = ocp.CheckpointManagerOptions(
            max_to_keep=num_kept,
            cleanup_tmp_directories=True,
            enable_async_checkpointing=False,
        )
        self._folder = folder
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def save(self, step: int, state: Any) -> None:
        """Store a state.

        Args:
            step: its number, above those that are there.
            state: a pytree of arrays.
        """
        leaves = _by_path(state)
        stored = leaves | {_DIGEST: _digest(leaves)}
        self._manager.save(step, args=ocp.args.StandardSave(stored))

    def latest(self, like: StateT) -> StateT | None:
        """Read the newest state.

        Args:
            like: a state of the same structure, shapes and types; its values are not read.

        Returns:
            The state, bit for bit as it was stored; None if there is none.

        Raises:
            InvalidInput: the newest checkpoint cannot be read, or is not what was stored.
        """
        step = self._manager.latest_step()
        if step is None:
            return None
        shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, _by_path(like))
        shapes |= {_DIGEST: np.zeros(hashlib.sha256().digest_size, np.uint8)}
        try:
            stored = self._manager.restore(step, args=ocp.args.StandardRestore(shapes))
        except (ValueError, KeyError, OSError) as error:
            cause = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InvalidInput(
                f"{self._folder / str(step)}: this checkpoint cannot be read ({cause}), "
                "remove it, or begin again with --force"
            ) from error
        leaves = {name: leaf for name, leaf in stored.items() if name != _DIGEST}
        if not np.array_equal(stored[_DIGEST], _digest(leaves)):
            raise InvalidInput(
                f"{self._folder / str(step)}: this checkpoint has changed since it was stored, "
                "remove it, or begin again with --force"
            )
        paths = jax.tree_util.tree_leaves_with_path(like)
        ordered = [leaves[_name(path)] for path, _ in paths]
        return jax.tree.unflatten(jax.tree.structure(like), ordered)

    def close(self) -> None:
        """Let the folder go."""
        self._manager.close()


def _by_path(state: Any) -> dict[str, Array]:
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _digest(leaves: Mapping[str, Array | np.ndarray]) -> UInt8[np.ndarray, " 32"]:
    digest = hashlib.sha256()
    for name in sorted(leaves):
        leaf = leaves[name]
        value = np.asarray(leaf)
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(value.tobytes())
    return np.frombuffer(digest.digest(), np.uint8).copy()
