"""Losses by which a child twist learns log zeta from rows of tokens: soft-Bellman regression and the contrastive loss.

Both are functions of the values that a twist gives along rows; whoever owns the parameters differentiates them. Rows may come from any proposal
with full support: the regression does not ask which, and the contrastive loss weighs them.

**Soft-Bellman regression.** Log zeta is the fixed point of log psi(x) = log sum_v p(v | x)^alpha psi(xv) with psi = 1 where a sequence is over.
Squared errors against the right-hand side, held fixed; nothing is estimated, since the sum over v is exact. (With the fixed right-hand side this is
soft Q-iteration; that zeta obeys it is Ji et al. 2026, arXiv 2601.21590, Theorem 3.1.)

**Contrastive twist learning** (Zhao et al. 2024, arXiv 2404.17546) descends sum_t KL(sigma_t || pi_t), from the target's prefixes of
t tokens to the twisted target's, pi_t proportional to p(x)^alpha psi(x); the gradient is

    - sum_t ( E_{sigma_t}[grad log psi] - E_{pi_t}[grad log psi] ).

A sequence that is over before t is its own prefix there, with psi = 1. In a model without eos a constant of each t remains free, which no filter
can see; where sequences end early it is fixed by them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int, Int32, PyTree

from theory.generation import Trajectories
from theory.importance import token_log_weights
from theory.log_weights import normalise
from theory.protocols import SequenceModel
from theory.smc.child_twist import ChildTwist, Prefixes, children_of, log_backup


class TwistRows(NamedTuple):
    """Rows to learn from.

    Attributes:
        tokens: [B, T] right-padded.
        lengths: [B] eos included.
        log_probs: [B, T, V] the model's law before each token; anything finite past a row's length.
        log_gains: [B, T] alpha log p - log q of each token, 0 past a row's length.
    """

    tokens: Int32[Array, "B T"]
    lengths: Int32[Array, " B"]
    log_probs: Float32[Array, "B T V"]
    log_gains: Float32[Array, "B T"]


def twist_rows(
    model: SequenceModel,
    prompts: Int[Array, "B P"],
    prompt_lengths: Int[Array, " B"],
    rows: Trajectories,
    alpha: float | Float32[Array, ""],
) -> TwistRows:
    """Read drawn rows once more and keep the laws.

    Args:
        model: that drew them.
        prompts: [B, P] right-padded.
        prompt_lengths: [B].
        rows: finished, from any proposal with full support.
        alpha: target exponent, above 0.

    Returns:
        The rows with their laws.
    """
    state, first = model.init(prompts, prompt_lengths)

    def step(loop: tuple[PyTree, Array], place: Array) -> tuple[tuple[PyTree, Array], Array]:
        state, law = loop
        state, after = model.step(state, rows.tokens[:, place], place < rows.lengths)
        return (state, after), law

    _, laws = jax.lax.scan(step, (state, first), jnp.arange(rows.tokens.shape[1]))
    return TwistRows(
        rows.tokens, rows.lengths, jnp.swapaxes(laws, 0, 1), token_log_weights(rows, alpha)
    )


def children_along(
    child_twist: ChildTwist, model: SequenceModel, rows: TwistRows
) -> Float32[Array, "B T V"]:
    """Log psi of the children of every prefix of every row.

    Args:
        child_twist: log psi of children; differentiated through.
        model: for its eos and horizon.
        rows: B of at most T tokens.

    Returns:
        [B, T, V] entry t for the children of the first t tokens, 0 for those that are over; unused past a row's length.
    """
    num_rows, width, vocab_size = rows.log_probs.shape
    places = jnp.arange(width, dtype=jnp.int32)
    kept = jnp.where(places[None, :] < places[:, None], rows.tokens[:, None, :], 0)
    prefixes = Prefixes(
        kept.reshape(-1, width),
        jnp.tile(places, num_rows),
        rows.log_probs.reshape(-1, vocab_size),
    )
    return children_of(child_twist, model, prefixes).reshape(num_rows, width, vocab_size)


def along_rows(values: Float[Array, "B T V"], rows: TwistRows) -> Float[Array, "B T"]:
    """Log psi of the rows' own prefixes.

    Args:
        values: of `children_along`.
        rows: the same rows.

    Returns:
        [B, T] entry t of the first t + 1 tokens; 0 where the row is over.
    """
    own = jnp.take_along_axis(values, rows.tokens[:, :, None], axis=2)[:, :, 0]
    inside = jnp.arange(own.shape[1])[None, :] < rows.lengths[:, None]
    return jnp.where(inside, own, 0.0)


def soft_bellman_loss(
    values: Float[Array, "B T V"], rows: TwistRows, alpha: float | Float[Array, ""]
) -> Float[Array, ""]:
    """Mean squared error of log psi(x) against its backup, over the prefixes of 1 to length - 1 tokens. Zero for psi = zeta.

    Args:
        values: of `children_along`.
        rows: the same rows.
        alpha: target exponent, above 0.

    Returns:
        Nats squared; 0 where no row has two tokens. Backups are constants to its gradient.
    """
    backups = jax.lax.stop_gradient(log_backup(rows.log_probs, values, alpha))
    places = jnp.arange(1, rows.tokens.shape[1])
    asked = places[None, :] < rows.lengths[:, None]
    errors = jnp.where(asked, along_rows(values, rows)[:, :-1] - backups[:, 1:], 0.0)
    return jnp.sum(errors**2) / jnp.maximum(jnp.sum(asked), 1).astype(errors.dtype)


def contrastive_loss(
    positive_log_twist: Float[Array, "B T"],
    positive_log_weights: Float[Array, " B"],
    negative_log_twist: Float[Array, "B2 T"],
    negative_log_weights: Float[Array, "B2 T"],
) -> Float[Array, ""]:
    """What has the contrastive gradient; its value is no divergence.

        sum_t ( sum_i n_it log psi_it - sum_i p_i log psi_it ),    p and n normalised weights and constants to the gradient

    Args:
        positive_log_twist: [B, T] log psi of the prefixes of rows that stand for sigma.
        positive_log_weights: [B] unnormalised, of whole rows for p^alpha.
        negative_log_twist: [B2, T] log psi of the prefixes of rows that stand for the twisted targets.
        negative_log_weights: [B2, T] unnormalised, of the first t + 1 tokens for p^alpha, without psi, which is put in here.

    Returns:
        Nats. Its gradient is exact where the weighted rows are whole laws, and consistent, biased by O(1/B), where they are draws.
    """
    constant = jax.lax.stop_gradient
    of_positive = jnp.exp(normalise(constant(positive_log_weights))[0])
    seen = constant(negative_log_weights + negative_log_twist)
    of_negative = jnp.exp(normalise(seen.T)[0]).T
    positive = jnp.sum(of_positive[:, None] * positive_log_twist)
    return jnp.sum(of_negative * negative_log_twist) - positive


def contrastive_loss_of_draws(values: Float[Array, "B T V"], rows: TwistRows) -> Float[Array, ""]:
    """The same with one set of draws from a proposal for both: weighted to the end for sigma, weighted to t for the twisted targets.

    Args:
        values: of `children_along`.
        rows: the same rows, independent draws.

    Returns:
        Nats.
    """
    log_twist = along_rows(values, rows)
    log_weights = jnp.cumsum(rows.log_gains, axis=1)
    return contrastive_loss(log_twist, log_weights[:, -1], log_twist, log_weights)
