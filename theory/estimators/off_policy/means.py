"""Means under another policy than the one that drew the rows.

Source: Horvitz and Thompson 1952; Hesterberg 1995, self-normalised weights; Precup, Sutton and Singh 2000, per-decision importance sampling.
"""

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.estimators.off_policy.diagnostics import weigh_tasks
from theory.estimators.off_policy.ratios import prefix_log_ratios
from theory.estimators.ragged import check_offsets, sum_of_tasks, task_of

Rows = Float64[np.ndarray, " m"]
Tasks = Float64[np.ndarray, " n"]
Offsets = Int64[np.ndarray, " n1"]


def importance_mean(log_weights: Rows, values: Rows, offsets: Offsets) -> Tasks:
    """Mean of weight times value.

        (1/n) sum_i w_i v_i

    Unbiased for the mean of v under the evaluated policy when the weights are exact ratios of normalised densities over whole trajectories and the sampler can
    draw whatever the evaluated policy can. Rows without a weight or a value are left out.

    Args:
        log_weights: [m] natural log, task by task; NaN is none.
        values: [m] NaN is none.
        offsets: [n + 1] where each task begins.

    Returns:
        [n] NaN for a task with no usable row.

    Raises:
        InvalidInput: sizes that do not fit, or an infinite value.
    """
    usable = _usable(log_weights, values)
    # A weight that overflows does not matter to a row worth 0, nor may it dwarf the others.
    tasks = weigh_tasks(np.where((values == 0) & (usable < np.inf), -np.inf, usable), offsets)
    some = tasks.num_weights > 0
    with np.errstate(over="ignore"):
        scale = np.exp(np.where(np.isfinite(tasks.peak), tasks.peak, 0.0))
    total = sum_of_tasks(tasks.relative * np.nan_to_num(values), offsets)
    mean = np.where(total == 0, 0.0, scale) * total / np.maximum(tasks.num_weights, 1.0)
    return np.where(some, mean, np.nan)


def self_normalised_mean(log_weights: Rows, values: Rows, offsets: Offsets) -> Tasks:
    """Weighted mean.

        sum_i w_i v_i / sum_i w_i

    Consistent, with a bias of order 1/n; unknown normalising constants cancel. It stays within the range of the values.

    Args:
        log_weights: [m] natural log, task by task; NaN is none.
        values: [m] NaN is none.
        offsets: [n + 1].

    Returns:
        [n] NaN for a task without weight.

    Raises:
        InvalidInput: sizes that do not fit, or an infinite value.
    """
    tasks = weigh_tasks(_usable(log_weights, values), offsets)
    alive = tasks.total > 0
    total = sum_of_tasks(tasks.relative * np.nan_to_num(values), offsets)
    return np.where(alive, total / np.where(alive, tasks.total, 1.0), np.nan)


def per_decision_mean(
    token_log_ratios: Float64[np.ndarray, " t"],
    rewards: Float64[np.ndarray, " t"],
    offsets: Int64[np.ndarray, " m1"],
) -> Rows:
    """Return of each sequence, every step's reward weighted by the ratio of what led to it.

        sum_t (prod_{s <= t} r_s) R_t

    Unbiased for the expected return under the evaluated policy, with less variance than the sequence ratio times the return. With a terminal reward alone the two
    agree.

    Args:
        token_log_ratios: [t] sequence by sequence.
        rewards: [t] of each step.
        offsets: [m + 1] where each sequence begins.

    Returns:
        [m].

    Raises:
        InvalidInput: sizes that do not fit.
    """
    if token_log_ratios.shape != rewards.shape:
        raise InvalidInput("ratios and rewards: must be as many")
    log_ratios = prefix_log_ratios(token_log_ratios, offsets)
    # A ratio that overflows, or is unknown, does not matter to a step without reward.
    with np.errstate(over="ignore"):
        ratios = np.exp(np.where(rewards == 0, 0.0, log_ratios))
    return sum_of_tasks(ratios * rewards, offsets)


def v_trace(
    token_log_ratios: Float64[np.ndarray, " t"],
    rewards: Float64[np.ndarray, " t"],
    values: Float64[np.ndarray, " t"],
    offsets: Int64[np.ndarray, " m1"],
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    trace: float = 1.0,
    discount: float = 1.0,
) -> Float64[np.ndarray, " t"]:
    """Value targets with clipped ratios.

        v_t = V_t + sum_{s >= t} discount^(s - t) (prod_{t <= i < s} c_i) rho_s (R_s + discount V_{s+1} - V_s),
        rho = min(rho_bar, r), c = trace min(c_bar, r), V = 0 after the last step

    Their fixed point is the value of a policy between sampler and evaluated one that `rho_bar` decides: the evaluated one as it goes to infinity. With both bars
    infinite, V = 0 and trace 1, the first target is the per-decision estimate.

    Args:
        token_log_ratios: [t] sequence by sequence.
        rewards: [t].
        values: [t] V before each step.
        offsets: [m + 1].
        rho_bar: above 0.
        c_bar: above 0.
        trace: lambda in [0, 1].
        discount: in [0, 1].

    Returns:
        [t] targets.

    Raises:
        InvalidInput: sizes that do not fit, a bar that is not above 0, or a trace or discount outside [0, 1].

    Source: Espeholt et al. 2018 (arXiv 1802.01561), equation 1.
    """
    check_offsets(offsets, token_log_ratios.size)
    if not (token_log_ratios.shape == rewards.shape == values.shape):
        raise InvalidInput("ratios, rewards and values: must be as many")
    if not (rho_bar > 0 and c_bar > 0):
        raise InvalidInput(f"rho_bar {rho_bar}, c_bar {c_bar}: must be above 0")
    if not (0 <= trace <= 1 and 0 <= discount <= 1):
        raise InvalidInput(f"trace {trace}, discount {discount}: must be in [0, 1]")
    with np.errstate(over="ignore"):
        ratios = np.exp(token_log_ratios)
    rho, c = np.minimum(ratios, rho_bar), trace * np.minimum(ratios, c_bar)
    owner = task_of(offsets)
    last = np.append(owner[1:] != owner[:-1], True)[: owner.size]
    following = np.where(last, 0.0, np.append(values[1:], 0.0)[: values.size])
    difference = rho * (rewards + discount * following - values)
    correction = np.empty_like(values)
    carried = 0.0
    for t in range(values.size - 1, -1, -1):
        carried = difference[t] + (0.0 if last[t] else discount * c[t] * carried)
        correction[t] = carried
    return values + correction


def _usable(log_weights: Rows, values: Rows) -> Rows:
    if log_weights.shape != values.shape:
        raise InvalidInput("weights and values: must be as many")
    if np.isinf(values).any():
        raise InvalidInput("values: must be finite, or NaN where there is none")
    return np.where(np.isnan(values), np.nan, log_weights)
