"""majority@k: the vote of k samples, each with its answer; and how many different answers and trajectories there are."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.analysis import Statistic
from experiments.rollout_logs.checks import (
    enough_samples,
    first_refusal,
    has,
    has_success,
    independent,
    independent_or_all,
    of_all_rows,
    one_policy,
)
from experiments.rollout_logs.drafts import Draft, least_and_most, mean_over_tasks, refused
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.ragged import (
    group_answers,
    judged,
    keep_tasks,
    spread,
)
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, successes, sums
from theory.estimators.diversity import distinct_at_k
from theory.estimators.ragged import task_of
from theory.estimators.votes import majority_at_ks, no_vote_probability

_OF_ANSWERS = ("majority@K", "unique_answer_rate", "distinct_answers@K")


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """The votes of each task.

    Args:
        rows: of some tasks.
        success: what counts.
        options: the k.

    Returns:
        "majority@k", the probability "no_vote@k", "voters", "mixed_answers", "tied" and the numbers of distinct answers and trajectories.
    """
    found: dict[str, Column] = {}
    if "trajectory" in rows.columns:
        codes = rows.columns["trajectory"]
        groups = group_answers(codes, np.full(codes.size, np.nan), rows.offsets)
        found["trajectories"] = np.diff(groups.offsets).astype(np.float64)
        found["with_trajectory"] = sums(codes != 0, rows.offsets)
    wants = options.wants
    if "answer_code" not in rows.columns or not wants(*_OF_ANSWERS):
        return found
    codes = rows.columns["answer_code"]
    known = judged(rows, success)
    everyone = group_answers(codes, successes(rows, success), rows.offsets)
    found["answers"] = np.diff(everyone.offsets).astype(np.float64)
    found["with_answer"] = sums(codes != 0, rows.offsets)
    for k in options.ks if wants("distinct_answers@K") else ():
        enough = rows.sizes >= k
        mask, offsets = keep_tasks(everyone.offsets, enough)
        distinct = distinct_at_k(everyone.counts[mask], offsets, rows.sizes[enough], k)
        found[f"distinct@{k}"] = spread(distinct, enough)
    if success.source is None or not wants("majority@K"):
        return found
    sizes = np.diff(known.offsets)
    answers = everyone
    if not known.mask.all():
        answers = group_answers(codes[known.mask], known.outcome, known.offsets)
    owner = task_of(answers.offsets)
    voters = np.bincount(owner, weights=answers.counts, minlength=sizes.size).astype(np.float64)
    found["voters"] = voters
    mixed = np.bincount(owner, weights=answers.mixed, minlength=sizes.size)
    found["mixed_answers"] = mixed.astype(np.float64)
    most = np.zeros(sizes.size, np.int64)
    np.maximum.at(most, owner, answers.counts)
    tops = np.bincount(owner, weights=answers.counts == most[owner], minlength=sizes.size)
    found["tied"] = (tops > 1).astype(np.float64)
    votes = majority_at_ks(answers.counts, answers.values, answers.offsets, sizes, options.ks)
    for place, k in enumerate(options.ks):
        found[f"majority@{k}"] = votes[:, place]
        enough = sizes >= k
        mask, offsets = keep_tasks(answers.offsets, enough)
        silent = no_vote_probability(answers.counts[mask], offsets, sizes[enough], k)
        found[f"no_vote@{k}"] = spread(silent, enough)
    return found


def drafts(log: Log) -> list[Draft]:
    """The statistics.

    Args:
        log: facts and table.

    Returns:
        majority@K for every k, then unique_answer_rate, unique_trajectory_rate and distinct_answers@K.
    """
    return [_majority(log, k) for k in log.options.ks if log.options.wants("majority@K")]


def diversity_drafts(log: Log) -> list[Draft]:
    """How different the rows of a task are.

    Args:
        log: facts and table.

    Returns:
        unique_answer_rate, unique_trajectory_rate, then distinct_answers@K for every k.
    """
    wants, made = log.options.wants, list[Draft]()
    if wants("unique_answer_rate"):
        made.append(_unique(log, "unique_answer_rate", "answers", "answer_code", "with_answer"))
    made.append(
        _unique(log, "unique_trajectory_rate", "trajectories", "trajectory", "with_trajectory")
    )
    return made + [_distinct(log, k) for k in log.options.ks if wants("distinct_answers@K")]


def _majority(log: Log, k: int) -> Draft:
    name, facts, table = f"majority@{k}", log.facts, log.table
    statistic = Statistic(
        name,
        None,
        estimator=f"value of the most frequent answer of {k} rows, exact mean over all subsets of {k}, then over tasks; an answer is worth "
        f"its mean outcome; a success is: {log.success.words}",
        unit="task; resampled: tasks",
        ties="averaged",
        policy=facts.policy,
    )
    checks = (
        has("answer_code"),
        has_success,
        independent_or_all("known", k),
        one_policy,
        enough_samples("known", k),
    )
    refusal = first_refusal(log, checks)
    if refusal is not None:
        return refused(statistic, refusal)
    known = table["known"]
    silent = int(known.sum() - table["voters"].sum())
    notes = [
        *of_all_rows(log, "known", k),
        f"{int(table['tied'].sum())} tasks have a tie among all their rows",
    ]
    if table[f"no_vote@{k}"].any():
        count = int(np.count_nonzero(table[f"no_vote@{k}"]))
        share = float(table[f"no_vote@{k}"].mean())
        notes.append(f"votes without any answer count 0: share {share:.6g}, in {count} tasks")
    if table["mixed_answers"].any():
        mixed = int(table["mixed_answers"].sum())
        notes.append(f"{mixed} answers have rows of both outcomes and are worth their mean")
    unknown = int(facts.rows - known.sum())
    return mean_over_tasks(
        statistic._replace(
            samples=least_and_most(known),
            excluded={"no outcome": unknown} if unknown else {},
            missing=f"rows without an answer abstain ({silent})",
            notes=tuple(notes),
        ),
        table[f"majority@{k}"],
    )


def _unique(log: Log, name: str, number: str, column: str, having: str) -> Draft:
    statistic = Statistic(
        name,
        None,
        estimator="different ones over rows of a task, mean over tasks",
        unit="task; resampled: tasks",
        samples=log.facts.samples,
        policy=log.facts.policy,
        notes=("rates of tasks with other numbers of rows do not compare: see distinct_answers@K",),
    )
    refusal = first_refusal(log, (has(column), one_policy))
    if refusal is not None:
        return refused(statistic, refusal)
    rows, table = log.table["rows"], log.table
    absent = int(rows.sum() - table[having].sum())
    missing = f"rows without one count among the rows, not among the different ones ({absent})"
    return mean_over_tasks(statistic._replace(missing=missing), table[number] / rows)


def _distinct(log: Log, k: int) -> Draft:
    name = f"distinct_answers@{k}"
    statistic = Statistic(
        name,
        None,
        estimator=f"rarefaction: different answers among {k} rows, exact mean over all subsets, then over tasks",
        unit="answer; resampled: tasks",
        samples=log.facts.samples,
        missing="rows without an answer bring none",
        policy=log.facts.policy,
    )
    checks = (has("answer_code"), independent, one_policy, enough_samples("rows", k))
    refusal = first_refusal(log, checks)
    if refusal is not None:
        return refused(statistic, refusal)
    return mean_over_tasks(statistic, log.table[name.replace("_answers", "")])
