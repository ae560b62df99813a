"""How far two laws over the same sequences are apart, without enumeration wherever that can be done.

Both laws are products of conditionals, so every divergence of the form sum_y pi(y)^r q(y)^(1-r) is one backward pass:

    D_r(pi || q) = log [ sum_y pi(y)^r q(y)^(1-r) ] / (r - 1).

Importance sampling of pi from q rests on two of them: the effective-sample-size fraction 1 / E_q[w^2] = exp(-D_2) and the largest
normalised weight max pi/q = exp(D_inf), with w = pi/q.
"""

import math
from typing import NamedTuple

import numpy as np

from theory.errors import InvalidInput
from theory.exact.functionals import token_marginals
from theory.exact.laws import Law, check_same_layers
from theory.exact.layers import continuation
from theory.exact.semiring import log_backward, max_backward, scaled

# e^d (d - 1) + 1 = d^2 sum_{n >= 2} (n - 1) / n! d^(n - 2); ten terms leave nothing at |d| < 0.05.
_KL_SERIES = [(n - 1) / math.factorial(n) for n in range(11, 1, -1)]

# What a sum of logarithms along a sequence may be off by, allowed for in bounds that must hold.
_ROUNDING_PER_TOKEN = 1e-14


class Bounds(NamedTuple):
    """An interval that provably holds the value."""

    lower: float
    upper: float


def kl_divergence(p: Law, q: Law) -> float:
    """KL(p || q) = E_p[log p - log q] over whole sequences, by the chain rule.

    Each conditional term is summed as q (e^d (d - 1) + 1) with d = log p - log q, which is non-negative token by token: a
    divergence of 1e-12 keeps its digits.

    Args:
        p: first law.
        q: second law, over the same layers.

    Returns:
        Nats; inf where p has a sequence that q lacks.

    Raises:
        InvalidInput: the laws live on different layers.
    """
    check_same_layers(p, q)
    value: np.ndarray | None = None
    for depth in reversed(range(len(p.layers))):
        log_p, log_q = p.log_conditional(depth), q.log_conditional(depth)
        ahead = np.exp(log_p) * continuation(p.layers[depth], value, 0.0)
        value = (_kl_terms(log_p, log_q) + np.where(np.isneginf(log_p), 0.0, ahead)).sum(axis=1)
    assert value is not None
    return float(value[0])


def renyi_divergence(p: Law, q: Law, order: float) -> float:
    """Renyi divergence D_r(p || q) over whole sequences.

    Args:
        p: first law.
        q: second law, over the same layers (InvalidInput otherwise).
        order: r > 0; 1 is the Kullback-Leibler divergence, inf the log of the largest ratio.

    Returns:
        Nats, non-negative.

    Raises:
        InvalidInput: order not above 0.
    """
    check_same_layers(p, q)
    if not order > 0:
        raise InvalidInput(f"order {order}: must be above 0")
    if order == 1:
        return kl_divergence(p, q)
    if order == math.inf:
        return log_max_ratio(p, q)

    def token_log_weights(depth: int) -> np.ndarray:
        log_p, log_q = p.log_conditional(depth), q.log_conditional(depth)
        both = scaled(order, log_p) + (1 - order) * np.where(np.isneginf(log_p), 0.0, log_q)
        return np.where(np.isneginf(log_p), -np.inf, both)

    log_sum = float(log_backward(p.layers, token_log_weights)[0][0])
    return max(0.0, log_sum / (order - 1))


def log_max_ratio(p: Law, q: Law) -> float:
    """Log max_y p(y) / q(y): the largest normalised importance weight of p from q.

    Args:
        p: target.
        q: proposal, over the same layers.

    Returns:
        Nats, non-negative.
    """
    check_same_layers(p, q)

    def token_log_weights(depth: int) -> np.ndarray:
        log_p, log_q = p.log_conditional(depth), q.log_conditional(depth)
        return np.where(np.isneginf(log_p), -np.inf, log_p - np.where(np.isneginf(log_p), 0, log_q))

    return max(0.0, float(max_backward(p.layers, token_log_weights)[0][0]))


def log_ess_fraction(target: Law, proposal: Law) -> float:
    """Log of the effective-sample-size fraction of importance sampling, log(1 / E_q[w^2]) = -D_2.

    Args:
        target: pi.
        proposal: q, over the same layers.

    Returns:
        Natural log, at most 0.
    """
    return -renyi_divergence(target, proposal, 2.0)


def chi_square(p: Law, q: Law) -> float:
    """chi^2(p || q) = E_q[(p/q)^2] - 1 = exp(D_2) - 1: N times the relative variance of importance sampling.

    Args:
        p: target.
        q: proposal, over the same layers.

    Returns:
        The divergence; inf above the double range (then use the Renyi divergence of order 2).
    """
    exponent = renyi_divergence(p, q, 2.0)
    return math.expm1(exponent) if exponent < 709.0 else math.inf


def total_variation_bounds(p: Law, q: Law) -> Bounds:
    """Bounds on TV(p, q) = sum_y |p - q| / 2 that need no enumeration.

    With the Bhattacharyya coefficient b = sum_y sqrt(p q) (Renyi order 1/2, exact here): 1 - b <= TV <= sqrt(1 - b^2)
    (Le Cam). The lower bound is raised by the variation of the token marginals at each position, which any
    coarsening bounds from below; the upper bound is lowered by Pinsker's sqrt(KL / 2) and by Bretagnolle-Huber's
    sqrt(1 - exp(-KL)), in both directions.

    Args:
        p: first law.
        q: second law, over the same layers.

    Returns:
        Lower and upper bound in [0, 1].
    """
    rounding = _ROUNDING_PER_TOKEN * len(p.layers)
    half = renyi_divergence(p, q, 0.5)  # b = exp(-half / 2)
    marginal = 0.5 * float(_marginal_gap(p, q).max()) - rounding
    upper = [math.sqrt(-math.expm1(-(half + rounding)))]
    for kl in (kl_divergence(p, q), kl_divergence(q, p)):
        upper += [math.sqrt(kl / 2), math.sqrt(-math.expm1(-kl))]
    lower = min(1.0, max(0.0, -math.expm1(-max(0.0, half - rounding) / 2), marginal))
    return Bounds(lower, max(lower, min(1.0, *upper)))


def _marginal_gap(p: Law, q: Law) -> np.ndarray:
    """Absolute difference of the laws of y_t, for each t, an ended sequence counted as one more symbol."""
    gap = token_marginals(p) - token_marginals(q)
    return np.abs(gap).sum(axis=1) + np.abs(gap.sum(axis=1))


def _kl_terms(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """Token-wise terms of KL whose sum over a normalised row is the divergence and which are each non-negative."""
    impossible = np.isneginf(log_p)
    gap = np.where(impossible, 0.0, log_p - np.where(np.isneginf(log_q) & impossible, 0.0, log_q))
    with np.errstate(over="ignore", invalid="ignore"):
        series = gap * gap * np.polyval(_KL_SERIES, gap)
        closed = np.exp(gap) * (gap - 1) + 1
        terms = np.where(np.abs(gap) < 0.05, series, closed) * np.exp(log_q)
        # q e^d overflows or q underflows when d is large: there p (d - 1) + q has the same value.
        direct = np.exp(log_p) * (gap - 1) + np.exp(log_q)
    terms = np.where(np.abs(gap) > 30, direct, terms)
    return np.where(impossible, np.exp(log_q), terms)
