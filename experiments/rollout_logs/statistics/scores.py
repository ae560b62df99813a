"""What scores are worth: calibration, discrimination, and indicators of over-optimisation. Indicators are no verdicts."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.families import OF_THE_SELECTED
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.ragged import spread
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Success, successes, sums, sums_of_known
from theory.estimators.indicators import Indicator, length_coupling, pay, repeated
from theory.estimators.ragged import keep_rows, mean_of_tasks, task_of, unit_of_tasks
from theory.estimators.ranks import auroc_by_task


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Sums over the rows of each task.

    Args:
        rows: of some tasks.
        success: what counts.
        options: which statistics are wanted.

    Returns:
        "brier", "auroc_within", "score_spread", "outcome_sum", and of the indicators "length_coupling", "truncation_pay" and "repeated_answer_pay" with the mean "_noise" and
        the "_variance" that scores have which say nothing, as far as the fields are there.
    """
    wants = options.wants
    found = _truncation_pay(rows) if wants("truncation_pay") else {}
    if "score" not in rows.columns:
        return found
    score, outcome = rows.numbers("score"), successes(rows, success)
    total, number = sums_of_known(score, rows.offsets)
    found |= {"score_sum": total, "score_known": number}
    if "answer_code" in rows.columns and wants("repeated_answer_pay"):
        found |= _repeated_pay(rows, score)
    if not wants("brier", "auroc_within", "length_coupling", *OF_THE_SELECTED):
        return found
    mask = np.isfinite(score) & np.isfinite(outcome)
    offsets = keep_rows(rows.offsets, mask)
    some = np.diff(offsets) > 0
    score, outcome, offsets = score[mask], outcome[mask], offsets[np.append(some, True)]
    if not some.any():
        return found | {name: np.full(some.size, np.nan) for name in _names(rows)}
    found["outcome_sum"] = spread(sums(outcome, offsets), some)
    claimed = (score >= 0) & (score <= 1)  # others claim no probability, and may have no square
    error = np.where(claimed, score - outcome, np.nan)
    found["brier"] = spread(sums(error**2, offsets), some)
    if wants("auroc_within"):
        found["auroc_within"] = spread(auroc_by_task(score, outcome, offsets), some)
    found["score_spread"] = spread(_spread(score, offsets), some)
    if "completion_tokens" in rows.columns and wants("length_coupling"):
        length = rows.numbers("completion_tokens")[mask]
        known = np.isfinite(length)
        inner = keep_rows(offsets, known)
        full = np.diff(inner) > 0
        nothing = np.full(some.size, np.nan)
        found |= _named("length_coupling", Indicator(nothing, nothing, nothing))
        if full.any():
            parts = (score[known], outcome[known], length[known], inner[np.append(full, True)])
            made = length_coupling(*parts)
            inside = (spread(spread(each, full), some) for each in made)
            found |= _named("length_coupling", Indicator(*inside))
    return found


def _names(rows: TaskRows) -> list[str]:
    names = ["brier", "auroc_within", "score_spread", "outcome_sum"]
    if "completion_tokens" in rows.columns:
        names += ["length_coupling", "length_coupling_noise", "length_coupling_variance"]
    return names


def _spread(values: Column, offsets: np.ndarray) -> Column:
    """Standard deviation within each task."""
    sizes, unit, task = np.diff(offsets), unit_of_tasks(values, offsets), task_of(offsets)
    scaled = values / unit[task]
    rest = scaled - mean_of_tasks(scaled, offsets)[task]
    squares = sums(rest**2, offsets)
    with np.errstate(over="ignore"):  # infinite where it is beyond the range of doubles
        return np.where(sizes > 1, np.sqrt(squares / np.maximum(sizes - 1, 1)) * unit, np.nan)


def _truncation_pay(rows: TaskRows) -> dict[str, Column]:
    """Mean reward of truncated rows minus that of the others, in tasks with both."""
    if not {"reward", "truncated"} <= rows.columns.keys():
        return {}
    reward, flag = rows.numbers("reward"), rows.numbers("truncated")
    cut, num_cut = sums_of_known(np.where(flag == 1, reward, np.nan), rows.offsets)
    ended, num_ended = sums_of_known(np.where(flag == 0, reward, np.nan), rows.offsets)
    known = np.isfinite(reward) & (flag >= 0)
    found = pay(reward[known], flag[known] == 1, keep_rows(rows.offsets, known))
    return _named("truncation_pay", found) | {
        "cut_reward": cut,
        "cut_rewards": num_cut,
        "ended_reward": ended,
        "ended_rewards": num_ended,
    }


def _repeated_pay(rows: TaskRows, score: Column) -> dict[str, Column]:
    """Mean score of rows whose answer another row of the task has, minus that of the other rows with an answer, in tasks with both."""
    code = rows.columns["answer_code"]
    answered = code != 0
    again = repeated(code[answered], keep_rows(rows.offsets, answered))
    usable = answered & np.isfinite(score)
    found = pay(score[usable], again[usable[answered]], keep_rows(rows.offsets, usable))
    return _named("repeated_answer_pay", found)


def _named(name: str, found: Indicator) -> dict[str, Column]:
    return {
        name: found.value,
        f"{name}_noise": found.noise,
        f"{name}_variance": found.noise_variance,
    }
