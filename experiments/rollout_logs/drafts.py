"""Statistics before their intervals: the numbers of each task wait, so that all intervals come from one set of resamples."""

import math
from collections.abc import Callable, Iterable, Sequence
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


Maker = tuple[str, Callable[[], Draft]]


def wanted(options: AnalysisOptions, *makers: Maker) -> list[Draft]:
    """Make the statistics that are asked for.

    Args:
        options: which those are.
        *makers: name with K for any number of samples, and what makes the statistic.

    Returns:
        The drafts in their order.
    """
    return [make() for name, make in makers if options.wants(name)]


def refused(statistic: Statistic, refusal: Refused) -> Draft:
    """A row for a number that is not given.

    Args:
        statistic: that would have been given.
        refusal: why it is not.

    Returns:
        The draft: what the number would have been of, and no word on what it was made from.
    """
    return Draft(
        Statistic(
            statistic.name,
            None,
            refusal=refusal.code,
            reason=refusal.reason,
            estimator=statistic.estimator,
            unit=statistic.unit,
            policy=statistic.policy,
        )
    )


def least_and_most(sizes: NDArray[np.number]) -> tuple[int, int]:
    """The samples behind a number.

    Args:
        sizes: [n] of each task, at least one.

    Returns:
        Least and most.
    """
    return int(sizes.min()), int(sizes.max())


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
    tasks = int(np.count_nonzero(denominators))
    value = ratio_of_sums(numerators, denominators) if tasks else None
    return Draft(statistic._replace(value=value, tasks=tasks), numerators, denominators)


def ratio_of_sums(numerators: Column, denominators: Column) -> float:
    """Sum a / sum b, to the last digit where all a / b are equal, and finite where no a / b is beyond the range of doubles.

    Args:
        numerators: [n] a.
        denominators: [n] b, at least 0.

    Returns:
        The ratio; NaN where the denominators sum to 0.
    """
    total = float(denominators.sum())
    if not total:
        return math.nan
    unit = _unit_of(numerators)
    above = numerators / unit
    ratio = float(above.sum()) / total
    if math.isfinite(ratio):  # one step of refinement
        ratio += float((above - ratio * denominators).sum()) / total
    return ratio * unit


def _unit_of(values: Column) -> float:
    """What values are divided by so that their sums and squares are finite: 1 unless they are huge."""
    largest = float(np.abs(values).max(initial=0.0))
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if 1e100 < largest < math.inf else 1.0


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
    drafts: Iterable[Draft], num_tasks: int, options: AnalysisOptions
) -> list[Statistic]:
    """Give every statistic its interval, all from the same resamples of tasks.

    Args:
        drafts: of one log; each is let go before the next is asked for.
        num_tasks: n.
        options: seed, resamples and level.

    Returns:
        The statistics in the same order.
    """
    groups = groups_of(num_tasks, options.seed)
    waiting: list[_Waiting] = []
    for draft in drafts:
        waiting.append(_wait(draft, groups, options))
    replicates = iter(
        _replicates([each.sums for each in waiting if each.sums is not None], options)
    )
    return [
        _never_silent(
            each.statistic
            if each.sums is None
            else _finish(each, next(replicates), num_tasks, options)
        )
        for each in waiting
    ]


class _Waiting(NamedTuple):
    """A statistic on its way to a bootstrap interval.

    Attributes:
        statistic: with its value.
        sums: [2, groups] of the groups of tasks: of numerators less the value times denominators, in units of their own, and of denominators;
            None where there is no such interval.
        unit: of the first.
        value: of the statistic.
    """

    statistic: Statistic
    sums: Column | None
    unit: float = 1.0
    value: float = 0.0


def _wait(draft: Draft, groups: NDArray[np.int64], options: AnalysisOptions) -> _Waiting:
    statistic, above, below = draft.statistic, draft.numerators, draft.denominators
    if draft.over is not None:
        interval = median_interval(draft.over, options.level)
        return _Waiting(statistic._replace(interval=interval), None)
    if above is None or below is None:
        return _Waiting(statistic, None)
    if statistic.value is None or not math.isfinite(statistic.value):
        return _Waiting(statistic, None)
    if statistic.tasks < 2:
        note = "no interval: one task"
        return _Waiting(statistic._replace(notes=(*statistic.notes, note)), None)
    kept, unit = below != 0, _unit_of(above)
    above = above / unit
    student = t_interval_of_ratio(above[kept], below[kept], options.level)
    note = f"Student's t interval over tasks: [{student.low * unit:.6g}, {student.high * unit:.6g}]"
    # What is left of each task beside the ratio itself: equal tasks have an interval without width.
    rest = above - statistic.value / unit * below
    sums = np.stack(
        [np.bincount(groups, weights=each).astype(np.float64) for each in (rest, below)]
    )
    return _Waiting(statistic._replace(notes=(*statistic.notes, note)), sums, unit, statistic.value)


def _never_silent(statistic: Statistic) -> Statistic:
    """A number that no task could give has its reason too."""
    if statistic.refusal is not None or (
        statistic.value is not None and math.isfinite(statistic.value)
    ):
        return statistic
    if statistic.value is not None and "weight" in (statistic.estimator or ""):
        refusal = refuse("R20", f"{statistic.name} is not finite: weights overflow")
    elif statistic.value is not None:
        refusal = refuse("R11", f"{statistic.name} is beyond the range of double precision")
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


def _replicates(sums: Sequence[Column], options: AnalysisOptions) -> list[Column]:
    """[R] of each ratio less its value, one a resample; NaN where its denominators sum to 0."""
    if not sums:
        return []
    columns = np.concatenate(sums).T
    rng = np.random.default_rng(options.seed)
    counts = resample_counts(rng, columns.shape[0], options.num_resamples)
    means = resampled_means(counts, columns)
    above, below = means[:, 0::2], means[:, 1::2]
    return list(np.where(below == 0, np.nan, above / np.where(below == 0, 1.0, below)).T)


def _finish(
    waiting: _Waiting, replicates: Column, num_tasks: int, options: AnalysisOptions
) -> Statistic:
    statistic = waiting.statistic
    try:
        found = percentile_interval(replicates, options.level, statistic.tasks)
    except InvalidInput as error:
        note = f"no bootstrap interval: {error}"
        return statistic._replace(notes=(*statistic.notes, note))
    method = "percentile bootstrap over tasks"
    if num_tasks > MOST_TASKS:
        method += f" in {NUM_GROUPS} random groups"
    low, high = (waiting.value + end * waiting.unit for end in (found.low, found.high))
    interval = IntervalRecord(low, high, found.level, method)
    return statistic._replace(interval=interval, seed=options.seed)


def median_interval(values: Column, level: float) -> IntervalRecord | None:
    """Order statistics that hold the median with at least the level, whatever the law (binomial).

        [x_(j), x_(n + 1 - j)] with the largest j such that P(Binomial(n, 1/2) < j) <= (1 - level)/2

    Args:
        values: [t] one a task.
        level: nominal coverage.

    Returns:
        The interval, or None where even the extremes hold it less often.
    """
    ranks = median_ranks(values.size, level)
    if ranks is None:
        return None
    ordered = np.sort(values)
    low, high = (float(ordered[rank - 1]) for rank in ranks)
    return IntervalRecord(low, high, level, "order statistics over tasks (binomial)")


def median_ranks(num_values: int, level: float) -> tuple[int, int] | None:
    """The ranks of `median_interval`.

    Args:
        num_values: n.
        level: nominal coverage.

    Returns:
        j and n + 1 - j, or None where even the extremes hold the median less often.
    """
    n = num_values
    j = int(stats.binom.ppf((1 - level) / 2, n, 0.5)) if n else 0
    while j > 0 and stats.binom.cdf(j - 1, n, 0.5) > (1 - level) / 2:
        j -= 1
    return (j, n + 1 - j) if j else None
