"""E[log Z_hat] of two particles, exactly: of sequential Monte Carlo, which lies below log Z, and of conditional SMC, which lies above.

A run is a law over pairs of weighted contexts. log Z_hat is a sum over steps, so that its expectation is carried along each pair and runs that
stand at one pair are merged. Resampling is multinomial; in the conditional run slot 0 follows the reference and slot 1 draws its
ancestor from the weights. E[log Z_hat] <= log Z is Jensen's inequality; above lies the same inequality in the law of the conditional
run, in which 1 / Z_hat has expectation 1 / Z, if the reference is drawn from the target.
"""

import itertools
import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from theory.exact.importance_moments import check_support
from theory.exact.laws import Law, base_law, check_alpha, check_same_layers
from theory.exact.layers import ENDS
from theory.exact.semiring import scaled

_DIGITS = 12  # to which relative log weights of one pair agree, however it was reached


class _Pair(NamedTuple):
    """Contexts (rows of the layer, or ENDS) of two particles and their log weights, relative to the mean weight."""

    rows: tuple[int, int]
    log_weights: tuple[float, float]


class _Runs(NamedTuple):
    """Probability of standing at a pair, and that times the mean of log Z_hat so far."""

    probability: float
    log_evidence: float


_Law = dict[_Pair, _Runs]


def expected_log_evidence(alpha: float, proposal: Law, resample_after: Collection[int]) -> float:
    """E[log Z_hat] of SMC with two particles.

    Args:
        alpha: target exponent, above 0.
        proposal: q, with full support.
        resample_after: numbers of tokens after which to resample; may be empty.

    Returns:
        Natural log, at most log Z.

    Raises:
        InvalidInput: alpha not above 0, or q lacks a token that the model has.
    """
    return _run(alpha, proposal, proposal, resample_after, _either)


def expected_conditional_log_evidence(
    alpha: float, proposal: Law, reference: Law, resample_after: Collection[int]
) -> float:
    """E[log Z_hat] of conditional SMC with the reference and one more particle.

    Args:
        alpha: target exponent, above 0.
        proposal: q, with full support.
        reference: what the reference is drawn from, over the same layers.
        resample_after: numbers of tokens after which to resample; may be empty.

    Returns:
        Natural log; at least log Z if the reference is drawn from the power law, and not in general.

    Raises:
        InvalidInput: alpha not above 0, q lacks a token that the model has, or the laws live on different layers.
    """
    return _run(alpha, proposal, reference, resample_after, _second)


def _run(
    alpha: float,
    proposal: Law,
    first: Law,
    resample_after: Collection[int],
    parents: Callable[[float], list[tuple[float, tuple[int, int]]]],
) -> float:
    check_alpha(alpha)
    check_same_layers(proposal, first)
    check_support(base_law(proposal.layers), proposal)
    law: _Law = {_Pair((0, 0), (0.0, 0.0)): _Runs(1.0, 0.0)}
    for depth in range(len(proposal.layers)):
        law = _moved(law, alpha, depth, proposal, first)
        if depth + 1 in resample_after:
            law = _resampled(law, parents)
    return math.fsum(runs.log_evidence for runs in law.values())


def _either(share: float) -> list[tuple[float, tuple[int, int]]]:
    """Both slots draw their ancestor; `share` is that of slot 0."""
    odds = (share, 1 - share)
    return [(odds[i] * odds[j], (i, j)) for i in (0, 1) for j in (0, 1)]


def _second(share: float) -> list[tuple[float, tuple[int, int]]]:
    """Slot 0 keeps its own."""
    return [(share, (0, 0)), (1 - share, (0, 1))]


def _moved(law: _Law, alpha: float, depth: int, proposal: Law, first: Law) -> _Law:
    layer = proposal.layers[depth]
    log_p, log_q = layer.log_probs, proposal.log_conditional(depth)
    possible = np.isfinite(log_p)
    gains = scaled(alpha, log_p) - np.where(possible, log_q, 0.0)
    drawn = (np.exp(first.log_conditional(depth)), np.exp(log_q))

    def children(slot: int, row: int) -> list[tuple[float, int, float]]:
        if row == ENDS:
            return [(1.0, ENDS, 0.0)]
        odds, follows, gain = drawn[slot][row], layer.successor[row], gains[row]
        return [
            (float(odds[v]), int(follows[v]), float(gain[v])) for v in np.flatnonzero(possible[row])
        ]

    moved: _Law = {}
    for pair, runs in law.items():
        both = [children(slot, row) for slot, row in enumerate(pair.rows)]
        for (p, row, gain), (p1, row1, gain1) in itertools.product(*both):
            weights = pair.log_weights[0] + gain, pair.log_weights[1] + gain1
            log_mean = float(np.logaddexp(*weights)) - math.log(2)
            relative = (
                round(weights[0] - log_mean, _DIGITS),
                round(weights[1] - log_mean, _DIGITS),
            )
            _add(moved, _Pair((row, row1), relative), runs, p * p1, log_mean)
    return moved


def _resampled(law: _Law, parents: Callable[[float], list[tuple[float, tuple[int, int]]]]) -> _Law:
    resampled: _Law = {}
    for pair, runs in law.items():
        for odds, (i, j) in parents(math.exp(pair.log_weights[0]) / 2):
            _add(resampled, _Pair((pair.rows[i], pair.rows[j]), (0.0, 0.0)), runs, odds, 0.0)
    return resampled


def _add(law: _Law, pair: _Pair, runs: _Runs, odds: float, log_gain: float) -> None:
    """Let runs arrive at a pair with these odds and this gain of log Z_hat."""
    probability = odds * runs.probability
    log_evidence = odds * runs.log_evidence + probability * log_gain
    there = law.get(pair, _Runs(0.0, 0.0))
    law[pair] = _Runs(there.probability + probability, there.log_evidence + log_evidence)
