"""Ways to break a model folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

Break = Callable[[Path], object]
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


def in_json(file: str, **fields: Any) -> Break:
    """Set fields of a JSON file; None removes."""

    def change(folder: Path) -> None:
        content = json.loads((folder / file).read_text()) | fields
        kept = {name: value for name, value in content.items() if value is not None}
        (folder / file).write_text(json.dumps(kept))

    return change


def in_weights(change: Callable[[dict[str, np.ndarray]], Any]) -> Break:
    """Change the tensors of a folder with one file."""

    def rewrite(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS)

    return rewrite


def with_bytes(file: str, change: Callable[[bytes], bytes]) -> Break:
    """Change the bytes of a file."""
    return lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes()))


def without(*files: str) -> Break:
    """Remove files."""
    return lambda folder: [(folder / file).unlink() for file in files]


def pickled(folder: Path) -> None:
    """Weights as torch saves them."""
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def layer_without_name(tensors: dict[str, np.ndarray]) -> None:
    """A tensor under a name that nobody knows."""
    tensors["model.layers.1.self_attn.qq_proj.weight"] = tensors.pop(
        "model.layers.1.self_attn.q_proj.weight"
    )


def quantised(tensors: dict[str, np.ndarray]) -> None:
    """A matrix of integers."""
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name].astype(np.int8)


def fewer_layers(tensors: dict[str, np.ndarray]) -> None:
    """The second layer is gone."""
    for name in [name for name in tensors if ".layers.1." in name]:
        tensors.pop(name)


def reshaped(tensors: dict[str, np.ndarray]) -> None:
    """A matrix is transposed."""
    name = "model.layers.0.self_attn.k_proj.weight"
    tensors[name] = np.ascontiguousarray(tensors[name].T)


def holding(value: float) -> Break:
    """One number of one tensor is this."""

    def change(tensors: dict[str, np.ndarray]) -> None:
        matrix = tensors["model.layers.1.mlp.up_proj.weight"].copy()
        matrix[0, -1] = value
        tensors["model.layers.1.mlp.up_proj.weight"] = matrix

    return in_weights(change)


def other_head(tensors: dict[str, np.ndarray]) -> None:
    """A head that differs from the embedding in one number."""
    head = tensors["model.embed_tokens.weight"].copy()
    head[-1, -1] += 1
    tensors["lm_head.weight"] = head


def short_head(tensors: dict[str, np.ndarray]) -> None:
    """A head that is the embedding but for its last row, which is not there."""
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"][:-1].copy()


def biased(tensors: dict[str, np.ndarray]) -> None:
    """More biases than a message should name."""
    for part in "qkvo":
        for layer in range(2):
            tensors[f"model.layers.{layer}.self_attn.{part}_proj.bias"] = np.zeros(32, np.float32)
