"""What a kernel that does not reach every sequence can be blamed for."""

import math

import numpy as np
from scipy import stats

from experiments.validation.findings import LAW, Finding
from theory.goodness_of_fit import counts_p_value

# Chains whose law has a smaller p-value have not settled.
_UNSETTLED = 1e-3

# Logarithm of the largest factor on a p-value: the smallest p-values, times this, are still below every level.
_LARGE = 500.0


def reach_finding(
    target: np.ndarray, reached: np.ndarray, num_draws: int, has_settled: bool, limit: float
) -> Finding:
    """Does the kernel reach the sequences that its target would show?

    The claim under test: after the search, n independent chains follow the target. With t the largest probability of a sequence that none of
    them has met,

        p-value = min(1, sum of (1 - p_s)^n over the sequences with p_s >= t),

    the union bound on "a sequence at least as likely as this one is missed", so that a rare sequence never met is no evidence. Chains that
    have not settled, such as those of a kernel that stays where it is, cannot be blamed for what they miss: that leaves the row underpowered.

    Args:
        target: [M] exact probabilities.
        reached: places of the sequences that were met.
        num_draws: n, chains of the search.
        has_settled: the chains move, and at the end follow the target among the sequences reached.
        limit: a missed sequence of this probability must be seen.

    Returns:
        The finding; estimate and truth are the mass of what is met, and of what n draws of the target meet on average.
    """
    log_missed = num_draws * np.log1p(-np.minimum(target, 1 - 1e-15))
    is_missed = ~np.isin(np.arange(target.size), reached)
    largest = float(target[is_missed].max(initial=0.0))
    p_value = min(1.0, float(np.exp(log_missed[target >= largest]).sum())) if largest else 1.0
    note = f"sequences with {target[is_missed].sum():.2g} of the target are never reached"
    if not has_settled:
        note += "; the chains have not settled"
    believed = p_value if has_settled else 1.0

    def detectable(level: float) -> float:
        """From this probability on a missed sequence gives a p-value below the level."""
        if not has_settled and p_value < level:
            return math.inf
        return -math.expm1(math.log(level / target.size) / num_draws)

    return Finding(
        "reach of the kernel",
        LAW,
        float(target[~is_missed].sum()),
        float(target @ -np.expm1(log_missed)),
        0.0,
        _normal_score(believed),
        believed,
        detectable,
        limit,
        num_draws,
        note if largest else "",
    )


def from_reached(
    finding: Finding, cells: np.ndarray, target: np.ndarray, reached: np.ndarray
) -> Finding:
    """Judge draws whose chains started in the target given that it is in the reached sequences, a set of mass r.

    A kernel that leaves the target pi as it is takes pi(. | reached) to a law of at most pi / r everywhere. What n draws of pi show with
    probability p, such draws therefore show with probability p / r^n at most.

    Args:
        finding: of n draws against the target itself.
        cells: [n] of the draws.
        target: [M] exact probabilities.
        reached: places of the sequences that were met.

    Returns:
        The finding with its p-value times 1 / r^n; it sees as much as before at r^n times the level.
    """
    log_factor = -cells.size * math.log(min(1.0, float(target[reached].sum())))
    is_possible = bool((np.append(target, 0.0)[np.minimum(cells, target.size)] > 0).all())
    p_value = finding.p_value
    if is_possible:  # the smallest p-values underflow, so that no finite factor would raise them
        p_value = 1.0 if log_factor > _LARGE else min(1.0, p_value * math.exp(log_factor))

    def detectable(level: float) -> float:
        return math.inf if log_factor > _LARGE else finding.detectable(level / math.exp(log_factor))

    return finding._replace(p_value=p_value, z=_normal_score(p_value), detectable=detectable)


def follows(cells: np.ndarray, target: np.ndarray, reached: np.ndarray) -> bool:
    """Are draws compatible with the target given that it is in the reached sequences?

    Args:
        cells: [n] of the draws.
        target: [M] exact probabilities.
        reached: places of the sequences that were met.

    Returns:
        False also where that law has a single likely sequence, which every chain that stays would follow.
    """
    law = np.zeros(target.size + 1)
    law[reached] = target[reached]
    if not law.sum() > 0:
        return False
    counts = np.bincount(np.minimum(cells, target.size), minlength=law.size)
    try:
        return counts_p_value(counts, law / law.sum()) >= _UNSETTLED
    except ValueError:
        return False


def _normal_score(p_value: float) -> float:
    return float(stats.norm.isf(p_value)) if p_value < 1 else 0.0
