"""mean_reward: what training saw, task by task."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import first_refusal, has, one_policy
from experiments.rollout_logs.drafts import Draft, mean_over_tasks, refused
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, sums_of_known


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Sum and number of the finite rewards of each task.

    Args:
        rows: of some tasks.
        success: unused.
        options: unused.

    Returns:
        "reward_sum" and "rewards", where any row has a reward.
    """
    del success, options
    if "reward" not in rows.columns:
        return {}
    total, number = sums_of_known(rows.numbers("reward"), rows.offsets)
    return {"reward_sum": total, "rewards": number}


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
        return [refused("mean_reward", refusal, unit=statistic.unit, policy=facts.policy)]
    total, number = log.table["reward_sum"], log.table["rewards"]
    known = number > 0
    values = np.where(known, total / np.where(known, number, 1.0), np.nan)
    by_row = float(total.sum() / number.sum())
    notes = [f"mean over rows: {by_row:.6g}"]
    missing = log.table["rows"] - number
    if missing.sum() and facts.reward_range is not None:
        low, high = (
            float(((total + missing * end) / log.table["rows"]).mean())
            for end in facts.reward_range
        )
        notes.append(
            f"rows without a finite reward ({int(missing.sum())}) at the least reward of the log: {low:.6g}, at the greatest: {high:.6g}"
        )
    excluded = {"no reward": absent, "reward not finite": facts.reward_not_finite}
    return [
        mean_over_tasks(
            statistic._replace(
                samples=(int(number[known].min()), int(number[known].max())),
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
