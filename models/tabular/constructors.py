"""Context tables from conditional probabilities: trees, Markov chains of any order, geometric lengths.

Rows are probabilities. Each must sum to 1 within SUM_TOLERANCE and is then normalised; a zero is a real zero.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable, make_context_table

SUM_TOLERANCE = 1e-6

Prefix = tuple[int, ...]
Row = Sequence[float] | Float64[np.ndarray, " V"]


def tree_table(
    conditionals: Mapping[Prefix, Row], vocab_size: int, eos: tuple[int, ...], max_length: int
) -> ContextTable:
    """A model whose next-token law depends on the whole prefix.

    Args:
        conditionals: for every prefix that has positive probability, has not ended and is shorter than max_length, the
            probabilities of the next token; the empty prefix is ().
        vocab_size: V.
        eos: tokens that end a sequence.
        max_length: most tokens in a sequence.

    Returns:
        A context per prefix, by length and then by tokens, and a last one, without a law, below the deepest.

    Raises:
        InvalidInput: a row is no law, a prefix is missing, too long, unknown or never reached.
    """
    rows = {prefix: log_row(row, named(prefix)) for prefix, row in conditionals.items()}
    return tree_from_log_rows(rows, vocab_size, eos, max_length)


def markov_table(
    initial: Row,
    transition: Sequence[Row] | Float64[np.ndarray, "V V"],
    eos: tuple[int, ...],
    horizon: int,
) -> ContextTable:
    """A Markov chain over tokens (order 1).

    Args:
        initial: [V] probabilities of the first token.
        transition: [V][V] row v holds the probabilities of the token after v; rows of eos are ignored.
        eos: tokens that end a sequence.
        horizon: most tokens in a sequence.

    Returns:
        Context v for "after token v" and context V for the start.

    Raises:
        InvalidInput: a row is no law, or there are not V of them.
    """
    if len(transition) != len(initial):
        raise InvalidInput(f"transition has {len(transition)} rows, must have {len(initial)}")
    rows: dict[Prefix, Float64[np.ndarray, " V"]] = {
        (token,): log_row(row, f"transition row {token}")
        for token, row in enumerate(transition)
        if token not in eos
    }
    rows[()] = log_row(initial, "initial")
    return markov_from_log_rows(rows, len(initial), eos, horizon)


def order_k_markov_table(
    conditionals: Mapping[Prefix, Row],
    order: int,
    vocab_size: int,
    eos: tuple[int, ...],
    horizon: int,
) -> ContextTable:
    """A Markov chain whose next-token law depends on the last `order` tokens.

    Args:
        conditionals: for every prefix of fewer than `order` tokens and every run of `order` tokens that sequences
            of any length can hold, the probabilities of the next token.
        order: at least 1.
        vocab_size: V.
        eos: tokens that end a sequence.
        horizon: most tokens in a sequence.

    Returns:
        A context per key, by length and then by tokens.

    Raises:
        InvalidInput: a row is no law, or a context is missing, too long, unknown or never reached.
    """
    if order < 1:
        raise InvalidInput(f"order {order}: must be at least 1")
    rows = {context: log_row(row, named(context)) for context, row in conditionals.items()}
    contexts = sorted_contexts(rows, vocab_size, order + 1)
    index = {context: i for i, context in enumerate(contexts)}
    log_probs = np.stack([rows[context] for context in contexts])
    next_context = np.zeros(log_probs.shape, np.int64)
    reached: list[Prefix] = [()]
    seen: set[Prefix] = {()}
    for context in reached:
        for token in followed_tokens(rows[context], eos):
            after = (*context, token)[-order:]
            if after not in index:
                raise InvalidInput(f"{named(after)} is missing, sequences reach it")
            next_context[index[context], token] = index[after]
            if after not in seen:
                seen.add(after)
                reached.append(after)
    for context in contexts:
        if context not in seen:
            raise InvalidInput(f"{named(context)}: no sequence reaches it, remove it")
    return make_context_table(log_probs, next_context, 0, eos, horizon)


def geometric_table(probabilities: Row, eos: tuple[int, ...], horizon: int) -> ContextTable:
    """Independent tokens: the length is geometric, cut at the horizon.

    With stop probability e = p(eos), the number N of tokens before eos has P(N = n) = e (1 - e)^n for n < horizon.

    Args:
        probabilities: [V] of every token.
        eos: tokens that end a sequence.
        horizon: most tokens in a sequence.

    Returns:
        A single context.

    Raises:
        InvalidInput: the row is no law.
    """
    row = log_row(probabilities, "probabilities")
    return make_context_table(row[None], np.zeros((1, len(row)), np.int64), 0, eos, horizon)


def log_row(probabilities: Row, name: str) -> Float64[np.ndarray, " V"]:
    """Check one law, normalise it and take natural logarithms.

    Args:
        probabilities: [V].
        name: of the row, for messages.

    Returns:
        [V] log probabilities, -inf where 0.

    Raises:
        InvalidInput: an entry is negative or not finite, or the sum is not 1.
    """
    row = np.asarray(probabilities, np.float64)
    if not np.isfinite(row).all() or (row < 0).any():
        token = int(np.argmax(~np.isfinite(row) | (row < 0)))
        raise InvalidInput(f"{name}: token {token} has probability {row[token]}, must be in 0..1")
    total = float(row.sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise InvalidInput(f"{name}: probabilities sum to {total:.9g}, must sum to 1")
    return np.array([math.log(p) if p > 0 else -math.inf for p in (row / total).tolist()])


def tree_from_log_rows(
    rows: Mapping[Prefix, Float64[np.ndarray, " V"]],
    vocab_size: int,
    eos: tuple[int, ...],
    max_length: int,
) -> ContextTable:
    """`tree_table` from normalised log probabilities.

    Cost is that of the prefixes given, whatever max_length is.
    """
    if max_length < 1:
        raise InvalidInput(f"max_length {max_length}: must be at least 1")
    prefixes = sorted_contexts(rows, vocab_size, max_length)
    index = {prefix: i for i, prefix in enumerate(prefixes)}
    below = len(prefixes)
    log_probs = np.full((below + 1, vocab_size), -np.inf)
    next_context = np.full((below + 1, vocab_size), below)
    reached: set[Prefix] = {()}
    for i, prefix in enumerate(prefixes):
        if prefix not in reached:
            raise InvalidInput(f"{named(prefix)}: no sequence reaches it, remove it")
        log_probs[i] = rows[prefix]
        if len(prefix) + 1 == max_length:
            continue
        for token in followed_tokens(rows[prefix], eos):
            child = (*prefix, token)
            if child not in index:
                raise InvalidInput(f"{named(child)} is missing, sequences reach it")
            reached.add(child)
            next_context[i, token] = index[child]
    return make_context_table(log_probs, next_context, 0, eos, max_length)


def markov_from_log_rows(
    rows: Mapping[Prefix, Float64[np.ndarray, " V"]],
    vocab_size: int,
    eos: tuple[int, ...],
    horizon: int,
) -> ContextTable:
    """`markov_table` from normalised log probabilities by last token, the start being ().

    Tokens without a row get a context without a law: no sequence may reach them.
    """
    log_probs = np.full((vocab_size + 1, vocab_size), -np.inf)
    for context, row in rows.items():
        if row.size != vocab_size:
            raise InvalidInput(
                f"{named(context)} has {row.size} probabilities, must have {vocab_size}"
            )
        log_probs[context[0] if context else vocab_size] = row
    next_context = np.tile(np.arange(vocab_size), (vocab_size + 1, 1))
    return make_context_table(log_probs, next_context, vocab_size, eos, horizon)


def sorted_contexts(
    rows: Mapping[Prefix, Float64[np.ndarray, " V"]], vocab_size: int, max_length: int
) -> list[Prefix]:
    """The keys by length, then by tokens, after checking them and the widths of their rows."""
    if () not in rows:
        raise InvalidInput(f"{named(())} is missing, every sequence starts there")
    for prefix, row in rows.items():
        if len(row) != vocab_size:
            raise InvalidInput(
                f"{named(prefix)}: {len(row)} probabilities, must be {vocab_size}, one per token"
            )
        if len(prefix) >= max_length:
            raise InvalidInput(
                f"{named(prefix)}: {len(prefix)} tokens, must be fewer than {max_length}"
            )
        for token in prefix:
            if not 0 <= token < vocab_size:
                raise InvalidInput(
                    f"{named(prefix)}: token {token} is unknown, must be in 0..{vocab_size - 1}"
                )
    return sorted(rows, key=lambda prefix: (len(prefix), prefix))


def followed_tokens(log_probs: Float64[np.ndarray, " V"], eos: tuple[int, ...]) -> list[int]:
    """Tokens that can stand there and have something after them."""
    return [token for token in np.flatnonzero(np.isfinite(log_probs)).tolist() if token not in eos]


def named(prefix: Prefix) -> str:
    """A prefix as messages show it, cut where it is too long to help."""
    text = " ".join(map(str, prefix))
    return f'prefix "{text if len(text) <= 60 else text[:57] + "..."}"'
