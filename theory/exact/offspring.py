"""Resampling schemes as exact laws: every outcome with its probability.

An offspring law takes the log weights of a population and lists what a scheme can do to it, so that expectations over
resampling are finite sums. Slots are read in the order given; ancestors are listed in the order in which the sampler of the
same name in `theory.resampling` returns them. What each is: see there.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput


class Offspring(NamedTuple):
    """One outcome of resampling N particles.

    Attributes:
        probability: of this outcome.
        ancestors: [N] parent of each new slot.
        log_weights: [N] natural log, on the scale of the old ones.
    """

    probability: float
    ancestors: tuple[int, ...]
    log_weights: tuple[float, ...]


# From log weights [N], at least one finite, to outcomes whose probabilities sum to 1. Unbiased if
# sum over outcomes of probability * (weight of the offspring of i) = weight of i, for every i.
OffspringLaw = Callable[[Float64[np.ndarray, " N"]], list[Offspring]]


def multinomial_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """N independent draws; ancestors ascending.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes: one for each multiset of ancestors.
    """
    shares = _shares(log_weights).tolist()
    return _equal(log_weights, _draws(shares, len(shares)))


def stratified_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """One independent point in each of N equal strata.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    size = log_weights.size
    ends = size * _cumulative(log_weights)
    starts = np.append(0.0, ends[:-1])
    slots = np.arange(size)[:, None]
    overlap = np.minimum(ends, slots + 1) - np.maximum(starts, slots)  # [stratum, particle]
    return _equal(log_weights, _independent(np.maximum(overlap, 0.0)))


def systematic_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """N evenly spaced points behind one uniform.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes: one for each interval of the uniform.
    """
    size = log_weights.size
    ends = size * _cumulative(log_weights)
    whole = np.floor(ends)
    fractions = ends - whole
    breaks = np.unique(np.append(fractions, [0.0, 1.0]))
    outcomes: list[tuple[float, tuple[int, ...]]] = []
    for low, high in itertools.pairwise(breaks.tolist()):
        # Of the points j + u, `whole` lie below an end, and one more if u < fraction; u = low stands for the interval.
        cumulative = (whole + (low < fractions)).astype(int)
        counts = np.diff(cumulative, prepend=0)
        outcomes.append((high - low, tuple(np.repeat(np.arange(size), counts).tolist())))
    return _equal(log_weights, outcomes)


def residual_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """floor(N w) offspring for certain, the rest independent draws; ancestors ascending.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    size = log_weights.size
    expected = size * _shares(log_weights)
    counts = np.floor(expected).astype(int)
    certain = tuple(np.repeat(np.arange(size), counts).tolist())
    left = size - len(certain)
    fractions = expected - counts
    fractions /= fractions.sum() if left else 1.0
    drawn = _draws(fractions.tolist(), left)
    return _equal(log_weights, [(p, tuple(sorted(certain + rest))) for p, rest in drawn])


def killing_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Each particle survives in its slot with probability w / max w; a killed one is drawn anew.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    survival = np.exp(log_weights - log_weights.max())
    law = np.diag(survival) + (1 - survival)[:, None] * _shares(log_weights)
    return _equal(log_weights, _independent(law))


def ssp_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Srinivasan sampling process: fractions of N w settle pairwise at 0 or 1; ancestors ascending.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    size = log_weights.size
    expected = size * _shares(log_weights)
    counts = np.floor(expected).astype(int)
    left = size - int(counts.sum())
    outcomes: list[tuple[float, tuple[int, ...]]] = []
    for probability, ones in _settle((expected - counts).tolist(), left):
        total = counts.copy()
        total[list(ones)] += 1
        outcomes.append((probability, tuple(np.repeat(np.arange(size), total).tolist())))
    return _equal(log_weights, outcomes)


def when_ess_below(fraction: float, offspring: OffspringLaw) -> OffspringLaw:
    """Resample only where the effective sample size is below a fraction of N; elsewhere keep slots and weights.

    Args:
        fraction: of N; at 1 it fires on all but equal weights.
        offspring: the law where it fires.

    Returns:
        The adaptive law.

    Raises:
        InvalidInput: the fraction is not in 0..1.
    """
    if not 0 <= fraction <= 1:
        raise InvalidInput(f"ESS threshold {fraction}: must be a fraction of N in 0..1")

    def adaptive(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
        size = log_weights.size
        weights = np.exp(
            log_weights - log_weights.max()
        )  # equal ones are 1: their ESS is N without rounding
        if weights.sum() ** 2 / np.square(weights).sum() < fraction * size:
            return offspring(log_weights)
        return [Offspring(1.0, tuple(range(size)), tuple(log_weights.tolist()))]

    return adaptive


def _shares(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _cumulative(log_weights: np.ndarray) -> np.ndarray:
    """[N] ending in exactly 1 from the last positive weight on."""
    cumulative = np.cumsum(_shares(log_weights))
    return cumulative / cumulative[-1]


def _draws(shares: list[float], count: int) -> list[tuple[float, tuple[int, ...]]]:
    """Multisets of independent draws, ascending, with their probabilities."""
    possible = [i for i, share in enumerate(shares) if share > 0]
    outcomes: list[tuple[float, tuple[int, ...]]] = []
    for drawn in itertools.combinations_with_replacement(possible, count):
        orders = math.factorial(count)
        for i in set(drawn):
            orders //= math.factorial(drawn.count(i))
        outcomes.append((math.prod((shares[i] for i in drawn), start=float(orders)), drawn))
    return outcomes


def _independent(law: np.ndarray) -> list[tuple[float, tuple[int, ...]]]:
    """Slots that choose their ancestors independently, slot j by row j."""
    choices = [[(float(row[i]), int(i)) for i in np.flatnonzero(row)] for row in law]
    return [
        (math.prod(p for p, _ in outcome), tuple(i for _, i in outcome))
        for outcome in itertools.product(*choices)
    ]


def _settle(fractions: list[float], left: int) -> list[tuple[float, tuple[int, ...]]]:
    """Which fractions are settled at 1, `left` of them in all, with probabilities."""
    open_ones = [(1.0, 0, fractions[0], ())]
    for newcomer, b in enumerate(fractions[1:], start=1):
        following: list[tuple[float, int, float, tuple[int, ...]]] = []
        for probability, holder, a, ones in open_ones:
            total = a + b
            if total < 1:
                keeps = a / total if total > 0 else 1.0
                branches = [(keeps, holder, total, ones), (1 - keeps, newcomer, total, ones)]
            else:
                settles = (1 - b) / (2 - total) if total < 2 else 1.0
                branches = [
                    (settles, newcomer, total - 1, (*ones, holder)),
                    (1 - settles, holder, total - 1, (*ones, newcomer)),
                ]
            following += [(probability * p, h, rest, o) for p, h, rest, o in branches if p > 0]
        open_ones = following
    # The last fraction is 0 or 1 but for rounding: the sum decides which.
    return [(p, (*ones, holder) if len(ones) < left else ones) for p, holder, _, ones in open_ones]


def _equal(
    log_weights: np.ndarray, outcomes: list[tuple[float, tuple[int, ...]]]
) -> list[Offspring]:
    """Outcomes after which all particles weigh the mean, so that no evidence is lost."""
    peak = float(log_weights.max())
    log_mean = peak + math.log(float(np.exp(log_weights - peak).mean()))
    return [Offspring(p, ancestors, (log_mean,) * log_weights.size) for p, ancestors in outcomes]
