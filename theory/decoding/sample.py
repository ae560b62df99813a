"""One token a row from the law that the rules make, and what has to be recorded of it."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, Key

from theory.decoding.block_race import draw_by_blocks
from theory.decoding.noise import gumbels
from theory.decoding.pipeline import TokenLaw, token_law
from theory.decoding.row_law import has_law
from theory.decoding.rule import Parameter, TokenRule, per_row
from theory.reductions import at_token

# Noise for more tokens than this costs more than two smaller races.
MOST_IN_ONE_RACE = 1024


class TokenDraw(NamedTuple):
    """One token a row. The two log probabilities are recorded here because neither can be recovered from the other.

    Attributes:
        tokens: [B]; 0 in a failed row.
        log_q: [B] under the law that drew it, all rules included; -inf in a failed row.
        log_p: [B] under the model at temperature 1 without rules; -inf in a failed row.
        failed: [B] rows that had no law to draw from.
    """

    tokens: Int32[Array, " B"]
    log_q: Float[Array, " B"]
    log_p: Float[Array, " B"]
    failed: Bool[Array, " B"]


def draw_from_noise(law: TokenLaw, noise: Float[Array, "B V"]) -> Int32[Array, " B"]:
    """The winner of each row's Gumbel race.

        argmax_v log q(v) + G(v)

    Args:
        law: to draw from.
        noise: [B, V] independent standard Gumbels.

    Returns:
        [B] tokens; 0 in a failed row, never one off the support in any other.
    """
    scores = jnp.where(law.support, law.log_probs + noise.astype(law.log_probs.dtype), -jnp.inf)
    return jnp.argmax(scores, axis=-1).astype(jnp.int32)


def draw_tokens(keys: Key[Array, " B"], law: TokenLaw) -> Int32[Array, " B"]:
    """One independent draw a row.

    A Gumbel race and not the inverse of a cumulative sum, since float32 sums lose the mass of rare tokens; what noise this needs is
    said in `theory.decoding.noise`. Large vocabularies race in blocks (`theory.decoding.block_race`), to the same law. A row's draw depends on its key and its law alone: the same, bit for bit, in any batch.

    Args:
        keys: [B] consumed.
        law: to draw from.

    Returns:
        [B] tokens; 0 in a failed row.
    """
    vocab_size = law.log_probs.shape[-1]
    if vocab_size > MOST_IN_ONE_RACE:
        return draw_by_blocks(keys, law)
    return draw_from_noise(law, gumbels(keys, vocab_size))


def sample_tokens(
    keys: Key[Array, " B"],
    rules: tuple[TokenRule, ...],
    log_probs: Float[Array, "B V"],
    counts: Int[Array, "B V"],
) -> TokenDraw:
    """Draw the next token of each row.

    Args:
        keys: [B] one for each row and step; consumed.
        rules: a pipeline.
        log_probs: [B, V] the model's law at temperature 1, normalised: what `SequenceModel` returns.
        counts: [B, V] tokens that each row has generated.

    Returns:
        The tokens, with log q of the whole pipeline and raw log p.
    """
    law = token_law(rules, log_probs, counts)
    tokens = draw_tokens(keys, law)
    log_p = jnp.where(law.failed, -jnp.inf, at_token(log_probs, tokens))
    # Without rules q is p to the last bit, so that weights at alpha = 1 are exactly 1.
    log_q = at_token(law.log_probs, tokens) if rules else log_p
    return TokenDraw(tokens, log_q, log_p, law.failed)


def log_normaliser(log_probs: Float[Array, "B V"], alpha: Parameter) -> Float[Array, " B"]:
    """Log of the normaliser of a tempered law.

        log z = log sum_v p(v)^alpha,   so that  log q(v) = alpha log p(v) - log z  at temperature 1/alpha

    Args:
        log_probs: [B, V] the model's law at temperature 1, normalised.
        alpha: exponent above 0, a number or [B].

    Returns:
        [B] natural log; -inf in a row without a law.
    """
    lawful = has_law(log_probs)
    highest = jnp.where(lawful, jnp.max(log_probs, axis=-1), -jnp.inf)
    # The largest is subtracted before the product, which is then 0 for it whatever alpha is.
    gaps = log_probs - jnp.where(lawful, highest, 0.0)[:, None]
    exponent = per_row(alpha, log_probs)
    total = jnp.sum(jnp.where(gaps > -jnp.inf, jnp.exp(exponent * gaps), 0.0), axis=-1)
    log_total = jnp.log(jnp.where(lawful, total, 1.0))
    return jnp.where(lawful, exponent[:, 0] * highest + log_total, -jnp.inf)
