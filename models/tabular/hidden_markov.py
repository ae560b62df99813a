"""A hidden Markov model as a sequence model: next-token laws that no finite window of tokens determines."""

import dataclasses
import functools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Float64, Int, Int32, PyTree

from models.pytree import register_pytree
from models.tabular.rows import (
    active_columns,
    extend_by_steps,
    select_rows,
    take_rows,
    unused_law,
)
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable, make_context_table
from theory.protocols import Reduce

# A tree of more prefixes takes more than about a second to expand.
MAX_PREFIXES = 200_000


class HiddenMarkovChain(NamedTuple):
    """A hidden chain of K states that emits a token at every step, in float64.

        z_1 ~ initial,   z_{t+1} ~ transition[z_t],   y_t ~ emission[z_t]

    Attributes:
        initial: [K] probabilities of the first state.
        transition: [K, K] rows sum to 1.
        emission: [K, V] rows sum to 1.
        eos: tokens that end a sequence when they are emitted.
        horizon: most tokens in a sequence.
    """

    initial: Float64[np.ndarray, " K"]
    transition: Float64[np.ndarray, "K K"]
    emission: Float64[np.ndarray, "K V"]
    eos: tuple[int, ...]
    horizon: int


def make_hidden_markov_chain(
    initial: Float64[np.ndarray, " K"],
    transition: Float64[np.ndarray, "K K"],
    emission: Float64[np.ndarray, "K V"],
    eos: tuple[int, ...],
    horizon: int,
) -> HiddenMarkovChain:
    """Check the parts of a chain, normalise their rows and put them together.

    Args:
        initial: [K] probabilities.
        transition: [K, K] probabilities.
        emission: [K, V] probabilities.
        eos: tokens that end a sequence.
        horizon: at least 1.

    Returns:
        The chain.

    Raises:
        InvalidInput: a row that is no law (negative, not finite, sum further than 1e-6 from 1), or eos or horizon out of
            range.
    """
    parts = {"initial": initial[None, :], "transition": transition, "emission": emission}
    for name, rows in parts.items():
        good = np.isfinite(rows).all(1) & (rows >= 0).all(1) & (abs(rows.sum(1) - 1) <= 1e-6)
        if not good.all():
            raise InvalidInput(
                f"{name} row {int(np.argmin(good))}: must be probabilities with sum 1"
            )
    if horizon < 1:
        raise InvalidInput(f"horizon {horizon}: must be at least 1")
    for token in eos:
        if not 0 <= token < emission.shape[1]:
            raise InvalidInput(f"eos {token}: must be a token in 0..{emission.shape[1] - 1}")
    initial, transition, emission = (rows / rows.sum(1, keepdims=True) for rows in parts.values())
    return HiddenMarkovChain(initial[0], transition, emission, tuple(sorted(set(eos))), horizon)


def hidden_markov_table(chain: HiddenMarkovChain) -> ContextTable:
    """Expand a chain into the tree of all prefixes that it can emit.

    Args:
        chain: the hidden Markov model.

    Returns:
        A context per prefix, by length and then by tokens, and a last one, without a law, below the deepest.

    Raises:
        InvalidInput: there are more than MAX_PREFIXES prefixes.
    """
    goes_on = np.ones(chain.emission.shape[1], bool)
    goes_on[list(chain.eos)] = False
    beliefs = chain.initial[None, :]
    laws: list[Float64[np.ndarray, "C V"]] = []
    followed: list[Bool[np.ndarray, "C V"]] = []
    num_prefixes = 1
    for length in range(1, chain.horizon + 1):
        law = beliefs @ chain.emission
        laws.append(law / law.sum(axis=1, keepdims=True))
        followed.append((law > 0) & goes_on)
        if length == chain.horizon or not followed[-1].any():
            break
        num_prefixes += int(followed[-1].sum())
        if num_prefixes > MAX_PREFIXES:
            raise InvalidInput(
                f"horizon {chain.horizon}: {num_prefixes} prefixes of up to {length} tokens, at most "
                f"{MAX_PREFIXES} are expanded, lower the horizon to {length} or less"
            )
        parents, tokens = np.nonzero(followed[-1])
        posterior = beliefs[parents] * chain.emission[:, tokens].T
        beliefs = posterior @ chain.transition / posterior.sum(axis=1, keepdims=True)
    return _tree(np.concatenate(laws), np.concatenate(followed), chain)


def _tree(
    laws: Float64[np.ndarray, "C V"],
    followed: Bool[np.ndarray, "C V"],
    chain: HiddenMarkovChain,
) -> ContextTable:
    """Link prefixes that stand in order of length, then of tokens: the i-th followed pair leads to prefix i + 1."""
    num_prefixes, vocab_size = laws.shape
    next_context = np.full((num_prefixes + 1, vocab_size), num_prefixes)
    children = np.arange(1, followed.sum() + 1)
    next_context[:-1][followed] = np.minimum(children, num_prefixes)
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.concatenate([laws, np.zeros((1, vocab_size))]))
    return make_context_table(log_probs, next_context, 0, chain.eos, chain.horizon)


class HiddenMarkovState(NamedTuple):
    """What each row believes about the hidden state, for every length on its way.

    Attributes:
        beliefs: [B, horizon + 1, K] probability of the hidden state that emits the next token, after 0, 1, ... generated
            tokens; all 0 where the row is over, NaN where its prompt is impossible.
        num_generated: [B] tokens that the row has generated.
    """

    beliefs: Float32[Array, "B T1 K"]
    num_generated: Int32[Array, " B"]


@register_pytree(static=("eos", "horizon"))
@dataclasses.dataclass(frozen=True, eq=False)
class HiddenMarkovModel:
    """`SequenceModel` of a hidden Markov chain: exact filtering in float32.

        p(y_t = v | y_<t) = sum_z b_t(z) emission[z, v],   b_{t+1} ∝ (b_t * emission[:, y_t]) transition

    What ends a row and what a bad prompt leads to is as in `ContextModel`. Hidden states are summed in a fixed
    order, so that a row's numbers do not depend on the shape of the batch; meant for few states.

    Attributes:
        initial: [K] probabilities.
        transition: [K, K] probabilities.
        emission: [K, V] probabilities.
        carry: [V + 1, K] the probability of each token as far as the sequence goes on after it: emission transposed with 0
            for eos, and a last row of 0 for tokens that do not exist.
        eos: tokens that end a sequence.
        horizon: most tokens in a sequence.
    """

    initial: Float32[Array, " K"]
    transition: Float32[Array, "K K"]
    emission: Float32[Array, "K V"]
    carry: Float32[Array, "V1 K"]
    eos: tuple[int, ...]
    horizon: int

    @classmethod
    def from_chain(cls, chain: HiddenMarkovChain) -> "HiddenMarkovModel":
        """The model of a chain, its probabilities rounded to float32."""
        num_states, vocab_size = chain.emission.shape
        carry = np.zeros((vocab_size + 1, num_states))
        carry[:-1] = chain.emission.T
        carry[list(chain.eos)] = 0
        rounded = [
            jnp.asarray(part, jnp.float32)
            for part in (chain.initial, chain.transition, chain.emission, carry)
        ]
        return cls(*rounded, eos=chain.eos, horizon=chain.horizon)

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.emission.shape[-1]

    def init(
        self, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
    ) -> tuple[HiddenMarkovState, Float32[Array, "B V"]]:
        """Filter the prompts; see `SequenceModel.init`."""

        def read(
            belief: Float32[Array, "B K"], column: tuple[Array, Array]
        ) -> tuple[Float32[Array, "B K"], None]:
            tokens, active = column
            after = self._follow(belief, tokens)
            after = jnp.where(_total(after)[:, None] > 0, after, jnp.nan)
            return jnp.where(active[:, None], after, belief), None

        num_rows = prompts.shape[0]
        belief = jnp.broadcast_to(self.initial, (num_rows, self.initial.shape[0]))
        belief, _ = jax.lax.scan(read, belief, active_columns(prompts, prompt_lengths))
        beliefs = jnp.zeros((num_rows, self.horizon + 1, belief.shape[1]), jnp.float32)
        state = HiddenMarkovState(beliefs.at[:, 0].set(belief), jnp.zeros(num_rows, jnp.int32))
        return state, self._law(belief)

    def step(
        self, state: HiddenMarkovState, tokens: Int[Array, " B"], active: Bool[Array, " B"]
    ) -> tuple[HiddenMarkovState, Float32[Array, "B V"]]:
        """Filter one token in each active row; rows that are over stay so. See `SequenceModel.step`."""
        belief = self._belief(state)
        moves = active & (_total(belief) > 0)
        num_generated = state.num_generated + moves.astype(jnp.int32)
        after = self._follow(belief, tokens)
        after = jnp.where((num_generated >= self.horizon)[:, None], 0.0, after)
        after = jnp.where(moves[:, None], after, belief)
        rows = jnp.arange(belief.shape[0])
        beliefs = state.beliefs.at[rows, num_generated].set(after)
        law = self._law(jnp.where(active[:, None], after, 0.0))
        return HiddenMarkovState(beliefs, num_generated), law

    def extend(
        self,
        state: HiddenMarkovState,
        tokens: Int[Array, "B S"],
        lengths: Int[Array, " B"],
        reduce: Reduce,
    ) -> tuple[HiddenMarkovState, PyTree, Float32[Array, "B V"]]:
        """S steps in one scan; see `SequenceModel.extend`."""
        law = self._law(self._belief(state))
        return extend_by_steps(self.step, state, law, tokens, lengths, reduce)

    def take(self, state: HiddenMarkovState, rows: Int[Array, " B2"]) -> HiddenMarkovState:
        """Gather rows; see `SequenceModel.take`."""
        return take_rows(state, rows)

    def select(
        self, mask: Bool[Array, " B"], a: HiddenMarkovState, b: HiddenMarkovState
    ) -> HiddenMarkovState:
        """Row-wise choice; see `SequenceModel.select`."""
        return select_rows(mask, a, b)

    def rewind(
        self,
        state: HiddenMarkovState,
        num_generated: Int[Array, " B"],
        last_tokens: Int[Array, " B"],
    ) -> tuple[HiddenMarkovState, Float32[Array, "B V"]]:
        """Go back to an earlier belief; `last_tokens` is not needed. See `SequenceModel.rewind`."""
        del last_tokens
        state = HiddenMarkovState(state.beliefs, num_generated.astype(jnp.int32))
        return state, self._law(self._belief(state))

    def _belief(self, state: HiddenMarkovState) -> Float32[Array, "B K"]:
        index = state.num_generated[:, None, None]
        return jnp.take_along_axis(state.beliefs, index, axis=1)[:, 0]

    def _follow(
        self, belief: Float32[Array, "B K"], tokens: Int[Array, " B"]
    ) -> Float32[Array, "B K"]:
        """The belief after a token; all 0 where nothing can follow it."""
        known = (tokens >= 0) & (tokens < self.vocab_size)
        posterior = belief * self.carry[jnp.where(known, tokens, self.vocab_size)]
        predicted = _mix(posterior, self.transition)
        total = _total(predicted)[:, None]
        return jnp.where(total > 0, predicted / jnp.where(total > 0, total, 1.0), 0.0)

    def _law(self, belief: Float32[Array, "B K"]) -> Float32[Array, "B V"]:
        probabilities = _mix(belief, self.emission)
        over = (_total(belief) == 0)[:, None]
        return jnp.where(over, unused_law(probabilities), jnp.log(probabilities))


def _mix(weights: Float32[Array, "B K"], rows: Float32[Array, "K N"]) -> Float32[Array, "B N"]:
    """Weighted sum of rows, always in the order of k (a matrix product's order may depend on B)."""
    terms = [weights[:, k, None] * rows[None, k] for k in range(rows.shape[0])]
    return functools.reduce(operator.add, terms)


def _total(weights: Float32[Array, "B K"]) -> Float32[Array, " B"]:
    """Sum over the hidden states in the order of k."""
    return functools.reduce(operator.add, [weights[:, k] for k in range(weights.shape[1])])
