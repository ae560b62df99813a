"""The power law's next token, estimated from rollouts: a ratio, its jackknife, and the law that is drawn from.

With numerators p(v | x)^alpha zeta_hat(xv) the ratio is biased, by O(1/M); the jackknife leaves O(1/M^2), and may be negative.

Source: Ji et al., "Scalable Power Sampling", arXiv 2601.21590.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Key

from theory.errors import InvalidInput
from theory.generation import Generation
from theory.ledger import Ledger
from theory.protocols import SequenceModel
from theory.smc.zeta import child_keys, log_terms, roll_out, rollout_ess, with_candidates


def log_plug_in_law(
    log_power: Float[Array, "*batch K"], terms: Float[Array, "*batch K M"]
) -> Float[Array, "*batch K"]:
    """The next-token law with zeta_hat for zeta.

        p_hat(v) = p(v)^alpha zeta_hat(v) / sum_u p(u)^alpha zeta_hat(u)

    Biased for the power law's by O(1/M).

    Args:
        log_power: [..., K] alpha log p(v | x) of the candidates; -inf cannot be drawn.
        terms: [..., K, M] log contributions of their rollouts (`theory.smc.zeta.log_terms`).

    Returns:
        [..., K] natural log, normalised over the candidates.
    """
    return _normalised(log_power, jax.nn.logsumexp(terms, axis=-1))


def jackknife(
    log_power: Float[Array, "*batch K"], terms: Float[Array, "*batch K M"]
) -> Float[Array, "*batch K"]:
    """The same with the first order of its bias removed.

        p_JK = M p_hat - ((M - 1) / M) sum_s p_hat_{-s},

    where p_hat_{-s} leaves rollout s of every candidate out. Biased by O(1/M^2). It sums to 1, and it may be negative.

    Args:
        log_power: [..., K] alpha log p(v | x) of the candidates.
        terms: [..., K, M] log contributions of their rollouts, M at least 2.

    Returns:
        [..., K] in linear space.

    Raises:
        InvalidInput: M < 2.
    """
    num_rollouts = terms.shape[-1]
    if num_rollouts < 2:
        raise InvalidInput(f"jackknife of {num_rollouts} rollout: must be at least 2")
    # Summed anew without each rollout: a difference of sums would lose the digits where one rollout has most of the weight.
    others = ~jnp.eye(num_rollouts, dtype=bool)
    left = jnp.broadcast_to(terms[..., None, :], (*terms.shape, num_rollouts))
    sums = jax.nn.logsumexp(jnp.where(others, left, -jnp.inf), axis=-1)
    without = jax.vmap(_normalised, in_axes=(None, -1), out_axes=-1)(log_power, sums)
    whole = jnp.exp(log_plug_in_law(log_power, terms))
    # M p_hat - (M - 1) mean_s p_hat_{-s}, written so that equal rollouts give p_hat itself.
    return whole + (num_rollouts - 1) * (whole - jnp.exp(without).mean(axis=-1))


def log_jackknife_law(
    log_power: Float[Array, "*batch K"], terms: Float[Array, "*batch K M"]
) -> Float[Array, "*batch K"]:
    """The jackknife made a law: negative numbers are set to 0, and what is left is normalised. Both bring back some bias.

    Args:
        log_power: [..., K] alpha log p(v | x) of the candidates.
        terms: [..., K, M] log contributions of their rollouts, M at least 2.

    Returns:
        [..., K] natural log.

    Raises:
        InvalidInput: M < 2.
    """
    clipped = jnp.maximum(jackknife(log_power, terms), 0.0)
    return jnp.log(clipped) - jnp.log(clipped.sum(axis=-1, keepdims=True))


class LookaheadRule(NamedTuple):
    """Draws from a law that was estimated for these rows.

    Attributes:
        log_law: [B, V] natural log; -inf off the candidates.
    """

    log_law: Float32[Array, "B V"]

    name = "lookahead"
    reads_counts = False

    def truncates(self) -> bool:
        """Where a possible token has no share. Eager."""
        return bool(np.isneginf(np.asarray(self.log_law)).any())

    def __call__(
        self, logits: Float32[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float32[Array, "B V"]:
        """See `TokenRule`."""
        return self.log_law


def next_token_law(
    keys: Key[Array, " B"],
    model: SequenceModel,
    alpha: float | Float32[Array, ""],
    generation: Generation,
    num_rollouts: int,
    num_tokens: int,
    num_candidates: int,
) -> tuple[Float32[Array, "B V"], Float32[Array, " B"], Ledger]:
    """Estimate the power law's next token of every row.

    Args:
        keys: [B] of the role LOOKAHEAD, for this step; consumed.
        model: of the tokens.
        alpha: exponent, above 0.
        generation: where the rows stand; it is not moved.
        num_rollouts: M for each candidate, at least 2.
        num_tokens: H.
        num_candidates: K.

    Returns:
        [B, V] log of the jackknifed law, -inf off the candidates; [B] effective number of rollouts, averaged by that law; and the record of
        what was spent.
    """
    log_probs, candidates = jax.lax.top_k(generation.log_probs, num_candidates)
    candidates = candidates.astype(jnp.int32)
    children = with_candidates(model, generation, candidates)
    rolled = roll_out(child_keys(keys, candidates), model, children, num_rollouts, num_tokens)
    log_p = rolled.log_p.reshape(*candidates.shape, num_rollouts)
    # What cannot be drawn has no future either, and no law after it.
    possible = ~jnp.isneginf(log_probs)
    log_power = jnp.where(possible, alpha * jnp.where(possible, log_probs, 0.0), -jnp.inf)
    terms = jnp.where(possible[..., None], log_terms(log_p, alpha), 0.0)
    log_law = log_jackknife_law(log_power, terms)
    sizes = jnp.where(possible, rollout_ess(log_p, alpha), 0.0)
    num_rows, vocab_size = generation.log_probs.shape
    scattered = jnp.full((num_rows, vocab_size), -jnp.inf, jnp.float32)
    at = jnp.arange(num_rows)[:, None], candidates
    return (
        scattered.at[at].set(log_law),
        jnp.sum(jnp.exp(log_law) * sizes, axis=1),
        rolled.ledger,
    )


def _normalised(
    log_power: Float[Array, "*batch K"], log_sums: Float[Array, "*batch K"]
) -> Float[Array, "*batch K"]:
    return jax.nn.log_softmax(log_power + log_sums, axis=-1)
