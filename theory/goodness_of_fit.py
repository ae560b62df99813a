"""Do independent draws follow a finite law? A p-value that is valid at every number of draws and at every level.

Pearson's statistic is only approximately chi-square: at the level of 1e-6 that many simultaneous checks need, one cell with an
expected count of 5 rejects far too often. What is used instead is exact conditioning. Given the cells before it, a cell's count is
binomial; its exact two-sided p-value is, given the past, stochastically no smaller than uniform; so Fisher's sum
-2 sum log p over m cells is stochastically no larger than chi-square with 2 m degrees of freedom.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64
from scipy import stats

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
    counts: Int64[np.ndarray, " K"], probs: Float64[np.ndarray, " K"]
) -> tuple[Int64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
    """Sort by probability and merge the rarest until every cell is expected MIN_EXPECTED times.

    Args:
        counts: [K] draws.
        probs: [K] probabilities.

    Returns:
        Draws and probabilities of the pooled cells; none where there are fewer than MIN_EXPECTED draws in all.
    """
    order = np.argsort(-probs, kind="stable")
    counts, probs = counts[order], probs[order]
    # Expected draws in the tail that starts at each cell: the last tail that is large enough becomes one cell.
    expected_tail = counts.sum() * np.cumsum(probs[::-1])[::-1]
    frequent = counts.sum() * probs >= MIN_EXPECTED
    first_rare = min(int(frequent.sum()), int(np.sum(expected_tail >= MIN_EXPECTED)) - 1)
    if first_rare < 0:
        return counts[:0], probs[:0]
    tail = slice(first_rare, None)
    return (
        np.append(counts[:first_rare], counts[tail].sum()),
        np.append(probs[:first_rare], probs[tail].sum()),
    )
