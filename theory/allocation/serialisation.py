"""An allocator's state as named NumPy arrays and back, so that `numpy.savez` or any checkpointer can keep it."""

from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from theory.errors import InvalidInput

State = TypeVar("State")


def to_arrays(state: Any) -> dict[str, np.ndarray]:
    """Every leaf under its path in the tree; random keys as their words.

    Args:
        state: of any allocator, concrete.

    Returns:
        path -> array.
    """
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(_words(leaf)) for path, leaf in leaves}


def from_arrays(arrays: dict[str, np.ndarray], like: State) -> State:
    """The state of which `to_arrays` made these.

    Args:
        arrays: path -> array.
        like: a state of the same allocator and pool, such as a fresh one.

    Returns:
        The state.

    Raises:
        InvalidInput: an array is missing, is one too many, or has another shape or type.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    for name in arrays:
        if name not in names:
            raise InvalidInput(
                f"state, array '{name}': this allocator has none, name the right one"
            )
    return cast(
        State,
        tree.unflatten(
            [_restored(arrays, n, leaf) for n, (_, leaf) in zip(names, leaves, strict=True)]
        ),
    )


def _words(leaf: Any) -> Any:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def _restored(arrays: dict[str, np.ndarray], name: str, like: Any) -> Any:
    if name not in arrays:
        raise InvalidInput(f"state, array '{name}': missing")
    words, found = _words(like), arrays[name]
    if found.shape != words.shape or found.dtype != words.dtype:
        raise InvalidInput(
            f"state, array '{name}': {found.dtype}{list(found.shape)}, must be {words.dtype}{list(words.shape)}"
        )
    if words is like:
        return jnp.asarray(found)
    return jax.random.wrap_key_data(jnp.asarray(found), impl=jax.random.key_impl(like))
