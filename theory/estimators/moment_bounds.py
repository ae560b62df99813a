"""pass@k beyond the samples that were drawn: what the counts of correct samples say without a model of difficulty, and no more.

Tasks have success probabilities p from an unknown law on [0, 1], and c of n samples of a task are correct. The law of c fixes E[p^j] for j <= n and nothing else, so
pass@k = E[1 - (1 - p)^k] is a number for k <= n and an interval beyond. The interval is the least and the greatest pass@k over all laws of p whose law of c lies in
a band about the observed one; a linear program on a grid of p, whose dual certifies it for all p.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from scipy.optimize import linprog

from theory.errors import InvalidInput
from theory.estimators.coverage import binomial_law, pass_at_k

# Points of the linear program, equally spaced in the angle of p = sin^2(angle / 2).
NUM_GRID = 800
_CHECKS_A_DEGREE = 100

# Laws between the points are met by those on them but for this; it is in the program, not in what its dual certifies.
_SLACK = 1e-4


class MomentBounds(NamedTuple):
    """Bounds on pass@k.

    Attributes:
        low: no law of p within the band has less.
        high: no law of p within the band has more.
        band: greatest distance allowed between the distribution functions of c.
        grid_error: how much wider than on the grid alone the interval was made so that it holds for every p.
    """

    low: float
    high: float
    band: float
    grid_error: float


def count_law(num_correct: Int64[np.ndarray, " N"], num_samples: int) -> Float64[np.ndarray, " c"]:
    """Shares of the tasks that have 0 ... n correct samples.

    Args:
        num_correct: [N] of each task.
        num_samples: n, the same of every task.

    Returns:
        [n + 1].

    Raises:
        InvalidInput: no task, or counts outside of 0 to n.
    """
    if not num_correct.size or ((num_correct < 0) | (num_correct > num_samples)).any():
        raise InvalidInput(f"num_correct: must be from 0 to {num_samples}, of at least one task")
    return np.bincount(num_correct, minlength=num_samples + 1) / num_correct.size


def sampling_band(num_tasks: int, level: float) -> float:
    """Half-width of a band that holds the whole distribution function of c with that probability, at every number of tasks.

        sqrt(log(2 / (1 - level)) / (2 N))

    Source: Massart, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality", Ann. Probab. 18 (1990).

    Args:
        num_tasks: N independent tasks, at least 1.
        level: in (0, 1).

    Returns:
        The half-width.

    Raises:
        InvalidInput: no task, or a level outside of (0, 1).
    """
    if num_tasks < 1 or not 0 < level < 1:
        raise InvalidInput(f"{num_tasks} tasks, level {level}: at least 1, and inside (0, 1)")
    return float(np.sqrt(np.log(2 / (1 - level)) / (2 * num_tasks)))


def pass_at_k_bounds(law: Float64[np.ndarray, " c"], k: int, band: float) -> MomentBounds:
    """Least and greatest pass@k over all laws of p.

        min, max over g of  integral 1 - (1 - p)^k g(dp)   such that   |P_g(c <= j) - F(j)| <= band, j < n

    Where k <= n the mean of the estimator over the counts is within the band of pass@k, as it rises from 0 to 1 in c, so the interval ends there at the latest: with band 0 it is
    that number alone. With the band of N tasks the interval holds pass@k with the level of the band, for all k at once.

    The dual of either program is a polynomial of degree n below (above) 1 - (1 - p)^k on the grid. As trigonometric polynomials of degree max(n, k) their difference bends by at most
    that squared times its size, so how far it fails between the points of a finer grid is bounded, and the interval is widened by that (`grid_error`).

    Args:
        law: [n + 1] shares of tasks with 0 ... n correct samples (`count_law`).
        k: at least 1.
        band: at least 0 (`sampling_band`); 0 where the law is exact.

    Returns:
        The bounds, in [0, 1].

    Raises:
        InvalidInput: a k below 1, shares that are no law, or a band in which no law of p fits, as for observed shares with a band that is too narrow.
    """
    if k < 1 or not 0 <= band < np.inf:
        raise InvalidInput(f"k = {k}, band {band}: must be at least 1 and at least 0")
    if law.size < 2 or not (law >= 0).all() or abs(law.sum() - 1) > 1e-9:
        raise InvalidInput("law: must be shares that sum to 1, of 0 to at least 1 correct samples")
    low, low_error = _certified(law, k, band, 1.0)
    high, high_error = _certified(law, k, band, -1.0)
    if low > -high + _SLACK:
        raise InvalidInput(
            f"band {band:g}: no law of success probabilities gives these counts, widen the band"
        )
    least, most = 0.0, 1.0
    if k < law.size:
        counts = np.arange(law.size)
        estimate = float(law @ pass_at_k(np.full(law.size, law.size - 1), counts, k))
        least, most = max(least, estimate - band), min(most, estimate + band)
    return MomentBounds(
        min(max(low, least), most), max(min(-high, most), least), band, max(low_error, high_error)
    )


def _certified(
    law: Float64[np.ndarray, " c"], k: int, band: float, sign: float
) -> tuple[float, float]:
    """A number that sign times pass@k is not below, and what of it is for the grid."""
    num_samples = law.size - 1
    grid = _probabilities(NUM_GRID)
    below = binomial_law(num_samples, grid).cumsum(axis=1)[:, :-1].T
    observed = law.cumsum()[:-1]
    rows = np.concatenate([below, -below])
    limits = np.concatenate([observed + band, band - observed])
    found = linprog(
        sign * _coverage(grid, k),
        A_ub=rows,
        b_ub=limits + _SLACK,
        A_eq=np.ones((1, grid.size)),
        b_eq=[1.0],
        method="highs",
    )
    if found.status == 2:
        raise InvalidInput(
            f"band {band:g}: no law of success probabilities gives these counts, widen the band"
        )
    if found.status != 0:
        raise InvalidInput(f"band {band:g}: the linear program was not solved, widen the band")
    # Any multipliers of these signs certify a bound, whatever the solver's tolerances are.
    multipliers = np.minimum(found.ineqlin.marginals, 0.0)
    constant = float(found.eqlin.marginals[0])
    degree = max(num_samples, k)
    finer = _probabilities(_CHECKS_A_DEGREE * degree)
    excess = np.empty(finer.size)
    for begin in range(0, finer.size, 4096):
        part = finer[begin : begin + 4096]
        functions = binomial_law(num_samples, part).cumsum(axis=1)[:, :-1]
        dual = functions @ (multipliers[:num_samples] - multipliers[num_samples:]) + constant
        excess[begin : begin + 4096] = dual - sign * _coverage(part, k)
    half = np.pi / (finer.size - 1) / 2
    size = np.abs(excess).max() / np.cos(degree * half)
    error = max(0.0, float(excess.max() + (degree * half) ** 2 / 2 * size))
    return float(limits @ multipliers) + constant - error, error


def _probabilities(num: int) -> Float64[np.ndarray, " num"]:
    return np.sin(np.linspace(0.0, np.pi, num) / 2) ** 2


def _coverage(probability: Float64[np.ndarray, " n"], k: int) -> Float64[np.ndarray, " n"]:
    with np.errstate(divide="ignore"):
        return -np.expm1(k * np.log1p(-probability))
