"""Coupled chains and their meeting times: damage is read off the exact law of a pair that starts three moves apart."""

from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from models.tabular.toys import toy_e
from tests.planted_bugs.defect import relative_error
from theory.exact import coupled as couplings
from theory.exact import (
    coupled_transition,
    laws_after,
    laws_apart,
    proposal_law,
    sequence_space,
    suffix_transition,
    target_law,
    with_horizon,
)
from theory.mcmc import uniform_cut

ALPHA = 2.0
SPACE = sequence_space(with_horizon(toy_e(), 3), ALPHA)
LENGTHS = SPACE.records.lengths.astype(float)


class Pair(NamedTuple):
    """Laws of the chain ahead after t moves, and of the pair [s, x, y] while apart, s moves after the lag."""

    laws: np.ndarray
    apart: np.ndarray


@cache
def pair(lag: int, num_steps: int) -> Pair:
    """From the proposal."""
    matrix = suffix_transition(SPACE, ALPHA, uniform_cut()).matrix
    laws = laws_after(matrix, proposal_law(SPACE), num_steps)
    joint = coupled_transition(SPACE, ALPHA, uniform_cut())
    start = np.outer(laws[lag], proposal_law(SPACE))
    return Pair(laws, laws_apart(joint, start, num_steps - lag))


def of_correction(weigh: Any) -> float:
    """Relative bias of the estimate of the mean length from times 0 and 1, lag 3."""
    laws, apart = pair(3, 120)
    differences = apart.sum(axis=2) @ LENGTHS - apart.sum(axis=1) @ LENGTHS
    weights = weigh(np.arange(3, 121), 3, 0, 1)
    estimate = ((laws[:2] @ LENGTHS).sum() + weights @ differences) / 2
    return relative_error(float(estimate), float(target_law(SPACE, ALPHA) @ LENGTHS))


def of_joint_verdicts(jointly_accepted: Any) -> float:
    """Probability that two chains which have met part in the next move, under the target."""
    with mock.patch.object(couplings, "jointly_accepted", jointly_accepted):
        joint = coupled_transition(SPACE, ALPHA, uniform_cut())
    together = np.arange(len(LENGTHS))
    stays = joint[together, together][:, together, together].sum(axis=1)
    return float(target_law(SPACE, ALPHA) @ (1 - stays))


def of_bound(estimates: Any) -> float:
    """Relative bias of the bound on the distance at the start, with lag 20: it is the sum of P(tau > 20 j)."""
    lag, num_steps = 20, 400
    tail = np.concatenate([np.ones(lag), pair(lag, num_steps).apart.sum(axis=(1, 2))])
    meets = tail[lag - 1 : -1] - tail[lag:]
    found = np.asarray(estimates(np.arange(lag, len(tail)), lag, 0))[:, 0]
    return relative_error(float(meets @ found), float(tail[lag::lag].sum()))
