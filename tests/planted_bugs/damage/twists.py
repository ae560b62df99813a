"""Twists on toy E: their induced laws, and the gradient of the contrastive loss as a sum over all sequences."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from theory.exact import power_law, unroll
from theory.exact.laws import Law
from theory.exact.layers import continuation
from theory.exact.semiring import PerDepth
from theory.exact.sequence_space import proposal_law, sequence_space
from theory.smc.child_twist import asking_each_child
from theory.smc.exact_twist import ExactTwist, exact_twist
from theory.smc.twist_losses import TwistRows, along_rows, children_along

ALPHA = 2.0
TABLE = toy_e()
MODEL = ContextModel.from_table(TABLE)
LAYERS = unroll(TABLE)
POWER = power_law(LAYERS, ALPHA)
TWIST = exact_twist(POWER)
# Any finite numbers will do; these are wrong in both directions.
WRONG = TWIST._replace(
    log_lookahead=TWIST.log_lookahead * 0.5
    + jax.random.uniform(jax.random.key(0), TWIST.log_lookahead.shape, minval=-0.5, maxval=0.5)
)


def induced_law(twist: ExactTwist) -> tuple[Law, PerDepth]:
    """The proposal that a twist induces, and the log of its backup in every context."""
    values = [np.asarray(twist.log_lookahead[t], np.float64) for t in range(len(LAYERS))]

    def log_terms(depth: int) -> np.ndarray:
        layer = LAYERS[depth]
        last = depth + 1 == len(LAYERS)
        following = None if last else values[depth + 1][: LAYERS[depth + 1].contexts.size]
        return ALPHA * layer.log_probs + continuation(layer, following, 0.0)

    def log_backup(depth: int) -> np.ndarray:
        return np.logaddexp.reduce(log_terms(depth), axis=1)

    return Law(LAYERS, lambda depth: log_terms(depth) - log_backup(depth)[:, None]), log_backup


def all_rows(proposal_alpha: float) -> tuple[np.ndarray, TwistRows]:
    """Log probability of every sequence under token temperature 1 / proposal_alpha, and the sequences as rows to learn from."""
    space = sequence_space(TABLE, proposal_alpha)
    records = space.records
    context = np.full(len(space.tokens), TABLE.initial)
    laws: list[np.ndarray] = []
    for place in range(TABLE.horizon):
        laws.append(TABLE.log_probs[context])
        goes_on = place + 1 < records.lengths
        context = np.where(goes_on, TABLE.next_context[context, space.tokens[:, place]], context)
    rows = TwistRows(
        jnp.asarray(space.tokens, jnp.int32),
        jnp.asarray(records.lengths, jnp.int32),
        jnp.asarray(np.stack(laws, axis=1), jnp.float32),
        jnp.asarray(ALPHA * records.log_p - records.log_q, jnp.float32),
    )
    return np.log(proposal_law(space)), rows


def slopes(loss: Any, twist: ExactTwist, proposal_alpha: float = 1.0) -> np.ndarray:
    """[D, C] the gradient of a contrastive loss by the twist's numbers, both laws whole."""
    log_q, rows = all_rows(proposal_alpha)
    log_weights = jnp.asarray(log_q, jnp.float32)[:, None] + jnp.cumsum(rows.log_gains, axis=1)

    def value(log_lookahead: jax.Array) -> jax.Array:
        child_twist = asking_each_child(twist._replace(log_lookahead=log_lookahead), MODEL)
        log_twist = along_rows(children_along(child_twist, MODEL, rows), rows)
        return loss(log_twist, log_weights[:, -1], log_twist, log_weights)

    return np.asarray(jax.grad(value)(twist.log_lookahead))


def divergence(log_lookahead: np.ndarray) -> float:
    """sum_t KL(sigma_t || pi_t), prefix by prefix."""
    space = sequence_space(TABLE, 1.0)
    total = 0.0
    for depth in range(1, TABLE.horizon):
        target: dict[tuple[int, ...], float] = {}
        twisted: dict[tuple[int, ...], float] = {}
        for tokens, log_p in zip(space.sequences, space.records.log_p, strict=True):
            prefix = tokens[:depth]
            mass = np.exp(ALPHA * log_p.sum() - POWER.log_Z)
            target[prefix] = target.get(prefix, 0.0) + mass
            row, ends = 0, False
            for place, token in enumerate(prefix):
                row = int(LAYERS[place].successor[row, token])
                ends = row < 0
            log_twist = 0.0 if ends else float(log_lookahead[depth, row])
            twisted[prefix] = np.exp(ALPHA * log_p[:depth].sum() + log_twist)
        scale = sum(twisted.values())
        total += sum(m * np.log(m / (twisted[x] / scale)) for x, m in target.items())
    return total


def of_gradient(loss: Any) -> float:
    """At a twist that is wrong, how far the gradient is from that of the divergence, relative to its size."""
    start = np.asarray(WRONG.log_lookahead, np.float64)
    truth, step = np.zeros_like(start), 1e-5
    for place in np.ndindex(*start.shape):
        nudge = np.zeros_like(start)
        nudge[place] = step
        truth[place] = (divergence(start + nudge) - divergence(start - nudge)) / (2 * step)
    gap = np.abs(slopes(loss, WRONG) - truth).sum()
    return float(gap / np.abs(truth).sum())
