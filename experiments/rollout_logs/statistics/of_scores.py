"""What statistics of the score of the search verifier have in common."""

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    few_missing,
    has,
    has_success,
    missing_of,
    verifiers_differ,
)
from experiments.rollout_logs.task_table import Log

INDICATOR = "an indicator, not a verdict"

# What a score beside the outcome must pass.
SCORED = (has("score"), has_success, verifiers_differ, few_missing("score"))


def of_scores(log: Log, name: str, estimator: str, unit: str) -> Statistic:
    """A statistic of rows with a score and an outcome, without its value.

    Args:
        log: its facts.
        name: of the statistic.
        estimator: how it is made.
        unit: of the number.

    Returns:
        The statistic.
    """
    missing = missing_of(log, "score")
    return Statistic(
        name,
        None,
        estimator=estimator,
        unit=f"{unit}; resampled: tasks",
        missing=f"rows without a score or an outcome are left out ({missing} without a finite score)",
        nan=f"scores that are not finite are left out ({log.facts.score_not_finite})",
        excluded={"no finite score": missing} if missing else {},
        policy=log.facts.policy,
    )
