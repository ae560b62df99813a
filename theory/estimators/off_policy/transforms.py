"""What is done to importance weights before they are used, and what it costs: every transform reports shares of the raw weights.

Shares are counted before anything is cut. After truncation no weight is above the cap, so a share counted there is 0 whatever happened.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.log_weights import clean_on_host

Weights = Float64[np.ndarray, " m"]


class Applied(NamedTuple):
    """Weights as they are used.

    Attributes:
        log_weights: [m] natural log; NaN where there was none, -inf where zeroed.
        clipped_high: share of the raw weights above the upper bound.
        clipped_low: share of the raw weights below the lower bound.
        zeroed: share of the raw weights that count nothing now.
        label: name of the estimator for reports.
    """

    log_weights: Weights
    clipped_high: float
    clipped_low: float
    zeroed: float
    label: str


def exact(log_weights: Weights, unit: str) -> Applied:
    """Leave them as they are: unbiased, and of a variance exponential in what a weight spans.

    Args:
        log_weights: [m] natural log; NaN and +inf are none.
        unit: token, turn, prefix or seq.

    Returns:
        The weights.
    """
    log_weights = _known(log_weights)
    return Applied(
        log_weights, 0.0, 0.0, _share(np.isneginf(log_weights), log_weights), f"is-{unit}"
    )


def truncated(log_weights: Weights, cap: float, unit: str) -> Applied:
    """min(w, C): biased towards the sampler, of bounded variance. TIS.

    Args:
        log_weights: [m] natural log; NaN and +inf are none.
        cap: C, above 0.
        unit: token, turn, prefix or seq.

    Returns:
        The weights.

    Raises:
        InvalidInput: a cap that is not above 0 and finite.

    Source: Ionides 2008, "Truncated importance sampling"; as TIS in trainers since 2025 (second-hand).
    """
    if not 0 < cap < np.inf:
        raise InvalidInput(f"cap {cap}: must be above 0 and finite")
    log_weights = _known(log_weights)
    high = log_weights > np.log(cap)
    return Applied(
        np.where(high, np.log(cap), log_weights),
        _share(high, log_weights),
        0.0,
        _share(np.isneginf(log_weights), log_weights),
        f"tis-{unit} {cap:g}",
    )


def masked(log_weights: Weights, low: float, high: float, unit: str) -> Applied:
    """W inside [lo, hi], else 0: rows outside are dropped. IcePop and masked importance sampling; biased.

    Args:
        log_weights: [m] natural log; NaN and +inf are none.
        low: lo, at least 0.
        high: hi, above it.
        unit: token, turn, prefix or seq.

    Returns:
        The weights; all may be zeroed, which is reported and no error here.

    Raises:
        InvalidInput: bounds that are not 0 <= lo < hi.
    """
    if not 0 <= low < high:
        raise InvalidInput(f"band {low} to {high}: must be 0 <= low < high")
    log_weights = _known(log_weights)
    with np.errstate(divide="ignore"):
        above, below = log_weights > np.log(high), log_weights < np.log(low)
    outside = above | below | np.isneginf(log_weights)
    return Applied(
        np.where(outside, -np.inf, log_weights),
        _share(above, log_weights),
        _share(below, log_weights),
        _share(outside, log_weights),
        f"mask-{unit} {low:g} {high:g}",
    )


def _known(log_weights: Weights) -> Weights:
    """An overflowed ratio is no weight, and no cap makes it one."""
    cleaned, no_weight = clean_on_host(log_weights)
    return np.where(no_weight, np.nan, cleaned)


def _share(marked: np.ndarray, log_weights: Weights) -> float:
    known = ~np.isnan(log_weights)
    return float((marked & known).sum() / max(int(known.sum()), 1))
