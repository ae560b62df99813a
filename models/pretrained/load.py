"""From a model folder to a transformer.

Parameters are made one by one: the tensors that fill one are read, turned into place in its own precision, and put on the
device before the next is read. So the host never holds more of a model than its largest parameter twice, besides what the files' pages
take, which the system drops when memory is short.
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from flax import nnx
from jaxtyping import Array, DTypeLike, PyTree, Shaped

from models.pretrained.families import find_family
from models.pretrained.json_fields import Fields, read_json
from models.pretrained.own_format import CONFIG_FILE
from models.pretrained.parameters import abstract_decoder, parameter_name
from models.pretrained.stored_tensors import Piece, Recipe
from models.pretrained.tensor_checks import check_tensors
from models.pretrained.tokenizer import eos_tokens, load_tokenizer
from models.pretrained.weight_files import FLOAT_TYPES, WeightFiles, open_weights
from models.transformer.config import TransformerConfig, check_config
from models.transformer.model import Transformer
from theory.errors import InvalidInput

Precision = Literal["float32", "bfloat16", "stored"]


class Loaded(NamedTuple):
    """What a folder holds.

    Attributes:
        model: the transformer.
        tokenizer: None where the folder has no tokenizer.json.
        about: what `save_folder` was told about a model trained here; empty for others.
    """

    model: Transformer
    tokenizer: tokenizers.Tokenizer | None
    about: dict[str, Any]


def load_folder(
    folder: str | Path, horizon: int | None = None, precision: Precision = "stored"
) -> Loaded:
    """Read a model.

    Args:
        folder: config.json and safetensors in the format of Hugging Face or of `save_folder`, and perhaps tokenizer.json.
        horizon: most generated tokens; None takes what `save_folder` wrote.
        precision: of all weights but those of norms, which are float32. "stored" is bfloat16 where all matrices are, and
            float32 for all else, float16 included.

    Returns:
        The model on the default device, with its tokenizer.

    Raises:
        InvalidInput: one line with the file, the field or tensor, and the mend.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: no such folder, give the path of a model folder")
    path = folder / CONFIG_FILE
    fields = Fields(str(path), read_json(path))
    family = find_family(fields)
    if fields.has("quantization_config"):
        raise InvalidInput(
            f"{path}: quantization_config: quantised weights are not supported, give the model in bfloat16 or float32"
        )
    vocab_size = fields.count("vocab_size")
    config = _checked(path, family.config(fields, eos_tokens(folder, fields, vocab_size)))
    weights = open_weights(folder)
    if config.num_layers > len(weights.files):  # before a recipe of a million layers is made
        raise InvalidInput(
            f"{path}: asks for {config.num_layers} layers, and {folder} holds {len(weights.files)} tensors, copy both again"
        )
    recipe = family.recipe(config, weights.files)
    check_tensors(path, config, recipe, weights)
    tokenizer = load_tokenizer(folder, vocab_size)
    if horizon is None:
        horizon = _own_horizon(fields)
    if horizon < 1:
        raise InvalidInput(f"horizon {horizon}: must be at least 1")
    about = fields.inner("about")
    if about.has("task"):
        about.text("task")
    graph, shapes = nnx.split(abstract_decoder(config, _dtype(precision, recipe, weights)))
    model = Transformer(_parameters(recipe, weights, shapes), graph, config, horizon)
    return Loaded(model, tokenizer, dict(about.values))


def _checked(path: Path, config: TransformerConfig) -> TransformerConfig:
    try:
        return check_config(config)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _own_horizon(fields: Fields) -> int:
    if not fields.has("horizon"):
        raise InvalidInput(
            f"{fields.where}: names no horizon, give the most tokens to generate (--max-new-tokens)"
        )
    return fields.count("horizon")


def _dtype(precision: Precision, recipe: Recipe, weights: WeightFiles) -> DTypeLike:
    if precision != "stored":
        return jnp.dtype(precision)
    pieces = (piece for some in recipe.values() for piece in some)
    matrices = {FLOAT_TYPES[weights.types[piece.name]] for piece in pieces if len(piece.shape) > 1}
    return jnp.dtype(jnp.bfloat16 if matrices == {jnp.bfloat16} else jnp.float32)


def _parameters(recipe: Recipe, weights: WeightFiles, shapes: PyTree) -> PyTree:
    """All parameters, one after the other."""

    def make(path: tuple[Any, ...], leaf: jax.ShapeDtypeStruct) -> Array:
        return jnp.asarray(_assembled(recipe[parameter_name(path)], weights, leaf))

    return jax.tree_util.tree_map_with_path(make, shapes)


def _assembled(
    pieces: tuple[Piece, ...], weights: WeightFiles, leaf: jax.ShapeDtypeStruct
) -> Shaped[np.ndarray, "..."]:
    """One parameter from the tensors that fill it."""
    whole = np.empty(leaf.shape, leaf.dtype)
    for piece in pieces:
        whole[piece.place or ...] = piece.arrange(weights.read(piece.name))
        if not np.isfinite(whole[piece.place or ...]).all():
            raise InvalidInput(
                f"{weights.where(piece.name)}: holds a NaN, an infinity or a number beyond {leaf.dtype}, copy the file again"
            )
    return whole
