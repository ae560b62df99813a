"""For programs that run where jaxtyping is not installed: shapes in signatures then mean nothing."""

import importlib.util
import sys
from types import ModuleType
from typing import Any

import jax

KINDS = (
    "Bool",
    "Float",
    "Float32",
    "Float64",
    "Int",
    "Int32",
    "Int64",
    "Key",
    "PyTree",
    "Real",
    "Shaped",
    "UInt32",
)


class Unchecked:
    """Takes the place of a kind of array, whatever its axes."""

    def __class_getitem__(cls, _: Any) -> Any:
        """Any value will do."""
        return Any


def stand_in_for_jaxtyping() -> None:
    """Let `import jaxtyping` succeed, before the first import of a module that has shapes; does nothing where it is installed."""
    if "jaxtyping" in sys.modules or importlib.util.find_spec("jaxtyping") is not None:
        return
    module = ModuleType("jaxtyping")
    for kind in KINDS:
        setattr(module, kind, Unchecked)
    module.__dict__.update(Array=jax.Array, DTypeLike=Any)
    sys.modules["jaxtyping"] = module
