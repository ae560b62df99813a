"""brier, ece, AUROC and the indicators, as statistics."""

import functools

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    Check,
    enough_samples,
    few_missing,
    first_refusal,
    has,
    independent,
    one_policy,
    scores_are_probabilities,
)
from experiments.rollout_logs.drafts import (
    Draft,
    least_and_most,
    mean_over_tasks,
    ratio_over_tasks,
    refused,
    wanted,
)
from experiments.rollout_logs.pooled_scores import NUM_BINS, PooledScores
from experiments.rollout_logs.statistics.of_scores import INDICATOR, SCORED, of_scores
from experiments.rollout_logs.task_table import Log
from theory.estimators.best_of_n import expected_best_of_normals


def drafts(log: Log, pooled: PooledScores | None) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.
        pooled: what needs all scores at once; None where there are none.

    Returns:
        brier, ece, auroc_within, auroc_pooled, optimism_gap@K, length_coupling, truncation_pay, repeated_answer_pay.
    """
    return wanted(
        log.options,
        ("brier", lambda: _brier(log)),
        ("ece", lambda: _ece(log, pooled)),
        ("auroc_within", lambda: _within(log)),
        ("auroc_pooled", lambda: _pooled(log, pooled)),
        *(("optimism_gap@K", functools.partial(_optimism, log, k)) for k in log.options.ks),
        ("length_coupling", lambda: _coupling(log)),
        ("truncation_pay", lambda: _truncation(log)),
        ("repeated_answer_pay", lambda: _repeated(log)),
    )


def _checked(log: Log, statistic: Statistic, *more: Check) -> Draft | Statistic:
    checks = (*SCORED, *more)
    refusal = first_refusal(log, checks)
    if refusal is not None:
        return refused(statistic, refusal)
    sizes = log.table["scored_known"]
    return statistic._replace(samples=least_and_most(sizes))


def _brier(log: Log) -> Draft:
    made = _checked(
        log,
        of_scores(log, "brier", "mean over rows of (score - outcome)^2", "row"),
        scores_are_probabilities,
        one_policy,
    )
    if isinstance(made, Draft):
        return made
    return ratio_over_tasks(made, np.nan_to_num(log.table["brier"]), log.table["scored_known"])


def _ece(log: Log, pooled: PooledScores | None) -> Draft:
    made = _checked(
        log,
        of_scores(
            log,
            "ece",
            f"sum over {NUM_BINS} bins of equal mass of |mean score - accuracy| times their share of rows",
            "row",
        ),
        scores_are_probabilities,
        one_policy,
    )
    if isinstance(made, Draft) or pooled is None:
        return made if isinstance(made, Draft) else Draft(made)
    notes = (
        f"{len(pooled.bins)} bins with rows: {', '.join(str(each.num_rows) for each in pooled.bins)}; equal scores share a bin",
        "biased upwards where bins have few rows: no interval",
    )
    tasks = int(np.count_nonzero(log.table["scored_known"]))
    return Draft(made._replace(value=pooled.ece, tasks=tasks, notes=notes))


def _within(log: Log) -> Draft:
    made = _checked(
        log,
        of_scores(
            log,
            "auroc_within",
            "AUROC in each task with both outcomes, mean over those tasks",
            "task",
        ),
        one_policy,
    )
    if isinstance(made, Draft):
        return made
    values = log.table["auroc_within"]
    count = int(np.isfinite(values).sum())
    notes = (f"{count} of {values.size} tasks have both outcomes",)
    return mean_over_tasks(made._replace(ties="count one half", notes=notes), values)


def _pooled(log: Log, pooled: PooledScores | None) -> Draft:
    made = _checked(log, of_scores(log, "auroc_pooled", "AUROC over all rows", "row"), one_policy)
    if isinstance(made, Draft) or pooled is None:
        return made if isinstance(made, Draft) else Draft(made)
    tasks = int(np.count_nonzero(log.table["scored_known"]))
    notes = ("pooling mixes the difficulty of tasks with the score: see auroc_within",)
    return Draft(made._replace(value=pooled.auroc, tasks=tasks, ties="count one half", notes=notes))


def _optimism(log: Log, k: int) -> Draft:
    made = _checked(
        log,
        of_scores(
            log,
            f"optimism_gap@{k}",
            f"score minus outcome of the greatest score among {k} rows, exact mean over all subsets of {k}, then over tasks: {INDICATOR}",
            "task",
        ),
        independent,
        one_policy,
        scores_are_probabilities,
        enough_samples("scored_known", k),
    )
    if isinstance(made, Draft):
        return made
    table = log.table
    greatest = table[f"optimism@{k}"] + table[f"best_of_n@{k}"]
    noise = float(np.nanmean(greatest - table["outcome_sum"] / table["scored_known"]))
    notes = (
        f"these scores dealt out anew within tasks would give {noise:.4g}, by no skill: the greatest score among {k} less the mean outcome",
        f"of pure noise with the same spread, {noise_rise(log, k):.4g} of it would be the rise of the greatest of {k} normal scores",
        "compare with the gap at k = 1",
    )
    return mean_over_tasks(made._replace(ties="averaged", notes=notes), log.table[f"optimism@{k}"])


def noise_rise(log: Log, k: int) -> float:
    """How far the greatest of k scores of noise is above their mean, with the spread that scores have within tasks.

    Args:
        log: its table.
        k: scores.

    Returns:
        Expected maximum of k normals times the mean standard deviation.
    """
    spread = log.table["score_spread"]
    return _noise_of(k) * float(np.nanmean(spread)) if np.isfinite(spread).any() else 0.0


_noise_of = functools.cache(expected_best_of_normals)


def beside_noise(log: Log, draft: Draft, what: str) -> Draft:
    """Say what the indicator is for scores that say nothing.

    Args:
        log: its table, with the mean and the variance of the baseline.
        draft: of the indicator.
        what: is dealt out anew.

    Returns:
        The draft with a note.
    """
    statistic, table = draft.statistic, log.table
    variance = table[f"{statistic.name}_variance"]
    known = np.isfinite(variance)
    if statistic.value is None or not known.any():
        return draft
    mean = float(table[f"{statistic.name}_noise"][known].mean())
    deviation = float(np.sqrt(variance[known].sum())) / int(known.sum())
    note = f"{what} dealt out anew within tasks would give {mean:.4g}, with standard deviation {deviation:.3g}"
    return draft._replace(statistic=statistic._replace(notes=(note, *statistic.notes)))


def _coupling(log: Log) -> Draft:
    statistic = of_scores(
        log,
        "length_coupling",
        f"Spearman correlation of score and length minus that of outcome and length in each task, mean over tasks where all vary: {INDICATOR}",
        "task",
    )
    made = _checked(log, statistic, has("completion_tokens"), one_policy)
    if isinstance(made, Draft):
        return made
    draft = mean_over_tasks(made._replace(ties="mean ranks"), log.table["length_coupling"])
    return beside_noise(log, draft, "scores")


def _truncation(log: Log) -> Draft:
    statistic = Statistic(
        "truncation_pay",
        None,
        estimator=f"mean reward of truncated rows minus that of the others in each task, mean over tasks with both: {INDICATOR}",
        unit="reward; resampled: tasks",
        policy=log.facts.policy,
    )
    refusal = first_refusal(log, (has("reward", "truncated"), one_policy))
    if refusal is not None:
        return refused(statistic, refusal)
    table = log.table
    cut, ended = table["cut_rewards"].sum(), table["ended_rewards"].sum()
    notes: tuple[str, ...] = (f"{int(cut)} truncated rows, {int(ended)} others",)
    if cut and ended:
        pooled = table["cut_reward"].sum() / cut - table["ended_reward"].sum() / ended
        notes = (*notes, f"pooled over rows: {pooled:.6g}")
    draft = mean_over_tasks(statistic._replace(notes=notes), table["truncation_pay"])
    return beside_noise(log, draft, "rewards")


def _repeated(log: Log) -> Draft:
    statistic = of_scores(
        log,
        "repeated_answer_pay",
        "mean score of rows whose answer is there again minus that of rows whose answer is not, in each task, mean over tasks with both: "
        + INDICATOR,
        "score",
    )
    refusal = first_refusal(log, (has("score", "answer_code"), one_policy, few_missing("score")))
    if refusal is not None:
        return refused(statistic, refusal)
    return beside_noise(log, mean_over_tasks(statistic, log.table["repeated_answer_pay"]), "scores")
