"""What resampling costs or saves: the limit of N Var(Z_hat / Z) of sequential Monte Carlo on the power path.

The intermediate targets are gamma_t(x) = p(x)^alpha over prefixes of t tokens (an ended sequence stays, with its mass), the
proposal is token temperature 1/beta. With pi_t = gamma_t / Z_t and zeta the look-ahead normaliser, multinomial resampling
after every step gives

    N Var(Z_hat / Z) -> sum_t [ sum_{x of t tokens} pi_T(x)^2 / (pi_{t-1}(x_<t) q(x_t | x_<t)) - 1 ],

and the fully adapted filter (reweight, resample, then propose; beta = alpha)

    N Var(Z_hat / Z) -> sum_t [ sum_{x of t tokens} pi_T(x)^2 / pi_t(x) - 1 ],

where pi_T(x) = p(x)^alpha zeta(x) / Z is the final law's marginal. Both are sums over contexts, linear in the horizon.

Source: Chopin & Papaspiliopoulos, "An Introduction to Sequential Monte Carlo" (2020), ch. 11, and Del Moral's
central limit theorem, written for this path.
"""

import numpy as np
from jaxtyping import Float64

from theory.exact.laws import PowerLaw, check_alpha, power_law, temperature_law
from theory.exact.layers import Layers
from theory.exact.semiring import log_total, scaled


def every_step_variance_terms(
    layers: Layers, alpha: float, proposal_alpha: float
) -> Float64[np.ndarray, " T"]:
    """Terms of the limit of N Var(Z_hat / Z), resampling (multinomial) after every step.

    Args:
        layers: of the model.
        alpha: target exponent, above 0.
        proposal_alpha: beta; the proposal is token temperature 1/beta.

    Returns:
        [T] one term per step, each at least 0 up to rounding; inf above the double range.
    """
    check_alpha(alpha)
    power = power_law(layers, alpha)
    proposal = temperature_law(layers, proposal_alpha)
    alive, ended = _log_prefix_masses(layers, alpha)
    terms: list[float] = []
    for depth in range(len(layers)):
        log_mass = np.logaddexp(log_total(alive[depth]), ended[depth])
        target = power.law.log_conditional(depth) + power.log_lookahead[depth][:, None]
        # pi_T(x)^2 / (pi_{t-1} q), up to the factor Z_{t-1} / Z^2
        square = scaled(2.0, target)
        log_q = np.where(np.isneginf(target), 0.0, proposal.log_conditional(depth))
        moving = log_total(alive[depth][:, None] + square - log_q)
        terms.append(np.logaddexp(moving, ended[depth]) + log_mass - 2 * power.log_Z)
    with np.errstate(over="ignore"):
        return np.expm1(np.array(terms))


def adapted_variance_terms(layers: Layers, alpha: float) -> Float64[np.ndarray, " T"]:
    """Terms of the limit of N Var(Z_hat / Z) for the fully adapted filter, resampling at every step.

    Args:
        layers: of the model.
        alpha: target exponent, above 0.

    Returns:
        [T] one term per step, each at least 0 up to rounding; the last is 0 (nothing is left to look ahead to).
    """
    check_alpha(alpha)
    power: PowerLaw = power_law(layers, alpha)
    alive, ended = _log_prefix_masses(layers, alpha)
    terms: list[float] = []
    for depth in range(1, len(layers)):
        log_mass = np.logaddexp(log_total(alive[depth]), ended[depth])
        square = alive[depth] + 2 * power.log_lookahead[depth]
        moving = log_total(square)
        terms.append(np.logaddexp(moving, ended[depth]) + log_mass - 2 * power.log_Z)
    with np.errstate(over="ignore"):
        return np.expm1(np.array([*terms, 0.0]))


def _log_prefix_masses(layers: Layers, alpha: float) -> tuple[list[np.ndarray], list[float]]:
    """Log of sum p(x)^alpha over live prefixes in each context, per depth, and over ended sequences."""
    alive = [np.zeros(1)]
    ended = [-np.inf]
    for depth, layer in enumerate(layers[:-1]):
        joint = alive[-1][:, None] + scaled(alpha, layer.log_probs)
        stops = layer.successor < 0
        # Log-sum-exp by context: one far below the peak of its depth may yet dominate through its look-ahead.
        target, values = layer.successor[~stops], joint[~stops]
        peaks = np.full(layers[depth + 1].contexts.size, -np.inf)
        np.maximum.at(peaks, target, values)
        shift = np.where(np.isneginf(peaks), 0.0, peaks)
        sums = np.bincount(target, np.exp(values - shift[target]), minlength=peaks.size)
        with np.errstate(divide="ignore"):
            alive.append(shift + np.log(sums))
        gone = log_total(np.where(stops, joint, -np.inf))
        ended.append(float(np.logaddexp(ended[-1], gone)))
    return alive, ended
