"""What self-normalisation costs: the limit of N times the bias of sequential Monte Carlo's estimate of E_pi f.

At the end of a run of N particles E_pi f is estimated by the ratio R = Z_hat(f) / Z_hat(1) of two unbiased estimates, Z_hat(g) of
sum_y p(y)^alpha g(y). Expanded about their means, with Z = Z_hat(1)'s,

    E[R] - E_pi f = -Cov(Z_hat(f - E_pi f) / Z, Z_hat(1) / Z) + O(1 / N^2),

and the covariance is a sum over the epochs between resamplings, each of which draws N particles anew. Let an epoch begin after s tokens
and end after t, and mu(x) = pi_s(x_<=s) q(x_>s | x_<=s) be the law that it draws prefixes x of t tokens from, pi_s = p^alpha / Z_s
over prefixes of s tokens (an ended sequence stays, with its mass). Under multinomial resampling

    N (E[R] - E_pi f) -> - sum_epochs sum_{x of t tokens} pi_T(x)^2 / mu(x) (E_pi[f | x] - E_pi f),

pi_T(x) = p(x)^alpha zeta(x) / Z the target's marginal. One epoch, which is all without resampling, gives the delta method of importance
sampling. For a total f(y) = sum_t c(y_<t, y_t) over tokens everything is a sum over contexts, linear in the horizon.

Source: the expansion of Del Moral, "Feynman-Kac Formulae" (2004), section 9.4 (section number second-hand), with the asymptotic
variance of Chopin & Papaspiliopoulos, "An Introduction to Sequential Monte Carlo" (2020), ch. 11; derived here for this path.
"""

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.exact.importance_moments import check_support
from theory.exact.laws import Law, base_law, check_alpha, power_law
from theory.exact.layers import Layer, continuation
from theory.exact.semiring import PerDepth, log_total, scaled


def smc_bias_terms(
    alpha: float, proposal: Law, token_cost: PerDepth, resample_after: Collection[int]
) -> Float64[np.ndarray, " E"]:
    """Terms of the limit of N (E[R] - E_pi f), for the filter of `plain_filter` with multinomial resampling.

    The row drawn at the end in proportion to the weights has E f = E[R], so this is its bias too.

    Args:
        alpha: target exponent, above 0.
        proposal: q, with full support.
        token_cost: depth -> [n, V] c, of which f is the total; not read where the model's probability is 0.
        resample_after: numbers of tokens, from 1, after which to resample; may be empty. After the last it does not matter.

    Returns:
        [E] one term an epoch, of either sign, in the unit of f; E is 1 without resampling.

    Raises:
        InvalidInput: alpha not above 0, a step that the model does not have, or q lacks a token that the model has.
    """
    check_alpha(alpha)
    layers = proposal.layers
    check_support(base_law(layers), proposal)
    horizon = len(layers)
    if any(not 1 <= step <= horizon for step in resample_after):
        raise InvalidInput(
            f"resample_after {sorted(resample_after)}: steps must be from 1 to {horizon}"
        )
    power = power_law(layers, alpha)
    lookahead = [*power.log_lookahead, np.zeros(0)]
    rest = _expected_rest(power.law, token_cost)
    begun = [_Mass(np.array([0.0, -np.inf]), np.zeros(2))]
    for depth, layer in enumerate(layers):
        log_weights = scaled(alpha, layer.log_probs)
        begun.append(_advance(layer, begun[-1], log_weights, token_cost(depth)))
    terms: list[float] = []
    for begin, end in pairwise(sorted({0, *resample_after, horizon})):
        # p(x)^(2 alpha) / (p(x_<=s)^alpha q(x_>s | x_<=s)), summed by context.
        mass = begun[begin]
        for depth in range(begin, end):
            log_p = layers[depth].log_probs
            log_q = np.where(np.isneginf(log_p), 0.0, proposal.log_conditional(depth))
            log_weights = scaled(2 * alpha, log_p) - log_q
            mass = _advance(layers[depth], mass, log_weights, token_cost(depth))
        # An ended sequence has nothing to come.
        log_square = mass.log_mass + 2 * (np.append(lookahead[end], 0.0) - power.log_Z)
        gap = mass.mean_cost + np.append(rest[end], 0.0) - rest[0][0]
        with np.errstate(over="ignore"):
            square = np.exp(log_square + log_total(begun[begin].log_mass))
        terms.append(-float(square @ gap))
    return np.array(terms)


class _Mass(NamedTuple):
    """Weights of all prefixes of one length, by context: [n + 1], the last place that of ended sequences.

    Attributes:
        log_mass: log of the sum of weights.
        mean_cost: weighted mean of the cost so far; 0 where there is no mass.
    """

    log_mass: np.ndarray
    mean_cost: np.ndarray


def _advance(layer: Layer, mass: _Mass, log_weights: np.ndarray, cost: np.ndarray) -> _Mass:
    """One token more for each prefix that has not ended."""
    num_following = int(layer.successor.max()) + 1
    joint = mass.log_mass[:-1, None] + log_weights
    costs = mass.mean_cost[:-1, None] + np.where(np.isneginf(joint), 0.0, cost)
    log_mass = np.append(joint.ravel(), mass.log_mass[-1])
    costs = np.append(costs.ravel(), mass.mean_cost[-1])
    place = np.append(np.where(layer.successor < 0, num_following, layer.successor), num_following)
    # Log-sum-exp by context: one far below the peak of its depth may yet dominate through its look-ahead.
    peaks = np.full(num_following + 1, -np.inf)
    np.maximum.at(peaks, place, log_mass)
    shift = np.where(np.isneginf(peaks), 0.0, peaks)
    share = np.exp(log_mass - shift[place])
    total = np.bincount(place, share, minlength=peaks.size)
    total_cost = np.bincount(place, share * costs, minlength=peaks.size)
    with np.errstate(divide="ignore"):
        return _Mass(shift + np.log(total), total_cost / np.where(total > 0, total, 1.0))


def _expected_rest(law: Law, token_cost: PerDepth) -> list[np.ndarray]:
    """Expected cost of what is to come after each prefix, per depth; after the last token there is no context left."""
    rest = [np.zeros(0)]
    for depth in reversed(range(len(law.layers))):
        probs = np.exp(law.log_conditional(depth))
        ahead = continuation(law.layers[depth], rest[-1], 0.0)
        rest.append((probs * (np.where(probs > 0, token_cost(depth), 0.0) + ahead)).sum(axis=1))
    return rest[::-1]
