"""Sequence power: rows of a sampler, reweighted to p(y)^alpha of the base model over whole trajectories.

    log w = alpha log p(y) - log q(y),    sums over tokens, never means

It collapses with length: on five published rollouts of a thousand tokens alpha = 1.1 leaves an effective sample of 2.2, and alpha = 1.5 one of 1.005. Token temperature
1/alpha is another law, and the length-normalised weight a third; neither is computed here.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from theory.errors import InvalidInput
from theory.estimators.off_policy.diagnostics import effective_sizes, weigh_tasks
from theory.estimators.off_policy.means import self_normalised_mean

Rows = Float64[np.ndarray, " m"]
Offsets = Int64[np.ndarray, " n1"]

# Widest exponent that is searched.
LARGEST_ALPHA = 1024.0


class PowerAccuracy(NamedTuple):
    """Accuracy under p^alpha, [n] each.

    Attributes:
        value: NaN where refused.
        ess: effective sample size behind it, of the rows with a weight and a verdict; NaN where no row is alive.
        refused: whether that is below the limit.
    """

    value: Float64[np.ndarray, " n"]
    ess: Float64[np.ndarray, " n"]
    refused: Bool[np.ndarray, " n"]


def power_log_weights(alpha: float, base_log_probs: Rows, behavior_log_probs: Rows) -> Rows:
    """Unnormalised log weights.

    Args:
        alpha: exponent, above 0.
        base_log_probs: [m] log p of the whole sequence at temperature 1; NaN where unknown.
        behavior_log_probs: [m] log q of the rule that drew it.

    Returns:
        [m] NaN where one of them is.

    Raises:
        InvalidInput: an alpha that is not above 0.
    """
    if not 0 < alpha < np.inf:
        raise InvalidInput(f"alpha {alpha}: must be above 0 and finite")
    return alpha * base_log_probs - behavior_log_probs


def power_accuracy(
    log_weights: Rows, correct: Rows, offsets: Offsets, least_ess: float
) -> PowerAccuracy:
    """Accuracy under p^alpha of each task, refused where too few rows carry it.

        sum_i w_i r_i / sum_i w_i

    The normaliser of p^alpha is unknown and differs between prompts, so there is no unbiased form; the bias is of order 1/ESS towards the accuracy of the sampler. Whether a
    task is refused depends on its weights alone, not on its verdicts.

    Args:
        log_weights: [m] of `power_log_weights`, task by task.
        correct: [m] NaN is none.
        offsets: [n + 1].
        least_ess: at least 1.

    Returns:
        One number a task.

    Raises:
        InvalidInput: sizes that do not fit, or a limit below 1.
    """
    if not least_ess >= 1:
        raise InvalidInput(f"least ESS {least_ess}: must be at least 1")
    value = self_normalised_mean(log_weights, correct, offsets)
    sizes = effective_sizes(weigh_tasks(np.where(np.isnan(correct), np.nan, log_weights), offsets))
    # Equal weights keep all their rows whatever the last bits say.
    refused = ~(sizes >= least_ess * (1 - 1e-12))
    return PowerAccuracy(np.where(refused, np.nan, value), sizes, refused)


def largest_alpha(
    base_log_probs: Rows, behavior_log_probs: Rows, offsets: Offsets, least_ess: float
) -> float:
    """The exponent at which the median effective sample size over tasks falls under a limit.

    Searched from 1 upwards by doubling and bisection. Of rows drawn from the base itself the effective sample size falls for every step away from alpha = 1; of rows of
    another sampler it need not fall at once, and the first crossing found is returned.

    Args:
        base_log_probs: [m] task by task.
        behavior_log_probs: [m].
        offsets: [n + 1] where each task begins.
        least_ess: limit, above 1.

    Returns:
        The exponent to a relative 1e-9, at which the limit is kept; NaN where it is not even at 1; inf where it is at 1024.

    Raises:
        InvalidInput: a limit that is not above 1, or no task with a weight.
    """

    def median(alpha: float) -> float:
        return float(np.median(_sizes(alpha, base_log_probs, behavior_log_probs, offsets)))

    return _crossing(median, least_ess)


def largest_alpha_of_rank(
    base_log_probs: Rows, behavior_log_probs: Rows, offsets: Offsets, least_ess: float, rank: int
) -> float:
    """The same where the effective sample size of the task of that rank falls under the limit, not the median one.

    Ranks j and n + 1 - j that hold the median of the population at every exponent give an interval of the exponent at which that median falls under the limit, as far as
    the sizes fall.

    Args:
        base_log_probs: [m] task by task.
        behavior_log_probs: [m].
        offsets: [n + 1] where each task begins.
        least_ess: limit, above 1.
        rank: from 1, the least effective sample size, to the number of tasks that have one.

    Returns:
        As `largest_alpha`.

    Raises:
        InvalidInput: as `largest_alpha`, or no such rank.
    """

    def size(alpha: float) -> float:
        sizes = _sizes(alpha, base_log_probs, behavior_log_probs, offsets)
        if not 1 <= rank <= sizes.size:
            raise InvalidInput(
                f"rank {rank}: must be from 1 to the {sizes.size} tasks with weights"
            )
        return float(np.sort(sizes)[rank - 1])

    return _crossing(size, least_ess)


def _sizes(
    alpha: float, base_log_probs: Rows, behavior_log_probs: Rows, offsets: Offsets
) -> Float64[np.ndarray, " k"]:
    """Effective sample sizes of the tasks that have one."""
    weights = power_log_weights(alpha, base_log_probs, behavior_log_probs)
    sizes = effective_sizes(weigh_tasks(weights, offsets))
    known = sizes[np.isfinite(sizes)]
    if not known.size:
        raise InvalidInput("base and behavior log probabilities: no task has both")
    return known


def _crossing(size: Callable[[float], float], least_ess: float) -> float:
    if not least_ess > 1:
        raise InvalidInput(f"least ESS {least_ess}: must be above 1, which every sample keeps")
    # Equal weights keep all their rows whatever the last bits say.
    least_ess *= 1 - 1e-12
    low, high = 1.0, 2.0
    if size(low) < least_ess:
        return float("nan")
    while size(high) >= least_ess:
        if high >= LARGEST_ALPHA:
            return float("inf")
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if size(middle) >= least_ess else (low, middle)
    return low
