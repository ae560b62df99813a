"""Does a mean of independent replicates have a given expectation? Student's t, with what skewness may do to it.

A t-test at a small level errs where the replicates are skewed: to first order the worse tail is inflated by

    exp(z^3 |skewness| / (3 sqrt(n)))

(moderate deviations of a self-normalised mean: Jing, Shao and Wang, Annals of Probability 31, 2003). A caller may refuse replicates for which
that factor is large (`tail_inflation`), or charge it to the p-value (`skewed_p_value`).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import optimize, stats

Numbers = np.ndarray | np.number | float | int | Sequence[float]

# Probability with which a test sees the smallest bias that it is said to see.
POWER = 0.99


def minimum_detectable(
    sigma: Numbers, n: int, level: float, power: float = POWER
) -> Float[np.ndarray, "*cells"]:
    """Smallest bias that a two-sided z-test sees with probability `power`.

        (z_{1 - level/2} + z_power) sigma / sqrt(n)

    Args:
        sigma: [...] standard deviation of one replicate.
        n: number of replicates.
        level: false-alarm probability.
        power: probability of seeing the bias.

    Returns:
        [...] in the units of sigma.
    """
    quantiles = stats.norm.isf(level / 2) + stats.norm.ppf(power)
    return np.asarray(quantiles * np.asarray(sigma, np.float64) / np.sqrt(n))


def mean_p_values(replicates: Numbers, truth: Numbers) -> Float[np.ndarray, "*cells"]:
    """Two-sided p-values of "the expectation is `truth`" by Student's t.

    Args:
        replicates: [n, ...] independent along the first axis.
        truth: [...] claimed expectation.

    Returns:
        [...] one p-value per cell.

    Raises:
        ValueError: all replicates are equal.
    """
    values = np.asarray(replicates, np.float64)
    num_replicates = values.shape[0]
    standard_error = values.std(axis=0, ddof=1) / np.sqrt(num_replicates)
    if not np.all(standard_error > 0):
        raise ValueError("all replicates are equal: assert the value itself")
    t = (values.mean(axis=0) - np.asarray(truth, np.float64)) / standard_error
    return np.asarray(2 * stats.t.sf(np.abs(t), num_replicates - 1))


def tail_inflation(replicates: Numbers, level: float) -> float:
    """How far skewness inflates the worse tail of the t-test at a level; the other tail shrinks by the same factor.

    Args:
        replicates: [n, ...].
        level: false-alarm probability of one cell.

    Returns:
        The largest factor over the cells.
    """
    values = np.asarray(replicates, np.float64)
    skewness = np.max(np.abs(stats.skew(values, axis=0)))
    z = stats.norm.isf(level / 2)
    return float(np.exp(z**3 * skewness / (3 * np.sqrt(values.shape[0]))))


def skewed_p_value(t: float, skewness: float, n: int) -> float:
    """P-value of a t-statistic with the first-order inflation charged to it.

        min over s <= |t| of 2 P(T > s) exp(s^3 |skewness| / (3 sqrt(n)))

    The minimum is taken over a grid. From about s = sqrt(n) / |skewness| on the factor grows faster than the tail falls, and nothing more is gained: with few or very skewed
    replicates no t, however large, gives a small p-value.

    Args:
        t: (mean - truth) / standard error.
        skewness: of the replicates.
        n: their number.

    Returns:
        At most 1.
    """
    size = abs(t)
    if skewness != 0:
        size = min(size, np.sqrt(n) / abs(skewness))
    grid = np.linspace(0.0, size, 65)
    log_tails = np.log(2) + stats.t.logsf(grid, n - 1)
    log_p_values = log_tails + grid**3 * abs(skewness) / (3 * np.sqrt(n))
    return float(np.exp(min(0.0, log_p_values.min())))


def skewed_minimum_detectable(
    sigma: float, skewness: float, n: int, level: float, power: float = POWER
) -> float:
    """Smallest bias that `skewed_p_value` sees with probability `power`.

    Args:
        sigma: standard deviation of one replicate.
        skewness: of the replicates.
        n: their number.
        level: false-alarm probability.
        power: probability of seeing the bias.

    Returns:
        In the units of sigma; inf where the replicates are too few for the level under their skewness.
    """

    def excess(t: float) -> float:
        return skewed_p_value(t, skewness, n) - level

    furthest = 40.0
    if excess(furthest) > 0:
        return float("inf")
    critical = float(optimize.root_scalar(excess, bracket=(0.0, furthest)).root)
    return (critical + float(stats.norm.ppf(power))) * sigma / float(np.sqrt(n))
