"""Whether scores that claim to be probabilities are.

Source: Brier 1950; Naeini et al. 2015 and Guo et al. 2017 (arXiv 1706.04599), expected calibration error; Nguyen and O'Connor 2015 (arXiv 1508.05154), bins of
equal mass (cited from memory).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput

Rows = Float64[np.ndarray, " m"]


class Reliability(NamedTuple):
    """Bins of scores beside what happened.

    Attributes:
        low: [b] least score of each bin.
        high: [b] greatest score of each bin.
        counts: [b] rows.
        mean_score: [b] what was claimed.
        accuracy: [b] what happened.
    """

    low: Float64[np.ndarray, " b"]
    high: Float64[np.ndarray, " b"]
    counts: Int64[np.ndarray, " b"]
    mean_score: Float64[np.ndarray, " b"]
    accuracy: Float64[np.ndarray, " b"]


def squared_errors(scores: Rows, correct: Rows) -> Rows:
    """The terms of the Brier score.

        (s - y)^2

    Their mean is proper: it is least in expectation for s = P(y = 1).

    Args:
        scores: [m] in [0, 1].
        correct: [m] in [0, 1].

    Returns:
        [m].

    Raises:
        InvalidInput: a score outside [0, 1]: it claims no probability.
    """
    _check(scores, correct)
    return (scores - correct) ** 2


def equal_mass_bins(scores: Rows, correct: Rows, num_bins: int) -> Reliability:
    """Bins that hold as many rows each; equal scores stay together, so that the order of rows changes nothing.

    Of m rows by score the first m mod b bins take one more than the others. A run of equal scores goes to the bin of its middle row.

    Args:
        scores: [m] in [0, 1].
        correct: [m] in [0, 1].
        num_bins: at least 1; fewer come back where scores coincide.

    Returns:
        The bins that hold rows, by score.

    Raises:
        InvalidInput: as `squared_errors`, no row, or no bin.
    """
    _check(scores, correct)
    _check_bins(scores, num_bins)
    _, run, counts = np.unique(scores, return_inverse=True, return_counts=True)
    bins = equal_mass_bin_of_runs(np.cumsum(counts) - counts, counts, scores.size, num_bins)
    return _reliability(scores, correct, bins[run])


def equal_mass_bin_of_runs(
    begins: Int64[np.ndarray, " r"],
    counts: Int64[np.ndarray, " r"],
    num_rows: int,
    num_bins: int,
) -> Int64[np.ndarray, " r"]:
    """The bin of each run of equal scores, as in `equal_mass_bins`.

    Args:
        begins: [r] rows that score less.
        counts: [r] rows of each run, at least 1.
        num_rows: m, of all runs, also those that are not asked about.
        num_bins: b, at least 1.

    Returns:
        [r] from 0 to b - 1.
    """
    middle = begins + (counts - 1) // 2
    size, longer = divmod(num_rows, num_bins)
    in_longer = middle // (size + 1)
    in_shorter = longer + (middle - longer * (size + 1)) // max(size, 1)
    return np.where(middle < longer * (size + 1), in_longer, in_shorter)


def equal_width_bins(scores: Rows, correct: Rows, num_bins: int) -> Reliability:
    """Bins of one width, closed on the left; the last holds 1.

    Args:
        scores: [m] in [0, 1].
        correct: [m] in [0, 1].
        num_bins: at least 1.

    Returns:
        The bins that hold rows, by score.

    Raises:
        InvalidInput: as `equal_mass_bins`.
    """
    _check(scores, correct)
    _check_bins(scores, num_bins)
    # The edges themselves and not scores * bins: .29 * 100 is below 29.
    edges = np.arange(1, num_bins) / num_bins
    return _reliability(scores, correct, np.searchsorted(edges, scores, side="right"))


def expected_calibration_error(bins: Reliability) -> float:
    """How far claims and outcomes are apart, bin by bin.

        sum_b (n_b / n) |mean score - accuracy|

    Biased upwards for every finite sample, and it depends on the bins: their kind and number belong beside it.

    Args:
        bins: of `equal_mass_bins` or `equal_width_bins`.

    Returns:
        In [0, 1].
    """
    gaps = np.abs(bins.mean_score - bins.accuracy)
    return float((bins.counts * gaps).sum() / bins.counts.sum())


def _reliability(scores: Rows, correct: Rows, bin_of: Int64[np.ndarray, " m"]) -> Reliability:
    held, place = np.unique(bin_of, return_inverse=True)
    counts = np.bincount(place, minlength=held.size).astype(np.int64)
    low, high = np.full(held.size, np.inf), np.full(held.size, -np.inf)
    np.minimum.at(low, place, scores)
    np.maximum.at(high, place, scores)
    return Reliability(
        low,
        high,
        counts,
        np.bincount(place, scores, minlength=held.size) / counts,
        np.bincount(place, correct, minlength=held.size) / counts,
    )


def _check(scores: Rows, correct: Rows) -> None:
    if not ((scores >= 0) & (scores <= 1)).all():
        raise InvalidInput(
            "scores: must be in [0, 1] to be judged as probabilities; sums, logits and rewards are not"
        )
    if not ((correct >= 0) & (correct <= 1)).all():
        raise InvalidInput("correct: must be in [0, 1], leave out rows without a verdict")


def _check_bins(scores: Rows, num_bins: int) -> None:
    if not scores.size:
        raise InvalidInput("scores: there are none, so no bin can be filled")
    if num_bins < 1:
        raise InvalidInput(f"{num_bins} bins: must be at least 1")
