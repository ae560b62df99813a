"""Prompts whose success rates move without regard to the rule: worlds in which what is remembered grows old."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from experiments.allocation.regimes import EXCHANGE, LOGIT_END, TREND, WALK, Drift
from experiments.allocation.worlds import Parameters, World
from theory.allocation.records import Groups
from theory.errors import InvalidInput


class Movement(NamedTuple):
    """One update of the numbers that the rates come from: x <- decay x + noise N(0, 1) + trend. Arrays, so that all movements share a program.

    Attributes:
        decay: in [0, 1].
        noise: not negative.
        trend: common to all prompts.
        exchanges: whether x ranks the prompts for the rates of the pool; else it is a logit, reflected at its ends.
    """

    decay: Float[Array, ""]
    noise: Float[Array, ""]
    trend: Float[Array, ""]
    exchanges: Bool[Array, ""]


def movement(drift: Drift) -> Movement:
    """A drift as numbers.

    Args:
        drift: see `regimes.DRIFT_RATES`.

    Returns:
        The movement.

    Raises:
        InvalidInput: an unknown kind, a negative rate, or an exchange above 1.
    """
    kind, rate = drift.kind, drift.rate
    if kind not in (EXCHANGE, WALK, TREND) or not rate >= 0 or (kind == EXCHANGE and rate > 1):
        raise InvalidInput(
            f"drift {kind} {rate}: rates are not negative, those of exchange at most 1"
        )
    exchanges = kind == EXCHANGE
    return Movement(
        jnp.float32(np.sqrt(1 - rate * rate) if exchanges else 1.0),
        jnp.float32(0.0 if kind == TREND else rate),
        jnp.float32(rate if kind == TREND else 0.0),
        jnp.asarray(exchanges),
    )


def drifting_world(key: Key[Array, ""], rates: Float[Array, " P"], moves: Movement) -> World:
    """Success rates that move.

    The rule does not move them, so that nothing needs to be held out. In the place of a held-out rate stands what the curve of a run shall keep of ragged groups:
    the energy sqrt(s f) of all groups so far.

    Args:
        key: of scores and steps; the same for every rule, so that all meet the same prompts on the same way.
        rates: [P] at the start, in a random order.
        moves: at every update.

    Returns:
        A world whose parameters are the number of updates, the energy, and x of every prompt.
    """
    ordered = jnp.sort(rates)
    of_scores, of_steps = jax.random.split(key)
    scores = jax.random.normal(of_scores, rates.shape)
    end = jnp.float32(LOGIT_END)
    logits = jnp.clip(jax.scipy.special.logit(rates), -end, end)
    start = jnp.where(moves.exchanges, scores, logits)

    def rate(parameters: Parameters) -> Float[Array, " P"]:
        x = parameters[2:]
        dealt = jnp.zeros_like(ordered).at[jnp.argsort(x)].set(ordered)
        return jnp.where(moves.exchanges, dealt, jax.nn.sigmoid(x))

    def learn(parameters: Parameters, groups: Groups) -> Parameters:
        update, energy, x = parameters[0], parameters[1], parameters[2:]
        step = jax.random.normal(jax.random.fold_in(of_steps, update.astype(jnp.int32)), x.shape)
        moved = moves.decay * x + moves.noise * step + moves.trend
        inside = jnp.where(moved > end, 2 * end - moved, moved)
        inside = jnp.where(inside < -end, -2 * end - inside, inside)
        x = jnp.where(moves.exchanges, moved, jnp.clip(inside, -end, end))
        product = (groups.successes * groups.failures).astype(x.dtype)
        energy += jnp.sum(jnp.where(groups.ready, jnp.sqrt(product), 0))
        return jnp.concatenate([jnp.stack([update + 1, energy]), x])

    return World(jnp.concatenate([jnp.zeros(2), start]), rate, lambda p: p[1:2], learn)
