"""mean_reward: what training saw, task by task."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import first_refusal, has, one_policy
from experiments.rollout_logs.drafts import (
    Draft,
    least_and_most,
    mean_over_tasks,
    ratio_of_sums,
    refused,
)
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, means_of_known


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Mean and number of the finite rewards of each task.

    Args:
        rows: of some tasks.
        success: unused.
        options: unused.

    Returns:
        "reward_mean" and "rewards", where any row has a reward.
    """
    del success, options
    if "reward" not in rows.columns:
        return {}
    mean, number = means_of_known(rows.numbers("reward"), rows.offsets)
    return {"reward_mean": mean, "rewards": number}


def drafts(log: Log) -> list[Draft]:
    """The statistic.

    Args:
        log: facts and table.

    Returns:
        mean_reward.
    """
    facts = log.facts
    absent = facts.rows - facts.present["reward"]
    statistic = Statistic(
        "mean_reward",
        None,
        estimator="mean over tasks of the mean reward of a task's rows",
        unit="reward; resampled: tasks",
        missing=f"rows without a reward are left out ({absent})",
        nan=f"rewards that are not finite are left out ({facts.reward_not_finite})",
        policy=facts.policy,
    )
    refusal = first_refusal(log, (has("reward"), some_finite, one_policy))
    if refusal is not None:
        return [refused(statistic, refusal)]
    mean, number = log.table["reward_mean"], log.table["rewards"]
    known = number > 0
    values = np.where(known, mean, np.nan)
    share = number / number.max()
    notes = [f"mean over rows: {ratio_of_sums(mean * share, share):.6g}"]
    missing = 1 - number / log.table["rows"]
    if missing.any() and facts.reward_range is not None:
        low, high = (
            ratio_of_sums(mean * (1 - missing) + missing * end, np.ones(mean.size))
            for end in facts.reward_range
        )
        notes.append(
            f"rows without a finite reward ({int((log.table['rows'] - number).sum())}) at the least reward of the log: {low:.6g}, at the greatest: {high:.6g}"
        )
    excluded = {"no reward": absent, "reward not finite": facts.reward_not_finite}
    return [
        mean_over_tasks(
            statistic._replace(
                samples=least_and_most(number[known]),
                excluded={reason: count for reason, count in excluded.items() if count},
                notes=tuple(notes),
            ),
            values,
        )
    ]


def some_finite(log: Log) -> Refused | None:
    """R11: a reward is finite."""
    if log.facts.reward_range is not None:
        return None
    return refuse("R11", "no reward is finite")
