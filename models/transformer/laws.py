"""Next-token laws of hidden states, and numbers of them."""

import jax
from jaxtyping import Array, Float, Float32, Int, PyTree

from models.transformer.decoder import Decoder
from theory.protocols import Reduce

# Numbers of laws that are held at a time.
_LAWS = 1 << 25


def next_law(decoder: Decoder, hidden: Float[Array, "B W"]) -> Float32[Array, "B V"]:
    """Log law of the next token.

    Args:
        decoder: for its head.
        hidden: [B, W] of the last token read.

    Returns:
        [B, V] normalised.
    """
    return jax.nn.log_softmax(decoder.logits(hidden))


def reduce_laws(
    decoder: Decoder,
    hidden: Float[Array, "B C W"],
    targets: Int[Array, "B C"],
    reduce: Reduce,
) -> PyTree:
    """Numbers of each position's law; one position after the other where all laws would not fit.

    Args:
        decoder: for its head.
        hidden: [B, C, W] of the tokens read.
        targets: [B, C] the token after each.
        reduce: from laws and tokens to numbers.

    Returns:
        Numbers, [B, C] each.
    """
    num_rows, chunk = targets.shape

    def at(hidden: Array, targets: Array) -> PyTree:
        return reduce(jax.nn.log_softmax(decoder.logits(hidden)), targets)

    if num_rows * chunk * decoder.config.vocab_size <= _LAWS:
        return at(hidden, targets)
    by_position = (hidden.swapaxes(0, 1), targets.swapaxes(0, 1))
    values = jax.lax.map(lambda here: at(*here), by_position)
    return jax.tree.map(lambda value: value.swapaxes(0, 1), values)
