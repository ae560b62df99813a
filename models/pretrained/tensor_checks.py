"""Whether a folder holds the tensors that its configuration asks for, before any is read."""

import re
from collections.abc import Collection
from pathlib import Path

import numpy as np

from models.pretrained.stored_tensors import Piece, Recipe
from models.pretrained.weight_files import FLOAT_TYPES, WeightFiles
from models.transformer.config import TransformerConfig
from theory.errors import InvalidInput

HEAD = "lm_head.weight"
# Tables that older versions of transformers stored and that follow from the configuration.
_DERIVED = re.compile(r"(^|\.)(attn\.bias|attn\.masked_bias|rotary_emb\.inv_freq)$")
# Names in one message.
_MOST_NAMES = 4
# Rows of the embedding that are compared with the head at a time.
_ROWS = 4096


def check_tensors(
    config_path: Path, config: TransformerConfig, recipe: Recipe, weights: WeightFiles
) -> None:
    """Refuse tensors that are missing, not expected, of another shape, or quantised.

    A stored head beside tied embeddings is accepted where it equals the embedding.

    Args:
        config_path: for messages.
        config: of the model.
        recipe: what it asks for.
        weights: what there is.

    Raises:
        InvalidInput: names the file, the tensors and the mend.
    """
    pieces = [piece for some in recipe.values() for piece in some]
    stored = {name for name in weights.files if not _DERIVED.search(name)}
    (embedding,) = recipe["embedding"]
    if config.tied and stored >= {HEAD, embedding.name}:
        _check_tied(config_path, embedding, weights)
        stored -= {HEAD}
    expected = {piece.name for piece in pieces}
    if HEAD in expected and HEAD not in stored:
        raise InvalidInput(
            f"{weights.folder}: lacks tensor {HEAD}, and tie_word_embeddings is false in {config_path.name}, "
            "set it to true if the embedding is the head, else copy the weights again"
        )
    if missing := expected - stored:
        raise InvalidInput(
            f"{weights.folder}: lacks {_listed(missing)}, copy all files of the model or mend {config_path.name}"
        )
    if unexpected := stored - expected:
        raise InvalidInput(
            f"{weights.folder}: holds {_listed(unexpected)}, for which {config_path.name} has no place,"
            " copy the config.json of this model"
        )
    for piece in pieces:
        if weights.types[piece.name] not in FLOAT_TYPES:
            raise InvalidInput(
                f"{weights.where(piece.name)}: is of type {weights.types[piece.name]}, quantised weights are not"
                f" supported, give the model with one of {', '.join(FLOAT_TYPES)}"
            )
        if weights.shapes[piece.name] != piece.shape:
            raise InvalidInput(
                f"{weights.where(piece.name)}: has shape {weights.shapes[piece.name]} and {config_path.name} asks for"
                f" {piece.shape}, copy the config.json of this model"
            )


def _listed(names: Collection[str]) -> str:
    """One or several tensors by name, in order, the rest counted."""
    first = ", ".join(sorted(names)[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"{'tensor' if len(names) == 1 else 'tensors'} {first}{rest}"


def _check_tied(config_path: Path, embedding: Piece, weights: WeightFiles) -> None:
    """Refuse a head that differs from the embedding that is said to be it; both are read a few rows at a time."""
    num_rows = weights.shapes[HEAD][0]
    same = weights.shapes[embedding.name] == weights.shapes[HEAD]
    for first in range(0, num_rows if same else 0, _ROWS):
        part = (slice(first, min(first + _ROWS, num_rows)),)
        same &= np.array_equal(weights.read(embedding.name, part), weights.read(HEAD, part))
    if not same:
        raise InvalidInput(
            f"{weights.where(HEAD)}: differs from {embedding.name}, and tie_word_embeddings is true in"
            f" {config_path.name}, set it to false if the head is a matrix of its own, else remove the tensor"
        )
