"""What a check finds, and the verdict on it.

A finding is an estimate beside its truth, with a p-value and with the smallest bias that the test behind it sees. It becomes a row when the
level is known: all rows of a run share one false-alarm probability (Bonferroni), so that the whole run raises a false alarm with
probability FAMILY_LEVEL at most over the choice of the seed.

    ok           p >= level, and the smallest bias that the row could have seen is within the row's limit
    biased       p < level
    underpowered neither: the row says nothing about its limit
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from theory.goodness_of_fit import (
    counts_p_value,
    empirical_distance,
    minimum_detectable_distance,
)
from theory.mean_tests import skewed_minimum_detectable, skewed_p_value

FAMILY_LEVEL = 1e-3
LEAST_ROWS = 1000
"""The level of a row is FAMILY_LEVEL / max(LEAST_ROWS, rows): the same for every run of a thousand rows or fewer."""

OK, BIASED, UNDERPOWERED = "ok", "biased", "underpowered"
VERDICTS = (OK, BIASED, UNDERPOWERED)

EXACT, MEAN, LAW = "exact", "mean", "law"
"""No randomness; a mean of independent replicates; frequencies of independent draws."""


class Finding(NamedTuple):
    """One quantity of one kernel on one case, before the level is known.

    Attributes:
        quantity: what was estimated.
        kind: EXACT, MEAN or LAW.
        estimate: what was found.
        truth: what it should be.
        standard_error: of the estimate; 0 where nothing is random.
        z: in standard errors, or the normal score of the p-value.
        p_value: of "the estimate has the truth for its expectation".
        detectable: from the level of the row to the smallest bias that is seen with probability 99 %.
        limit: a bias of this size must be seen.
        num_replicates: independent replicates behind the estimate; 0 where nothing is random.
        note: what else there is to say.
    """

    quantity: str
    kind: str
    estimate: float
    truth: float
    standard_error: float
    z: float
    p_value: float
    detectable: Callable[[float], float]
    limit: float
    num_replicates: int
    note: str = ""


class Row(NamedTuple):
    """A finding with its verdict; the fields are those of the JSON document."""

    family: str
    kernel: str
    case: str
    quantity: str
    kind: str
    estimate: float
    truth: float
    standard_error: float
    z: float
    p_value: float
    minimum_detectable: float
    limit: float
    num_replicates: int
    verdict: str
    note: str


class Distance(NamedTuple):
    """How far a finite run is from the target by design: exact, reported, not judged."""

    kernel: str
    case: str
    quantity: str
    value: float


class Found(NamedTuple):
    """What a check returns."""

    findings: Sequence[Finding]
    distances: Sequence[tuple[str, float]] = ()


def row_level(num_rows: int) -> float:
    """False-alarm probability of one row.

    Args:
        num_rows: of the run.

    Returns:
        FAMILY_LEVEL / max(LEAST_ROWS, num_rows).
    """
    return FAMILY_LEVEL / max(LEAST_ROWS, num_rows)


def judge(family: str, kernel: str, case: str, finding: Finding, level: float) -> Row:
    """The verdict.

    Args:
        family: of the kernel.
        kernel: its name.
        case: the model it ran on.
        finding: what was found.
        level: of the row.

    Returns:
        The row.
    """
    detectable = finding.detectable(level)
    if not finding.p_value >= level:  # NaN is no pass
        verdict = BIASED
    else:
        verdict = OK if detectable <= finding.limit else UNDERPOWERED
    return Row(
        family,
        kernel,
        case,
        finding.quantity,
        finding.kind,
        finding.estimate,
        finding.truth,
        finding.standard_error,
        finding.z,
        finding.p_value,
        detectable,
        finding.limit,
        finding.num_replicates,
        verdict,
        finding.note,
    )


def exact_finding(
    quantity: str, estimate: float, truth: float, tolerance: float, note: str = ""
) -> Finding:
    """A number that is computed and not sampled.

    Args:
        quantity: what.
        estimate: the number.
        truth: what it should be.
        tolerance: absolute.
        note: what else there is to say.

    Returns:
        Standard error 0; z is 0 within the tolerance and infinite beyond it (or where the number is NaN).
    """
    within = abs(estimate - truth) <= tolerance
    sign = -1.0 if estimate < truth else 1.0
    return Finding(
        quantity,
        EXACT,
        float(estimate),
        float(truth),
        0.0,
        0.0 if within else sign * math.inf,
        1.0 if within else 0.0,
        lambda level: tolerance,
        tolerance,
        0,
        note,
    )


def positive_finding(quantity: str, value: float) -> Finding:
    """A number that must lie above 0, such as a spectral gap.

    Args:
        quantity: what.
        value: the number.

    Returns:
        Its truth is itself where it is positive, else the smallest positive double.
    """
    truth = value if value > 1e-9 else math.ulp(0.0)
    return exact_finding(quantity, value, truth, 0.0, "must lie above 0")


def mean_finding(
    quantity: str, replicates: np.ndarray, truth: float, limit: float, num_cells: int = 1
) -> Finding:
    """The mean of independent replicates.

    Student's t, with the inflation of its tails by skewness charged to the p-value and to the smallest bias seen
    (`theory.mean_tests`). Replicates that are all equal are compared with the truth up to float32 rounding.

    Args:
        quantity: what.
        replicates: [n] independent.
        truth: the exact expectation.
        limit: a bias of this size must be seen; absolute.
        num_cells: of which this is the worst; the p-value is multiplied by it.

    Returns:
        The finding.
    """
    values = np.asarray(replicates, np.float64)
    n, mean, sigma = values.size, float(values.mean()), float(values.std(ddof=1))
    if not np.isfinite(mean):
        note = f"{int((~np.isfinite(values)).sum())} replicates are not finite"
        return exact_finding(quantity, mean, truth, 0.0, note)._replace(limit=limit)
    if sigma <= 1e-5 * max(abs(truth), abs(mean)):
        rounding = 2e-5 * abs(truth)
        found = exact_finding(quantity, mean, truth, rounding, "all replicates are equal")
        return found._replace(num_replicates=n, limit=max(limit, rounding))
    skewness = float(stats.skew(values))
    standard_error = sigma / math.sqrt(n)
    z = (mean - truth) / standard_error
    p_value = min(1.0, num_cells * skewed_p_value(z, skewness, n))
    return Finding(
        quantity,
        MEAN,
        mean,
        float(truth),
        standard_error,
        z,
        p_value,
        lambda level: skewed_minimum_detectable(sigma, skewness, n, level / num_cells),
        limit,
        n,
    )


def worst_mean_finding(
    quantity: str, replicates: np.ndarray, truth: np.ndarray, limit: float
) -> Finding:
    """The cell of several means that is furthest from its truth.

    Args:
        quantity: what.
        replicates: [n, K].
        truth: [K].
        limit: as in `mean_finding`, for every cell.

    Returns:
        The finding of the worst cell; what it could have seen is that of the cell that could see least.
    """
    cells = [
        mean_finding(f"{quantity}, worst of {truth.size}", column, value, limit, truth.size)
        for column, value in zip(replicates.T, truth.tolist(), strict=True)
    ]
    worst = min(cells, key=lambda cell: (cell.p_value, -abs(cell.z)))
    return worst._replace(
        detectable=lambda level: max(
            (cell.detectable(level) for cell in cells if cell.kind == MEAN),
            default=worst.limit,
        ),
        note=f"cell {cells.index(worst)}",
    )


def law_finding(
    quantity: str, cells: np.ndarray, probs: np.ndarray, limit: float, note: str = ""
) -> Finding:
    """Frequencies of independent draws against their exact law.

    The estimate is the total variation between frequencies and law, its truth the expectation of that number under the law (draws from the law
    itself are that far away), and its standard error the standard deviation. The p-value is that of `counts_p_value`, valid at every level,
    and z is its normal score (one-sided, large where the law is missed). What the row could have seen is a total variation too.

    Args:
        quantity: what.
        cells: [n] cell of each draw; K and above for draws that no cell of the law holds.
        probs: [K] exact probabilities.
        limit: a departure by this total variation must be seen.
        note: what else there is to say.

    Returns:
        The finding.
    """
    law = np.append(np.asarray(probs, np.float64), 0.0)
    if not (np.all(law >= -1e-9) and abs(law.sum() - 1) < 1e-6):
        note = "the finite-run law built from the kernel's densities is no law"
        return exact_finding(quantity, float(law.sum()), 1.0, 0.0, note)._replace(
            limit=limit, p_value=0.0, z=math.inf
        )
    law = np.maximum(law, 0.0) / np.maximum(law, 0.0).sum()
    counts = np.bincount(np.minimum(cells, law.size - 1), minlength=law.size)
    n = int(counts.sum())
    expected = empirical_distance(law, n)
    try:
        p_value = counts_p_value(counts, law)
    except ValueError:  # a single likely cell: only an impossible draw could have told
        p_value = 1.0
    return Finding(
        quantity,
        LAW,
        float(np.abs(counts / n - law).sum() / 2),
        expected.mean,
        expected.standard_deviation,
        float(stats.norm.isf(p_value)) if p_value < 1 else 0.0,
        p_value,
        lambda level: minimum_detectable_distance(law, n, level),
        limit,
        n,
        note,
    )
