"""Learned twists on any sequence model: rows to learn from, both losses, and how Z_hat varies with each twist."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int, Key

from models.twists.fit import Schedule, TwistLoss, fit_twist
from models.twists.law_head import LawHead
from theory.generation import generate, start
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.protocols import SequenceModel
from theory.resampling.multinomial import multinomial
from theory.smc import (
    ChildTwist,
    child_twisted_smc,
    contrastive_loss_of_draws,
    every,
    log_evidence,
    smc,
    soft_bellman_loss,
    start_populations,
    temperature_proposal,
)
from theory.smc.twist_losses import TwistRows, twist_rows


class Prompts(NamedTuple):
    """Prompts side by side.

    Attributes:
        tokens: [B, P] right-padded.
        lengths: [B].
    """

    tokens: Int[np.ndarray, "B P"]
    lengths: Int[np.ndarray, " B"]


NO_PROMPT = Prompts(np.zeros((1, 0), np.int32), np.zeros(1, np.int32))


@cache
def losses(alpha: float) -> dict[str, TwistLoss]:
    """Both losses by name.

    Args:
        alpha: target exponent.

    Returns:
        From values along rows and the rows to a number; the same objects each time, so that nothing is compiled twice.
    """
    return {
        "soft-bellman": partial(soft_bellman_loss, alpha=alpha),
        "contrastive": contrastive_loss_of_draws,
    }


def rows_to_learn_from(
    key: Key[Array, ""], model: SequenceModel, prompts: Prompts, num_rows: int, alpha: float
) -> TwistRows:
    """Draws at token temperature 1/alpha, which has the full support, with the laws they were drawn from.

    Args:
        key: of the run.
        model: of the tokens.
        prompts: taken in turn.
        num_rows: in all.
        alpha: target exponent.

    Returns:
        The rows.
    """
    of = np.arange(num_rows) % len(prompts.lengths)
    tokens, lengths = jnp.asarray(prompts.tokens[of]), jnp.asarray(prompts.lengths[of])
    return _draw_rows(key, model, tokens, lengths, alpha)


def fit_heads(
    key: Key[Array, ""],
    model: SequenceModel,
    rows: TwistRows,
    alpha: float,
    begin: LawHead,
    schedule: Schedule,
) -> dict[str, LawHead]:
    """A head on the model's next-token laws by each loss, from the same start.

    Args:
        key: of the batches.
        model: of the tokens.
        rows: to learn from.
        alpha: target exponent.
        begin: where both start.
        schedule: how long and how fast.

    Returns:
        The heads by the names of the losses.
    """
    return {
        name: fit_twist(key, begin, _itself, loss, model, rows, schedule)[0]
        for name, loss in losses(alpha).items()
    }


def twisted_log_evidences(
    key: Key[Array, ""],
    model: SequenceModel,
    head: LawHead,
    alpha: float,
    prompts: Prompts,
    num_populations: int,
    num_particles: int,
) -> Float64[np.ndarray, "B M"]:
    """Log Z_hat of independent populations of each prompt, resampled after every token.

    Args:
        key: of the run.
        model: of the tokens.
        head: the twist; one that says psi = 1 is the fully adapted filter.
        alpha: target exponent.
        prompts: B of them, one after the other.
        num_populations: M of each.
        num_particles: N.

    Returns:
        [B, M] natural log.
    """
    run = partial(_twisted, head=head, num_particles=num_particles, alpha=alpha)
    return _of_each_prompt(run, key, model, prompts, num_populations)


def plain_log_evidences(
    key: Key[Array, ""],
    model: SequenceModel,
    alpha: float,
    prompts: Prompts,
    num_populations: int,
    num_particles: int,
) -> Float64[np.ndarray, "B M"]:
    """The same for the plain filter: token temperature 1/alpha, the path p(x)^alpha, no score.

    Args:
        key: of the run.
        model: of the tokens.
        alpha: target exponent.
        prompts: B of them.
        num_populations: M of each.
        num_particles: N.

    Returns:
        [B, M] natural log.
    """
    run = partial(_plain, num_particles=num_particles, alpha=alpha)
    return _of_each_prompt(run, key, model, prompts, num_populations)


def _itself(head: LawHead) -> ChildTwist:
    return head


def _of_each_prompt(
    run: partial[Float[Array, " M"]],
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: Prompts,
    num_populations: int,
) -> Float64[np.ndarray, "B M"]:
    found: list[np.ndarray] = []
    for number, (tokens, length) in enumerate(zip(prompts.tokens, prompts.lengths, strict=True)):
        ids = jnp.arange(number * num_populations, (number + 1) * num_populations)
        rows = jnp.asarray(np.tile(tokens, (num_populations, 1)), jnp.int32)
        lengths = jnp.full(num_populations, length, jnp.int32)
        found.append(np.asarray(run(key, model, rows, lengths, ids), np.float64))
    return np.stack(found)


@partial(jax.jit, static_argnames="alpha")
def _draw_rows(
    key: Key[Array, ""],
    model: SequenceModel,
    tokens: Int[Array, "B P"],
    lengths: Int[Array, " B"],
    alpha: float,
) -> TwistRows:
    ids = jnp.arange(lengths.shape[0])
    keys = fold_rows(row_keys(role_key(key, Role.TOKEN), ids), 0)
    begin, limits = start(model, tokens, lengths), jnp.full(ids.shape, model.horizon, jnp.int32)
    drawn = generate(keys, model, temperature_proposal(alpha), alpha, begin, limits)
    return twist_rows(model, tokens, lengths, drawn.trajectories, alpha)


@partial(jax.jit, static_argnames=("num_particles", "alpha"))
def _twisted(
    key: Key[Array, ""],
    model: SequenceModel,
    tokens: Int[Array, "M P"],
    lengths: Int[Array, " M"],
    ids: Int[Array, " M"],
    head: LawHead,
    num_particles: int,
    alpha: float,
) -> Float[Array, " M"]:
    begin = start_populations(model, tokens, lengths, ids, num_particles)
    after, _ = child_twisted_smc(key, model, head, alpha, begin, multinomial, every(model.horizon))
    return log_evidence(after)


@partial(jax.jit, static_argnames=("num_particles", "alpha"))
def _plain(
    key: Key[Array, ""],
    model: SequenceModel,
    tokens: Int[Array, "M P"],
    lengths: Int[Array, " M"],
    ids: Int[Array, " M"],
    num_particles: int,
    alpha: float,
) -> Float[Array, " M"]:
    begin = start_populations(model, tokens, lengths, ids, num_particles)
    rules, after_each = temperature_proposal(alpha), every(model.horizon)
    after, _ = smc(key, model, rules, alpha, begin, multinomial, after_each)
    return log_evidence(after)
