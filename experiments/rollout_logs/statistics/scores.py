"""What scores are worth: calibration, discrimination, and indicators of over-optimisation. Indicators are no verdicts."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.ragged import keep_rows, spread
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Success, successes, sums, sums_of_known
from theory.estimators.ragged import order_within, task_of
from theory.estimators.ranks import auroc_by_task, spearman_by_task


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Sums over the rows of each task.

    Args:
        rows: of some tasks.
        success: what counts.
        options: unused.

    Returns:
        "brier", "auroc_within", "score_spread", "length_coupling", "truncation_pay" and "repeated_pay", as far as the fields are there.
    """
    del options
    found = _truncation_pay(rows)
    if "score" not in rows.columns:
        return found
    score, outcome = rows.numbers("score"), successes(rows, success)
    total, number = sums_of_known(score, rows.offsets)
    found |= {"score_sum": total, "score_known": number}
    if "answer_code" in rows.columns:
        found["repeated_pay"] = _repeated_pay(rows, score)
    mask = np.isfinite(score) & np.isfinite(outcome)
    offsets = keep_rows(rows.offsets, mask)
    some = np.diff(offsets) > 0
    score, outcome, offsets = score[mask], outcome[mask], offsets[np.append(some, True)]
    if not some.any():
        return found | {name: np.full(some.size, np.nan) for name in _names(rows)}
    found["brier"] = spread(sums((score - outcome) ** 2, offsets), some)
    found["auroc_within"] = spread(auroc_by_task(score, outcome, offsets), some)
    found["score_spread"] = spread(_spread(score, offsets), some)
    if "completion_tokens" in rows.columns:
        length = rows.numbers("completion_tokens")[mask]
        known = np.isfinite(length)
        inner = keep_rows(offsets, known)
        full = np.diff(inner) > 0
        if full.any():
            parts = (score[known], outcome[known], length[known], inner[np.append(full, True)])
            found["length_coupling"] = spread(spread(_length_coupling(*parts), full), some)
        else:
            found["length_coupling"] = np.full(some.size, np.nan)
    return found


def _names(rows: TaskRows) -> list[str]:
    names = ["brier", "auroc_within", "score_spread"]
    return [*names, "length_coupling"] if "completion_tokens" in rows.columns else names


def _spread(values: Column, offsets: np.ndarray) -> Column:
    """Standard deviation within each task."""
    sizes = np.diff(offsets)
    mean = sums(values, offsets) / sizes
    squares = sums((values - mean[task_of(offsets)]) ** 2, offsets)
    return np.where(sizes > 1, np.sqrt(squares / np.maximum(sizes - 1, 1)), np.nan)


def _length_coupling(score: Column, outcome: Column, length: Column, offsets: np.ndarray) -> Column:
    by_score = spearman_by_task(score, length, offsets)
    return by_score - spearman_by_task(outcome, length, offsets)


def _truncation_pay(rows: TaskRows) -> dict[str, Column]:
    """Mean reward of truncated rows minus that of the others, in tasks with both."""
    if not {"reward", "truncated"} <= rows.columns.keys():
        return {}
    reward, flag = rows.numbers("reward"), rows.numbers("truncated")
    cut, num_cut = sums_of_known(np.where(flag == 1, reward, np.nan), rows.offsets)
    ended, num_ended = sums_of_known(np.where(flag == 0, reward, np.nan), rows.offsets)
    both = (num_cut > 0) & (num_ended > 0)
    pay = cut / np.where(both, num_cut, 1.0) - ended / np.where(both, num_ended, 1.0)
    return {
        "truncation_pay": np.where(both, pay, np.nan),
        "cut_reward": cut,
        "cut_rewards": num_cut,
        "ended_reward": ended,
        "ended_rewards": num_ended,
    }


def _repeated_pay(rows: TaskRows, score: Column) -> Column:
    """Mean score of rows whose answer another row of the task has, minus that of the other rows with an answer, in tasks with both."""
    code, task = rows.columns["answer_code"], task_of(rows.offsets)
    order = order_within(code, rows.offsets)
    c, t = code[order], task[order]
    same = np.zeros(code.size + 1, np.bool_)
    same[1:-1] = (c[1:] == c[:-1]) & (t[1:] == t[:-1])
    repeated = np.empty(code.size, np.bool_)
    repeated[order] = same[1:] | same[:-1]
    usable = np.isfinite(score) & (code != 0)
    again, num_again = sums_of_known(np.where(usable & repeated, score, np.nan), rows.offsets)
    once, num_once = sums_of_known(np.where(usable & ~repeated, score, np.nan), rows.offsets)
    both = (num_again > 0) & (num_once > 0)
    pay = again / np.where(both, num_again, 1.0) - once / np.where(both, num_once, 1.0)
    return np.where(both, pay, np.nan)
