"""off_policy_pass@k: pass@k of the target policy, from rows of another one."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.checks import (
    MISSING_SHARE,
    Check,
    first_refusal,
    has,
    has_success,
    independent,
)
from experiments.rollout_logs.drafts import Draft, least_and_most, mean_over_tasks, refused
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.statistics import weights
from experiments.rollout_logs.statistics.weight_columns import log_weights_of
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, successes, sums
from theory.estimators.off_policy import off_policy_pass_at_ks
from theory.estimators.off_policy.pass_at_k import LARGEST


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """The estimate of each task whose rows all have a weight and an outcome.

    Args:
        rows: of some tasks.
        success: what counts.
        options: the k.

    Returns:
        "off_policy_pass@k", NaN for a task with a row that lacks one or fewer than k rows; and "whole", the rows of a task that lacks none, else 0.
    """
    if not options.wants("off_policy_pass@K"):
        return {}
    if not {"target_logp", "behavior_logp"} <= rows.columns.keys() or success.source is None:
        return {}
    log_weights, outcome = log_weights_of(rows), successes(rows, success)
    if log_weights is None:
        return {}
    usable = np.isfinite(log_weights) & np.isfinite(outcome)
    sizes = rows.sizes
    whole = sums(usable, rows.offsets) == sizes
    fits = sums(log_weights > LARGEST, rows.offsets) == 0
    found = {f"off_policy_pass@{k}": np.full(sizes.size, np.nan) for k in options.ks}
    for size in np.unique(sizes[whole & fits]):
        ks = [k for k in options.ks if k <= size]
        if not ks:
            continue
        tasks = np.flatnonzero(whole & fits & (sizes == size))
        places = rows.offsets[tasks, None] + np.arange(size)
        estimates = off_policy_pass_at_ks(log_weights[places], outcome[places], ks)
        for place, k in enumerate(ks):
            found[f"off_policy_pass@{k}"][tasks] = estimates[:, place]
    return found | {"whole": np.where(whole, sizes, 0).astype(np.float64)}


def drafts(log: Log) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.

    Returns:
        off_policy_pass@K for every k.
    """
    return [_draft(log, k) for k in log.options.ks if log.options.wants("off_policy_pass@K")]


def _draft(log: Log, k: int) -> Draft:
    statistic = weights.statistic_of(
        log,
        f"off_policy_pass@{k}",
        f"1 - e_{k}(1 - w r) / C(n, {k}), mean over tasks; a success r is: {log.success.words}",
        "task",
        "is",
    )
    checks = (has("target_logp"), *weights.weight_checks(log), has_success, independent)
    refusal = first_refusal(log, (*checks, few_incomplete, _weights_fit, _enough(k)))
    if refusal is not None:
        return refused(statistic, refusal)
    whole = log.table["whole"]
    incomplete = int(np.count_nonzero(whole == 0))
    notes = (
        *weights.diagnostics(log, "is"),
        "may leave [0, 1]: cutting it off would bias it",
    )
    if incomplete:
        notes = (
            f"{incomplete} prompts with a row without a weight or an outcome are left out whole",
            *notes,
        )
    kept = whole[whole > 0]
    made = statistic._replace(notes=notes, samples=least_and_most(kept))
    return mean_over_tasks(made, log.table[statistic.name])


def few_incomplete(log: Log) -> Refused | None:
    """R8: at most 1 % of the tasks have a row without a weight or an outcome."""
    whole = log.table["whole"]
    incomplete = int(np.count_nonzero(whole == 0))
    if incomplete <= MISSING_SHARE * whole.size:
        return None
    return refuse(
        "R8", f"{incomplete} of {whole.size} prompts have a row without a weight or an outcome"
    )


def _weights_fit(log: Log) -> Refused | None:
    """R20: no weight is beyond all use."""
    peak = float(log.table["is_peak"].max())
    if peak <= LARGEST:
        return None
    return refuse("R20", f"a weight is e^{peak:.4g}")


def _enough(k: int) -> Check:
    def check(log: Log) -> Refused | None:
        """R1: every task that is left has k rows."""
        sizes = log.table["whole"]
        sizes = sizes[sizes > 0]
        short = int(np.count_nonzero(sizes < k))
        if not short:
            return None
        return refuse("R1", f"k = {k}, and {short} of {sizes.size} prompts have fewer rows")

    return check
