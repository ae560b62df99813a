"""From logs to an `Analysis`: rows into the database, tasks out of it, statistics from those.

analysis = analyze_logs(open_logs(["rollouts.jsonl"], "auto", {}, None, strict=False), AnalysisOptions())
"""

import contextlib
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from experiments.progress import track
from experiments.rollout_logs.analysis import (
    Analysis,
    Counts,
    Curve,
    CurvePoint,
    ReliabilityBin,
    Statistic,
)
from experiments.rollout_logs.answers import RULES_VERSION
from experiments.rollout_logs.backend import ONE_MACHINE, Backend
from experiments.rollout_logs.compare import Analyzed
from experiments.rollout_logs.database import all_rows, open_database
from experiments.rollout_logs.details import length_histogram, sample_views, task_summaries
from experiments.rollout_logs.drafts import Draft, with_intervals
from experiments.rollout_logs.duplicates import drop_copies, has_copies
from experiments.rollout_logs.facts import Facts, gather_facts
from experiments.rollout_logs.families import (
    FAMILIES,
    NAMES,
    hidden_columns,
    kind_of,
    unread_fields,
)
from experiments.rollout_logs.options import AnalysisOptions, check_options
from experiments.rollout_logs.pooled_scores import PooledScores, pool_scores
from experiments.rollout_logs.reading import OpenedLogs
from experiments.rollout_logs.staging import Staged, forget_rows, hide_columns
from experiments.rollout_logs.statistics import (
    beyond,
    calibration,
    copies,
    costs,
    coverage,
    divergence,
    noisy_verdicts,
    off_policy_coverage,
    rewards,
    scores,
    selection,
    selection_curve,
    unit_weights,
    votes,
    weight_columns,
    weight_tails,
    weights,
)
from experiments.rollout_logs.task_rows import keep_prompts, make_prompts, task_rows
from experiments.rollout_logs.task_table import Log, Success, make_table, success_of
from experiments.rollout_logs.unit_weights import unit_columns
from experiments.rollout_logs.warnings import warnings_of
from experiments.rollout_logs.weight_tails import AlphaLimit, Tail, alpha_limit, tails_of
from theory.errors import InvalidInput

_FAMILIES = (
    coverage.columns,
    votes.columns,
    selection.columns,
    rewards.columns,
    scores.columns,
    costs.columns,
    weight_columns.columns,
    off_policy_coverage.columns,
    copies.columns,
    divergence.columns,
)
# Random subsets of a weighted vote, for all rows together.
_SUBSET_WORK = 2 * 10**6


def analyze_logs(
    opened: OpenedLogs, options: AnalysisOptions, backend: Backend = ONE_MACHINE
) -> Analysis:
    """Compute every statistic of some logs, or the reason why there is none.

    Memory is bounded whatever the rows: the database spills to a temporary folder, rows pass through in tasks, and what stays is some numbers for
    each task. The numbers do not depend on the order of rows, the split into files or the number of threads.

    Args:
        opened: the logs.
        options: what was asked.
        backend: where rows are read and tasks computed; the numbers are the same.

    Returns:
        The analysis.

    Raises:
        InvalidInput: an option out of range, no usable row, or two different rows of one (prompt, sample).
    """
    check_options(options)
    with _staged(opened, options, backend) as (connection, staged, duplicates):
        return _analyze(
            connection, opened, options, backend, staged, duplicates, lambda draft: None
        )


class ReadLog(NamedTuple):
    """A log that has been read, to be analyzed as a whole or in part.

    Attributes:
        whole: numbers of all tasks.
        part: numbers of the tasks named alone, as if the log had no others; can be asked once.
    """

    whole: Callable[[], Analyzed]
    part: Callable[[Collection[str]], Analyzed]


@contextlib.contextmanager
def read_log(
    opened: OpenedLogs, options: AnalysisOptions, backend: Backend = ONE_MACHINE
) -> Generator[ReadLog, None, None]:
    """The same with the numbers of each task, for comparisons.

    Args:
        opened: the logs.
        options: what was asked.
        backend: as `analyze_logs`.

    Yields:
        What gives the analysis and what it was made from.

    Raises:
        InvalidInput: as `analyze_logs`.
    """
    check_options(options)
    with _staged(opened, options, backend) as (connection, staged, duplicates):

        def whole() -> Analyzed:
            drafts: list[Draft] = []
            analysis = _analyze(
                connection, opened, options, backend, staged, duplicates, drafts.append
            )
            names = all_rows(connection, "SELECT prompt FROM prompts ORDER BY code")
            return Analyzed(analysis, drafts, [str(name) for (name,) in names])

        def part(prompts: Collection[str]) -> Analyzed:
            keep_prompts(connection, prompts)
            make_prompts(connection)
            return whole()

        yield ReadLog(whole, part)


@contextlib.contextmanager
def _staged(
    opened: OpenedLogs, options: AnalysisOptions, backend: Backend
) -> Generator[tuple[duckdb.DuckDBPyConnection, Staged, Mapping[tuple[str, str], int]], None, None]:
    """A database with the rows of the logs, copies left out, and the columns that the statistics asked for need."""
    hidden = hidden_columns(options.only)
    with tempfile.TemporaryDirectory(prefix="rolloutlab-") as name:
        folder = Path(name)
        with open_database(folder) as connection:
            staged = backend.stage(connection, opened, folder, unread_fields(hidden))
            duplicates: Mapping[tuple[str, str], int] = {}
            if has_copies(connection):
                if not staged.whole:  # whether copies are equal is seen in all of their fields
                    forget_rows(connection)
                    staged = backend.stage(connection, opened, folder, ())
                duplicates = drop_copies(connection)
            if hidden:
                hide_columns(connection, hidden)
            if not make_prompts(connection):
                raise _nothing(opened, staged)
            yield connection, staged, duplicates


def _nothing(opened: OpenedLogs, staged: Staged) -> InvalidInput:
    where = [f"{places[0]}: {reason}" for reason, places in staged.examples.items()]
    first = where[0] if where else opened.inputs[0]
    return InvalidInput(f"{first}; no row of {staged.rows} can be used, give a log with rows")


def _analyze(
    connection: duckdb.DuckDBPyConnection,
    opened: OpenedLogs,
    options: AnalysisOptions,
    backend: Backend,
    staged: Staged,
    duplicates: Mapping[tuple[str, str], int],
    watch: Callable[[Draft], None],
) -> Analysis:
    facts = gather_facts(connection)
    success = success_of(facts, options)
    options = options._replace(
        ordered=facts.present["sample_number"] == facts.rows,
        num_subsets=max(2, min(500, _SUBSET_WORK // facts.rows)),
        proxy_scores=facts.same_verifier > 0,
    )
    chunks = track(task_rows(connection, facts.present), "computing statistics")
    table = make_table(chunks, _FAMILIES, success, options, backend.in_order)
    if facts.present["token_log_ratios"] and options.wants(*FAMILIES["units"]):
        table |= unit_columns(connection, facts.prompts, options)
    log = Log(facts, options, success, table)
    tails = tails_of(connection, facts, table, options)
    wants, present = options.wants, facts.present
    both = present["base_logp"] and present["behavior_logp"] and wants("power_alpha_limit")
    limit = alpha_limit(connection, facts, weights.LEAST_ESS, options) if both else None
    scored = present["score"] and wants("ece", "auroc_pooled")
    pooled = pool_scores(connection, success) if scored else None
    median = _median(connection, "completion_tokens") if wants("tokens_median") else None
    drafts = _watched(_drafts(log, pooled, median, tails, limit), options, watch)
    statistics = with_intervals(drafts, facts.prompts, options)
    return Analysis(
        inputs=tuple(opened.inputs),
        format=opened.format,
        field_map=dict(opened.field_map),
        absent=tuple(opened.missing),
        counts=_counts(facts, staged, duplicates, hidden_columns(options.only)),
        statistics=tuple(statistics),
        warnings=warnings_of(log, opened.skipped, staged, duplicates, statistics),
        curves=_curves(statistics, options.ks),
        reliability=_reliability(statistics, pooled),
        lengths=length_histogram(connection, log, success),
        tasks=task_summaries(connection, log, duplicates),
        samples=sample_views(connection, success),
        options=_words(options, success, facts),
    )


def _drafts(
    log: Log,
    pooled: PooledScores | None,
    median_tokens: float | None,
    tails: Mapping[str, Tail],
    limit: AlphaLimit | None,
) -> Iterator[Draft]:
    """Family by family, so that the numbers of all tasks are held for one family at a time."""
    yield from coverage.drafts(log)
    yield from noisy_verdicts.drafts(log)
    yield from beyond.drafts(log)
    yield from votes.drafts(log)
    yield from selection.drafts(log)
    yield from rewards.drafts(log)
    yield from votes.diversity_drafts(log)
    yield from calibration.drafts(log, pooled)
    yield from selection_curve.drafts(log)
    yield from divergence.drafts(log)
    yield from costs.drafts(log, median_tokens)
    yield from weights.drafts(log)
    yield from weight_tails.drafts(log, tails, limit)
    yield from off_policy_coverage.drafts(log)
    yield from unit_weights.drafts(log)


def _watched(
    drafts: Iterator[Draft], options: AnalysisOptions, watch: Callable[[Draft], None]
) -> Iterator[Draft]:
    """Those that are asked for."""
    for draft in drafts:
        if options.wants(kind_of(draft.statistic.name)):
            watch(draft)
            yield draft


def _words(options: AnalysisOptions, success: Success, facts: Facts) -> dict[str, str]:
    """The options that shaped the numbers, as text."""
    found = {
        "k": ",".join(map(str, options.ks)),
        "seed": str(options.seed),
        "resamples": str(options.num_resamples),
        "success": success.words,
    }
    if facts.present["answer"]:
        found["answer rules"] = RULES_VERSION
    if options.beyond:
        found["beyond"] = ",".join(map(str, options.beyond))
    found["G-Pass threshold"] = f"{options.g_pass_threshold:g}"
    if options.verifier_rates is not None:
        found["verifier tpr, fpr"] = "{:g}, {:g}".format(*options.verifier_rates)
    if options.only is not None:
        found["only"] = ",".join(name for name in NAMES if name in options.only)
    if options.power_alpha is not None:
        found["power alpha"] = f"{options.power_alpha:g}"
    return found


def _median(connection: duckdb.DuckDBPyConnection, column: str) -> float | None:
    """Over rows, from how often each value occurs."""
    counts = all_rows(
        connection,
        f"SELECT {column}::DOUBLE, count(*) FROM staged WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1",
    )
    total = sum(number for _, number in counts)
    if not total:
        return None
    return (_value_at(counts, (total - 1) // 2) + _value_at(counts, total // 2)) / 2


def _value_at(counts: list[tuple[Any, ...]], place: int) -> float:
    seen = 0
    for value, number in counts:
        seen += number
        if place < seen:
            return value
    raise IndexError(place)


def _counts(
    facts: Facts,
    staged: Staged,
    duplicates: Mapping[tuple[str, str], int],
    hidden: Collection[str],
) -> Counts:
    copies = sum(duplicates.values())
    excluded = dict(staged.excluded) | ({"duplicate": copies} if copies else {})
    return Counts(
        rows=staged.rows,
        used=facts.rows,
        excluded=excluded,
        prompts=facts.prompts,
        samples_per_prompt=facts.samples,
        truncated=facts.truncated,
        errors=facts.failed,
        duplicates=copies,
        missing={
            name: facts.rows - facts.present[column]
            for name, column in _MISSING.items()
            if facts.present[column] < facts.rows and column not in hidden
        },
    )


_MISSING = {
    "answer": "answer_code",
    "correct": "correct",
    "reward": "reward",
    "score": "score",
    "base_logp": "base_logp",
    "behavior_logp": "behavior_logp",
    "target_logp": "target_logp",
    "completion_tokens": "completion_tokens",
    "finish_reason": "finish_reason",
    "wall_s": "wall_s",
    "model_calls": "model_calls",
    "verifier_calls": "verifier_calls",
    "tool_calls": "tool_calls",
    "env_steps": "env_steps",
}


def _reliability(
    statistics: list[Statistic], pooled: PooledScores | None
) -> tuple[ReliabilityBin, ...]:
    """The bins, where calibration may be spoken of."""
    given = any(each.name == "ece" and each.value is not None for each in statistics)
    return pooled.bins if given and pooled is not None else ()


def _curves(statistics: list[Statistic], ks: tuple[int, ...]) -> tuple[Curve, ...]:
    by_name = {statistic.name: statistic for statistic in statistics}
    curves: list[Curve] = []
    for family in ("pass", "majority", "best_of_n"):
        found = [by_name[f"{family}@{k}"] for k in ks if f"{family}@{k}" in by_name]
        given = [statistic for statistic in found if statistic.value is not None]
        if not given:
            continue
        points = tuple(
            CurvePoint(
                int(statistic.name.split("@")[1]),
                statistic.value,
                None if statistic.interval is None else statistic.interval.low,
                None if statistic.interval is None else statistic.interval.high,
            )
            for statistic in found
        )
        curves.append(Curve(family, points, given[0].tasks))
    return tuple(curves)
