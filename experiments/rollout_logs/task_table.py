"""One line of numbers for each task: the sufficient statistics, from which all statistics over tasks are made."""

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.rollout_logs.facts import Facts
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.task_rows import TaskRows
from theory.estimators.off_policy import missing_sequence_log_probs
from theory.estimators.ragged import keep_rows, mean_of_tasks

Column = NDArray[np.float64]

_MOST_WORKERS = 4  # each holds a chunk of rows


class Log(NamedTuple):
    """What the statistics are computed from.

    Attributes:
        facts: of all rows.
        options: of the analysis.
        success: what a success is.
        table: name -> [n] a number for each task, in the order of the prompts; NaN where it has none.
    """

    facts: Facts
    options: AnalysisOptions
    success: "Success"
    table: Mapping[str, Column]


class Success(NamedTuple):
    """What counts as a success.

    Attributes:
        source: "correct", "reward" or None.
        threshold: least reward that is a success.
        words: for the estimator's line.
    """

    source: str | None
    threshold: float
    words: str


def success_of(facts: Facts, options: AnalysisOptions) -> Success:
    """Which field says whether a row is a success.

    Args:
        facts: of the log.
        options: the threshold counts where `correct` is absent.

    Returns:
        The source; None where nothing says so honestly.
    """
    if facts.present["correct"]:
        return Success("correct", 0.5, "correct")
    if facts.present["reward"] and options.success_threshold is not None:
        threshold = options.success_threshold
        return Success("reward", threshold, f"reward >= {threshold:g}")
    if facts.reward_binary:
        return Success("reward", 0.5, "reward 1")
    return Success(None, 0.5, "nothing")


def successes(rows: TaskRows, success: Success) -> Column:
    """Whether each row is one.

    Args:
        rows: of some tasks.
        success: what counts.

    Returns:
        [m] 0, 1, or NaN where nothing is known.
    """
    if success.source == "correct":
        found = rows.numbers("correct")
        return np.where(found < 0, np.nan, found)
    if success.source == "reward":
        reward = rows.numbers("reward")
        return np.where(np.isfinite(reward), reward >= success.threshold, np.nan)
    return np.full(int(rows.offsets[-1]), np.nan)


def usable_logp(rows: TaskRows, name: str) -> Column:
    """A log probability, NaN where it is absent, positive, not finite or a stand-in.

    Args:
        rows: of some tasks.
        name: of the column.

    Returns:
        [m].
    """
    found = rows.numbers(name)
    missing = missing_sequence_log_probs(found, rows.numbers("completion_tokens"))
    return np.where(missing, np.nan, found)


def sums(values: NDArray[np.generic], offsets: NDArray[np.int64]) -> Column:
    """The sum over the rows of each task, in their order.

    Args:
        values: [m].
        offsets: [n + 1]; no task is empty.

    Returns:
        [n].
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add.reduceat(values.astype(np.float64, copy=False), offsets[:-1])


def sums_of_known(values: Column, offsets: NDArray[np.int64]) -> tuple[Column, Column]:
    """Sum and count over the rows of each task that have a finite value.

    Args:
        values: [m].
        offsets: [n + 1].

    Returns:
        [n] sums and [n] counts.
    """
    known = np.isfinite(values)
    return sums(np.where(known, values, 0.0), offsets), sums(known, offsets)


def means_of_known(values: Column, offsets: NDArray[np.int64]) -> tuple[Column, Column]:
    """Mean and count over the rows of each task that have a finite value.

    Args:
        values: [m].
        offsets: [n + 1].

    Returns:
        [n] means, 0 where a task has no value, and [n] counts.
    """
    known = np.isfinite(values)
    inner = keep_rows(offsets, known)
    return mean_of_tasks(values[known], inner), np.diff(inner).astype(np.float64)


Columns = Callable[[TaskRows, Success, AnalysisOptions], Mapping[str, Column]]
Work = Callable[[TaskRows], dict[str, Column]]
InOrder = Callable[[Iterable[TaskRows], Work], Iterator[dict[str, Column]]]


def make_table(
    chunks: Iterable[TaskRows],
    families: Iterable[Columns],
    success: Success,
    options: AnalysisOptions,
    in_order: InOrder,
) -> dict[str, Column]:
    """Run every family over every chunk of tasks.

    Args:
        chunks: whole tasks.
        families: functions from rows to columns of the table.
        success: what counts as one.
        options: of the analysis.
        in_order: runs it over the chunks, several at a time, wherever that is.

    Returns:
        The columns of all tasks.
    """
    work = functools.partial(_run, tuple(families), success, options)
    parts: dict[str, list[Column]] = {}
    for found in in_order(chunks, work):
        for name, column in found.items():
            parts.setdefault(name, []).append(column)
    return {name: np.concatenate(parts.pop(name)) for name in list(parts)}


def _run(
    families: tuple[Columns, ...], success: Success, options: AnalysisOptions, rows: TaskRows
) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for family in families:
        found |= family(rows, success, options)
    return found


def on_threads(chunks: Iterable[TaskRows], work: Work) -> Iterator[dict[str, Column]]:
    """Some chunks at a time on all cores of this machine.

    Args:
        chunks: whole tasks.
        work: on each.

    Yields:
        Results in the order of the chunks.
    """
    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[dict[str, Column]]] = deque()
        for rows in chunks:
            waiting.append(pool.submit(work, rows))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
