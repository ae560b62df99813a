"""Estimates of the look-ahead normaliser from rollouts of the model.

    zeta(x) = sum over futures of p(future | x)^alpha = E_{future ~ p(. | x)}[ p(future | x)^(alpha - 1) ],      zeta(over) = 1

The exponent is alpha - 1: one factor p is in the drawing. With M rollouts of a prefix

    zeta_hat(x) = (1/M) sum_m p(future_m | x)^(alpha - 1)

is unbiased for zeta, in linear space; its logarithm is biased downwards. Its relative variance is (Z_{2 alpha - 1} / Z_alpha^2 - 1) / M in terms
of the prefix's own normalisers, which grows exponentially with the length of what follows: the effective sample size of the rollouts
says how many of the M count. Rollouts that stop after H tokens estimate the same for the next H tokens, which is not zeta.

Source: Ji et al., "Scalable Power Sampling", arXiv 2601.21590, Theorem 3.1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, Key

from theory.errors import InvalidInput
from theory.generation import Generation, NextTokens, append, generate, goes_on, take
from theory.ledger import Ledger, charge
from theory.log_weights import ess, log_mean_weight
from theory.protocols import SequenceModel


class Rollouts(NamedTuple):
    """M continuations of each of B rows, drawn from the model and not kept.

    Attributes:
        log_p: [B, M] log p(future | x) of what was drawn; 0 for rows that are over.
        ledger: of the rows they started from, with what the rollouts spent.
    """

    log_p: Float32[Array, "B M"]
    ledger: Ledger


def roll_out(
    keys: Key[Array, " B"],
    model: SequenceModel,
    generation: Generation,
    num_rollouts: int,
    num_tokens: int,
) -> Rollouts:
    """Draw futures of every row, all of them side by side.

    Args:
        keys: [B] one for each row, of the role LOOKAHEAD; consumed.
        model: of the tokens.
        generation: where the rows stand; it is not moved.
        num_rollouts: M, at least 1.
        num_tokens: H, most tokens of a rollout, at least 1; the model's horizon is "to the end".

    Returns:
        What was drawn. Rows that are over spend nothing.

    Raises:
        InvalidInput: M or H below 1.
    """
    if num_rollouts < 1 or num_tokens < 1:
        raise InvalidInput(
            f"{num_rollouts} rollouts of at most {num_tokens} tokens: both must be at least 1"
        )
    before = generation.trajectories
    rows = jnp.repeat(jnp.arange(before.lengths.shape[0]), num_rollouts)
    fold = jax.vmap(jax.vmap(jax.random.fold_in, in_axes=(None, 0)), in_axes=(0, None))
    rollout_keys = fold(keys, jnp.arange(num_rollouts)).reshape(-1)
    limits = jnp.minimum(before.lengths[rows] + num_tokens, model.horizon)
    rolled = generate(rollout_keys, model, (), 1.0, take(model, generation, rows), limits)
    places = jnp.arange(before.tokens.shape[1])[None, :]
    is_new = places >= before.lengths[rows][:, None]
    log_p = jnp.sum(jnp.where(is_new, rolled.trajectories.log_p, 0.0), axis=1)
    num_begun = num_rollouts * goes_on(generation.trajectories, model.horizon).sum(dtype=jnp.int32)
    ledger = charge(rolled.ledger, rollouts_probe=num_begun, rollouts_dropped=num_begun)
    return Rollouts(log_p.reshape(-1, num_rollouts), ledger)


def log_terms(
    log_p: Float[Array, "*batch M"], alpha: float | Float[Array, ""]
) -> Float[Array, "*batch M"]:
    """What each rollout contributes to zeta.

        (alpha - 1) log p(future | x)

    Args:
        log_p: [..., M] of rollouts drawn from the model.
        alpha: exponent, above 0.

    Returns:
        [..., M] natural log; -inf for a rollout that could not be drawn, whatever alpha.
    """
    impossible = jnp.isneginf(log_p)
    return jnp.where(impossible, -jnp.inf, (alpha - 1.0) * jnp.where(impossible, 0.0, log_p))


def log_zeta_hat(
    log_p: Float[Array, "*batch M"], alpha: float | Float[Array, ""]
) -> Float[Array, "*batch"]:
    """Log of the mean of the terms; exp of it is unbiased for zeta (of the next H tokens) at every M.

    Args:
        log_p: [..., M] of rollouts drawn from the model.
        alpha: exponent, above 0.

    Returns:
        [...] natural log; finite where a rollout could be drawn, exactly 0 for rows that are over.
    """
    return log_mean_weight(log_terms(log_p, alpha))


def rollout_ess(
    log_p: Float[Array, "*batch M"], alpha: float | Float[Array, ""]
) -> Float[Array, "*batch"]:
    """Effective number of rollouts behind an estimate of zeta.

    Args:
        log_p: [..., M] of rollouts drawn from the model.
        alpha: exponent, above 0.

    Returns:
        [...] in 1..M; M for rows that are over.
    """
    return ess(log_terms(log_p, alpha))


def child_keys(keys: Key[Array, " B"], candidates: Int32[Array, "B K"]) -> Key[Array, " BK"]:
    """Keys of rows with a token appended, by that token's id: the same in whatever order candidates are listed.

    Args:
        keys: [B] of the rows.
        candidates: [B, K] tokens.

    Returns:
        [B K] keys.
    """
    fold = jax.vmap(jax.vmap(jax.random.fold_in, in_axes=(None, 0)))
    return fold(keys, candidates).reshape(-1)


def with_candidates(
    model: SequenceModel, generation: Generation, candidates: Int32[Array, "B K"]
) -> Generation:
    """Every row with each of its candidates appended, to look ahead from.

    Args:
        model: of the tokens.
        generation: B rows.
        candidates: [B, K] tokens; not read for rows that are over.

    Returns:
        B K rows, the candidates of row 0 first. Log p, log q and log z of the appended token are not recorded.
    """
    num_candidates = candidates.shape[1]
    rows = jnp.repeat(jnp.arange(candidates.shape[0]), num_candidates)
    parents = take(model, generation, rows)
    active, tokens = goes_on(parents.trajectories, model.horizon), candidates.reshape(-1)
    model_state, log_probs = model.step(parents.model_state, tokens, active)
    unknown = jnp.zeros(tokens.shape, jnp.float32)
    drawn = NextTokens(tokens, unknown, unknown, unknown)
    longer = append(model, parents.trajectories, drawn, active)
    num_read = active.sum(dtype=jnp.int32)
    ledger = charge(
        parents.ledger,
        prefill_tokens=num_read,
        model_calls=1,
        row_steps_executed=rows.shape[0],
        row_steps_useful=num_read,
    )
    return Generation(model_state, log_probs, longer, ledger)
