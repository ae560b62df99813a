"""Which method survives long sequences: relative variance against length, and where the curves cross.

All methods estimate Z_alpha with N rollouts; what is compared is v = lim N Var(Z_hat / Z), reported as log(1 + v). For importance
sampling from a proposal q it equals D_2(power || q) exactly, at every N; minus it is the log ESS fraction. For SMC it is the
limit of large N (`theory.exact.smc_variance`).
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from theory.exact.context_table import ContextTable, with_horizon
from theory.exact.divergences import renyi_divergence
from theory.exact.laws import power_law, temperature_law
from theory.exact.layers import Layer, Layers, unroll
from theory.exact.proposals import BestProposal, minimise_over_proposals
from theory.exact.semiring import by_layer, log_backward, log_sum_exp, scaled
from theory.exact.smc_variance import adapted_variance_terms, every_step_variance_terms

# Differences of log(1 + variance) below this are rounding.
_TIE = 1e-12


class VarianceAtLength(NamedTuple):
    """log(1 + lim N Var(Z_hat / Z)) of one method at one length.

    Attributes:
        method: one of METHODS.
        length: horizon, tokens.
        proposal_alpha: exponent of the temperature proposal.
        log_one_plus_variance: natural log.
    """

    method: str
    length: int
    proposal_alpha: float
    log_one_plus_variance: float


def best_proposal(layers: Layers, alpha: float) -> BestProposal:
    """The exponent beta that minimises D_2(power || token temperature 1/beta) for these layers.

    Args:
        layers: of the model.
        alpha: target exponent, above 0.

    Returns:
        beta in (0, 4 max(alpha, 1)) and its D_2 in nats.
    """
    log_Z = power_law(layers, alpha).log_Z
    return minimise_over_proposals(
        lambda beta: log_second_moment(layers, alpha, beta) - 2 * log_Z, alpha
    )


def log_second_moment(layers: Layers, alpha: float, proposal_alpha: float) -> float:
    """Log of E_q[w^2] for unnormalised weights w = p^alpha / q: sum over sequences of p^(2 alpha - beta) prod_t z_beta.

    The weights of tokens do not depend on the depth, so this is the fastest way to D_2 = log E_q[w^2] - 2 log Z_alpha.

    Args:
        layers: of the model.
        alpha: target exponent, above 0.
        proposal_alpha: beta, above 0; the proposal is token temperature 1/beta.

    Returns:
        Natural log.
    """

    def token_log_weights(layer: Layer) -> np.ndarray:
        log_z = log_sum_exp(scaled(proposal_alpha, layer.log_probs))
        return scaled(2 * alpha - proposal_alpha, layer.log_probs) + log_z[:, None]

    return float(log_backward(layers, by_layer(layers, token_log_weights))[0][0])


def variances_at_length(table: ContextTable, alpha: float, length: int) -> list[VarianceAtLength]:
    """Every method's log(1 + lim N Var) at one horizon.

    Args:
        table: a model whose contexts do not run out before `length`.
        alpha: target exponent, above 0.
        length: horizon, tokens.

    Returns:
        One entry per method of METHODS, in that order.
    """
    return [
        VarianceAtLength(name, length, *_METHODS[name](unroll(with_horizon(table, length)), alpha))
        for name in METHODS
    ]


def crossover_length(
    table: ContextTable, alpha: float, first: str, second: str, longest: int
) -> int | None:
    """The length from which on `second` has the smaller variance although `first` had it before.

    Scans doubling lengths and the longest for the last change of order, then bisects: exact if the order changes once between two of them.

    Args:
        table: a model whose contexts do not run out before `longest`.
        alpha: target exponent, above 0.
        first: method that is better at first.
        second: method that is better in the end.
        longest: longest horizon looked at, tokens.

    Returns:
        The smallest such length, or None if `first` never has the smaller variance or `second` never overtakes it up to
        `longest`; lengths at which they tie count for neither.
    """

    @functools.cache
    def lead(length: int) -> float:
        """By how much `second` is better."""
        layers = unroll(with_horizon(table, length))
        return _METHODS[first](layers, alpha)[1] - _METHODS[second](layers, alpha)[1]

    lengths = sorted({*(2**k for k in range(int(math.log2(longest)) + 1)), longest})
    behind = [length for length in lengths if lead(length) < -_TIE]
    if not behind or lead(lengths[-1]) <= _TIE:
        return None
    low, high = behind[-1], next(n for n in lengths if n > behind[-1] and lead(n) > _TIE)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if lead(middle) > _TIE else (middle, high)
    return high


def _importance(layers: Layers, alpha: float, proposal_alpha: float) -> tuple[float, float]:
    target = power_law(layers, alpha).law
    proposal = temperature_law(layers, proposal_alpha)
    return proposal_alpha, renyi_divergence(target, proposal, 2.0)


def _importance_best(layers: Layers, alpha: float) -> tuple[float, float]:
    found = best_proposal(layers, alpha)
    return found.proposal_alpha, found.value


def _sequential(terms: Sequence[float] | np.ndarray) -> float:
    return math.log1p(max(0.0, float(np.sum(terms))))


_METHODS: dict[str, Callable[[Layers, float], tuple[float, float]]] = {
    "importance_base": lambda layers, alpha: _importance(layers, alpha, 1.0),
    "importance_temperature": lambda layers, alpha: _importance(layers, alpha, alpha),
    "importance_best": _importance_best,
    "smc": lambda layers, alpha: (
        alpha,
        _sequential(every_step_variance_terms(layers, alpha, alpha)),
    ),
    "smc_adapted": lambda layers, alpha: (
        alpha,
        _sequential(adapted_variance_terms(layers, alpha)),
    ),
}

METHODS = tuple(_METHODS)
