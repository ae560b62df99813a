"""What re-scores rows: one full forward pass over a table, or over a transformer, without a cache."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int

from experiments.language_model import load_transformer
from experiments.model_argument import load_model
from models.tabular.context_model import ContextModel
from models.transformer import Transformer, full_token_log_probs
from theory.errors import InvalidInput
from theory.protocols import SequenceModel
from theory.reductions import at_token


class Entry(NamedTuple):
    """A row of the log.

    Attributes:
        where: file and line, for messages.
        record: as it was read.
        prompt: its prompt.
        tokens: its generated tokens.
    """

    where: str
    record: dict[str, Any]
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


class Scorer(Protocol):
    """Gives rows their log probabilities.

    Attributes:
        horizon: most generated tokens of a row.
        most_rows: that fit side by side.
    """

    horizon: int
    most_rows: int

    def score(self, entries: Sequence[Entry]) -> list[list[float]]:
        """Log p of every generated token.

        Args:
            entries: rows with any prompts.

        Returns:
            One list a row; -inf for an impossible token, NaN after one, where there is no law.

        Raises:
            InvalidInput: a prompt or tokens that the model cannot have; names the row.
        """
        ...


class TableScorer:
    """A model after any prompt: one compiled forward pass for each horizon."""

    def __init__(self, argument: str, max_new_tokens: int | None) -> None:
        """Load what MODEL names.

        Args:
            argument: MODEL of the command line.
            max_new_tokens: horizon, or None for the model's own.
        """

        @lru_cache(maxsize=256)
        def after(prompt: tuple[int, ...]) -> ContextModel:
            words = " ".join(map(str, prompt)) if prompt else None
            return ContextModel.from_table(load_model(argument, words, max_new_tokens).table)

        self._after = after
        self.most_rows = 1 << 12
        self.horizon = after(()).horizon

    def score(self, entries: Sequence[Entry]) -> list[list[float]]:
        """See `Scorer.score`."""
        by_prompt: dict[tuple[int, ...], list[int]] = {}
        for place, entry in enumerate(entries):
            by_prompt.setdefault(entry.prompt, []).append(place)
        scores: list[list[float]] = [[] for _ in entries]
        for prompt, places in by_prompt.items():
            try:
                model = self._after(prompt)
            except InvalidInput as error:
                text = str(error).removeprefix("--prompt ")
                raise InvalidInput(f"{entries[places[0]].where}, field 'prompt' {text}") from error
            for place in places:
                _check_tokens(entries[place], model.vocab_size, model.eos, model.horizon)
            numbers = score_tokens(model, [entries[place].tokens for place in places])
            for place, log_p in zip(places, numbers, strict=True):
                scores[place] = log_p
        return scores


class TransformerScorer:
    """A transformer: prompt and tokens in one pass. An empty prompt reads as the start token."""

    def __init__(self, argument: str, max_new_tokens: int | None) -> None:
        """Load what MODEL names.

        Args:
            argument: MODEL of the command line.
            max_new_tokens: horizon, or None for as many tokens as the model reads.
        """
        # What it reads bounds what can be scored; the horizon of sampling does not.
        loaded = load_transformer(argument, 1 if max_new_tokens is None else max_new_tokens).model
        self._model, self._name = loaded, argument
        self.horizon = max_new_tokens or loaded.config.context
        heads = loaded.config.num_heads * self.horizon + loaded.config.width
        self.most_rows = max(1, (1 << 25) // (heads * self.horizon))

    def score(self, entries: Sequence[Entry]) -> list[list[float]]:
        """See `Scorer.score`."""
        config = self._model.config
        prompts = [entry.prompt or (config.start_token,) for entry in entries]
        for entry, prompt in zip(entries, prompts, strict=True):
            _check_tokens(entry, config.vocab_size, config.eos, self.horizon)
            self._check_length(entry, len(prompt) + len(entry.tokens))
        rows = [(*prompt, *entry.tokens) for prompt, entry in zip(prompts, entries, strict=True)]
        tokens, lengths = side_by_side(rows)
        log_p = np.asarray(_full(self._model, tokens, lengths), np.float64)
        return [
            log_p[place, len(prompt) : len(row)].tolist()
            for place, (prompt, row) in enumerate(zip(prompts, rows, strict=True))
        ]

    def _check_length(self, entry: Entry, length: int) -> None:
        config = self._model.config
        where = f"{entry.where}, field 'prompt'"
        for place, token in enumerate(entry.prompt):
            if token >= config.vocab_size:
                raise InvalidInput(
                    f"{where}: token {token} at position {place}, must be in 0..{config.vocab_size - 1}; "
                    f"score with the model that drew the row"
                )
        if length > config.context:
            raise InvalidInput(
                f"{where}: {length} tokens with those generated, '{self._name}' reads at most {config.context}; "
                f"drop the row"
            )


def score_tokens(model: ContextModel, rows: Sequence[tuple[int, ...]]) -> list[list[float]]:
    """Log p of every token of some rows, by one teacher-forced pass from the start.

    Args:
        model: that starts after the prompt.
        rows: generated tokens of each row.

    Returns:
        One list a row; -inf for an impossible token, NaN after one.
    """
    log_p = np.array(_forward(model, *side_by_side(rows)), np.float64)
    impossible = np.isneginf(log_p)
    log_p[np.cumsum(impossible, axis=1) - impossible > 0] = np.nan
    return [log_p[place, : len(row)].tolist() for place, row in enumerate(rows)]


@jax.jit
def _forward(
    model: SequenceModel, tokens: Int[Array, "B T"], lengths: Int[Array, " B"]
) -> Float32[Array, "B T"]:
    state, _ = model.init(jnp.zeros((lengths.shape[0], 0), jnp.int32), jnp.zeros_like(lengths))
    return model.extend(state, tokens, lengths, at_token)[1]


@jax.jit
def _full(
    model: Transformer, tokens: Int[Array, "B S"], lengths: Int[Array, " B"]
) -> Float32[Array, "B S"]:
    return full_token_log_probs(model, tokens, lengths)


def side_by_side(
    rows: Sequence[tuple[int, ...]],
) -> tuple[Int[Array, "B S"], Int[Array, " B"]]:
    """Rows of tokens as one array, in one of few shapes, so that few programs are compiled.

    Args:
        rows: at least one.

    Returns:
        [B, S] padded rows and their lengths; B and S are powers of two, the last rows may be empty.
    """
    size, longest = (1 << max(3, (n - 1).bit_length()) for n in (len(rows), max(map(len, rows))))
    tokens = np.zeros((size, longest), np.int32)
    lengths = np.zeros(size, np.int32)
    for place, row in enumerate(rows):
        tokens[place, : len(row)], lengths[place] = row, len(row)
    return jnp.asarray(tokens), jnp.asarray(lengths)


def _check_tokens(entry: Entry, vocab_size: int, eos: tuple[int, ...], horizon: int) -> None:
    where, tokens = f"{entry.where}, field 'tokens'", entry.tokens
    for place, token in enumerate(tokens):
        if token >= vocab_size:
            raise InvalidInput(
                f"{where}: token {token} at position {place}, must be in 0..{vocab_size - 1}; "
                f"score with the model that drew the row"
            )
        if token in eos and place + 1 < len(tokens):
            raise InvalidInput(
                f"{where}: eos {token} at position {place} of {len(tokens)}, nothing can follow it; cut the row there"
            )
    if len(tokens) > horizon:
        raise InvalidInput(
            f"{where}: {len(tokens)} tokens, longer than the horizon {horizon}; "
            f"give the --max-new-tokens that the row was drawn with"
        )
