"""Lengths, times, calls and cut rows: what the rollouts cost."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import first_refusal, has
from experiments.rollout_logs.drafts import Draft, least_and_most, ratio_over_tasks, refused
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, sums_of_known

_SUMMED = (
    "completion_tokens",
    "wall_s",
    "model_calls",
    "verifier_calls",
    "tool_calls",
    "env_steps",
)
_TOTALS = {
    "model_calls": "call",
    "verifier_calls": "call",
    "tool_calls": "call",
    "env_steps": "step",
}


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Sum and number of the known values of each task.

    Args:
        rows: of some tasks.
        success: unused.
        options: unused.

    Returns:
        "NAME_sum" and "NAME_known" for every cost that some row has, and the rows that say whether they were cut.
    """
    del success, options
    found: dict[str, Column] = {}
    for name in _SUMMED:
        if name in rows.columns:
            total, number = sums_of_known(rows.numbers(name), rows.offsets)
            found |= {f"{name}_sum": total, f"{name}_known": number}
    if "truncated" in rows.columns:
        flag = rows.numbers("truncated")
        total, number = sums_of_known(np.where(flag < 0, np.nan, flag), rows.offsets)
        found |= {"truncated_sum": total, "truncated_known": number}
    return found


def drafts(log: Log, median_tokens: float | None) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.
        median_tokens: over all rows that have a length.

    Returns:
        tokens_mean, tokens_median, wall_s_mean, the totals of calls and steps, and truncated_rate.
    """
    return [
        _mean(log, "tokens_mean", "completion_tokens", "token"),
        _median(log, median_tokens),
        _mean(log, "wall_s_mean", "wall_s", "second"),
        *(_total(log, name, unit) for name, unit in _TOTALS.items()),
        _mean(log, "truncated_rate", "truncated", "row"),
    ]


def _base(log: Log, name: str, column: str, estimator: str, unit: str) -> Statistic | Draft:
    statistic = Statistic(
        name,
        None,
        estimator=estimator,
        unit=f"{unit}; resampled: tasks",
        policy=log.facts.policy,
    )
    refusal = first_refusal(log, (has(column),))
    if refusal is not None:
        return refused(statistic, refusal)
    number = log.table[f"{column}_known"]
    absent = int(log.facts.rows - number.sum())
    known = number[number > 0]
    return statistic._replace(
        tasks=known.size,
        samples=least_and_most(known) if known.size else None,
        excluded={"no value": absent} if absent else {},
        missing=f"rows without it are left out ({absent})",
    )


def _mean(log: Log, name: str, column: str, unit: str) -> Draft:
    base = _base(log, name, column, "mean over rows", unit)
    if isinstance(base, Draft):
        return base
    return ratio_over_tasks(base, log.table[f"{column}_sum"], log.table[f"{column}_known"])


def _total(log: Log, name: str, unit: str) -> Draft:
    base = _base(log, name, name, "total over rows", unit)
    if isinstance(base, Draft):
        return base
    total, number = log.table[f"{name}_sum"], log.table[f"{name}_known"]
    mean = float(total.sum() / number.sum())
    return Draft(base._replace(value=float(total.sum()), notes=(f"mean over rows: {mean:.6g}",)))


def _median(log: Log, median_tokens: float | None) -> Draft:
    base = _base(log, "tokens_median", "completion_tokens", "median over rows", "token")
    if isinstance(base, Draft):
        return base
    return Draft(base._replace(value=median_tokens))
