"""What resampling costs or saves at a finite number of particles: Var(Z_hat) of sequential Monte Carlo, exactly.

Two distinct slots of a population choose their parents independently, so multinomial resampling gives them one parent
with probability 1/N (the same slot, drawn twice) and else two independent ones. With gamma_t^N the weighted population of
step t times the evidence so far, the pair measure P_t(x, y) = E[gamma_t^N(x) gamma_t^N(y)] then obeys a recursion forward in t.

Z_hat - Z is a sum of martingale increments whose conditional variances are linear in P_t. With zeta the look-ahead normaliser,
K = p^alpha zeta' / zeta the power law's next-token law, q the proposal, and P scaled by zeta zeta / Z^2 (so that its total is
1 at t = 0),

    P_t(xv, yu) = (1 - 1/N) P_{t-1}(x, y) K(v|x) K(u|y)   +   1/N [xv = yu] sum_y' P_{t-1}(x, y') e^D K(v|x)^2 / q(v|x),
    Var(Z_hat / Z) = 1/N sum_{t=0}^{T-1} sum_{x, y} P_t(x, y) [ e^D chi^2(K(.|x) || q(.|x)) + 2 sinh^2(D / 2) ],
    D = log m(x) - log m(y).

Plain filter (propose, weigh, resample after every step): m = zeta. Twisted by psi: m = zeta / psi. Fully adapted filter (weigh
by z, resample, propose): m = zeta / z. Every term is non-negative: nothing cancels. x and y range over contexts, so the
sum is linear in the horizon.

Source: the pair recursion is Cérou, Del Moral & Guyader, "A nonasymptotic theorem for unnormalized Feynman-Kac particle
models", Annales de l'IHP B 47 (2011) (cited from memory); the form without cancellation is derived here. Its limit as N grows is
`theory.exact.smc_variance`.
"""

from collections.abc import Callable

import numpy as np

from theory.errors import InvalidInput
from theory.exact.importance_moments import check_support
from theory.exact.laws import Law, PowerLaw, power_law, temperature_law, token_log_normalisers
from theory.exact.layers import Layer, Layers

MAX_CONTEXTS = 4096


def every_step_relative_variance(power: PowerLaw, proposal: Law, num_particles: int) -> float:
    """Var(Z_hat / Z) with multinomial resampling after every step but the last.

    The intermediate targets are p(x)^alpha over prefixes; an ended sequence stays, with its weight.

    Args:
        power: the target.
        proposal: q, over the same layers, with full support; token temperature 1/beta for any beta, or another law.
        num_particles: N, at least 1; at 1 the value is chi^2(pi || q).

    Returns:
        The relative variance, at least 0; inf above the double range.

    Raises:
        InvalidInput: N below 1, q lacks a token that the target has, or more than MAX_CONTEXTS contexts at one depth.
    """
    return _relative_variance(power, proposal, num_particles, lambda t: power.log_lookahead[t])


def twisted_relative_variance(
    power: PowerLaw, proposal: Law, log_twist: Callable[[int], np.ndarray], num_particles: int
) -> float:
    """The same where the intermediate targets are p(x)^alpha psi(x): weights (p^alpha / q) psi(xv) / psi(x).

    Zero where psi = zeta and q is the power law; either alone is not enough.

    Args:
        power: the target.
        proposal: q, over the same layers, with full support.
        log_twist: number of tokens -> [n] log psi of each live context, finite; psi is 1 for ended sequences, and
            psi(empty) is taken out again by the first weight.
        num_particles: N, at least 1.

    Returns:
        The relative variance, at least 0; inf above the double range.

    Raises:
        InvalidInput: as for `every_step_relative_variance`.
    """
    return _relative_variance(
        power, proposal, num_particles, lambda t: power.log_lookahead[t] - log_twist(t)
    )


def adapted_relative_variance(layers: Layers, alpha: float, num_particles: int) -> float:
    """Var(Z_hat / Z) of the fully adapted filter, with multinomial resampling before every step.

    Weigh each particle by z(x) = sum_v p(v | x)^alpha, resample, then draw from token temperature 1/alpha.

    Args:
        layers: of the model.
        alpha: exponent, above 0.
        num_particles: N, at least 1; at 1 the value is chi^2(pi || temperature).

    Returns:
        The relative variance, at least 0; inf above the double range.

    Raises:
        InvalidInput: as for `every_step_relative_variance`, or alpha not above 0.
    """
    power = power_law(layers, alpha)
    log_z = token_log_normalisers(layers, alpha)
    return _relative_variance(
        power,
        temperature_law(layers, alpha),
        num_particles,
        lambda t: power.log_lookahead[t] - log_z(t),
    )


def _relative_variance(
    power: PowerLaw, proposal: Law, num_particles: int, log_m: Callable[[int], np.ndarray]
) -> float:
    """The two formulas of the module; `log_m` gives log m of each live context of a depth."""
    if num_particles < 1:
        raise InvalidInput(f"{num_particles} particles: must be at least 1")
    check_support(power.law, proposal)
    layers = power.law.layers
    _check_sizes(layers)
    pairs = np.zeros((2, 2))  # the last row and column hold all ended sequences
    pairs[0, 0] = 1.0
    total = 0.0
    with np.errstate(over="ignore"):
        for depth, layer in enumerate(layers):
            log_k, log_q = power.law.log_conditional(depth), proposal.log_conditional(depth)
            potentials = np.append(log_m(depth), 0.0)
            gaps = np.where(pairs > 0, potentials[:, None] - potentials[None, :], 0.0)
            parents = (pairs * np.exp(gaps)).sum(axis=1)
            total += parents[:-1] @ _chi_squares(log_k, log_q)
            total += 2 * (pairs * np.sinh(gaps / 2) ** 2).sum()
            moved = _matrix(layer, np.exp(log_k), _num_following(layers, depth))
            squares = np.exp(2 * log_k - np.where(np.isneginf(log_k), 0.0, log_q))
            shared = parents @ _matrix(layer, squares, _num_following(layers, depth))
            pairs = (1 - 1 / num_particles) * (moved.T @ pairs @ moved)
            pairs[np.diag_indices_from(pairs)] += shared / num_particles
    return float(total) / num_particles


def _chi_squares(log_k: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """[n] chi^2(K(.|x) || q(.|x)) = sum_v q (K / q - 1)^2."""
    possible = np.isfinite(log_q)  # elsewhere the support check has seen that K is 0 too
    gaps = np.where(possible, log_k, 0.0) - np.where(possible, log_q, 0.0)
    return (np.exp(log_q) * np.expm1(gaps) ** 2).sum(axis=1)


def _matrix(layer: Layer, weights: np.ndarray, num_following: int) -> np.ndarray:
    """[n + 1, m + 1] token weights summed by where they lead; the last row stays ended with weight 1."""
    num_contexts = layer.contexts.size
    matrix = np.zeros((num_contexts + 1, num_following + 1))
    rows = np.broadcast_to(np.arange(num_contexts)[:, None], weights.shape)
    np.add.at(matrix, (rows, layer.successor), weights)  # ENDS is the last column
    matrix[-1, -1] = 1.0
    return matrix


def _num_following(layers: Layers, depth: int) -> int:
    return layers[depth + 1].contexts.size if depth + 1 < len(layers) else 0


def _check_sizes(layers: Layers) -> None:
    largest = max(layer.contexts.size for layer in layers)
    if largest > MAX_CONTEXTS:
        raise InvalidInput(
            f"{largest} contexts at one depth: more than the {MAX_CONTEXTS} whose pairs are held; lower the horizon "
            f"({len(layers)})"
        )
