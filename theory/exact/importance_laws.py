"""Exact laws behind importance sampling at a finite number of draws: log Z_hat, and the row drawn by weight.

Both need 1/s or log s of the total weight s = sum_i W(y_i), and both follow from one identity: with X standard exponential and
independent of the draws, T = X / s has the survival function P(T > t) = E e^(-ts) = phi(t)^n, in which the draws are independent.

    log s   = log X - log T,                                  E log X = -gamma, Var log X = pi^2 / 6
    P(row = y) = E[ n_y W(y) / s ] = n q(y) W(y) int e^(-tW(y)) phi(t)^(n-1) dt

by the trapezoid rule in log t of `theory.exact.importance_moments`. Derived here.
"""

import math

import numpy as np
from jaxtyping import Float64

from theory.exact.importance_moments import MeanVariance, WeightedDraw, decay_nodes


def log_evidence_moments(draw: WeightedDraw, num_draws: int) -> MeanVariance:
    """Moments of log Z_hat - log Z for Z_hat = (1/n) sum_i w(y_i): the mean is its bias, below 0 by Jensen.

    The variance is a difference from pi^2 / 6: its absolute error is some 1e-12.

    Args:
        draw: of the proposal.
        num_draws: n, at least 1.

    Returns:
        Nats and nats squared.

    Raises:
        InvalidInput: n below 1, or a sequence has weight 0 (log Z_hat may be -inf).
    """
    places: list[float] = []
    masses: list[float] = []
    for node in decay_nodes(draw, num_draws):
        density = num_draws * float(node.decay @ node.scaled_weights)
        places.append(node.log_t)
        masses.append(node.width * density * math.exp((num_draws - 1) * node.log_phi))
    mean = float(np.dot(places, masses))
    variance = float(np.dot((np.array(places) - mean) ** 2, masses))
    return MeanVariance(
        -float(np.euler_gamma) - mean - math.log(num_draws), max(0.0, variance - math.pi**2 / 6)
    )


def resampled_law(draw: WeightedDraw, num_draws: int) -> Float64[np.ndarray, " M"]:
    """Law of one row drawn in proportion to the weights of n draws: the proposal at n = 1, the target as n grows.

    Args:
        draw: of the proposal.
        num_draws: n, at least 1.

    Returns:
        [M] probabilities, in the order of the draw.

    Raises:
        InvalidInput: n below 1, or a sequence has weight 0.
    """
    law = np.zeros(draw.log_probs.size)
    for node in decay_nodes(draw, num_draws):
        factor = node.width * num_draws * math.exp((num_draws - 1) * node.log_phi)
        law += factor * node.decay * node.scaled_weights
    return law
