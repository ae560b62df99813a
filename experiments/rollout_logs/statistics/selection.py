"""best_of_n@k, selected_proxy_score@k and weighted_majority@k: choosing by the score of the search verifier."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    Check,
    enough_samples,
    few_missing,
    first_refusal,
    has,
    has_success,
    independent_or_all,
    of_all_rows,
    one_policy,
    scores_not_negative,
    verifiers_differ,
)
from experiments.rollout_logs.drafts import Draft, least_and_most, mean_over_tasks, refused
from experiments.rollout_logs.families import OF_THE_SELECTED
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.ragged import group_answers
from experiments.rollout_logs.statistics.of_scores import of_scores
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, successes
from theory.estimators.best_of_n import best_of_n_at_ks
from theory.estimators.ragged import keep_rows
from theory.estimators.weighted_votes import weighted_majority_at_ks


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """What selection by score brings in each task.

    Args:
        rows: of some tasks.
        success: what counts.
        options: the k and the seed.

    Returns:
        "scored" and "scored_known", the rows with a score and with score and outcome, and at each k "best_of_n@k", "optimism@k", "proxy@k",
        "weighted@k" with the variance of its subsampling "weighted_variance@k".
    """
    if "score" not in rows.columns:
        return {}
    score = rows.numbers("score")
    finite = np.isfinite(score)
    found: dict[str, Column] = {}
    if options.proxy_scores and options.wants("selected_proxy_score@K"):
        found |= _proxy(score[finite], keep_rows(rows.offsets, finite), options)
    if success.source is None:
        return found
    outcome = successes(rows, success)
    mask = finite & np.isfinite(outcome)
    offsets = keep_rows(rows.offsets, mask)
    sizes = np.diff(offsets)
    score, outcome = score[mask], outcome[mask]
    found["scored_known"] = sizes.astype(np.float64)
    if options.wants("best_of_n@K", *OF_THE_SELECTED):
        values = [outcome]
        if options.wants(*OF_THE_SELECTED):
            values.append(score - outcome)
        best = best_of_n_at_ks(score, np.stack(values, axis=1), offsets, options.ks)
        for place, k in enumerate(options.ks):
            found |= zip((f"best_of_n@{k}", f"optimism@{k}"), best[:, place].T, strict=False)
    if "answer_code" in rows.columns and options.wants("weighted_majority@K"):
        found |= _weighted_votes(rows, mask, score, outcome, offsets, options)
    return found


def _weighted_votes(
    rows: TaskRows,
    mask: np.ndarray,
    score: Column,
    outcome: Column,
    offsets: np.ndarray,
    options: AnalysisOptions,
) -> dict[str, Column]:
    if (score >= 0).all():
        answers = group_answers(rows.columns["answer_code"][mask], outcome, offsets)
        value, error = weighted_majority_at_ks(
            answers.rows,
            score,
            outcome,
            offsets,
            options.ks,
            options.num_subsets,
            options.seed,
            rows.codes,
        )
    else:
        value = error = np.full((offsets.size - 1, len(options.ks)), np.nan)
    places = range(len(options.ks))
    return {f"weighted@{options.ks[place]}": value[:, place] for place in places} | {
        f"weighted_variance@{options.ks[place]}": error[:, place] ** 2 for place in places
    }


def _proxy(score: Column, offsets: np.ndarray, options: AnalysisOptions) -> dict[str, Column]:
    selected = best_of_n_at_ks(score, score[:, None], offsets, options.ks)
    found = {"scored": np.diff(offsets).astype(np.float64)}
    return found | {f"proxy@{k}": selected[:, place, 0] for place, k in enumerate(options.ks)}


def drafts(log: Log) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.

    Returns:
        weighted_majority@K, then best_of_n@K for every k; and selected_proxy_score@K where the verifiers are one.
    """
    ks, wants = log.options.ks, log.options.wants
    made = [_weighted(log, k) for k in ks if wants("weighted_majority@K")]
    made += [_best(log, k) for k in ks if wants("best_of_n@K")]
    same = log.facts.present["score"] and verifiers_differ(log) is not None
    if same and wants("selected_proxy_score@K"):
        made += [_proxy_score(log, k) for k in ks]
    return made


def _made(log: Log, statistic: Statistic, checks: tuple[Check, ...], column: str) -> Draft:
    refusal = first_refusal(log, checks)
    if refusal is not None:
        return refused(statistic, refusal)
    counted = "scored" if column.startswith("proxy") else "scored_known"
    sizes, k = log.table[counted], int(column.split("@")[1])
    notes = (*statistic.notes, *of_all_rows(log, counted, k))
    return mean_over_tasks(
        statistic._replace(samples=least_and_most(sizes), notes=notes, ties="averaged"),
        log.table[column],
    )


def _best(log: Log, k: int) -> Draft:
    statistic = of_scores(
        log,
        f"best_of_n@{k}",
        f"outcome of the greatest score among {k} rows, exact mean over all subsets of {k}, then over tasks; a success is: {log.success.words}",
        "task",
    )
    present = log.facts.present
    if not (present["verifier_id_search"] and present["verifier_id_final"]):
        note = "verifier_id_search or verifier_id_final is absent: whether they differ is not known"
        statistic = statistic._replace(notes=(note,))
    checks = (
        has("score"),
        has_success,
        verifiers_differ,
        independent_or_all("scored_known", k),
        one_policy,
        few_missing("score"),
        enough_samples("scored_known", k),
    )
    return _made(log, statistic, checks, f"best_of_n@{k}")


def _proxy_score(log: Log, k: int) -> Draft:
    statistic = of_scores(
        log,
        f"selected_proxy_score@{k}",
        f"greatest score among {k} rows, exact mean over all subsets of {k}, then over tasks: no accuracy",
        "score",
    )
    absent = log.facts.rows - log.facts.present["score"]
    statistic = statistic._replace(missing=f"rows without a score are left out ({absent})")
    checks = (
        independent_or_all("scored", k),
        one_policy,
        few_missing("score"),
        enough_samples("scored", k),
    )
    return _made(log, statistic, checks, f"proxy@{k}")


def _weighted(log: Log, k: int) -> Draft:
    statistic = of_scores(
        log,
        f"weighted_majority@{k}",
        f"value of the answer with the greatest sum of scores among {k} rows, mean over all subsets of {k} for k up to 2 or where they are few, else over seeded random ones, then over tasks; "
        f"a success is: {log.success.words}",
        "task",
    )
    checks = (
        has("score", "answer_code"),
        has_success,
        verifiers_differ,
        independent_or_all("scored_known", k),
        one_policy,
        few_missing("score"),
        scores_not_negative,
        enough_samples("scored_known", k),
    )
    draft = _made(log, statistic, checks, f"weighted@{k}")
    if draft.statistic.value is None:
        return draft
    variance = log.table[f"weighted_variance@{k}"]
    error = float(np.sqrt(variance.sum())) / variance.size
    note = f"Monte Carlo standard error of the subsets: {error:.3g}"
    return draft._replace(
        statistic=draft.statistic._replace(
            notes=(*draft.statistic.notes, note), seed=log.options.seed
        )
    )
