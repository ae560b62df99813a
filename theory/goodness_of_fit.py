"""Do independent draws follow a finite law? A p-value that is valid at every number of draws and at every level.

Pearson's statistic is only approximately chi-square: at the level of 1e-6 that many simultaneous checks need, one cell with an
expected count of 5 rejects far too often. What is used instead is exact conditioning. Given the cells before it, a cell's count is
binomial; its exact two-sided p-value is, given the past, stochastically no smaller than uniform; so Fisher's sum
-2 sum log p over m cells is stochastically no larger than chi-square with 2 m degrees of freedom.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from scipy import optimize, stats

from theory.mean_tests import POWER

# Rare cells are pooled until each expects this many draws: alone they can hardly reject anything.
MIN_EXPECTED = 5.0

Cells = np.ndarray | Sequence[int] | Sequence[float]


def counts_p_value(counts: Cells, probs: Cells) -> float:
    """P-value of "the counts are multinomial with these probabilities".

    Args:
        counts: [K] independent draws in each cell.
        probs: [K] exact probabilities; cells with probability 0 are impossible.

    Returns:
        The p-value, stochastically no smaller than uniform under the claim; 0 if an impossible cell was drawn.

    Raises:
        ValueError: the probabilities do not sum to 1, or too few draws to fill two cells with MIN_EXPECTED each.
    """
    observed, law = np.asarray(counts, np.int64).ravel(), np.asarray(probs, np.float64).ravel()
    if observed.shape != law.shape:
        raise ValueError(f"{observed.size} counts for {law.size} probabilities")
    if np.any(law < 0) or abs(law.sum() - 1) > 1e-9:
        raise ValueError(f"probabilities sum to {law.sum():.12g} or some are negative")
    if np.any(observed[law == 0] > 0):
        return 0.0
    observed, law = pool_rare_cells(observed, law)
    if law.size < 2:
        raise ValueError(f"{observed.sum()} draws fill a single cell, nothing is tested: draw more")
    num_left = np.cumsum(observed[::-1])[::-1][:-1]
    share = np.minimum(law / np.cumsum(law[::-1])[::-1], 1.0)[:-1]
    observed = observed[:-1]
    log_tails = np.minimum(
        stats.binom.logcdf(observed, num_left, share),
        stats.binom.logsf(observed - 1, num_left, share),
    )
    log_p_values = np.minimum(np.log(2) + log_tails, 0.0)
    return float(stats.chi2.sf(-2 * log_p_values.sum(), 2 * log_p_values.size))


def pool_rare_cells(
    counts: Int64[np.ndarray, " K"],
    probs: Float64[np.ndarray, " K"],
    num_draws: int | None = None,
) -> tuple[Int64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
    """Sort by probability and merge the rarest until every cell is expected MIN_EXPECTED times.

    Args:
        counts: [K] draws.
        probs: [K] probabilities.
        num_draws: that are expected to be pooled for; the sum of the counts by default.

    Returns:
        Draws and probabilities of the pooled cells; none where there are fewer than MIN_EXPECTED draws in all.
    """
    order = np.argsort(-probs, kind="stable")
    counts, probs = counts[order], probs[order]
    # Expected draws in the tail that starts at each cell: the last tail that is large enough becomes one cell.
    total = counts.sum() if num_draws is None else num_draws
    expected_tail = total * np.cumsum(probs[::-1])[::-1]
    frequent = total * probs >= MIN_EXPECTED
    first_rare = min(int(frequent.sum()), int(np.sum(expected_tail >= MIN_EXPECTED)) - 1)
    if first_rare < 0:
        return counts[:0], probs[:0]
    tail = slice(first_rare, None)
    return (
        np.append(counts[:first_rare], counts[tail].sum()),
        np.append(probs[:first_rare], probs[tail].sum()),
    )


class EmpiricalDistance(NamedTuple):
    """Total variation between a law and the frequencies of independent draws from it.

    Attributes:
        mean: its expectation: even draws from the law itself are this far away.
        standard_deviation: its standard deviation, in the normal approximation.
    """

    mean: float
    standard_deviation: float


def empirical_distance(probs: Cells, num_draws: int) -> EmpiricalDistance:
    """How far frequencies are from their own law.

        E TV = 1/2 sum_k E|X_k / n - p_k|,   E|X - n p| = 2 (m + 1) C(n, m + 1) p^(m + 1) (1 - p)^(n - m),  m = floor(n p)

    (De Moivre's formula for the mean absolute deviation of a binomial.) The variance takes the deviations of two cells for jointly normal,
    with correlation r = -sqrt(p q / ((1 - p)(1 - q))) and Cov(|X|, |Y|) = (2 / pi)(sqrt(1 - r^2) + r asin r - 1) on the unit scale.

    Args:
        probs: [K] exact probabilities.
        num_draws: n.

    Returns:
        Mean and standard deviation.
    """
    law = np.asarray(probs, np.float64).ravel()
    law = law[(law > 0) & (law < 1)]
    if law.size == 0:
        return EmpiricalDistance(0.0, 0.0)
    floor = np.floor(num_draws * law)
    log_deviation = (
        stats.binom.logpmf(floor + 1, num_draws, law) + np.log(floor + 1) + np.log1p(-law)
    )
    mean = np.exp(log_deviation).sum() / num_draws  # twice a half
    odds = np.sqrt(law / (1 - law))
    correlation = np.clip(-np.outer(odds, odds), -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    shared = np.sqrt(1 - correlation**2) + correlation * np.arcsin(correlation) - 1
    sigma = np.sqrt(law * (1 - law) / num_draws)
    variance = float(sigma @ shared @ sigma) * 2 / np.pi / 4
    return EmpiricalDistance(float(mean), float(np.sqrt(max(variance, 0.0))))


def minimum_detectable_distance(
    probs: Cells, num_draws: int, level: float, power: float = POWER
) -> float:
    """Total variation from which on `counts_p_value` sees a departure, whatever its direction, with probability `power`.

    A law at total variation d from the claim has chi-square divergence of at least 4 d^2 from it, so that the deviations of the m cells
    that are tested one after the other have squares that sum to 4 d^2 n or more, in units of their variances. The power of Fisher's sum
    is taken, in the normal approximation, for that sum spread evenly over the cells and for all of it in one cell; the larger distance counts.
    Cells that were pooled are taken to hide what they can.

    Args:
        probs: [K] exact probabilities.
        num_draws: n.
        level: false-alarm probability.
        power: probability of seeing the departure.

    Returns:
        A distance in 0..1; inf where the draws fill a single cell of a law with several.
    """
    law = np.asarray(probs, np.float64).ravel()
    if law.max() >= 1 - 1e-12:  # any other cell is impossible: one draw in it is enough
        return float(-np.expm1(np.log1p(-power) / num_draws))
    _, pooled = pool_rare_cells(np.zeros(law.size, np.int64), law, num_draws)
    num_terms = pooled.size - 1
    if num_terms < 1:
        return float("inf")
    hidden = float(pooled[-1]) if pooled.size < np.count_nonzero(law) else 0.0
    threshold = float(stats.chi2.isf(level, 2 * num_terms))
    quantile = float(stats.norm.ppf(power))

    def shortfall(square: float) -> float:
        spread_mean, spread_variance = _fisher_term(np.sqrt(square / num_terms))
        one_mean, one_variance = _fisher_term(np.sqrt(square))
        spread = num_terms * spread_mean - quantile * np.sqrt(num_terms * spread_variance)
        rest = num_terms - 1
        one = one_mean + 2 * rest - quantile * np.sqrt(one_variance + 4 * rest)
        return threshold - float(min(spread, one))

    square = float(optimize.root_scalar(shortfall, bracket=(0.0, 100 * threshold)).root)
    return float(np.sqrt(square / (4 * num_draws)) + hidden)


def _fisher_term(shift: float) -> tuple[float, float]:
    """Mean and variance of -2 log(two-sided p-value) of a normal deviate with this mean."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    terms = -2 * (np.log(2) + stats.norm.logsf(np.abs(nodes + shift)))
    weights = weights / weights.sum()
    mean = float(weights @ terms)
    return mean, float(weights @ (terms - mean) ** 2)


def symmetry_p_value(flows: Int64[np.ndarray, "M M"]) -> float:
    """P-value of "as many draws go from i to j as from j to i", for independent pairs (i, j).

    Given their sum, the two counts of a pair of states are binomial with share 1/2 under the claim; the exact two-sided p-values of the pairs
    that were seen at least MIN_EXPECTED times are put together by Fisher's sum.

    Args:
        flows: [M, M] how often each ordered pair was drawn.

    Returns:
        Stochastically no smaller than uniform under the claim; 1 where no pair was seen often enough.
    """
    upper = np.triu_indices(flows.shape[0], 1)
    there, back = flows[upper], flows.T[upper]
    often = there + back >= MIN_EXPECTED
    there, total = there[often], (there + back)[often]
    if not total.size:
        return 1.0
    log_tails = np.minimum(
        stats.binom.logcdf(there, total, 0.5), stats.binom.logsf(there - 1, total, 0.5)
    )
    log_p_values = np.minimum(np.log(2) + log_tails, 0.0)
    return float(stats.chi2.sf(-2 * log_p_values.sum(), 2 * log_p_values.size))
