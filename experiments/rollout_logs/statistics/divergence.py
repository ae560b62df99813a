"""proxy_truth_divergence: whether a proxy rises over training while the truth falls. An indicator, no verdict."""

from collections.abc import Collection, Mapping

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    few_missing,
    first_refusal,
    has_success,
    verifiers_differ,
)
from experiments.rollout_logs.drafts import Draft, ratio_over_tasks, refused
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import Refused, refuse, refuse_for
from experiments.rollout_logs.statistics.of_scores import INDICATOR
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, successes
from theory.errors import InvalidInput
from theory.estimators.indicators import TrendSums, proxy_truth_trends, trend_sums
from theory.estimators.interval import Interval, t_interval_of_ratio
from theory.estimators.ragged import keep_rows

_NAMES = [f"trend_{name}" for name in TrendSums._fields]


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Sums for the slopes over steps.

    Args:
        rows: of some tasks.
        success: what counts.
        options: whether the statistic is wanted.

    Returns:
        The fields of `TrendSums` after "trend_", where rows have a step, a proxy and another field that says what is true.
    """
    if not options.wants("proxy_truth_divergence"):
        return {}
    steps = next((name for name in ("step", "version_number") if name in rows.columns), None)
    proxy = _proxy_of(rows.columns.keys(), success)
    if steps is None or proxy is None or success.source is None:
        return {}
    values = [rows.numbers(steps), rows.numbers(proxy), successes(rows, success)]
    known = np.isfinite(sum(values, np.zeros(values[0].size)))
    step, score, truth = (each[known] for each in values)
    sums = trend_sums(step, score, truth, keep_rows(rows.offsets, known))
    return dict(zip(_NAMES, sums, strict=True))


def _proxy_of(names: Collection[str], success: Success) -> str | None:
    """The score; the reward where it is not the truth itself."""
    if "score" in names:
        return "score"
    return "reward" if "reward" in names and success.source == "correct" else None


def drafts(log: Log) -> list[Draft]:
    """The statistic.

    Args:
        log: facts and table.

    Returns:
        proxy_truth_divergence.
    """
    if not log.options.wants("proxy_truth_divergence"):
        return []
    present = {name for name, number in log.facts.present.items() if number}
    proxy = _proxy_of(present, log.success)
    steps = "step" if "step" in present else "policy_version"
    statistic = Statistic(
        "proxy_truth_divergence",
        None,
        estimator=f"slope of {proxy or 'the proxy'} over {steps} minus that of outcomes, least squares over rows, each in its own standard "
        f"deviations: {INDICATOR}",
        unit="standard deviations a step; resampled: tasks",
        policy=log.facts.policy,
    )

    def fields(log: Log) -> Refused | None:
        if not {"step", "version_number"} & present:
            return refuse("R0", "no row has step or a policy_version that is a number")
        return None if proxy else refuse("R0", "no row has score, or a reward beside correct")

    scores = (few_missing("score"),) if proxy == "score" else ()
    refusal = first_refusal(log, (fields, has_success, verifiers_differ, *scores))
    if refusal is None:
        found = _found(log, statistic)
        if isinstance(found, Draft):
            return [found]
        refusal = found
    return [refused(statistic, refusal)]


def _found(log: Log, statistic: Statistic) -> Draft | Refused:
    sums = TrendSums(*(log.table[name] for name in _NAMES))
    kept = sums.number > 0
    sums = TrendSums(*(each[kept] for each in sums))
    try:
        trends = proxy_truth_trends(sums)
    except InvalidInput:
        return refuse_for("R0", "all rows are of one step", "give rows of several steps")
    if np.isnan(trends.proxy + trends.truth).any():
        return refuse_for(
            "R0", "scores or outcomes do not vary at all", "give rows in which both vary"
        )
    slopes = [float(part.sum() / trends.steps.sum()) for part in (trends.proxy, trends.truth)]
    notes = [f"slope of the proxy {slopes[0]:.4g}, of outcomes {slopes[1]:.4g} a step"]
    if trends.steps.size >= 2:
        intervals = [
            t_interval_of_ratio(part, trends.steps, log.options.level)
            for part in (trends.proxy, trends.truth)
        ]
        notes += [_words("proxy", intervals[0]), _words("outcomes", intervals[1])]
        apart = intervals[0].low > 0 > intervals[1].high
        notes.append(
            "the proxy rises and outcomes fall, each with an interval clear of 0"
            if apart
            else "it is not so that the proxy rises and outcomes fall, each with an interval clear of 0"
        )
    notes += [
        "rows dealt out anew among steps would give 0 on average",
        "one run is one run; harder prompts at later steps, or a change of format, do the same",
    ]
    numbers = [np.zeros(kept.size) for _ in range(2)]
    numbers[0][kept], numbers[1][kept] = trends.proxy - trends.truth, trends.steps
    rows = log.facts.rows - int(sums.number.sum())
    made = statistic._replace(
        notes=tuple(notes),
        samples=(int(sums.number.min()), int(sums.number.max())),
        excluded={"no step, proxy or outcome": rows} if rows else {},
    )
    return ratio_over_tasks(made, *numbers)


def _words(name: str, found: Interval) -> str:
    return f"Student's t interval over tasks of the slope of the {name}: [{found.low:.4g}, {found.high:.4g}]"
