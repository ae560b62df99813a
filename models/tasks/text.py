"""Prompts and completions of a task as text: the labels of their tokens, with a blank between them."""

import difflib

import jax.numpy as jnp
import numpy as np

from models.tasks.task import PAD, Sequences, Task
from theory.errors import InvalidInput


def render(task: Task, sequences: Sequences) -> list[str]:
    """Show rows of tokens.

    Args:
        task: whose tokens they are.
        sequences: of B rows.

    Returns:
        A text for each row.
    """
    tokens, lengths = np.asarray(sequences.tokens), np.asarray(sequences.lengths)
    return [
        " ".join(task.labels[token] for token in row[:length])
        for row, length in zip(tokens, lengths, strict=True)
    ]


def parse(task: Task, text: str) -> list[int]:
    """Read tokens.

    Args:
        task: whose tokens they are.
        text: labels with blanks between them.

    Returns:
        Their ids.

    Raises:
        InvalidInput: a word is no label of the task, or is its pad.
    """
    ids = {label: token for token, label in enumerate(task.labels) if token != PAD}
    words = text.split()
    for position, word in enumerate(words):
        if word not in ids:
            close = difflib.get_close_matches(word, ids, n=3) or ids
            raise InvalidInput(
                f"task {task.name}, token {position} of {text!a}: there is no {word!a}, "
                f"use {' '.join(close)}"
            )
    return [ids[word] for word in words]


def parse_prompts(task: Task, texts: list[str]) -> Sequences:
    """Read prompts.

    Args:
        task: whose prompts they are.
        texts: of each prompt, labels with blanks between them.

    Returns:
        [B, max_prompt_length] prompts.

    Raises:
        InvalidInput: a word is no label of the task, or the words are no prompt of it.
    """
    rows = [parse(task, text) for text in texts]
    lengths = np.array([len(row) for row in rows], np.int32)
    tokens = np.full((len(rows), max(task.max_prompt_length, *lengths, 0)), PAD, np.int32)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
    prompts = Sequences(jnp.asarray(tokens), jnp.asarray(lengths))
    is_prompt = np.asarray(task.is_prompt(prompts))
    if not is_prompt.all():
        wrong = int(np.argmin(is_prompt))
        raise InvalidInput(
            f"task {task.name}, prompt {wrong} {texts[wrong]!a}: is no prompt of it, "
            f"give {task.prompt_form}"
        )
    return Sequences(prompts.tokens[:, : task.max_prompt_length], prompts.lengths)
