"""Which stored tensors make up each of our parameters, by family.

Ours are laid out by key head (see `models.transformer.layers.Attention`), the published ones are plain matrices, transposed or not, one
for queries, keys and values or three. A recipe lists for each of our parameters the tensors that fill it, with their shapes and how
they are turned into place.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from models.transformer.config import TransformerConfig

Tensor = Shaped[np.ndarray, "..."]


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


class Piece(NamedTuple):
    """A stored tensor, and the part of one of our parameters that it fills.

    Attributes:
        name: of the stored tensor.
        shape: that it must have.
        arrange: from the stored tensor to that part.
        place: index of the part, empty for the whole.
    """

    name: str
    shape: tuple[int, ...]
    arrange: Callable[[Tensor], Tensor] = _as_it_is
    place: tuple[slice | int, ...] = ()


# From the name of our parameter ("blocks.0.attention.out") to what fills it.
Recipe = Mapping[str, tuple[Piece, ...]]


def gpt2_recipe(config: TransformerConfig, prefix: str) -> Recipe:
    """GPT-2: matrices are [inputs, outputs], one for queries, keys and values.

    Args:
        config: sizes.
        prefix: "transformer." where the folder was saved with the head, "" for the first published files.

    Returns:
        The recipe.
    """
    width, heads, depth, hidden = config.width, config.num_heads, config.head_dim, config.hidden
    inner = heads * depth

    def norm(ours: str, theirs: str) -> dict[str, tuple[Piece, ...]]:
        return {
            f"{ours}.scale": (Piece(f"{theirs}.weight", (width,)),),
            f"{ours}.bias": (Piece(f"{theirs}.bias", (width,)),),
        }

    recipe = {
        "embedding": (Piece(f"{prefix}wte.weight", (config.vocab_size, width)),),
        "positions": (Piece(f"{prefix}wpe.weight", (config.context, width)),),
        **norm("norm", f"{prefix}ln_f"),
    }
    for layer in range(config.num_layers):
        ours, theirs = f"blocks.{layer}", f"{prefix}h.{layer}"
        recipe |= norm(f"{ours}.attention_norm", f"{theirs}.ln_1")
        recipe |= norm(f"{ours}.perceptron_norm", f"{theirs}.ln_2")
        attention, perceptron = f"{ours}.attention", f"{ours}.perceptron"
        recipe |= {
            f"{attention}.query_key_value": (
                Piece(
                    f"{theirs}.attn.c_attn.weight",
                    (width, 3 * inner),
                    lambda w: w.reshape(width, 3, heads, depth).swapaxes(1, 2),
                ),
            ),
            f"{attention}.query_key_value_bias": (
                Piece(
                    f"{theirs}.attn.c_attn.bias",
                    (3 * inner,),
                    lambda b: b.reshape(3, heads, depth).swapaxes(0, 1),
                ),
            ),
            f"{attention}.out": (
                Piece(
                    f"{theirs}.attn.c_proj.weight",
                    (inner, width),
                    lambda w: w.reshape(heads, 1, depth, width),
                ),
            ),
            f"{attention}.out_bias": (Piece(f"{theirs}.attn.c_proj.bias", (width,)),),
            f"{perceptron}.up": (
                Piece(f"{theirs}.mlp.c_fc.weight", (width, hidden), lambda w: w[:, None]),
            ),
            f"{perceptron}.up_bias": (
                Piece(f"{theirs}.mlp.c_fc.bias", (hidden,), lambda b: b[None]),
            ),
            f"{perceptron}.down": (Piece(f"{theirs}.mlp.c_proj.weight", (hidden, width)),),
            f"{perceptron}.down_bias": (Piece(f"{theirs}.mlp.c_proj.bias", (width,)),),
        }
    return recipe


def llama_recipe(config: TransformerConfig) -> Recipe:
    """Llama and its descendants: matrices are [outputs, inputs], each by itself.

    Args:
        config: sizes, biases and norms.

    Returns:
        The recipe.
    """
    return _rotary_recipe(config, _as_it_is)


def gemma_recipe(config: TransformerConfig) -> Recipe:
    """Gemma: as Llama, but norms multiply by 1 + weight, which is added up here in float32.

    Args:
        config: sizes, biases and norms.

    Returns:
        The recipe.
    """
    return _rotary_recipe(config, lambda weight: 1 + weight.astype(np.float32))


def _rotary_recipe(config: TransformerConfig, scale: Callable[[Tensor], Tensor]) -> Recipe:
    width, hidden = config.width, config.hidden
    recipe = {
        "embedding": (Piece("model.embed_tokens.weight", (config.vocab_size, width)),),
        "norm.scale": (Piece("model.norm.weight", (width,), scale),),
    }
    for layer in range(config.num_layers):
        ours, theirs = f"blocks.{layer}", f"model.layers.{layer}"
        perceptron, mlp = f"{ours}.perceptron", f"{theirs}.mlp"
        recipe |= {
            f"{ours}.attention_norm.scale": (
                Piece(f"{theirs}.input_layernorm.weight", (width,), scale),
            ),
            f"{ours}.perceptron_norm.scale": (
                Piece(f"{theirs}.post_attention_layernorm.weight", (width,), scale),
            ),
            f"{perceptron}.up": (
                Piece(f"{mlp}.gate_proj.weight", (hidden, width), np.transpose, (_ALL, 0)),
                Piece(f"{mlp}.up_proj.weight", (hidden, width), np.transpose, (_ALL, 1)),
            ),
            f"{perceptron}.down": (
                Piece(f"{mlp}.down_proj.weight", (width, hidden), np.transpose),
            ),
        }
        if config.perceptron_bias:
            recipe |= {
                f"{perceptron}.up_bias": (
                    Piece(f"{mlp}.gate_proj.bias", (hidden,), place=(0,)),
                    Piece(f"{mlp}.up_proj.bias", (hidden,), place=(1,)),
                ),
                f"{perceptron}.down_bias": (Piece(f"{mlp}.down_proj.bias", (width,)),),
            }
        recipe |= _attention(config, f"{ours}.attention", f"{theirs}.self_attn")
    if not config.tied:
        recipe["head"] = (Piece("lm_head.weight", (config.vocab_size, width)),)
    return recipe


_ALL = slice(None)


def _attention(config: TransformerConfig, ours: str, theirs: str) -> dict[str, tuple[Piece, ...]]:
    """Query head h of the published layout belongs to key head h // G."""
    width, heads, group, depth = (
        config.width,
        config.num_key_value_heads,
        config.group,
        config.head_dim,
    )
    query, key = heads * group * depth, heads * depth
    queries = slice(0, group)

    def from_queries(weight: Tensor) -> Tensor:
        return weight.reshape(heads, group, depth, width).transpose(3, 0, 1, 2)

    def from_keys(weight: Tensor) -> Tensor:
        return weight.reshape(heads, depth, width).transpose(2, 0, 1)

    recipe = {
        f"{ours}.query_key_value": (
            Piece(f"{theirs}.q_proj.weight", (query, width), from_queries, (_ALL, _ALL, queries)),
            Piece(f"{theirs}.k_proj.weight", (key, width), from_keys, (_ALL, _ALL, group)),
            Piece(f"{theirs}.v_proj.weight", (key, width), from_keys, (_ALL, _ALL, group + 1)),
        ),
        f"{ours}.out": (
            Piece(
                f"{theirs}.o_proj.weight",
                (width, query),
                lambda w: w.T.reshape(heads, group, depth, width),
            ),
        ),
    }
    if config.query_key_value_bias:

        def bias(weight: Tensor) -> Tensor:
            return weight.reshape(heads, -1, depth)

        recipe[f"{ours}.query_key_value_bias"] = (
            Piece(f"{theirs}.q_proj.bias", (query,), bias, (_ALL, queries)),
            Piece(f"{theirs}.k_proj.bias", (key,), bias, (_ALL, slice(group, group + 1))),
            Piece(f"{theirs}.v_proj.bias", (key,), bias, (_ALL, slice(group + 1, None))),
        )
    if config.out_bias:
        recipe[f"{ours}.out_bias"] = (Piece(f"{theirs}.o_proj.bias", (width,)),)
    if config.query_key_norm:
        recipe |= {
            f"{ours}.query_norm.scale": (Piece(f"{theirs}.q_norm.weight", (depth,)),),
            f"{ours}.key_norm.scale": (Piece(f"{theirs}.k_norm.weight", (depth,)),),
        }
    return recipe
