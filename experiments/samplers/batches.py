"""Draw many ids in batches of one shape."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from experiments.prompts import padded
from experiments.samplers.rows import PromptBatch, Rows, Sampler, first_rows
from experiments.samplers.settings import Settings
from models.tasks.task import Sequences
from theory.protocols import SequenceModel
from theory.shared_prompts import share_prompts

MAX_IDS = 2**30  # row ids are 32-bit


class IdBatch(NamedTuple):
    """B ids side by side.

    Attributes:
        model: reads each distinct prompt of the batch once.
        prompts: of the ids.
        ids: [B] ascending.
        num_kept: how many of them count; the others are copies of the last.
    """

    model: SequenceModel[Any]
    prompts: PromptBatch
    ids: Int[Array, " B"]
    num_kept: int


def draw_batches(
    key: Key[Array, ""],
    model: SequenceModel[Any],
    prompts: Sequence[tuple[int, ...]],
    num_per_prompt: int,
    batch_size: int,
    sampler: Sampler,
    settings: Settings,
) -> Iterator[Rows]:
    """Draw ids 0, 1, ... in batches of one shape; each id draws what it would draw alone.

    Args:
        key: of the run.
        model: of the tokens.
        prompts: as the model reads them.
        num_per_prompt: draws, chains or populations of each.
        batch_size: of them side by side.
        sampler: of the method.
        settings: of the method, complete.

    Yields:
        The rows of one batch after the other.
    """
    for batch in id_batches(model, padded(prompts), num_per_prompt, batch_size):
        rows = sampler(key, batch.model, batch.prompts, batch.ids, settings)
        yield first_rows(rows, batch.num_kept * (len(rows.lengths) // batch_size))


def id_batches(
    model: SequenceModel[Any], prompts: Sequences, num_per_prompt: int, batch_size: int
) -> Iterator[IdBatch]:
    """Cut ids 0, 1, ... into batches of one shape, in which every distinct prompt is read once.

    Args:
        model: of the tokens.
        prompts: of P rows.
        num_per_prompt: ids of each; id i belongs to prompt i // num_per_prompt.
        batch_size: of them side by side.

    Yields:
        The batches.
    """
    num_prompts, width = prompts.tokens.shape
    num_ids = num_prompts * num_per_prompt
    # Neighbouring ids have few prompts among them.
    num_distinct = min(num_prompts, (batch_size + num_per_prompt - 2) // num_per_prompt + 1)
    for start in range(0, num_ids, batch_size):
        # The last batch is filled up with copies of its last id, so that nothing is compiled twice.
        ids = np.minimum(np.arange(start, start + batch_size), num_ids - 1)
        which = ids // num_per_prompt
        yield IdBatch(
            share_prompts(model, which.tolist(), num_distinct) if width else model,
            PromptBatch(*(jnp.asarray(column[which]) for column in prompts)),
            jnp.asarray(ids, jnp.int32),
            min(batch_size, num_ids - start),
        )
