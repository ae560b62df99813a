"""Draw many ids in batches of one shape."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from experiments.prompts import padded
from experiments.samplers.rows import PromptBatch, Rows, Sampler, first_rows
from experiments.samplers.settings import Settings
from theory.protocols import SequenceModel
from theory.shared_prompts import share_prompts


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
    num_ids = len(prompts) * num_per_prompt
    all_prompts = padded(prompts)
    # Neighbouring ids have few prompts among them.
    num_distinct = min(len(prompts), (batch_size + num_per_prompt - 2) // num_per_prompt + 1)
    for start in range(0, num_ids, batch_size):
        # The last batch is filled up with copies of its last id, so that nothing is compiled twice.
        ids = np.minimum(np.arange(start, start + batch_size), num_ids - 1)
        which = ids // num_per_prompt
        batch = PromptBatch(*(jnp.asarray(column[which]) for column in all_prompts))
        reads = model
        if all_prompts.tokens.shape[1]:
            reads = share_prompts(model, which.tolist(), num_distinct)
        rows = sampler(key, reads, batch, jnp.asarray(ids, jnp.int32), settings)
        num_kept = min(batch_size, num_ids - start) * (len(rows.lengths) // batch_size)
        yield first_rows(rows, num_kept)
