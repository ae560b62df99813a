"""A toy language model as a finite table of contexts.

A *context* is all that the next-token law depends on: a whole prefix in a tree, the last k tokens in a Markov model
of order k, nothing at all in a geometric model. One table type serves them all, so one dynamic program does too.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput


class ContextTable(NamedTuple):
    """The conditional laws of an autoregressive model with C contexts.

    A sequence starts in context `initial`; in context c token v has probability exp(log_probs[c, v]) and leads to
    context next_context[c, v], unless v is in `eos` or `horizon` tokens have been emitted, which end the sequence.

    Attributes:
        log_probs: [C, V] natural log, normalised over v; -inf is a real zero. Rows that no prefix reaches are never read.
        next_context: [C, V] indices in 0..C-1; never read where v is in eos or log_probs is -inf.
        initial: the context of the empty prefix.
        eos: tokens that end a sequence, ascending; may be empty.
        horizon: most tokens in a sequence, eos included; at least 1.
    """

    log_probs: Float64[np.ndarray, "C V"]
    next_context: Int64[np.ndarray, "C V"]
    initial: int
    eos: tuple[int, ...]
    horizon: int

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.log_probs.shape[1]


def make_context_table(
    log_probs: Float64[np.ndarray, "C V"],
    next_context: Int64[np.ndarray, "C V"],
    initial: int,
    eos: tuple[int, ...],
    horizon: int,
) -> ContextTable:
    """Check the parts of a table and put them together.

    Args:
        log_probs: [C, V] natural log; each row is normalised, NaN or all -inf marks a context that no prefix may reach.
        next_context: [C, V]; entries that are never followed may hold anything.
        initial: the context of the empty prefix.
        eos: tokens that end a sequence.
        horizon: most tokens in a sequence.

    Returns:
        The table.

    Raises:
        InvalidInput: sizes, eos or horizon out of range, or a followed transition that leads outside the table.
    """
    num_contexts, vocab_size = log_probs.shape
    if horizon < 1:
        raise InvalidInput(f"horizon {horizon}: must be at least 1")
    if not 0 <= initial < num_contexts:
        raise InvalidInput(f"initial context {initial}: must be in 0..{num_contexts - 1}")
    for token in eos:
        if not 0 <= token < vocab_size:
            raise InvalidInput(f"eos {token}: must be a token in 0..{vocab_size - 1}")
    followed = np.isfinite(log_probs)
    followed[:, list(eos)] = False
    outside = followed & ((next_context < 0) | (next_context >= num_contexts))
    if outside.any():
        context, token = np.argwhere(outside)[0]
        raise InvalidInput(
            f"context {context}, token {token}: leads to context {next_context[context, token]}, "
            f"must be in 0..{num_contexts - 1}"
        )
    return ContextTable(log_probs, next_context, initial, tuple(sorted(set(eos))), horizon)


def with_horizon(table: ContextTable, horizon: int) -> ContextTable:
    """The same conditionals with another horizon (for models whose contexts do not run out).

    Args:
        table: the model.
        horizon: at least 1.

    Returns:
        A table that shares the arrays.
    """
    if horizon < 1:
        raise InvalidInput(f"horizon {horizon}: must be at least 1")
    return table._replace(horizon=horizon)


def after_prompt(table: ContextTable, prompt: tuple[int, ...]) -> ContextTable:
    """The same conditionals, started after a prompt; the horizon is unchanged.

    Args:
        table: the model.
        prompt: tokens, none of them eos, each possible after those before it.

    Returns:
        A table that shares the arrays.

    Raises:
        InvalidInput: a token of the prompt is unknown, ends the sequence or is impossible there.
    """
    context = table.initial
    for position, token in enumerate(prompt):
        where = f"prompt token {token} at position {position}"
        if not 0 <= token < table.vocab_size:
            raise InvalidInput(f"{where}: must be in 0..{table.vocab_size - 1}")
        if token in table.eos:
            raise InvalidInput(f"{where}: ends the sequence, nothing can follow it")
        if not np.isfinite(table.log_probs[context, token]):
            raise InvalidInput(f"{where}: has probability 0 there")
        context = int(table.next_context[context, token])
    return table._replace(initial=context)
