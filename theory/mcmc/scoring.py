"""Read given sequences through the model: what generation would have recorded had it drawn them."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int, PyTree

from theory.decoding.sample import log_normaliser
from theory.generation import Generation, cut
from theory.ledger import Ledger, charge
from theory.protocols import SequenceModel


class Scores(NamedTuple):
    """Numbers of every token; zeros past a row's length.

    Attributes:
        log_p: [B, T] log p(y_t | y_<t) at temperature 1.
        log_z: [B, T] log sum_v p(v | y_<t)^alpha.
        entropies: [B, T] Shannon entropy (nats) of the law before the token.
    """

    log_p: Float32[Array, "B T"]
    log_z: Float32[Array, "B T"]
    entropies: Float32[Array, "B T"]


class Scored(NamedTuple):
    """Scores, and where the model stands after the sequences.

    Attributes:
        scores: of every token.
        model_state: after each row's tokens.
        log_probs: [B, V] log law of the next token.
    """

    scores: Scores
    model_state: PyTree
    log_probs: Float[Array, "B V"]


def score_sequences(
    model: SequenceModel,
    generation: Generation,
    tokens: Int[Array, "B T"],
    lengths: Int[Array, " B"],
    alpha: float,
) -> Scored:
    """Read whole sequences after the prompts of a generation.

    Args:
        model: of the tokens.
        generation: B rows; only their prompts matter.
        tokens: [B, T] right-padded.
        lengths: [B] eos included.
        alpha: exponent of log z.

    Returns:
        The scores. The generation's own rows are left as they are; `charge_scoring` says what this spends.
    """

    def reduce(log_probs: Float[Array, "*batch V"], token: Int[Array, "*batch"]) -> Scores:
        law = log_probs.reshape(-1, log_probs.shape[-1])
        log_p = jnp.take_along_axis(law, token.reshape(-1, 1), axis=1)[:, 0]
        numbers = log_p, log_normaliser(law, alpha), shannon_entropy(law)
        return Scores(*(each.reshape(token.shape) for each in numbers))

    at_prompt = cut(model, generation, jnp.zeros_like(lengths)).model_state
    model_state, scores, log_probs = model.extend(at_prompt, tokens, lengths, reduce)
    return Scored(scores, model_state, log_probs)


def charge_scoring(ledger: Ledger, tokens: Int[Array, "B T"], lengths: Int[Array, " B"]) -> Ledger:
    """What reading whole sequences spends.

    Args:
        ledger: before it.
        tokens: [B, T] right-padded.
        lengths: [B] eos included.

    Returns:
        The record after it.
    """
    num_tokens = lengths.sum(dtype=jnp.int32)
    return charge(
        ledger,
        prefill_tokens=num_tokens,
        model_calls=1,
        row_steps_executed=tokens.size,
        row_steps_useful=num_tokens,
    )


def shannon_entropy(log_probs: Float[Array, "B V"]) -> Float[Array, " B"]:
    """Entropy of next-token laws.

        h = -sum_v p(v) log p(v)

    Args:
        log_probs: [B, V] normalised.

    Returns:
        [B] nats; exactly 0 where a token is certain.
    """
    possible = log_probs > -jnp.inf
    finite = jnp.where(possible, log_probs, 0.0)
    return -jnp.where(possible, jnp.exp(finite) * finite, 0.0).sum(axis=1)
