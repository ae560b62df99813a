"""The reference that every law is checked against: a model's own walk, one token at a time."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Int

from theory.conformance.operations import init, step
from theory.protocols import SequenceModel


class ConformanceError(AssertionError):
    """A model breaks a law of the protocol; the message begins with the law and names the row."""


class Case(NamedTuple):
    """A model and what is put to it; see `check_sequence_model`."""

    model: SequenceModel[Any]
    prompts: Int[np.ndarray, "B P"]
    prompt_lengths: Int[np.ndarray, " B"]
    tokens: Int[np.ndarray, "B S"]
    lengths: Int[np.ndarray, " B"]
    tolerance: float


class Walk(NamedTuple):
    """After 0..S steps: the states, the laws, and the rows whose law is meant.

    A row's law is meant up to its length, unless the sequence has ended or reached the horizon.
    """

    states: list[Any]
    laws: Float32[np.ndarray, "S1 B V"]
    meant: Bool[np.ndarray, "S1 B"]


def prepare(case: Case) -> Case:
    """Refuse inputs that could not show a defect; put 0 where nothing may be read."""
    num_rows, width = case.tokens.shape
    if num_rows < 3 or width < 3 or case.model.vocab_size < 2:
        raise ValueError("needs at least three rows, three tokens and a vocabulary of two")
    if width > case.model.horizon:
        raise ValueError(f"{width} tokens are more than the horizon of {case.model.horizon}")
    within = _within(case.tokens, case.lengths, "tokens")
    read = _within(case.prompts, case.prompt_lengths, "prompts")
    if (_within(case.tokens, case.lengths - 1) & np.isin(case.tokens, case.model.eos)).any():
        raise ValueError("eos may only stand at the end of a row")
    return case._replace(
        prompts=np.where(read, case.prompts, 0).astype(np.int32),
        prompt_lengths=case.prompt_lengths.astype(np.int32),
        tokens=np.where(within, case.tokens, 0).astype(np.int32),
        lengths=case.lengths.astype(np.int32),
    )


def _within(
    block: Int[np.ndarray, "B S"], lengths: Int[np.ndarray, " B"], name: str = ""
) -> Bool[np.ndarray, "B S"]:
    """Where the tokens of a block stand; a named block must be ragged."""
    width = block.shape[1]
    if name and not 0 <= lengths.min() < lengths.max() == width:
        raise ValueError(f"{name}: needs rows of different lengths, the longest of {width}")
    return np.arange(width)[None] < lengths[:, None]


def walk_through(case: Case) -> Walk:
    """Read the prompts, then step through the tokens."""
    state, law = init(case.model, case.prompts, case.prompt_lengths)
    states, laws = [state], [law]
    num_rows, width = case.tokens.shape
    for j in range(width):
        state, law = step(case.model, state, case.tokens[:, j], j < case.lengths)
        states.append(state)
        laws.append(law)
    for law in laws:
        if law.shape != (num_rows, case.model.vocab_size) or law.dtype != jnp.float32:
            raise ConformanceError(f"a law is float32 [B, V]: got {law.dtype} {law.shape}")
    ended = np.isin(case.tokens, case.model.eos) & _within(case.tokens, case.lengths)
    over = np.pad(ended, ((0, 0), (1, 0))).T
    over[-1] |= width == case.model.horizon
    meant = (np.arange(width + 1)[:, None] <= case.lengths[None]) & ~over
    return Walk(states, np.stack([np.asarray(law) for law in laws]), meant)
