"""The models of the power-versus-temperature demonstration, and how they are called in it.

A model is known by its name and its content, not by the path of its file: `mine.json` and `./mine.json` are one model, an
edited file is another.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from experiments.model_argument import BUILTIN, LoadedModel, load_model
from theory.exact.laws import Law, base_law, power_law, temperature_law
from theory.exact.layers import Layers

LABELS = {
    "builtin:toy-a-normalised": "two tokens",
    "builtin:toy-b": "plan or guess",
    "builtin:toy-d": "sticky chain",
    "builtin:toy-e": "early eos",
    "builtin:toy-f": "alternating chain",
    "builtin:sharp-path": "one sharp path",
    "builtin:random-markov": "random chain",
    "builtin:random-endless": "random chain without eos",
}


def load_named(
    argument: str, prompt: str | None = None, max_new_tokens: int | None = None
) -> LoadedModel:
    """Load a model and name it after its file, without folder and ending.

    Args:
        argument: a JSON model file or builtin:NAME.
        prompt: see `load_model`.
        max_new_tokens: see `load_model`.

    Returns:
        The model; a built-in one keeps its name.

    Raises:
        InvalidInput: see `load_model`.
    """
    model = load_model(argument, prompt, max_new_tokens)
    return model if argument.startswith(BUILTIN) else model._replace(name=Path(argument).stem)


def digest(models: Sequence[LoadedModel]) -> str:
    """Of everything that the numbers depend on, so that an edited model file is another run.

    Args:
        models: in order.

    Returns:
        16 hexadecimal digits.
    """
    found = hashlib.sha256()
    for model in models:
        table = model.table
        found.update(table.log_probs.tobytes() + table.next_context.tobytes())
        rest = table.initial, table.eos, table.horizon, model.token_labels, model.horizon_is_free
        found.update(repr(rest).encode())
    return found.hexdigest()[:16]


def short_name(name: str) -> str:
    """How a model is called in tables.

    Args:
        name: of a loaded model.

    Returns:
        One word.
    """
    return name.removeprefix(BUILTIN)


def label(model: LoadedModel) -> str:
    """How a model is called in figures.

    Args:
        model: named by `load_named`.

    Returns:
        A few words.
    """
    return LABELS.get(model.name, short_name(model.name))


def three_laws(layers: Layers, alpha: float) -> dict[str, Law]:
    """The laws that the demonstration is about.

    Args:
        layers: of a model.
        alpha: exponent above 0.

    Returns:
        "base", "temperature" and "power".
    """
    return {
        "base": base_law(layers),
        "temperature": temperature_law(layers, alpha),
        "power": power_law(layers, alpha).law,
    }
