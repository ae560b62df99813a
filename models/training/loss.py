"""What is minimised: the mean negative log likelihood of the tokens of completions."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from models.training.packing import PackedRows
from models.transformer.model import Transformer


def loss_sums(
    params: PyTree, model: Transformer, rows: PackedRows
) -> tuple[Float32[Array, ""], Int32[Array, ""]]:
    """Numerator and denominator of the loss.

        loss = - sum_e sum_t log p(y_et | prompt_e, y_e,<t) / number of tokens y_et,

    over the tokens of all completions, eos included where it was written. A mean over *tokens*, not over examples: means of
    parts of a batch are added up as sums, never averaged.

    Args:
        params: of the transformer.
        model: its structure; its own parameters are not read.
        rows: [R, S] packed examples.

    Returns:
        Sum of negative natural log probabilities, and how many.
    """
    decoder = dataclasses.replace(model, params=params).decoder()
    tokens, positions, segments, targets = (jnp.asarray(part) for part in rows[:4])
    hidden = decoder.whole(tokens, positions, segments)
    log_probs = jax.nn.log_softmax(decoder.logits(hidden))
    chosen = jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    counted = jnp.asarray(rows.counted)
    return -jnp.where(counted, chosen, 0.0).sum(), counted.sum(dtype=jnp.int32)
