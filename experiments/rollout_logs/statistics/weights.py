"""The mean under another policy, and how much of the sample is left under importance weights (see `weight_columns`)."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    MISSING_SHARE,
    Check,
    few_missing,
    first_refusal,
    has,
    has_success,
    one_policy,
)
from experiments.rollout_logs.drafts import (
    Draft,
    mean_over_tasks,
    median_over_tasks,
    ratio_over_tasks,
    refused,
    wanted,
)
from experiments.rollout_logs.logp_checks import (
    behavior_present,
    covers,
    processed,
    same_law,
    sums_not_means,
)
from experiments.rollout_logs.options import band_of
from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.task_table import Column, Log

LEAST_ESS = 2.0


def drafts(log: Log) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.

    Returns:
        is_mean, snis_mean, tis_mean, masked_mean, ess, ess_fraction, max_weight, clipped_share, tis_ess_fraction, masked_share, and with an exponent power_ess, power_max_weight, power_accuracy.
    """
    low, clip = band_of(log.options.clip)
    means = (
        ("is_mean", "sum of w r over n", "is-seq"),
        ("snis_mean", "sum of w r over sum of w", "snis-seq, bias of order 1/n"),
        (
            "tis_mean",
            f"sum of min(w, {clip:g}) r over n",
            f"tis-seq {clip:g}, biased towards 0",
        ),
        (
            "masked_mean",
            f"sum of w r over n with w outside of [{low:g}, {clip:g}] taken as 0",
            f"mask-seq {low:g} {clip:g}, biased: rows are dropped",
        ),
    )
    made = wanted(
        log.options,
        *((name, partial(_mean, log, name, *words)) for name, *words in means),
        ("ess", lambda: _ess(log, "ess", "is", weight_checks(log))),
        ("ess_fraction", lambda: _fraction(log)),
        ("max_weight", lambda: _largest(log, "max_weight", "is", weight_checks(log))),
        (
            "clipped_share",
            lambda: _share(log, "clipped_share", f"rows with w > {clip:g}", "is_clipped"),
        ),
        ("tis_ess_fraction", lambda: _applied_fraction(log)),
        (
            "masked_share",
            lambda: _share(
                log, "masked_share", f"rows with w outside of [{low:g}, {clip:g}]", "is_masked"
            ),
        ),
    )
    if log.options.power_alpha is None:
        return made
    return made + wanted(
        log.options,
        ("power_ess", lambda: _ess(log, "power_ess", "power", power_checks())),
        ("power_max_weight", lambda: _largest(log, "power_max_weight", "power", power_checks())),
        ("power_accuracy", lambda: _power_accuracy(log)),
    )


def weight_checks(log: Log) -> tuple[Check, ...]:
    """What weights of whole sequences must pass.

    Args:
        log: its facts.

    Returns:
        The checks in the order in which they speak.
    """
    if not log.facts.present["target_logp"]:
        return (weight_present, one_policy, _few_without_weight)
    return (
        weight_present,
        one_policy,
        sums_not_means,
        few_missing("target_logp"),
        few_missing("behavior_logp"),
        processed,
        same_law("target_logp"),
        covers("target_logp"),
    )


def power_checks() -> tuple[Check, ...]:
    """What weights of sequence power must pass.

    Returns:
        The checks in the order in which they speak.
    """
    return (
        has("base_logp"),
        behavior_present,
        one_policy,
        sums_not_means,
        few_missing("base_logp"),
        few_missing("behavior_logp"),
        processed,
        same_law("base_logp"),
        covers("base_logp"),
    )


def _few_without_weight(log: Log) -> Refused | None:
    """R8: at most 1 % of the rows lack the weight that the sampler records."""
    missing = int(log.facts.rows - log.table["is_number"].sum())
    if missing <= MISSING_SHARE * log.facts.rows:
        return None
    return refuse("R8", f"{missing} of {log.facts.rows} rows have no log_weight")


def weight_present(log: Log) -> Refused | None:
    """R0 or R18: rows have a weight."""
    present = log.facts.present
    if present["target_logp"]:
        return behavior_present(log)
    if present["log_weight"]:
        return None
    return refuse("R0", "no row has target_logp or log_weight")


def statistic_of(log: Log, name: str, estimator: str, unit: str, kind: str) -> Statistic:
    """A statistic of weighted rows, without its value.

    Args:
        log: facts and table.
        name: of the statistic.
        estimator: how it is made.
        unit: of the number.
        kind: "is", "power", or "limit" where all exponents are meant.

    Returns:
        The statistic.
    """
    number = log.table.get(f"{kind}_number")
    missing = 0 if number is None else int(log.facts.rows - number.sum())
    samples = None if number is None or not number.size else (int(number.min()), int(number.max()))
    words = "exact"
    if kind != "is":
        alpha = log.options.power_alpha
        words = f"power alpha{f' = {alpha:g}' if kind == 'power' else ''} of the sum"
    return Statistic(
        name,
        None,
        estimator=f"{estimator}; weights of whole sequences, {words}",
        unit=f"{unit}; resampled: tasks",
        samples=samples,
        excluded={"no weight": missing} if missing else {},
        missing=f"rows without a usable log probability are left out ({missing})",
        nan="counts as missing",
        policy=log.facts.policy._replace(
            evaluated="target policy" if kind == "is" else "base policy to the power alpha"
        ),
    )


def _mean(log: Log, name: str, estimator: str, label: str) -> Draft:
    value = "reward" if log.facts.present["reward"] else log.success.words
    statistic = statistic_of(
        log,
        name,
        f"{estimator} in each task, r is {value}, mean over tasks ({label})",
        "task",
        "is",
    )
    refusal = first_refusal(log, weight_checks(log))
    if refusal is None and not log.facts.present["reward"]:
        refusal = has_success(log)
    if refusal is not None:
        return refused(statistic, refusal)
    return mean_over_tasks(statistic._replace(notes=diagnostics(log, "is")), log.table[name])


def diagnostics(log: Log, kind: str) -> tuple[str, ...]:
    """Effective sample size and largest share beside every reweighted number.

    Args:
        log: its table.
        kind: "is" or "power".

    Returns:
        Notes.
    """
    ess, largest = log.table[f"{kind}_ess"], log.table[f"{kind}_max"]
    known = np.isfinite(ess)
    if not known.any():
        return ("all weights are 0: nothing of the target was drawn",)
    notes = [
        f"ess by task: median {np.median(ess[known]):.6g}, minimum {ess[known].min():.6g}, share under 2: {np.mean(ess[known] < 2):.4g}",
        f"largest share of a row: median {np.median(largest[known]):.6g}, maximum {largest[known].max():.6g}",
    ]
    if kind == "is":
        mean = log.table["is_weight_mean"]
        notes.append(
            f"mean weight {np.nanmean(mean):.6g}, near 1 where both densities are normalised"
        )
    return tuple(notes)


def _pooled_ess(table: Mapping[str, Column], kind: str) -> float:
    totals, squares = table[f"{kind}_log_total"], table[f"{kind}_log_squares"]
    return float(np.exp(2 * _log_sum(totals) - _log_sum(squares)))


def _log_sum(logs: Column) -> float:
    peak = float(logs.max())
    return peak + float(np.log(np.exp(logs - peak).sum()))


def _of_tasks(
    log: Log,
    statistic: Statistic,
    checks: tuple[Check, ...],
    column: Callable[[Mapping[str, Column]], Column],
    notes: Callable[[Mapping[str, Column], Column], tuple[str, ...]],
) -> Draft:
    """The median over tasks of a number that no task has whose weights are all 0; notes are of the tasks that have it."""
    refusal = first_refusal(log, checks)
    if refusal is not None:
        return refused(statistic, refusal)
    values = column(log.table)
    known = values[np.isfinite(values)]
    words = (
        notes(log.table, known)
        if known.size
        else ("all weights are 0: nothing of the target was drawn",)
    )
    return median_over_tasks(statistic._replace(notes=words), values)


def _share(log: Log, name: str, estimator: str, column: str) -> Draft:
    """Rows of some kind over all rows with a weight."""
    statistic = statistic_of(log, name, f"{estimator} over rows", "share", "is")
    refusal = first_refusal(log, weight_checks(log))
    if refusal is not None:
        return refused(statistic, refusal)
    return ratio_over_tasks(statistic, log.table[column], log.table["is_number"])


def _over_rows(table: Mapping[str, Column], name: str) -> Column:
    number = table["is_number"]
    return table[name] / np.where(number > 0, number, np.nan)


def _ess(log: Log, name: str, kind: str, checks: tuple[Check, ...]) -> Draft:
    return _of_tasks(
        log,
        statistic_of(log, name, "(sum w)^2 / sum w^2 in each task, median over tasks", "row", kind),
        checks,
        lambda table: table[f"{kind}_ess"],
        lambda table, known: (
            f"minimum {known.min():.6g}",
            f"pooled over all rows {_pooled_ess(table, kind):.6g}",
            f"tasks whose weights are all 0: {table[f'{kind}_ess'].size - known.size}",
        ),
    )


def _fraction(log: Log) -> Draft:
    return _of_tasks(
        log,
        statistic_of(
            log, "ess_fraction", "ess over rows in each task, median over tasks", "share", "is"
        ),
        weight_checks(log),
        lambda table: _over_rows(table, "is_ess"),
        lambda table, known: (
            f"minimum {known.min():.6g}",
            f"pooled over all rows {_pooled_ess(table, 'is') / table['is_number'].sum():.6g}",
        ),
    )


def _largest(log: Log, name: str, kind: str, checks: tuple[Check, ...]) -> Draft:
    def notes(table: Mapping[str, Column], known: Column) -> tuple[str, ...]:
        pooled = float(np.exp(table[f"{kind}_peak"].max() - _log_sum(table[f"{kind}_log_total"])))
        return (
            f"minimum {known.min():.6g}",
            f"maximum {known.max():.6g}",
            f"pooled over all rows {pooled:.6g}",
        )

    statistic = statistic_of(
        log, name, "largest w over sum of w in each task, median over tasks", "share", kind
    )
    return _of_tasks(log, statistic, checks, lambda table: table[f"{kind}_max"], notes)


def _applied_fraction(log: Log) -> Draft:
    clip = log.options.clip
    note = "cut weights are alike: ess_fraction, of the raw weights, is what is left of the sample"
    return _of_tasks(
        log,
        statistic_of(
            log,
            "tis_ess_fraction",
            f"ess of min(w, {clip:g}) over rows in each task, median over tasks",
            "share",
            "is",
        ),
        weight_checks(log),
        lambda table: _over_rows(table, "is_tis_ess"),
        lambda table, known: (note,),
    )


def _power_accuracy(log: Log) -> Draft:
    statistic = statistic_of(
        log,
        "power_accuracy",
        f"sum of w over successes / sum of w in each task, mean over tasks; a success is: {log.success.words}",
        "task",
        "power",
    )
    refusal = first_refusal(log, (*power_checks(), has_success, _enough_ess))
    if refusal is not None:
        return refused(statistic, refusal)
    notes = diagnostics(log, "power")
    return mean_over_tasks(statistic._replace(notes=notes), log.table["power_accuracy"])


def _enough_ess(log: Log) -> Refused | None:
    """R20: the rows hold enough of the target's mass."""
    ess = log.table["power_ess"]
    known = ess[np.isfinite(ess)]
    median = float(np.median(known)) if known.size else 0.0
    if median >= LEAST_ESS:
        return None
    return refuse("R20", f"median power_ess {median:.4g} is under {LEAST_ESS:g}")
