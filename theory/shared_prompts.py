"""A prompt that many rows continue is read once and handed to all of them.

Rollouts of a group, chains and populations of one prompt differ in what they generate alone. The adapter makes any model read each distinct
prompt once, so that kernels, which ask for one prompt a row, need not know.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from theory.protocols import Reduce, SequenceModel


class SharedPrompts(NamedTuple):
    """`SequenceModel` whose `init` reads Q distinct prompts for B rows; all else is the model's own.

    Attributes:
        model: of the tokens.
        first: [Q] a row of each distinct prompt.
        prompt_of: [B] which of them each row continues.
    """

    model: SequenceModel[Any]
    first: Int[Array, " Q"]
    prompt_of: Int[Array, " B"]

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.model.vocab_size

    @property
    def eos(self) -> tuple[int, ...]:
        """Tokens that end a sequence."""
        return self.model.eos

    @property
    def horizon(self) -> int:
        """Most generated tokens."""
        return self.model.horizon

    def init(
        self, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
    ) -> tuple[PyTree, Float[Array, "B V"]]:
        """Read the first row of each prompt and copy what came of it; see `SequenceModel.init`."""
        state, law = self.model.init(prompts[self.first], prompt_lengths[self.first])
        return self.model.take(state, self.prompt_of), law[self.prompt_of]

    def step(
        self, state: PyTree, tokens: Int[Array, " B"], active: Bool[Array, " B"]
    ) -> tuple[PyTree, Float[Array, "B V"]]:
        """See `SequenceModel.step`."""
        return self.model.step(state, tokens, active)

    def extend(
        self, state: PyTree, tokens: Int[Array, "B S"], lengths: Int[Array, " B"], reduce: Reduce
    ) -> tuple[PyTree, PyTree, Float[Array, "B V"]]:
        """See `SequenceModel.extend`."""
        return self.model.extend(state, tokens, lengths, reduce)

    def take(self, state: PyTree, rows: Int[Array, " B2"]) -> PyTree:
        """See `SequenceModel.take`."""
        return self.model.take(state, rows)

    def select(self, mask: Bool[Array, " B"], a: PyTree, b: PyTree) -> PyTree:
        """See `SequenceModel.select`."""
        return self.model.select(mask, a, b)

    def rewind(
        self, state: PyTree, num_generated: Int[Array, " B"], last_tokens: Int[Array, " B"]
    ) -> tuple[PyTree, Float[Array, "B V"]]:
        """See `SequenceModel.rewind`."""
        return self.model.rewind(state, num_generated, last_tokens)


def share_prompts(
    model: SequenceModel[Any], prompt_ids: Sequence[int], num_distinct: int
) -> SharedPrompts:
    """Let rows share what is read of their prompts.

    Args:
        model: of the tokens.
        prompt_ids: of the B rows; rows with one id have one prompt.
        num_distinct: Q, at least as many as there are ids; a fixed number for batches of one shape. Some prompts are read
            twice where it is more.

    Returns:
        The model, for `init` on exactly these B rows.

    Raises:
        ValueError: more ids than Q.
    """
    _, first, prompt_of = np.unique(
        np.asarray(prompt_ids, np.int64), return_index=True, return_inverse=True
    )
    if len(first) > num_distinct:
        raise ValueError(f"{len(first)} distinct prompts, at most {num_distinct}")
    first = np.pad(first, (0, num_distinct - len(first)), mode="edge")
    return SharedPrompts(
        model, jnp.asarray(first, jnp.int32), jnp.asarray(prompt_of.reshape(-1), jnp.int32)
    )


def prompt_tokens_read(
    model: SequenceModel[Any], prompt_lengths: Int[Array, " B"]
) -> Int[Array, ""]:
    """What reading the prompts of B rows costs.

    Args:
        model: of the tokens.
        prompt_lengths: [B].

    Returns:
        Tokens read.
    """
    if isinstance(model, SharedPrompts):
        prompt_lengths = prompt_lengths[model.first]
    return prompt_lengths.sum(dtype=jnp.int32)
