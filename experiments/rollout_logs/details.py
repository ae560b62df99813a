"""What a reader looks at beside the numbers: tasks, some of their rows, and lengths. Bounded, whatever the log."""

import math
from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np

from experiments.rollout_logs.analysis import HistogramBin, SampleView, TaskSummary
from experiments.rollout_logs.database import all_rows
from experiments.rollout_logs.pooled_scores import outcome_sql
from experiments.rollout_logs.task_table import Column, Log, Success

MOST_TASKS = 2000
TASKS_WITH_SAMPLES = 100
SAMPLES_OF_TASK = 8
LENGTH_BINS = 20


def task_summaries(
    connection: duckdb.DuckDBPyConnection, log: Log, duplicates: Mapping[tuple[str, str], int]
) -> tuple[TaskSummary, ...]:
    """The first tasks by prompt.

    Args:
        connection: with `staged` and `prompts`.
        log: facts and table.
        duplicates: (prompt, sample) -> copies left out.

    Returns:
        At most `MOST_TASKS`.
    """
    names = all_rows(
        connection, f"SELECT prompt FROM prompts WHERE code < {MOST_TASKS} ORDER BY code"
    )
    copied = {prompt for prompt, _ in duplicates}
    top = _top_answers(connection) if log.facts.present["answer"] else {}
    return tuple(
        _summary(place, str(name), log, top.get(place), name in copied)
        for place, (name,) in enumerate(names)
    )


def _top_answers(connection: duckdb.DuckDBPyConnection) -> dict[int, tuple[str, float]]:
    rows = all_rows(
        connection,
        "SELECT code, answer, number / sum(number) OVER (PARTITION BY code) AS share "
        "FROM (SELECT code, answer, count(*)::DOUBLE AS number FROM staged JOIN prompts USING (prompt) "
        f"WHERE code < {MOST_TASKS} AND answer IS NOT NULL GROUP BY ALL) "
        "QUALIFY row_number() OVER (PARTITION BY code ORDER BY number DESC, answer) = 1",
    )
    return {int(code): (str(answer), float(share)) for code, answer, share in rows}


def _summary(
    place: int, name: str, log: Log, top: tuple[str, float] | None, copied: bool
) -> TaskSummary:
    table = log.table
    rows = int(table["rows"][place])
    known = table["known"][place]
    correct = float(table["correct"][place]) if known else None
    truncated, failed = _at(table, "truncated", place), _at(table, "failed", place)
    codes = [
        code
        for code, met in (
            ("R1", known < max(log.options.ks)),
            ("R2", copied),
            ("R11", bool(failed)),
            ("R15", bool(truncated and truncated > 0.05 * rows)),
        )
        if met
    ]
    answers = _at(table, "answers", place)
    return TaskSummary(
        prompt_id=name,
        samples=rows,
        correct=correct,
        accuracy=None if correct is None else correct / float(known),
        distinct_answers=None if answers is None else int(answers),
        top_answer=None if top is None else top[0],
        top_share=None if top is None else top[1],
        mean_score=_mean_at(table, "score_sum", "score_known", place),
        mean_reward=_finite(_at(table, "reward_mean", place))
        if _at(table, "rewards", place)
        else None,
        mean_tokens=_mean_at(table, "completion_tokens_sum", "completion_tokens_known", place),
        truncated=int(truncated or 0),
        errors=int(failed or 0),
        ess=_finite(_at(table, "is_ess", place)),
        codes=tuple(codes),
    )


def _at(table: Mapping[str, Column], name: str, place: int) -> float | None:
    return float(table[name][place]) if name in table else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _mean_at(table: Mapping[str, Column], total: str, number: str, place: int) -> float | None:
    if total not in table or not table[number][place]:
        return None
    return float(table[total][place] / table[number][place])


def sample_views(connection: duckdb.DuckDBPyConnection, success: Success) -> tuple[SampleView, ...]:
    """Some rows of the first tasks.

    Args:
        connection: with `staged` and `prompts`.
        success: what counts.

    Returns:
        In the order of prompt and sample.
    """
    rows = all_rows(
        connection,
        "SELECT prompt, sample_number, sample_text, answer, answer_raw, "
        f"{outcome_sql(success)} AS outcome, reward, score, completion_tokens, finish_reason, error, completion, completion_length "
        f"FROM staged JOIN prompts USING (prompt) WHERE code < {TASKS_WITH_SAMPLES} "
        "QUALIFY row_number() OVER (PARTITION BY code ORDER BY sample_number, sample_text, answer, completion, trajectory, reward, score) "
        f"<= {SAMPLES_OF_TASK} ORDER BY code, sample_number, sample_text, answer, completion, trajectory, reward, score",
    )
    return tuple(_view(*row) for row in rows)


def _view(
    prompt: str,
    number: int | None,
    text: str | None,
    answer: str | None,
    raw: str | None,
    outcome: float | None,
    reward: float | None,
    score: float | None,
    *rest: Any,
) -> SampleView:
    tokens, reason, error, completion, length = rest
    return SampleView(
        prompt_id=prompt,
        sample_id=text if number is None else number,
        answer=answer,
        answer_raw=raw,
        correct=outcome,
        reward=_finite(reward),
        score=_finite(score),
        tokens=tokens,
        finish_reason=reason,
        error=error,
        text=completion,
        text_length=length,
    )


def length_histogram(
    connection: duckdb.DuckDBPyConnection, log: Log, success: Success
) -> tuple[HistogramBin, ...]:
    """Completion lengths in bins of equal width.

    Args:
        connection: with `staged`.
        log: its facts.
        success: what counts.

    Returns:
        The bins, empty ones included; none where no row has a length.
    """
    if not log.facts.present["completion_tokens"]:
        return ()
    ((low, high),) = all_rows(
        connection, "SELECT min(completion_tokens), max(completion_tokens) FROM staged"
    )
    width = max(1, math.ceil((high - low + 1) / LENGTH_BINS))
    found = {
        int(place): (number, cut, accuracy)
        for place, number, cut, accuracy in all_rows(
            connection,
            f"SELECT (completion_tokens - {low}) // {width} AS place, count(*), count(*) FILTER (truncated = 1), "
            f"sum({outcome_sql(success)}) / count({outcome_sql(success)}) FROM staged "
            "WHERE completion_tokens IS NOT NULL GROUP BY place",
        )
    }
    return tuple(
        HistogramBin(low + place * width, low + (place + 1) * width, *_bin(found.get(place)))
        for place in range((high - low) // width + 1)
    )


def _bin(found: tuple[int, int, float | None] | None) -> tuple[int, int, float | None]:
    if found is None:
        return 0, 0, None
    number, cut, accuracy = found
    return number, cut, None if accuracy is None or np.isnan(accuracy) else float(accuracy)
