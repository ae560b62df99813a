import dataclasses

import jax
import jax.numpy as jnp
import pytest
from beartype import beartype
from jaxtyping import Array, Float, jaxtyped

from models.pytree import register_pytree


@register_pytree(static=("size",))
@jaxtyped(typechecker=beartype)
@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    weights: Float[Array, "B V"]
    size: int


def test_constructor_checks_but_trees_may_hold_anything() -> None:
    pair = Pair(jnp.zeros((2, 3)), 4)
    with pytest.raises(Exception, match="weights"):
        Pair(jnp.zeros(3), 4)
    shapes = jax.tree.map(lambda leaf: leaf.shape, pair)
    assert shapes.weights == (2, 3) and shapes.size == 4
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), pair)
    assert jax.vmap(lambda each: each.weights.sum() + each.size)(stacked).shape == (2,)


def test_arrays_are_leaves_with_names_and_sizes_are_structure() -> None:
    pair = Pair(jnp.zeros((2, 3)), 4)
    [(path, leaf)], structure = jax.tree_util.tree_flatten_with_path(pair)
    assert jax.tree_util.keystr(path) == ".weights" and leaf is pair.weights
    assert structure == jax.tree.structure(Pair(jnp.ones((1, 1)), 4))
    assert structure != jax.tree.structure(Pair(jnp.zeros((2, 3)), 5))


def test_a_size_is_static_under_jit() -> None:
    assert jax.jit(lambda pair: jnp.zeros(pair.size))(Pair(jnp.zeros((2, 3)), 4)).shape == (4,)


def test_unknown_static_field_is_refused() -> None:
    with pytest.raises(ValueError, match="Pair has no field \\['length'\\]"):
        register_pytree(static=("length",))(Pair)
