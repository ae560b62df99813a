"""Model files on disk, read and written. `models.tabular.model_json` describes what is in them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from models.tabular.constructors import followed_tokens
from models.tabular.model_json import ModelFile, parse_model
from models.tabular.probabilities import probability_value
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable

# Expanding more prefixes than this into a file helps nobody.
MAX_WRITTEN_PREFIXES = 200_000


def read_model(path: str | Path) -> ModelFile:
    """Read and check a model file.

    Args:
        path: a JSON file in UTF-8.

    Returns:
        The model.

    Raises:
        InvalidInput: one line with the file, the field or prefix, and the mend.
    """
    try:
        return parse_model(_read_text(Path(path)))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput("no such file, give the path of a model file") from None
    except IsADirectoryError:
        raise InvalidInput("is a folder, give the path of a model file") from None
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror}), give a readable file") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"byte {error.start} is not UTF-8, save the file as UTF-8") from None
    if not text.strip():
        raise InvalidInput("is empty, write a model into it")
    return text


def write_model(path: str | Path, table: ContextTable) -> None:
    """Write a model file from which `read_model` gives the same conditionals, bit for bit.

    The table comes back equal in every array if it is laid out as `tree_table` or `markov_table` lay theirs out.

    Args:
        path: is overwritten.
        table: rows normalised to 1e-12, log probabilities above -2300 or -inf.

    Raises:
        InvalidInput: the table is neither a chain over tokens nor a tree of at most MAX_WRITTEN_PREFIXES prefixes, or
            it runs out within its horizon.
    """
    Path(path).write_text(json.dumps(model_to_json(table)) + "\n", encoding="utf-8")


def model_to_json(table: ContextTable) -> dict[str, Any]:
    """The content of a model file.

    Args:
        table: see `write_model`.

    Returns:
        Kind "markov" with initial and transition where a context is the last token or there is only one context; the
        transition row is null for eos and for tokens without a law. Kind "tree" otherwise.

    Raises:
        InvalidInput: see `write_model`.
    """
    fields: dict[str, Any] = {
        "vocab_size": table.vocab_size,
        "max_length": table.horizon,
        "eos": list(table.eos) or None,
    }
    num_contexts, vocab_size = table.log_probs.shape
    after_token = np.arange(vocab_size) if num_contexts == vocab_size + 1 else np.zeros(vocab_size)
    if num_contexts in (1, vocab_size + 1) and (table.next_context == after_token[None]).all():
        after = [table.log_probs[context] for context in table.next_context[0]]
        transition = [None if v in table.eos else _values(row) for v, row in enumerate(after)]
        initial = _values(_lawful(table, table.initial, ""))
        return {"kind": "markov", **fields, "initial": initial, "transition": transition}
    return {"kind": "tree", **fields, "conditionals": _expanded(table)}


def _values(log_probs: Float64[np.ndarray, " V"]) -> list[float | str] | None:
    """A row as it is written; None for a context without a law."""
    if not np.isfinite(log_probs).any():
        return None
    return [probability_value(value) for value in log_probs.tolist()]


def _lawful(table: ContextTable, context: int, prefix: str) -> Float64[np.ndarray, " V"]:
    """The row of a context that is reached."""
    row = table.log_probs[context]
    if not np.isfinite(row).any():
        raise InvalidInput(
            f'prefix "{prefix}" has no law, lower the horizon of {table.horizon} to {len(prefix.split())}'
        )
    return row


def _expanded(table: ContextTable) -> dict[str, Any]:
    """Every prefix of a table with its row, by length and then by tokens."""
    conditionals: dict[str, Any] = {}
    level: list[tuple[str, int]] = [("", table.initial)]
    for length in range(table.horizon):
        if len(conditionals) + len(level) > MAX_WRITTEN_PREFIXES:
            raise InvalidInput(
                f"more than {MAX_WRITTEN_PREFIXES} prefixes of up to {length} tokens cannot be written, "
                f"lower the horizon of {table.horizon}"
            )
        children: list[tuple[str, int]] = []
        for prefix, context in level:
            conditionals[prefix] = _values(_lawful(table, context, prefix))
            for token in followed_tokens(table.log_probs[context], table.eos):
                child = f"{prefix} {token}" if prefix else str(token)
                children.append((child, int(table.next_context[context, token])))
        level = children
    return conditionals
