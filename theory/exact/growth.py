"""Exponents that rule long sequences.

    log Z_T / T            -> log lambda,                 lambda = radius of p^alpha,
    D_2(pi || q_beta) / T  -> log rho - 2 log lambda,     rho = radius of p^(2 alpha - beta) z_beta,
    KL(pi || q_alpha) / T  -> E log z - log lambda        under the limit chain,

where q_beta is token temperature 1/beta and exp(-D_2) the effective-sample-size fraction of importance sampling from it. The
variance of sequential Monte Carlo grows linearly instead (`smc_growth`).
"""

from typing import NamedTuple

import numpy as np

from theory.exact.context_graph import ContextGraph, log_growth
from theory.exact.laws import check_alpha
from theory.exact.limit_chain import limit_chain
from theory.exact.proposals import BestProposal, minimise_over_proposals
from theory.exact.semiring import log_sum_exp, scaled


class SmcGrowth(NamedTuple):
    """Growth per token of the limit of N Var(Z_hat / Z): multinomial resampling at every step, and fully adapted."""

    every_step: float
    adapted: float


def power_growth(graph: ContextGraph, alpha: float) -> float:
    """Growth per token of log Z_alpha.

    Args:
        graph: of the model.
        alpha: exponent, above 0.

    Returns:
        Nats per token.
    """
    check_alpha(alpha)
    return log_growth(graph, scaled(alpha, graph.log_probs))


def importance_divergence_rate(graph: ContextGraph, alpha: float, proposal_alpha: float) -> float:
    """Growth per token of D_2(power || token temperature 1/beta): the ESS fraction decays as exp(-rate T).

    Args:
        graph: of the model.
        alpha: target exponent, above 0.
        proposal_alpha: beta, above 0 (1 is the base law).

    Returns:
        Nats per token, at least 0.
    """
    check_alpha(proposal_alpha)
    log_z = log_sum_exp(scaled(proposal_alpha, graph.log_probs))
    weights = scaled(2 * alpha - proposal_alpha, graph.log_probs) + log_z[:, None]
    return max(0.0, log_growth(graph, weights) - 2 * power_growth(graph, alpha))


def best_proposal_rate(graph: ContextGraph, alpha: float) -> BestProposal:
    """The proposal exponent with the slowest growth of D_2.

    Args:
        graph: of the model.
        alpha: target exponent, above 0.

    Returns:
        beta in (0, 4 max(alpha, 1)) and its rate in nats per token.
    """
    return minimise_over_proposals(
        lambda beta: importance_divergence_rate(graph, alpha, beta), alpha
    )


def kl_rate(graph: ContextGraph, alpha: float) -> float:
    """Growth per token of KL(power || temperature): E log z - log lambda under the limit chain.

    Args:
        graph: of a model whose sequences never end.
        alpha: exponent, above 0.

    Returns:
        Nats per token, at least 0.

    Raises:
        InvalidInput: as for `limit_chain`.
    """
    chain = limit_chain(graph, alpha)
    rows = np.searchsorted(graph.contexts, chain.contexts)
    log_z = log_sum_exp(scaled(alpha, graph.log_probs[rows]))
    return max(0.0, float(chain.stationary @ log_z) - chain.log_growth)


def smc_growth(graph: ContextGraph, alpha: float) -> SmcGrowth:
    """Growth per token of the limit of N Var(Z_hat / Z) with the temperature proposal.

    In the limit each term of `theory.exact.smc_variance` becomes, with l and h the eigenvectors (l . 1 = l . h = 1),

        every step:  sum_i l(i) z(i) sum_v p(v|i)^alpha h(iv)^2 / lambda^2 - 1,        adapted:  sum_i l(i) h(i)^2 - 1,

    so the variance grows linearly in length where that of importance sampling grows exponentially.

    Args:
        graph: of a model whose sequences never end.
        alpha: exponent, above 0.

    Returns:
        Both slopes, per token.

    Raises:
        InvalidInput: as for `limit_chain`.
    """
    chain = limit_chain(graph, alpha)
    rows = np.searchsorted(graph.contexts, chain.contexts)
    log_weights = scaled(alpha, graph.log_probs[rows])
    log_right = np.full(graph.contexts.size, -np.inf)
    with np.errstate(divide="ignore"):
        log_right[rows] = np.log(chain.right)
    ahead = np.append(log_right, -np.inf)[graph.successor[rows]]
    log_sums = log_sum_exp(log_weights) + log_sum_exp(log_weights + 2 * ahead)
    every_step = chain.left @ np.exp(log_sums - 2 * chain.log_growth) - 1
    adapted = chain.left @ chain.right**2 - 1
    return SmcGrowth(float(every_step), float(adapted))
