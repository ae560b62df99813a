"""Two logs on the prompts that they have in common: differences task by task, from common resamples."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.rollout_logs.analysis import Analysis, Statistic
from experiments.rollout_logs.drafts import (
    Draft,
    mean_over_tasks,
    ratio_of_sums,
    refused,
    with_intervals,
)
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.task_table import Column

_GROW_WITH_ROWS = ("oracle@N", "unique_answer_rate", "unique_trajectory_rate")


class Analyzed(NamedTuple):
    """An analysis with the numbers of each task behind it.

    Attributes:
        analysis: what was found.
        drafts: its statistics before their intervals, in the same order.
        prompts: names of the tasks, in order.
    """

    analysis: Analysis
    drafts: Sequence[Draft]
    prompts: Sequence[str]


class Comparison(NamedTuple):
    """First minus second.

    Attributes:
        common: prompts in both.
        only_first: prompts of the first alone.
        only_second: prompts of the second alone.
        statistics: paired differences.
    """

    common: int
    only_first: int
    only_second: int
    statistics: tuple[Statistic, ...]


def compare(first: Analyzed, second: Analyzed, options: AnalysisOptions) -> Comparison:
    """The paired difference of every statistic that is a mean over tasks or rows.

    Args:
        first: one log.
        second: another.
        options: seed, resamples and level.

    Returns:
        First minus second, on common prompts.
    """
    place = {name: index for index, name in enumerate(second.prompts)}
    pairs = [(here, place[name]) for here, name in enumerate(first.prompts) if name in place]
    mine = np.array([here for here, _ in pairs], np.int64)
    yours = np.array([there for _, there in pairs], np.int64)
    others = {draft.statistic.name: draft for draft in second.drafts}
    made = [
        _difference(draft, others.get(draft.statistic.name), mine, yours) for draft in first.drafts
    ]
    statistics = with_intervals(made, len(pairs), options)
    return Comparison(
        common=len(pairs),
        only_first=len(first.prompts) - len(pairs),
        only_second=len(second.prompts) - len(pairs),
        statistics=tuple(statistics),
    )


def _difference(first: Draft, second: Draft | None, mine: np.ndarray, yours: np.ndarray) -> Draft:
    name = first.statistic.name
    bare = Statistic(name, None)
    if second is None:
        return refused(bare, refuse("R17", "the second log does not have it"))
    for draft, word in ((first, "first"), (second, "second")):
        if draft.statistic.refusal is not None:
            code, reason = draft.statistic.refusal, draft.statistic.reason
            return refused(bare, Refused(code, f"in the {word} log: {reason}"))
    if first.numerators is None or second.numerators is None:
        return refused(
            bare, refuse("R17", "it is no mean over tasks, so that it has no paired difference")
        )
    sizes = [draft.statistic.samples for draft in (first, second)]
    if name in _GROW_WITH_ROWS and sizes[0] != sizes[1]:
        return refused(
            bare,
            refuse(
                "R17",
                f"tasks have {sizes[0]} and {sizes[1]} rows (least, most) and it grows with them",
            ),
        )
    if not mine.size:
        return refused(bare, refuse("R17", "the logs have no prompt in common"))
    a, b = _values(first)[mine], _values(second)[yours]
    statistic = Statistic(
        name,
        None,
        estimator=f"paired difference, first minus second, mean over common tasks: {first.statistic.estimator}",
        unit=first.statistic.unit,
        samples=first.statistic.samples,
        notes=(f"first {_mean(a):.6g}, second {_mean(b):.6g} on common tasks",)
        if np.isfinite(a).any() and np.isfinite(b).any()
        else (),
    )
    return mean_over_tasks(statistic, a - b)


def _mean(values: Column) -> float:
    known = np.isfinite(values)
    return ratio_of_sums(np.where(known, values, 0.0), known.astype(np.float64))


def _values(draft: Draft) -> Column:
    """One number a task, NaN for a task without a part in it."""
    above, below = draft.numerators, draft.denominators
    if above is None or below is None:
        return np.empty(0)
    return np.where(below != 0, above / np.where(below != 0, below, 1.0), np.nan)


def comparison_counts(found: Comparison) -> Mapping[str, int]:
    """How many prompts stand behind it.

    Args:
        found: the comparison.

    Returns:
        For the JSON.
    """
    return {
        "common": found.common,
        "only_first": found.only_first,
        "only_second": found.only_second,
    }
