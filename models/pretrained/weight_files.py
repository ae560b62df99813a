"""Tensors of a model folder: which file holds which, and reading them one at a time.

A folder holds `model.safetensors`, or shards with an index `model.safetensors.index.json` whose `weight_map` names the
shard of each tensor. Files are memory-mapped: opening them reads their headers only, and a tensor (or a part of one) is
copied into host memory when it is asked for, so that the caller decides how much of the model is there at once.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike, Shaped
from safetensors import SafetensorError, safe_open

from models.pretrained.json_fields import read_json
from theory.errors import InvalidInput

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
# Under the names of safetensors. Integers and 8-bit floats are weights that were quantised.
FLOAT_TYPES: Mapping[str, DTypeLike] = {
    "F16": jnp.float16,
    "BF16": jnp.bfloat16,
    "F32": jnp.float32,
    "F64": jnp.float64,
}


@dataclasses.dataclass(frozen=True)
class WeightFiles:
    """The tensors of a folder, unread.

    Attributes:
        folder: for messages.
        files: from a tensor's name to the name of the file that holds it.
        shapes: from a tensor's name to its shape.
        types: from a tensor's name to its type, as safetensors writes it ("F32", "BF16", ...).
        handles: open files by name.
    """

    folder: Path
    files: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]
    handles: Mapping[str, Any]

    def where(self, name: str) -> str:
        """The file of a tensor and its name, to begin a message with."""
        return f"{self.folder / self.files[name]}: tensor {name}"

    def read(self, name: str, part: tuple[slice, ...] = ()) -> Shaped[np.ndarray, "..."]:
        """A tensor, or a part of one, as it is stored.

        Args:
            name: of a tensor that the folder holds.
            part: a slice for each of the first axes.

        Returns:
            A copy in host memory.
        """
        handle = self.handles[self.files[name]]
        return handle.get_slice(name)[part] if part else handle.get_tensor(name)


def open_weights(folder: Path) -> WeightFiles:
    """Open the safetensors files of a model folder.

    Args:
        folder: holds `model.safetensors`, or an index and its shards; the single file goes first.

    Returns:
        The tensors, unread.

    Raises:
        InvalidInput: there are no such files, a shard is missing, a file is cut short or damaged, or a shard lacks a
            tensor that the index expects there.
    """
    weight_map: dict[str, str] = {}
    if (folder / SINGLE_FILE).is_file():
        handles = {SINGLE_FILE: _open(folder / SINGLE_FILE)}
    elif (folder / INDEX_FILE).is_file():
        weight_map = _weight_map(folder / INDEX_FILE)
        handles = _open_shards(folder, weight_map)
    else:
        raise InvalidInput(f"{folder}: {_no_weights(folder)}")
    files: dict[str, str] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    types: dict[str, str] = {}
    for file, handle in handles.items():
        for name in handle.keys():  # noqa: SIM118
            if weight_map.get(name, file) == file:
                view = handle.get_slice(name)
                files[name] = file
                shapes[name], types[name] = tuple(view.get_shape()), view.get_dtype()
    return WeightFiles(folder, files, shapes, types, handles)


def _no_weights(folder: Path) -> str:
    pickled = sorted(path.name for path in folder.glob("*.bin"))
    if pickled:
        return (
            f"weights are pickled ({pickled[0]}) and pickles run what they hold, save them anew as {SINGLE_FILE}"
            " (save_pretrained of transformers does)"
        )
    return f"holds neither {SINGLE_FILE} nor {INDEX_FILE}, copy the weights there"


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise InvalidInput(f"{path}: is cut short or damaged ({error}), copy it again") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error}), give a readable file") from None


def _weight_map(index: Path) -> dict[str, str]:
    """From the name of each tensor to the file that holds it."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InvalidInput(f"{index}: field weight_map names no shards, copy the index again")
    for name, file in weight_map.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise InvalidInput(
                f"{index}: field weight_map has {file!r} for tensor {name}, write the name of a file beside the index"
            )
    return weight_map


def _open_shards(folder: Path, weight_map: Mapping[str, str]) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for file in sorted(set(weight_map.values())):
        names = {name for name, holder in weight_map.items() if holder == file}
        if not (folder / file).is_file():
            raise InvalidInput(
                f"{folder / file}: is missing, {INDEX_FILE} expects {len(names)} tensors there, copy it beside the index"
            )
        handles[file] = _open(folder / file)
        if absent := sorted(names - set(handles[file].keys())):
            raise InvalidInput(
                f"{folder / file}: lacks tensor {absent[0]}, which {INDEX_FILE} expects there, copy both again"
            )
    return handles
