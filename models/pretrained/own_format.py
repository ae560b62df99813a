"""Folders of models trained here: config.json with the fields of `TransformerConfig`, and tensors under our own names."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from flax import nnx
from safetensors.numpy import save_file

from models.pretrained.json_fields import Fields
from models.pretrained.parameters import abstract_decoder, parameter_names
from models.pretrained.stored_tensors import Piece, Recipe
from models.pretrained.weight_files import SINGLE_FILE
from models.transformer.config import Activation, Llama3Scaling, Norm, Rotary, TransformerConfig
from models.transformer.model import Transformer
from theory.errors import InvalidInput

ARCHITECTURE = "RolloutlabTransformer"
CONFIG_FILE = "config.json"


def save_folder(folder: Path, model: Transformer, about: Mapping[str, Any]) -> None:
    """Write a model so that `load_folder` gives it back, bit for bit.

    Equal models give equal bytes.

    Args:
        folder: is made; its config.json and model.safetensors are overwritten.
        model: its parameters are copied to the host.
        about: kept in config.json under `about`: what it was trained on and how; anything that JSON holds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fields = {
        "architectures": [ARCHITECTURE],
        **dataclasses.asdict(model.config),
        "horizon": model.horizon,
        "about": dict(about),
    }
    text = json.dumps(fields, indent=2, allow_nan=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    leaves = parameter_names(model.params)
    # save_file writes memory as it lies.
    tensors = {name: np.ascontiguousarray(leaf) for name, leaf in leaves.items()}
    save_file(tensors, folder / SINGLE_FILE)
    # It makes files that nobody else may read.
    (folder / SINGLE_FILE).chmod((folder / CONFIG_FILE).stat().st_mode)


def own_config(fields: Fields, eos: tuple[int, ...]) -> TransformerConfig:
    """The configuration that `save_folder` wrote.

    Args:
        fields: of config.json.
        eos: not read; ours stands in the field `eos`.

    Returns:
        The configuration, unchecked.

    Raises:
        InvalidInput: a field is missing, of the wrong kind, or unknown.
    """
    del eos
    _check_known(fields, TransformerConfig, {"architectures", "horizon", "about"})
    sizes = ("vocab_size", "width", "num_layers", "num_heads", "num_key_value_heads", "head_dim")
    flags = ("gated", "query_key_value_bias", "out_bias", "perceptron_bias", "query_key_norm")
    read: dict[str, Any] = {name: fields.count(name) for name in (*sizes, "hidden", "context")}
    read |= {name: fields.flag(name) for name in (*flags, "tied")}
    read |= {name: fields.number(name) for name in ("norm_epsilon", "embedding_scale")}
    return TransformerConfig(
        **read,
        rotary=_rotary(fields),
        norm=fields.choice("norm", get_args(Norm)),
        activation=fields.choice("activation", get_args(Activation)),
        windows=tuple(fields.items("windows", int | None)),
        start_token=fields.whole("start_token"),
        eos=tuple(fields.items("eos", int)),
    )


def _rotary(fields: Fields) -> Rotary | None:
    if not fields.has("rotary"):
        return None
    rotary = fields.inner("rotary")
    _check_known(rotary, Rotary)
    theta = rotary.number("theta")
    if not isinstance(rotary.values.get("scaling"), dict):
        return Rotary(theta, rotary.number("scaling") if rotary.has("scaling") else None)
    scaling = rotary.inner("scaling")
    _check_known(scaling, Llama3Scaling)
    return Rotary(
        theta,
        Llama3Scaling(
            factor=scaling.number("factor"),
            low_frequency_factor=scaling.number("low_frequency_factor"),
            high_frequency_factor=scaling.number("high_frequency_factor"),
            original_context=scaling.count("original_context"),
        ),
    )


def _check_known(fields: Fields, kind: Any, others: Iterable[str] = ()) -> None:
    ours = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(set(fields.values) - ours - set(others)):
        raise InvalidInput(
            f"{fields.where}: field {unknown[0]} is not one of a {ARCHITECTURE}, remove it"
        )


def own_recipe(config: TransformerConfig) -> Recipe:
    """Tensors under the names of our parameters, in their shapes.

    Args:
        config: sizes and choices.

    Returns:
        The recipe.
    """
    shapes = parameter_names(nnx.state(abstract_decoder(config, np.float32)))
    return {name: (Piece(name, tuple(leaf.shape)),) for name, leaf in shapes.items()}
