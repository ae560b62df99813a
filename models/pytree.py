"""Models as pytrees."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def register_pytree(*, static: tuple[str, ...]) -> Callable[[type[T]], type[T]]:
    """Class decorator that makes a dataclass a pytree.

    Fields named in `static` are part of the tree's structure (a new value compiles anew); all others are leaves.

    A tree is put together without the constructor. JAX fills trees with whatever it maps over them (shapes, axes, None,
    tracers of another rank), and a constructor that checks its arguments, as every one does in the tests, would refuse.

    Args:
        static: names of the fields that are sizes and not arrays; their values must be hashable.

    Returns:
        The decorator; it changes nothing in the class.

    Raises:
        ValueError: `static` names a field that the class lacks.
    """

    def register(cls: type[T]) -> type[T]:
        names = tuple(field.name for field in dataclasses.fields(cls))  # pyright: ignore[reportArgumentType]
        if unknown := set(static) - set(names):
            raise ValueError(f"{cls.__name__} has no field {sorted(unknown)}")
        leaves = tuple(name for name in names if name not in static)

        def flatten_with_keys(tree: T) -> tuple[list[tuple[Any, Any]], Hashable]:
            keyed = [(jax.tree_util.GetAttrKey(name), getattr(tree, name)) for name in leaves]
            return keyed, tuple(getattr(tree, name) for name in static)

        def flatten(tree: T) -> tuple[list[Any], Hashable]:
            return [getattr(tree, name) for name in leaves], tuple(getattr(tree, n) for n in static)

        def unflatten(sizes: Any, children: Iterable[Any]) -> T:
            tree = object.__new__(cls)
            values = [*zip(leaves, children, strict=True), *zip(static, sizes, strict=True)]
            for name, value in values:
                object.__setattr__(tree, name, value)
            return tree

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
        return cls

    return register
