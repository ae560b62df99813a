"""A context table as a sequence model: every kernel of `theory` runs on it, and the truth about it is computable."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int, Int32, PyTree

from models.pytree import register_pytree
from models.tabular.rows import active_columns, extend_by_steps, select_rows, take_rows
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable
from theory.protocols import Reduce


class ContextState(NamedTuple):
    """Where each row stands. The whole path is kept, so that going back is a gather.

    Attributes:
        path: [B, horizon + 1] the context after 0, 1, ... generated tokens; entries past num_generated are stale.
        num_generated: [B] tokens that the row has generated.
    """

    path: Int32[Array, "B T1"]
    num_generated: Int32[Array, " B"]


@register_pytree(static=("eos", "horizon"))
@dataclasses.dataclass(frozen=True, eq=False)
class ContextModel:
    """`SequenceModel` over a `ContextTable`, in float32.

    The C contexts of the table are followed by two that are never left. Context C, *over*, is entered through eos, at the
    horizon, and through a token of probability zero (whose -inf has been counted by then); its law is uniform
    and unused. Context C + 1, *off*, means that there is no law: a prompt that holds an impossible or unknown token
    or eos leads there, and so does walking off a tree's last level; its law is NaN, visible and never a number.

    Attributes:
        log_probs: [C + 2, V] natural log of the conditionals.
        next_context: [C + 2, V + 1]; the last column is for tokens that do not exist.
        initial: [] the context of the empty prefix.
        eos: tokens that end a sequence.
        horizon: most tokens in a sequence.
    """

    log_probs: Float32[Array, "C2 V"]
    next_context: Int32[Array, "C2 V1"]
    initial: Int32[Array, ""]
    eos: tuple[int, ...]
    horizon: int

    @classmethod
    def from_table(cls, table: ContextTable) -> "ContextModel":
        """The model of a table.

        Args:
            table: normalised conditionals in float64; a row of NaN or all -inf is a context without a law.

        Returns:
            The model, its log probs rounded to float32.
        """
        num_contexts, vocab_size = table.log_probs.shape
        over, off = num_contexts, num_contexts + 1
        goes_on = np.isfinite(table.log_probs)
        lawless = np.logical_not(goes_on.any(axis=1))
        goes_on[:, list(table.eos)] = False

        log_probs = np.empty((num_contexts + 2, vocab_size), np.float32)
        log_probs[:over] = np.where(lawless[:, None], np.nan, table.log_probs)
        log_probs[over], log_probs[off] = -np.log(vocab_size), np.nan
        next_context = np.full((num_contexts + 2, vocab_size + 1), over, np.int32)
        next_context[:over, :vocab_size] = np.where(goes_on, table.next_context, over)
        next_context[:over][lawless] = off
        next_context[off] = off
        initial = jnp.asarray(table.initial, jnp.int32)
        return cls(
            jnp.asarray(log_probs), jnp.asarray(next_context), initial, table.eos, table.horizon
        )

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.log_probs.shape[-1]

    @property
    def _over(self) -> int:
        return self.log_probs.shape[0] - 2

    @property
    def _off(self) -> int:
        return self.log_probs.shape[0] - 1

    def init(
        self, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
    ) -> tuple[ContextState, Float32[Array, "B V"]]:
        """Walk the prompts down the table; see `SequenceModel.init`."""

        def read(
            context: Int32[Array, " B"], column: tuple[Array, Array]
        ) -> tuple[Int32[Array, " B"], None]:
            tokens, active = column
            after = self._follow(context, tokens)
            after = jnp.where(after == self._over, self._off, after)
            return jnp.where(active, after, context), None

        num_rows = prompts.shape[0]
        context = jnp.broadcast_to(self.initial, (num_rows,))
        context, _ = jax.lax.scan(read, context, active_columns(prompts, prompt_lengths))
        path = jnp.zeros((num_rows, self.horizon + 1), jnp.int32).at[:, 0].set(context)
        return ContextState(path, jnp.zeros(num_rows, jnp.int32)), self.log_probs[context]

    def step(
        self, state: ContextState, tokens: Int[Array, " B"], active: Bool[Array, " B"]
    ) -> tuple[ContextState, Float32[Array, "B V"]]:
        """Follow one transition in each active row; rows that are over stay so. See `SequenceModel.step`."""
        context = self._context(state)
        moves = active & (context < self._over)
        num_generated = state.num_generated + moves.astype(jnp.int32)
        after = self._follow(context, tokens)
        after = jnp.where((num_generated >= self.horizon) & (after != self._off), self._over, after)
        after = jnp.where(moves, after, context)
        rows = jnp.arange(context.shape[0])
        path = state.path.at[rows, num_generated].set(after)
        law = self.log_probs[jnp.where(active, after, self._over)]
        return ContextState(path, num_generated), law

    def extend(
        self,
        state: ContextState,
        tokens: Int[Array, "B S"],
        lengths: Int[Array, " B"],
        reduce: Reduce,
    ) -> tuple[ContextState, PyTree, Float32[Array, "B V"]]:
        """S steps in one scan; see `SequenceModel.extend`."""
        law = self.log_probs[self._context(state)]
        return extend_by_steps(self.step, state, law, tokens, lengths, reduce)

    def take(self, state: ContextState, rows: Int[Array, " B2"]) -> ContextState:
        """Gather rows; see `SequenceModel.take`."""
        return take_rows(state, rows)

    def select(self, mask: Bool[Array, " B"], a: ContextState, b: ContextState) -> ContextState:
        """Row-wise choice; see `SequenceModel.select`."""
        return select_rows(mask, a, b)

    def rewind(
        self, state: ContextState, num_generated: Int[Array, " B"], last_tokens: Int[Array, " B"]
    ) -> tuple[ContextState, Float32[Array, "B V"]]:
        """Go back along the path; `last_tokens` is not needed. See `SequenceModel.rewind`."""
        del last_tokens
        state = ContextState(state.path, num_generated.astype(jnp.int32))
        return state, self.log_probs[self._context(state)]

    def _context(self, state: ContextState) -> Int32[Array, " B"]:
        return jnp.take_along_axis(state.path, state.num_generated[:, None], axis=1)[:, 0]

    def _follow(self, context: Int32[Array, " B"], tokens: Int[Array, " B"]) -> Int32[Array, " B"]:
        known = (tokens >= 0) & (tokens < self.vocab_size)
        return self.next_context[context, jnp.where(known, tokens, self.vocab_size)]


def check_prompts(
    model: ContextModel, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
) -> None:
    """Refuse prompts after which the model has no law, which `init` can only answer with NaN.

    Eager: reads the values.

    Args:
        model: the model that will read them.
        prompts: [B, P] right-padded.
        prompt_lengths: [B].

    Raises:
        InvalidInput: a length is out of range; a token is unknown, ends the sequence or is impossible where it stands;
            or the table ends within the horizon (a tree that is not deep enough).
    """
    laws = np.asarray(model.log_probs)
    distance = _steps_to_lawless(model)
    width = prompts.shape[1]
    lengths = np.asarray(prompt_lengths).tolist()
    for row, (prompt, length) in enumerate(zip(np.asarray(prompts), lengths, strict=True)):
        if not 0 <= length <= width:
            raise InvalidInput(f"prompt row {row}: length {length} must be in 0..{width}")
        context = int(model.initial)
        for position, token in enumerate(prompt[:length].tolist()):
            if reason := _why_impossible(model, laws[context], token):
                raise InvalidInput(f"prompt row {row}, position {position}: token {token} {reason}")
            context = int(model.next_context[context, token])
        if distance[context] < model.horizon:
            raise InvalidInput(
                f"prompt row {row}: the table ends {distance[context]} tokens after this prompt of "
                f"{length}, shorten the prompt or lower the horizon of {model.horizon}"
            )


def _why_impossible(model: ContextModel, law: Float32[np.ndarray, " V"], token: int) -> str:
    """Why a prompt cannot go on with this token; empty if it can."""
    if not 0 <= token < model.vocab_size:
        return f"is unknown, must be in 0..{model.vocab_size - 1}"
    if token in model.eos:
        return "ends the sequence, nothing can follow it"
    if np.isnan(law).any():
        return "stands where the table has ended, shorten the prompt"
    if not np.isfinite(law[token]):
        return "has probability 0 there, the prompt is impossible"
    return ""


def _steps_to_lawless(model: ContextModel) -> Int[np.ndarray, " C2"]:
    """Fewest generated tokens from each context to one without a law; the horizon where there is none nearer."""
    following = np.asarray(model.next_context)
    distance = np.where(np.isnan(np.asarray(model.log_probs)).any(axis=1), 0, model.horizon)
    while True:
        nearer = np.minimum(distance, distance[following].min(axis=1) + 1)
        if (nearer == distance).all():
            return distance
        distance = nearer
