"""Statistics before their intervals: the numbers of each task wait, so that all intervals come from one set of resamples."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.rollout_logs.analysis import IntervalRecord, Statistic
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import Refused, refuse
from theory.errors import InvalidInput
from theory.estimators.bootstrap import percentile_interval, resample_counts, resampled_means
from theory.estimators.interval import t_interval_of_ratio

Column = NDArray[np.float64]

# More tasks than this are resampled in groups.
MOST_TASKS = 2000
NUM_GROUPS = 500


class Draft(NamedTuple):
    """A statistic that is a ratio of sums over tasks, or has no such form.

    Attributes:
        statistic: with its value.
        numerators: [n] of each task, or None.
        denominators: [n] of each task; 0 for a task that has no part in it.
        over: [t] one number a task, where the statistic is their median.
    """

    statistic: Statistic
    numerators: Column | None = None
    denominators: Column | None = None
    over: Column | None = None


def refused(name: str, refusal: Refused, **more: object) -> Draft:
    """A row for a number that is not given.

    Args:
        name: of the statistic.
        refusal: why.
        **more: other attributes of the statistic.

    Returns:
        The draft, without a value.
    """
    return Draft(
        Statistic(name, None, refusal=refusal.code, reason=refusal.reason)._replace(**more)
    )


def mean_over_tasks(statistic: Statistic, values: Column) -> Draft:
    """The mean of one number a task over the tasks that have one.

    Args:
        statistic: without its value.
        values: [n]; NaN for a task that has none.

    Returns:
        The draft; its value is NaN where no task has one.
    """
    known = ~np.isnan(values)
    return ratio_over_tasks(statistic, np.where(known, values, 0.0), known.astype(np.float64))


def ratio_over_tasks(statistic: Statistic, numerators: Column, denominators: Column) -> Draft:
    """A ratio of sums over tasks.

    Args:
        statistic: without its value.
        numerators: [n].
        denominators: [n]; 0 for a task that has no part in it.

    Returns:
        The draft.
    """
    total = float(denominators.sum())
    value = float(numerators.sum()) / total if total else None
    tasks = int(np.count_nonzero(denominators))
    return Draft(statistic._replace(value=value, tasks=tasks), numerators, denominators)


def median_over_tasks(statistic: Statistic, values: Column) -> Draft:
    """The median of one number a task over the tasks that have one.

    Args:
        statistic: without its value.
        values: [n]; NaN for a task that has none.

    Returns:
        The draft.
    """
    known = values[np.isfinite(values)]
    value = float(np.median(known)) if known.size else None
    return Draft(statistic._replace(value=value, tasks=known.size), over=known)


def with_intervals(
    drafts: Sequence[Draft], num_tasks: int, options: AnalysisOptions
) -> list[Statistic]:
    """Give every statistic its interval, all from the same resamples of tasks.

    Args:
        drafts: of one log.
        num_tasks: n.
        options: seed, resamples and level.

    Returns:
        The statistics in the same order.
    """
    ratios = [draft for draft in drafts if draft.numerators is not None]
    replicates = _replicates(ratios, num_tasks, options)
    finished: list[Statistic] = []
    place = 0
    for draft in drafts:
        if draft.numerators is not None:
            found = replicates[:, place] if replicates is not None else None
            finished.append(_finish(draft, found, num_tasks, options))
            place += 1
        elif draft.over is not None:
            interval = median_interval(draft.over, options.level)
            finished.append(draft.statistic._replace(interval=interval))
        else:
            finished.append(draft.statistic)
    return [_never_silent(statistic) for statistic in finished]


def _never_silent(statistic: Statistic) -> Statistic:
    """A number that no task could give has its reason too."""
    if statistic.refusal is not None or (
        statistic.value is not None and math.isfinite(statistic.value)
    ):
        return statistic
    if statistic.value is not None:
        refusal = refuse("R20", f"{statistic.name} is not finite: weights overflow")
    else:
        refusal = refuse("R0", f"no task has what {statistic.name} needs")
    return statistic._replace(value=None, refusal=refusal.code, reason=refusal.reason)


def groups_of(num_tasks: int, seed: int) -> NDArray[np.int64]:
    """Which group of tasks each is resampled in: its own, or one of many random ones of nearly equal size.

    The mean over resampled groups has the variance of the mean over resampled tasks: random groups of independent tasks are independent.

    Args:
        num_tasks: n.
        seed: of the resampling.

    Returns:
        [n] group of each task.
    """
    if num_tasks <= MOST_TASKS:
        return np.arange(num_tasks, dtype=np.int64)
    groups = np.arange(num_tasks, dtype=np.int64) % NUM_GROUPS
    np.random.default_rng([seed, 1]).shuffle(groups)
    return groups


def _replicates(drafts: Sequence[Draft], num_tasks: int, options: AnalysisOptions) -> Column | None:
    """[R, s] each ratio in each resample; NaN where its denominators sum to 0."""
    if num_tasks < 2 or not drafts:
        return None
    groups = groups_of(num_tasks, options.seed)
    num_groups = int(groups.max()) + 1
    counts = resample_counts(np.random.default_rng(options.seed), num_groups, options.num_resamples)
    columns = [
        np.bincount(groups, weights=column, minlength=num_groups)
        for draft in drafts
        for column in (draft.numerators, draft.denominators)
        if column is not None
    ]
    means = resampled_means(counts, np.stack(columns, axis=1))
    above, below = means[:, 0::2], means[:, 1::2]
    return np.where(below == 0, np.nan, above / np.where(below == 0, 1.0, below))


def _finish(
    draft: Draft, replicates: Column | None, num_tasks: int, options: AnalysisOptions
) -> Statistic:
    statistic = draft.statistic
    if (
        statistic.value is None
        or not math.isfinite(statistic.value)
        or draft.numerators is None
        or draft.denominators is None
    ):
        return statistic
    if replicates is None or statistic.tasks < 2:
        return statistic._replace(notes=(*statistic.notes, "no interval: one task"))
    notes = list(statistic.notes)
    kept = draft.denominators != 0
    try:
        student = t_interval_of_ratio(
            draft.numerators[kept], draft.denominators[kept], options.level
        )
        notes.append(f"Student's t interval over tasks: [{student.low:.6g}, {student.high:.6g}]")
        found = percentile_interval(replicates, options.level, statistic.tasks)
    except InvalidInput as error:
        return statistic._replace(notes=(*notes, f"no bootstrap interval: {error}"))
    method = "percentile bootstrap over tasks"
    if num_tasks > MOST_TASKS:
        method += f" in {NUM_GROUPS} random groups"
    interval = IntervalRecord(found.low, found.high, found.level, method)
    return statistic._replace(interval=interval, seed=options.seed, notes=tuple(notes))


def median_interval(values: Column, level: float) -> IntervalRecord | None:
    """Order statistics that hold the median with at least the level, whatever the law (binomial).

        [x_(j), x_(n + 1 - j)] with the largest j such that P(Binomial(n, 1/2) < j) <= (1 - level)/2

    Args:
        values: [t] one a task.
        level: nominal coverage.

    Returns:
        The interval, or None where even the extremes hold it less often.
    """
    n = values.size
    if n == 0:
        return None
    j = int(stats.binom.ppf((1 - level) / 2, n, 0.5))
    while j > 0 and stats.binom.cdf(j - 1, n, 0.5) > (1 - level) / 2:
        j -= 1
    if j == 0:
        return None
    ordered = np.sort(values)
    return IntervalRecord(
        float(ordered[j - 1]),
        float(ordered[n - j]),
        level,
        "order statistics over tasks (binomial)",
    )
