"""pass@k, pass^k, G-Pass@k and oracle@N: from how many of a task's rows are correct."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    enough_samples,
    first_refusal,
    has_success,
    independent,
    one_policy,
)
from experiments.rollout_logs.drafts import Draft, least_and_most, mean_over_tasks, refused
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import Refused
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import (
    Column,
    Log,
    Success,
    successes,
    sums,
    sums_of_known,
)
from theory.estimators.clustering import clustered_error
from theory.estimators.coverage import (
    g_pass_at_k,
    needed,
    pass_at_k,
    pass_at_k_sampling_variance,
    pass_hat_k,
)
from theory.estimators.order import order_sums
from theory.estimators.ragged import keep_rows

Counts = NDArray[np.int64]


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Rows with a known outcome, how many are correct, and rows cut or failed.

    Args:
        rows: of some tasks.
        success: what counts.
        options: whether rows are in order.

    Returns:
        "rows", "known", "correct", and the rows that were truncated, failed, or not known.
    """
    outcome = successes(rows, success)
    correct, known = sums_of_known(outcome, rows.offsets)
    found = {
        "rows": rows.sizes.astype(np.float64),
        "known": known,
        "correct": correct,
    }
    doubtful = {"doubtful": np.isnan(outcome) | (rows.numbers("failed") == 1)}
    if "truncated" in rows.columns:
        doubtful["truncated"] = rows.numbers("truncated") == 1
    if "failed" in rows.columns:
        found["failed"] = sums(rows.numbers("failed") == 1, rows.offsets)
    for name, mask in doubtful.items():
        found[name] = sums(mask, rows.offsets)
        found[f"{name}_correct"] = sums(mask & (outcome == 1), rows.offsets)
    if options.ordered and success.source is not None:
        known_rows = np.isfinite(outcome)
        offsets = keep_rows(rows.offsets, known_rows)
        found |= order_sums(outcome[known_rows], offsets)._asdict()
    return found


def drafts(log: Log) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.

    Returns:
        pass@K, pass^K and g_pass@K for every k, then oracle@N.
    """
    ks, wants = log.options.ks, log.options.wants
    made = [_pass_at(log, k) for k in ks if wants("pass@K")]
    made += [_pass_hat(log, k) for k in ks if wants("pass^K")]
    made += [_g_pass(log, k) for k in ks if wants("g_pass@K")]
    return [*made, _oracle(log)]


def _common(log: Log) -> Statistic:
    facts, table = log.facts, log.table
    known = table["known"]
    used = known[known > 0]
    excluded = int(facts.rows - known.sum())
    return Statistic(
        "",
        None,
        samples=least_and_most(used) if used.size else None,
        excluded={"no outcome": excluded} if excluded else {},
        missing=f"rows without an outcome are left out ({excluded})",
        nan=f"a reward that is not finite is no outcome ({facts.reward_not_finite})"
        if log.success.source == "reward"
        else None,
        policy=facts.policy,
    )


def counted(
    log: Log, name: str, estimator: str, k: int, of_counts: Callable[[Counts, Counts, int], Column]
) -> Draft:
    """A statistic of how many of the samples of each task are correct.

    Args:
        log: facts and table.
        name: of the statistic.
        estimator: of one task.
        k: samples that it is about.
        of_counts: samples, correct ones and k to one number a task.

    Returns:
        The draft.
    """
    common = _common(log)._replace(
        name=name,
        estimator=f"{estimator}, mean over tasks; a success is: {log.success.words}",
        unit="task; resampled: tasks",
    )
    checks = (has_success, independent, one_policy, enough_samples("known", k))
    refusal = first_refusal(log, checks)
    if refusal is not None:
        return _refused(common, refusal)
    return mean_over_tasks(common, of_counts(*counts(log), k))


def _pass_at(log: Log, k: int) -> Draft:
    name, estimator = f"pass@{k}", f"1 - C(n - c, {k}) / C(n, {k})"
    draft = counted(log, name, estimator, k, pass_at_k)
    if draft.statistic.refusal is not None:
        notes = _subpopulation(log, k, draft.statistic.refusal)
    else:
        notes = (*(_notes_of_pass_1(log) if k == 1 else ()), *_error_of_samples(log, k))
    return draft._replace(statistic=draft.statistic._replace(notes=notes))


def _pass_hat(log: Log, k: int) -> Draft:
    return counted(log, f"pass^{k}", f"C(c, {k}) / C(n, {k})", k, pass_hat_k)


def _g_pass(log: Log, k: int) -> Draft:
    threshold = log.options.g_pass_threshold
    least = needed(k, threshold)
    return counted(
        log,
        f"g_pass@{k}",
        f"chance that at least {least} of {k} rows are successes, a share of {threshold:g} (hypergeometric)",
        k,
        lambda sizes, correct, k: g_pass_at_k(sizes, correct, k, threshold),
    )


def _error_of_samples(log: Log, k: int) -> tuple[str, ...]:
    """What of the error is that of the samples of these tasks, by an estimate that is unbiased at every success rate."""
    sizes, correct = counts(log)
    if (sizes < 2 * k).any():
        return ()
    variance = float(pass_at_k_sampling_variance(sizes, correct, k).sum()) / sizes.size**2
    if variance < 0:
        return (
            "of other samples of the same tasks: no standard error, the unbiased variance is below 0",
        )
    return (f"standard error of other samples of the same tasks: {math.sqrt(variance):.6g}",)


def _oracle(log: Log) -> Draft:
    """Share of tasks solved at least once among the rows drawn, whatever their dependence."""
    known = log.table["known"]
    used = known[known > 0]
    sizes = sorted({int(used.min()), int(used.max())}) if used.size else []
    name = f"oracle@{sizes[-1]}" if sizes else "oracle@N"
    common = _common(log)._replace(
        name="oracle@N",
        estimator="share of tasks with a success among all rows drawn",
        unit="task; resampled: tasks",
        notes=(name if len(sizes) == 1 else "N differs: " + " to ".join(map(str, sizes)),)
        if sizes
        else (),
    )
    refusal = first_refusal(log, (has_success, one_policy))
    if refusal is not None:
        return _refused(common, refusal)
    values = np.where(known > 0, log.table["correct"] > 0, np.nan)
    return mean_over_tasks(common, values)


def _refused(common: Statistic, refusal: Refused) -> Draft:
    """With the samples that there are: what is refused is more of them."""
    draft = refused(common, refusal)
    return draft._replace(statistic=draft.statistic._replace(samples=common.samples))


def counts(log: Log) -> tuple[Counts, Counts]:
    """Rows with an outcome, and those of them that are correct.

    Args:
        log: its table.

    Returns:
        [n] each.
    """
    return log.table["known"].astype(np.int64), log.table["correct"].astype(np.int64)


def _subpopulation(log: Log, k: int, code: str) -> tuple[str, ...]:
    """What R1 leaves: the tasks with enough rows, by themselves."""
    sizes, correct = counts(log)
    enough = sizes >= k
    if code != "R1" or not enough.any():
        return ()
    value = float(pass_at_k(sizes[enough], correct[enough], k).mean())
    return (
        (
            f"on the {int(enough.sum())} of {sizes.size} prompts with {k} samples or more it is {value:.6g}: "
            "another set of tasks, not a point of the same curve"
        ),
    )


def _notes_of_pass_1(log: Log) -> tuple[str, ...]:
    """Errors by task and by row, and the bounds where outcomes are unknown."""
    table, notes = log.table, []
    sizes, correct = table["known"], table["correct"]
    kept = sizes > 0
    if int(kept.sum()) >= 2:
        found = clustered_error(sizes[kept], correct[kept], correct[kept])
        notes.append(
            f"standard error {found.clustered:.6g} over tasks, {found.naive:.6g} if rows were independent: "
            f"design effect {found.design_effect:.4g}, intraclass correlation {found.intraclass_correlation:.4g}"
        )
    notes += [
        bounds(table, name, words)
        for name, words in (
            ("doubtful", "rows with an error or no outcome"),
            ("truncated", "truncated rows"),
        )
        if name in table and table[name].any()
    ]
    return tuple(notes)


def bounds(table: Mapping[str, Column], name: str, words: str) -> str:
    """pass@1 with doubtful rows all wrong, and all right.

    Args:
        table: of the log.
        name: "doubtful" or "truncated".
        words: what they are called.

    Returns:
        One line.
    """
    counted = table["known"] if name == "truncated" else table["rows"]
    kept = counted > 0
    sure = (table["correct"] - table[f"{name}_correct"])[kept] / counted[kept]
    open_ = table[name][kept] / counted[kept]
    low, high = float(sure.mean()), float((sure + open_).mean())
    share = float(table[name].sum() / table["rows"].sum())
    return f"{words} ({share:.2%}) all wrong: {low:.6g}, all right: {high:.6g}"
