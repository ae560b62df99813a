"""Sums of the importance weights of each task, without leaving logarithms before the greatest weight is taken out.

The weight of a row is exp(target_logp - behavior_logp), or what the sampler recorded as log_weight; for sequence power it is
exp(alpha base_logp - behavior_logp). All in natural logarithms over the whole trajectory, never a mean over tokens.
"""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.families import FAMILIES
from experiments.rollout_logs.options import AnalysisOptions, band_of
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Success, successes, sums, usable_logp
from theory.estimators.off_policy import (
    effective_sizes,
    importance_mean,
    masked,
    truncated,
    weigh_tasks,
)

_APPLIED_MEANS = ("tis_mean", "masked_mean")


def log_weights_of(rows: TaskRows) -> Column | None:
    """The log importance weight of each row.

    Args:
        rows: of some tasks.

    Returns:
        [m], NaN where a part is missing; None where no row has one.
    """
    if "target_logp" in rows.columns and "behavior_logp" in rows.columns:
        return usable_logp(rows, "target_logp") - usable_logp(rows, "behavior_logp")
    if "log_weight" in rows.columns:
        found = rows.numbers("log_weight")
        return np.where(found == np.inf, np.nan, found)
    return None


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Sums of weights in each task.

    Args:
        rows: of some tasks.
        success: what counts, where rows have no reward.
        options: the exponent, the clip and the statistics that are wanted.

    Returns:
        "is_ess", "is_number", "is_max", "is_clipped", "is_mean", "snis_mean", and the same for "power_".
    """
    found: dict[str, Column] = {}
    wants = options.wants
    outcome = _value(rows, success)
    weights = log_weights_of(rows)
    if weights is not None:
        found |= _summary("is", weights, rows.offsets)
        found["is_clipped"] = sums(weights > np.log(options.clip), rows.offsets)
        if wants("is_mean", "snis_mean", "off_policy_pass@K", *_APPLIED_MEANS):
            found |= _means(weights, outcome, rows.offsets)
        if wants("tis_ess_fraction", "masked_share", *_APPLIED_MEANS):
            found |= _applied(weights, outcome, rows, options)
    alpha = options.power_alpha if wants(*FAMILIES["power"]) else None
    if alpha is not None and {"base_logp", "behavior_logp"} <= rows.columns.keys():
        base, behavior = usable_logp(rows, "base_logp"), usable_logp(rows, "behavior_logp")
        power = alpha * base - behavior
        found |= _summary("power", power, rows.offsets)
        judged = successes(rows, success)
        weighed = weigh_tasks(np.where(np.isnan(judged), np.nan, power), rows.offsets)
        won = sums(weighed.relative * np.nan_to_num(judged), rows.offsets)
        found["power_accuracy"] = _ratio(won, weighed.total)
    return found


def _applied(
    weights: Column, values: Column, rows: TaskRows, options: AnalysisOptions
) -> dict[str, Column]:
    """The same of weights as trainers apply them."""
    cut = truncated(weights, options.clip, "seq").log_weights
    kept = masked(weights, *band_of(options.clip), "seq").log_weights
    return {
        "is_tis_ess": effective_sizes(weigh_tasks(cut, rows.offsets)),
        "is_masked": sums(np.isneginf(kept), rows.offsets),
        "tis_mean": importance_mean(cut, values, rows.offsets),
        "masked_mean": importance_mean(kept, values, rows.offsets),
    }


def _value(rows: TaskRows, success: Success) -> Column:
    """What is averaged: the reward, or the outcome where there is none."""
    if "reward" in rows.columns:
        reward = rows.numbers("reward")
        return np.where(np.isfinite(reward), reward, np.nan)
    return successes(rows, success)


def _summary(name: str, weights: Column, offsets: np.ndarray) -> dict[str, Column]:
    weighed = weigh_tasks(weights, offsets)
    alive = np.isfinite(weighed.peak)
    ess = np.where(alive, weighed.total**2 / np.where(alive, weighed.squares, 1.0), np.nan)
    return {
        f"{name}_number": weighed.num_weights,
        f"{name}_ess": ess,
        f"{name}_max": np.where(alive, 1 / np.where(alive, weighed.total, 1.0), np.nan),
        f"{name}_log_total": weighed.peak + np.log(np.where(alive, weighed.total, 1.0)),
        f"{name}_log_squares": 2 * weighed.peak + np.log(np.where(alive, weighed.squares, 1.0)),
        f"{name}_peak": weighed.peak,
    }


def _means(weights: Column, values: Column, offsets: np.ndarray) -> dict[str, Column]:
    weighed = weigh_tasks(np.where(np.isnan(values), np.nan, weights), offsets)
    total = sums(weighed.relative * np.nan_to_num(values), offsets)
    alive = np.isfinite(weighed.peak)
    with np.errstate(over="ignore"):  # such a mean is refused
        scale = np.exp(np.where(alive, weighed.peak, 0.0))
    some = weighed.num_weights > 0
    return {
        "is_mean": importance_mean(weights, values, offsets),
        "snis_mean": _ratio(total, weighed.total),
        "is_weight_mean": np.where(
            some, scale * weighed.total / np.where(some, weighed.num_weights, 1.0), np.nan
        ),
    }


def _ratio(above: Column, below: Column) -> Column:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)
