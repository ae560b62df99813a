"""The few seams of the house.

Shape legend, used in every docstring of the project: B rows, N particles, T time, V vocabulary, P prompts, G group
size, S block of tokens. All logarithms are natural. Tokens are int32; token 0 pads and is never read past a row's length.

Every kernel of `theory` reaches a model only through `SequenceModel`, so that what is certified on a three-token
table is the code that runs on a transformer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, Key, PyTree

State = TypeVar("State")

# From each position's law (log_probs[..., V]) and the token that stands there (tokens[...]), a number or a pytree
# of numbers ([...] each). Must work for any leading shape, since models apply it to whole chunks.
Reduce = Callable[[Float[Array, "*batch V"], Int[Array, "*batch"]], PyTree]


@runtime_checkable
class SequenceModel(Protocol[State]):
    """An autoregressive law over token sequences, natively batched over rows.

    A sequence ends with one of `eos`, or is *truncated* at `horizon` generated tokens. The law counts the
    probability of eos where it was emitted and nothing where the sequence was truncated:

        p(y) = prod_t p(y_t | prompt, y_<t).

    A model is a pytree: parameters are leaves, sizes are static. It is passed as an argument, never closed over.
    Rows are independent: what a row returns does not depend on which rows stand beside it. No operation draws
    random numbers, and no operation changes its argument: a state kept from before a call is still valid after it.
    `theory.conformance` puts any model through all of this.
    """

    @property
    def vocab_size(self) -> int:
        """V, the number of tokens, eos included."""
        ...

    @property
    def eos(self) -> tuple[int, ...]:
        """Tokens that end a sequence; empty for a model of fixed length."""
        ...

    @property
    def horizon(self) -> int:
        """Most generated tokens in a row, eos included; the prompt is not counted."""
        ...

    def init(
        self, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
    ) -> tuple[State, Float[Array, "B V"]]:
        """Read the prompts.

        Args:
            prompts: [B, P] right-padded; P may be 0.
            prompt_lengths: [B] tokens of each prompt; 0 is an empty prompt.

        Returns:
            The state after the prompts and [B, V] the log law of the first generated token: raw log p at
            temperature 1, normalised, float32, -inf where the probability is a real zero.
        """
        ...

    def step(
        self, state: State, tokens: Int[Array, " B"], active: Bool[Array, " B"]
    ) -> tuple[State, Float[Array, "B V"]]:
        """Append one token to each active row.

        Args:
            state: of B rows.
            tokens: [B]; read only where active.
            active: [B]; an inactive row keeps its state.

        Returns:
            The new state and [B, V] the log law of the next token. For inactive rows, and for rows that have
            ended or reached the horizon, the law is finite and unused.
        """
        ...

    def extend(
        self, state: State, tokens: Int[Array, "B S"], lengths: Int[Array, " B"], reduce: Reduce
    ) -> tuple[State, PyTree, Float[Array, "B V"]]:
        """Append a given block to each row: scoring, chunked prefill, conditional SMC.

        Equal to S steps with active = (j < lengths), where `reduce` sees the law *before* token j and token j.

        Args:
            state: of B rows.
            tokens: [B, S] right-padded.
            lengths: [B] tokens of the block that each row takes; 0 leaves the row as it is.
            reduce: from each position's law and token, a number or a pytree of numbers.

        Returns:
            The new state, the reduced values ([B, S] each, 0 past a row's length), and [B, V] the log law after the block
            (finite and unused for rows with length 0).
        """
        ...

    def take(self, state: State, rows: Int[Array, " B2"]) -> State:
        """Gather rows: resampling, beams, branches, prompts shared by a group.

        Args:
            state: of B rows.
            rows: [B2] indices into them; B2 may differ from B.

        Returns:
            A state of B2 rows.
        """
        ...

    def select(self, mask: Bool[Array, " B"], a: State, b: State) -> State:
        """Row-wise choice: accept or keep.

        Args:
            mask: [B]; true takes the row of `a`.
            a: a state of B rows.
            b: a state of B rows.

        Returns:
            A state of B rows.
        """
        ...

    def rewind(
        self, state: State, num_generated: Int[Array, " B"], last_tokens: Int[Array, " B"]
    ) -> tuple[State, Float[Array, "B V"]]:
        """Drop a suffix.

        Args:
            state: of B rows.
            num_generated: [B] generated tokens to keep, at most those there are; 0 goes back to the prompt.
            last_tokens: [B] the last token kept; read only where num_generated > 0 (a cache needs it to
                recompute the law at the cut).

        Returns:
            The state after the kept tokens and [B, V] the log law at the cut.
        """
        ...


class Kernel(NamedTuple):
    """A Markov kernel over sequences, or an iterated sampler: a pair of pure functions.

    `init(key, model, prompts) -> State`; `step(key, model, state) -> (State, Info)`. State is what the next step needs,
    Info is diagnostics. A kernel's module also exposes the log-density pieces that `step` runs, so that
    `theory.exact` builds the transition matrix from the same code.
    """

    init: Callable[..., Any]
    step: Callable[..., tuple[Any, Any]]


@runtime_checkable
class Resampler(Protocol):
    """Turns weighted particles into ancestors."""

    def __call__(
        self, key: Key[Array, ""], log_weights: Float[Array, "*batch N"]
    ) -> tuple[Int[Array, "*batch N"], Float[Array, "*batch N"]]:
        """Draw ancestors.

        Args:
            key: consumed.
            log_weights: [..., N] unnormalised.

        Returns:
            Ancestors [..., N] and the log weights they carry [..., N], such that each particle's expected total
            weight is conserved.
        """
        ...


@runtime_checkable
class LogReward(Protocol):
    """A reward in natural-log units; -inf forbids a sequence."""

    def __call__(self, tokens: Int[Array, "B T"], lengths: Int[Array, " B"]) -> Float[Array, " B"]:
        """Reward of whole sequences.

        Args:
            tokens: [B, T] generated tokens, right-padded.
            lengths: [B] eos included.

        Returns:
            [B] log reward.
        """
        ...


@runtime_checkable
class Environment(Protocol[State]):
    """A world that a trajectory acts in.

    `fidelity` is "restorable" (snapshot and restore are exact), "replayable" (seed and actions rebuild the state, checked
    by its hash) or "neither"; branching is refused for the last.
    """

    fidelity: str

    def reset(self, key: Key[Array, ""]) -> State:
        """First state. The key is consumed."""
        ...

    def step(self, state: State, action: Any) -> tuple[State, Any]:
        """Next state and what was observed."""
        ...

    def legal(self, state: State) -> Any:
        """Actions that may be taken."""
        ...

    def snapshot(self, state: State) -> Any:
        """All that is needed to come back."""
        ...

    def restore(self, snapshot: Any) -> State:
        """Come back."""
        ...


class Allocator(NamedTuple):
    """A rule that spends rollouts: three pure functions over a pytree.

    `init(key, prompts) -> State`; `propose(state, budget) -> Requests`; `observe(state, results) -> (State, ready groups)`.
    """

    init: Callable[..., Any]
    propose: Callable[..., Any]
    observe: Callable[..., tuple[Any, Any]]
