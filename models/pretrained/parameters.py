"""The parameters of a transformer by name."""

from typing import Any

import jax
from flax import nnx
from jaxtyping import DTypeLike, PyTree

from models.transformer.config import TransformerConfig
from models.transformer.decoder import Decoder


def abstract_decoder(config: TransformerConfig, dtype: DTypeLike) -> Decoder:
    """The structure of a transformer, with the shapes of its parameters in their place.

    Args:
        config: sizes and choices.
        dtype: of all weights but those of norms.

    Returns:
        A module that holds a `jax.ShapeDtypeStruct` for each parameter.
    """
    return nnx.eval_shape(lambda: Decoder(config, nnx.Rngs(params=jax.random.key(0)), dtype))


def parameter_name(path: tuple[Any, ...]) -> str:
    """The name of a leaf.

    Args:
        path: of `jax.tree_util`.

    Returns:
        Such as "blocks.0.attention.out".
    """
    return ".".join(str(part.key) for part in path if isinstance(part, jax.tree_util.DictKey))


def parameter_names(parameters: PyTree) -> dict[str, Any]:
    """The leaves by name.

    Args:
        parameters: of a transformer, or their shapes.

    Returns:
        From "blocks.0.attention.out" and the like to the leaf.
    """
    leaves = jax.tree_util.tree_flatten_with_path(parameters)[0]
    return {parameter_name(path): leaf for path, leaf in leaves}
