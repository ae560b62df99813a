"""Moments, lengths and marginals of a law over sequences, without enumeration.

For a cost c(x, v) of each token, the total C(y) = sum_t c(y_<t, y_t) has under a law q, with d = c(x,v) + m(xv) - m(x), the mean,
variance and third central moment of

    m(x) = sum_v q(v|x) [c(x,v) + m(xv)],    s(x) = sum_v q(v|x) [s(xv) + d^2],    k(x) = sum_v q(v|x) [k(xv) + 3 s(xv) d + d^3]

(the laws of total variance and cumulance). Every term of the variance is non-negative, so nothing cancels there.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.exact.laws import Law
from theory.exact.layers import Layer, continuation
from theory.exact.semiring import PerDepth


class Moments(NamedTuple):
    """Mean, variance and third central moment of a total over the tokens of a sequence."""

    mean: float
    variance: float
    third: float


def moments(law: Law, token_cost: PerDepth) -> Moments:
    """Exact moments of sum_t c(y_<t, y_t).

    Args:
        law: of the sequences.
        token_cost: depth -> [n, V]; never read where the law's probability is 0 (it may be infinite there).

    Returns:
        The moments.
    """
    mean = variance = third = None
    for depth in reversed(range(len(law.layers))):
        layer = law.layers[depth]
        probs = np.exp(law.log_conditional(depth))
        total = np.where(probs > 0, token_cost(depth), 0.0) + continuation(layer, mean, 0.0)
        expected = (probs * total).sum(axis=1)
        gap = total - expected[:, None]
        ahead = continuation(layer, variance, 0.0)
        cubes = continuation(layer, third, 0.0) + 3 * ahead * gap + gap**3
        third = (probs * cubes).sum(axis=1)
        variance = (probs * (ahead + gap * gap)).sum(axis=1)
        mean = expected
    assert mean is not None and variance is not None and third is not None
    return Moments(float(mean[0]), float(variance[0]), float(third[0]))


def base_log_prob_moments(law: Law) -> Moments:
    """Moments of log p(y), the base model's log probability, under a law.

    Args:
        law: of the sequences.

    Returns:
        E[log p], Var[log p] and the third central moment, natural log.
    """
    return moments(law, lambda depth: law.layers[depth].log_probs)


def expected_length(law: Law) -> float:
    """Mean number of tokens, eos included.

    Args:
        law: of the sequences.

    Returns:
        E[length], tokens.
    """
    return moments(law, lambda depth: np.ones(law.layers[depth].log_probs.shape)).mean


def length_law(law: Law) -> Float64[np.ndarray, " T"]:
    """Law of the number of tokens.

    Args:
        law: of the sequences.

    Returns:
        [T] P(length = 1), ..., P(length = T).
    """
    reached = np.append(token_marginals(law).sum(axis=1), 0.0)
    return reached[:-1] - reached[1:]


def token_marginals(law: Law) -> Float64[np.ndarray, "T V"]:
    """Probability of each token at each position.

    Args:
        law: of the sequences.

    Returns:
        [T, V] P(length >= t and y_t = v); row t sums to P(length >= t).
    """
    rows: list[np.ndarray] = []
    occupancy = np.ones(1)
    for depth, layer in enumerate(law.layers):
        joint = occupancy[:, None] * np.exp(law.log_conditional(depth))
        rows.append(joint.sum(axis=0))
        if depth + 1 < len(law.layers):
            occupancy = _push(layer, joint, law.layers[depth + 1].contexts.size)
    return np.stack(rows)


def _push(layer: Layer, joint: np.ndarray, num_following: int) -> np.ndarray:
    """Mass of each context of the next layer; ended mass is dropped."""
    goes_on = layer.successor >= 0
    return np.bincount(layer.successor[goes_on], joint[goes_on], minlength=num_following)
