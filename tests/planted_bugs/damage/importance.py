"""Importance weights, sizes of weights and rejection: sums over all sequences of a toy, with the house's own functions."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.toys import toy_e
from tests.planted_bugs.defect import (
    relative_error,
    total_variation,
)
from theory import log_weights as lw
from theory.decoding import TokenRule, top_k
from theory.errors import InvalidInput
from theory.exact import enumerate_sequences, power_law, temperature_law, unroll
from theory.exact.sequence_space import SequenceSpace, proposal_law, sequence_space
from theory.generation import Trajectories
from theory.importance import (
    token_log_weights,
)
from theory.rejection import log_acceptance_rate

ALPHA = 2.0
TABLE = toy_e()
LAYERS = unroll(TABLE)
LOG_Z = power_law(LAYERS, ALPHA).log_Z


class Rows(NamedTuple):
    """Every sequence once, as recorded rows, and how likely it is."""

    space: SequenceSpace
    rows: Trajectories
    probs: np.ndarray


@cache
def all_rows(proposal_alpha: float) -> Rows:
    """Under token temperature 1 / proposal_alpha."""
    space = sequence_space(TABLE, proposal_alpha)
    records = space.records
    last = space.tokens[np.arange(len(space.tokens)), records.lengths - 1]
    inside = np.arange(TABLE.horizon) < records.lengths[:, None]
    log_z = np.where(inside, proposal_alpha * records.log_p - records.log_q, 0.0)
    rows = Trajectories(
        jnp.asarray(space.tokens, jnp.int32),
        jnp.asarray(records.lengths, jnp.int32),
        jnp.asarray(np.isin(last, TABLE.eos)),
        *(jnp.asarray(each, jnp.float32) for each in (records.log_p, records.log_q, log_z)),
    )
    return Rows(space, rows, proposal_law(space))


def of_weights(proposal_alpha: float) -> Callable[[Any], float]:
    """Relative bias of the mean weight for Z."""

    def measure(weigh: Any) -> float:
        _, rows, probs = all_rows(proposal_alpha)
        weights = np.exp(np.asarray(weigh(rows, ALPHA), np.float64).sum(axis=1))
        return relative_error(float(probs @ weights), np.exp(LOG_Z))

    return measure


def of_support(check: Callable[[tuple[TokenRule, ...]], None]) -> float:
    """Relative bias for Z of weights from a proposal that keeps two of three tokens, if the check lets it pass."""
    try:
        check((top_k(2),))
    except InvalidInput:
        return 0.0
    kept = 0.0
    space, _, _ = all_rows(1.0)
    for tokens, log_p in zip(space.sequences, space.records.log_p.sum(axis=1), strict=True):
        if all(is_kept(tokens, place) for place in range(len(tokens))):
            kept += float(np.exp(ALPHA * log_p))
    return relative_error(kept, np.exp(LOG_Z))


def is_kept(tokens: tuple[int, ...], place: int) -> bool:
    """Whether top-k 2 keeps a token; ties go to the lowest index."""
    context = TABLE.initial
    for token in tokens[:place]:
        context = int(TABLE.next_context[context, token])
    order = np.argsort(-TABLE.log_probs[context], kind="stable")
    return tokens[place] in order[:2]


def of_forced_eos(finish: Any) -> float:
    """Total variation between the law of the rows that come out and the base law."""
    space, rows, probs = all_rows(1.0)
    tokens = finish(space.tokens, np.asarray(rows.ended), TABLE.eos[0])
    place = {sequence: index for index, sequence in enumerate(space.sequences)}
    lengths = space.records.lengths
    cells = [place[tuple(row[:n].tolist())] for row, n in zip(tokens, lengths, strict=True)]
    return total_variation(np.bincount(cells, probs, len(place)), probs)


def as_drawn(tokens: np.ndarray, ended: np.ndarray, eos: int) -> np.ndarray:
    """The right end: rows that have not ended are truncated."""
    return tokens


def of_constants(estimate: Any) -> float:
    """Relative bias for f = 1 on eight weights."""
    weights = jnp.log(jnp.arange(1.0, 9.0, dtype=jnp.float32))
    return relative_error(float(estimate(weights, jnp.ones(8, jnp.float32))), 1.0)


def of_pairs(log_mean: Any) -> float:
    """Relative bias of Z_hat from two draws of the base model, over all pairs."""
    _, rows, probs = all_rows(1.0)
    log_w = np.asarray(token_log_weights(rows, ALPHA), np.float64).sum(axis=1)
    pairs = np.stack(np.meshgrid(log_w, log_w, indexing="ij"), axis=-1).reshape(-1, 2)
    with jax.enable_x64(True):
        log_means = np.asarray(log_mean(jnp.asarray(pairs)))
    return relative_error(float(np.outer(probs, probs).ravel() @ np.exp(log_means)), np.exp(LOG_Z))


def of_small_weights(log_mean: Any) -> float:
    """Relative bias of the mean of two weights near e^-200, on their own scale."""
    return relative_error(
        np.exp(float(log_mean(jnp.array([-200.0, -201.0]))) + 200.0), (1 + np.exp(-1.0)) / 2
    )


def of_size(ess: Any) -> float:
    """Relative bias of the effective size of the weights 1, 2, 3, 4: 10/3."""
    return relative_error(float(ess(jnp.log(jnp.arange(1.0, 5.0, dtype=jnp.float32)))), 10 / 3)


def of_evidence_after(ess: Any) -> float:
    """Relative bias of the mean of the weights 1, 2, 3, 4 when it is taken after their effective size."""
    log_weights = np.log(np.arange(1.0, 5.0))
    ess(log_weights)
    return relative_error(float(np.exp(log_weights).mean()), 2.5)


def ess_of_a_copy(log_weights: np.ndarray) -> float:
    """The right size, which leaves the weights as they are."""
    return float(lw.ess(jnp.asarray(log_weights, jnp.float32)))


def of_bound(log_bound: Any) -> float:
    """Total variation between what rejection at alpha 1/2 accepts, from temperature 2, and its target."""
    power, proposal = power_law(LAYERS, 0.5), temperature_law(LAYERS, 0.5)
    log_pi, log_q = enumerate_sequences((power.law, proposal)).log_probs
    bound = log_bound(0.5, 0.5, 3, TABLE.horizon)
    accepted = np.exp(log_q + np.minimum(log_pi + power.log_Z - log_q - bound, 0.0))
    return total_variation(accepted / accepted.sum(), np.exp(log_pi))


def of_rate(rate: Any) -> float:
    """Relative bias of the acceptance rate of base proposals against the bound 1; it is Z."""
    num = np.arange(1.0, 2001.0)
    success = np.exp(log_acceptance_rate(LOG_Z, 0.0))
    return relative_error(rate(num, success * (1 - success) ** (num - 1)), success)


def rate_of_all(num_proposals: np.ndarray, probs: np.ndarray) -> float:
    """The right rate: one acceptance for the mean number of proposals."""
    return float(1.0 / (probs @ num_proposals))
