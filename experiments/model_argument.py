"""What MODEL means on the command line: a JSON model file or `builtin:NAME`."""

import difflib
import os
from pathlib import Path
from typing import NamedTuple

from experiments.command_line import unknown
from models import shipped
from models.tabular.catalogue import BUILTINS, builtin
from models.tabular.files import read_model
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable, after_prompt, with_horizon

BUILTIN = "builtin:"
_TOYS_ONLY = (
    "is a transformer, and this command needs the exact laws of a toy model (`rolloutlab models` lists them); "
    "sample, score, exact --from-samples and power-on-transformers take transformers"
)
MAX_HORIZON = 1_000_000  # a dynamic program takes a step for every token


class LoadedModel(NamedTuple):
    """A toy model, ready to be used from its first generated token on.

    Attributes:
        name: as it was given on the command line.
        table: its conditionals, after the prompt and with the horizon asked for.
        token_labels: [V] how its tokens are shown.
        horizon_is_free: whether its contexts never run out, so that any horizon makes sense.
    """

    name: str
    table: ContextTable
    token_labels: tuple[str, ...]
    horizon_is_free: bool


def load_model(
    argument: str, prompt: str | None = None, max_new_tokens: int | None = None
) -> LoadedModel:
    """Load what MODEL names.

    Args:
        argument: a JSON model file or `builtin:NAME`.
        prompt: tokens with blanks between them, such as "0 2"; none by default. In a tree they use up its horizon.
        max_new_tokens: horizon in generated tokens, eos included; the model's own by default.

    Returns:
        The model.

    Raises:
        InvalidInput: there is no such model, or the prompt or the horizon does not suit it.
    """
    model = _find(argument)
    if prompt is not None:
        model = model._replace(table=_start_after(model, prompt))
    if max_new_tokens is not None:
        model = model._replace(table=_cut_at(model, max_new_tokens))
    if model.table.horizon > MAX_HORIZON:
        raise InvalidInput(
            f"model '{argument}': horizon {model.table.horizon}, at most {MAX_HORIZON} tokens, "
            "give a smaller --max-new-tokens"
        )
    return model


def _find(argument: str) -> LoadedModel:
    if argument.startswith(BUILTIN):
        name = argument.removeprefix(BUILTIN)
        if name in shipped.MODELS:
            raise InvalidInput(f"model '{argument}': {_TOYS_ONLY}")
        if name not in BUILTINS:
            raise unknown("built-in model", name, [*BUILTINS, *shipped.MODELS])
        found = builtin(name)
        return LoadedModel(argument, found.make(), found.labels, found.horizon_is_free)
    if not argument:
        raise InvalidInput("model '': is empty, give a JSON model file or builtin:NAME")
    path = Path(argument)
    if os.path.isdir(path):
        raise InvalidInput(
            f"model '{argument}': a folder holds a transformer, and {_TOYS_ONLY.removeprefix('is a transformer, and ')}"
        )
    if not os.path.exists(path):
        # A word with a dot or a slash was meant as a file.
        names = [] if {".", "/"} & set(argument) else [BUILTIN + name for name in BUILTINS]
        close = difflib.get_close_matches(BUILTIN + argument, names, n=1)
        mend = f"did you mean '{close[0]}'?" if close else "give a JSON model file or builtin:NAME"
        raise InvalidInput(f"model '{argument}': no such file, {mend}")
    file = read_model(path)
    labels = tuple(str(token) for token in range(file.table.vocab_size))
    return LoadedModel(argument, file.table, labels, file.horizon_is_free)


def _start_after(model: LoadedModel, prompt: str) -> ContextTable:
    """The table after a prompt; the contexts of a tree run out, so its horizon shrinks by the prompt's length."""
    where = f"--prompt '{prompt}'"
    words = prompt.split()
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) < 10):
            raise InvalidInput(f"{where}: '{word}' is not a token, give numbers such as '0 2'")
    used = 0 if model.horizon_is_free else len(words)
    left = model.table.horizon - used
    if left < 1:
        raise InvalidInput(
            f"{where}: leaves nothing of the {model.table.horizon} tokens of '{model.name}', "
            "give a shorter prompt"
        )
    try:
        table = after_prompt(model.table, tuple(int(word) for word in words))
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    return with_horizon(table, left)


def _cut_at(model: LoadedModel, max_new_tokens: int) -> ContextTable:
    where, left = f"--max-new-tokens {max_new_tokens}", model.table.horizon
    if max_new_tokens < 1:
        raise InvalidInput(f"{where}: must be at least 1")
    if max_new_tokens > left and not model.horizon_is_free:
        raise InvalidInput(f"{where}: '{model.name}' ends after {left}, give at most {left}")
    return with_horizon(model.table, max_new_tokens)
