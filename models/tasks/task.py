"""What a task is: prompts, completions to train on, and a verdict on every completion."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key

from models.tasks.problems import Problems, Split, problem_rows

# Pads and nothing else: no task gives it a meaning, and a completion that contains it is wrong.
PAD = 0
# The answer of a completion that has none. No task has so small a number for an answer.
ABSTAIN = int(np.iinfo(np.int32).min)


class Sequences(NamedTuple):
    """B rows of tokens.

    Attributes:
        tokens: [B, T] right-padded; never read past a row's length.
        lengths: [B] tokens of each row; of a completion, eos included.
    """

    tokens: Int32[Array, "B T"]
    lengths: Int32[Array, " B"]


class Task(NamedTuple):
    """Prompts with verdicts that are computed.

    All functions are natively batched and pure, row b of the result depends on row b alone, and those over prompts and
    completions are JAX functions that may be called inside compiled code. Completions may be of any width, truncated
    (no eos), longer than the horizon, or nonsense: such rows get a verdict like all others. Prompts must be of the
    task's form (`is_prompt`); of other prompts the results have no meaning.

    Attributes:
        name: as the registry knows it.
        labels: [V] how each token is shown; the first is the pad.
        eos: the token that ends a completion.
        max_prompt_length: most tokens of a prompt.
        horizon: most tokens of a right completion, eos included.
        prompt_form: what a prompt is, in words.
        problems: all there are, and how they are written as prompts.
        is_prompt: prompts -> [B] whether each is of the form.
        targets: (keys [B], prompts that have a right completion) -> completions drawn from the law that models are trained on. The keys, of
            `Role.DEMONSTRATION`, are consumed.
        verify: (prompts, completions) -> [B] whether each ends with eos and is right.
        correct_so_far: (prompts, prefixes) -> [B] whether some right completion without a wrong step begins with it: false
            at the first wrong step and ever after.
        answers: (prompts, completions) -> [B] the answer that each gives, right or wrong, as a number; ABSTAIN without one.
    """

    name: str
    labels: tuple[str, ...]
    eos: int
    max_prompt_length: int
    horizon: int
    prompt_form: str
    problems: Problems
    is_prompt: Callable[[Sequences], Bool[Array, " B"]]
    targets: Callable[[Key[Array, " B"], Sequences], Sequences]
    verify: Callable[[Sequences, Sequences], Bool[Array, " B"]]
    correct_so_far: Callable[[Sequences, Sequences], Bool[Array, " B"]]
    answers: Callable[[Sequences, Sequences], Int32[Array, " B"]]

    def prompts(self, split: Split, num: int, seed: int, first: int = 0) -> Sequences:
        """Rows first to first + num - 1 of an endless stream of prompts, the same in any split into batches.

        The stream goes through all problems of its side in a random order, then again in another: rows of one pass are
        different problems, and no problem is on both sides.

        Args:
            split: "train" or "test".
            num: rows.
            seed: of the order. Which problems are for tests does not depend on it.
            first: row of the stream to begin with, such as step times batch size.

        Returns:
            [num, max_prompt_length] prompts.
        """
        kinds, indices, variants = problem_rows(self.problems, split, num, seed, first)
        tokens, lengths = self.problems.write(kinds, indices, variants)
        return Sequences(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))


def tokens_at_width(sequences: Sequences, width: int) -> Int32[Array, "B {width}"]:
    """The first tokens of each row, with PAD past its length.

    Args:
        sequences: of B rows.
        width: tokens.

    Returns:
        [B, width].
    """
    tokens, lengths = sequences
    missing = max(0, width - tokens.shape[1])
    tokens = jnp.pad(tokens[:, :width], ((0, 0), (0, missing)))
    return jnp.where(jnp.arange(width)[None] < lengths[:, None], tokens, PAD)


def begins(
    prefixes: Sequences, tokens: Int32[Array, "B T"], lengths: Int32[Array, " B"]
) -> Bool[Array, " B"]:
    """Whether a sequence begins with the given prefix.

    Args:
        prefixes: of B rows.
        tokens: [B, T] the sequences, right-padded.
        lengths: [B] of them.

    Returns:
        [B]; a prefix longer than its sequence is none.
    """
    width = tokens.shape[1]
    inside = jnp.arange(width)[None] < prefixes.lengths[:, None]
    agree = jnp.where(inside, tokens_at_width(prefixes, width) == tokens, True).all(axis=-1)
    return agree & (prefixes.lengths <= lengths)
