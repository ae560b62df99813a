"""What needs the scores of all rows at once: AUROC over rows, and bins of equal mass. The database sorts; the rows pass through once."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from experiments.rollout_logs.analysis import ReliabilityBin
from experiments.rollout_logs.database import one_row
from experiments.rollout_logs.task_table import Column, Success
from theory.estimators.calibration import (
    Reliability,
    equal_mass_bin_of_runs,
    expected_calibration_error,
)

NUM_BINS = 10
_BATCH = 1 << 17


class PooledScores(NamedTuple):
    """Of all rows with a finite score and an outcome.

    Attributes:
        auroc: probability that a success scores above a failure, ties one half; None where there is one class.
        ece: expected calibration error over the bins; None where a score is no probability.
        bins: of equal mass, as far as equal scores allow; those with rows.
    """

    auroc: float | None
    ece: float | None
    bins: tuple[ReliabilityBin, ...]


def outcome_sql(success: Success) -> str:
    """The outcome of a row in SQL.

    Args:
        success: what counts.

    Returns:
        An expression of value 0, 1 or NULL.
    """
    if success.source == "correct":
        return "correct::DOUBLE"
    if success.source == "reward":
        return f"CASE WHEN isfinite(reward) THEN (reward >= {success.threshold!r})::INTEGER::DOUBLE END"
    return "NULL::DOUBLE"


class _Runs(NamedTuple):
    """Distinct scores in ascending order, how many rows have each, and how many of those are successes."""

    scores: Column
    rows: Column
    successes: Column


def _distinct(batches: Iterable[pa.RecordBatch]) -> Iterator[_Runs]:
    """Sorted rows as distinct scores; the last one of a batch may go on in the next."""
    rest = _Runs(np.empty(0), np.empty(0), np.empty(0))
    for batch in batches:
        if not batch.num_rows:
            continue
        scores, outcomes = (column.to_numpy() for column in batch.columns)
        scores = np.append(rest.scores, scores)
        rows = np.append(rest.rows, np.ones(outcomes.size))
        successes = np.append(rest.successes, outcomes)
        begins = np.flatnonzero(np.append(True, scores[1:] != scores[:-1]))
        runs = [np.add.reduceat(rows, begins), np.add.reduceat(successes, begins)]
        found = _Runs(scores[begins], *runs)
        yield _Runs(*(column[:-1] for column in found))
        rest = _Runs(*(column[-1:] for column in found))
    yield rest


def pool_scores(connection: duckdb.DuckDBPyConnection, success: Success) -> PooledScores:
    """Pass over the distinct scores in ascending order. A sort alone takes half as long as groups that are then sorted.

    Args:
        connection: with `staged`.
        success: what counts.

    Returns:
        The pooled numbers.
    """
    outcome = outcome_sql(success)
    source = f"(SELECT score, {outcome} AS outcome FROM staged WHERE isfinite(score))"
    kept = f"FROM {source} WHERE outcome IS NOT NULL"
    found = one_row(connection, f"SELECT count(*) AS total, max(abs(score)) AS largest {kept}")
    total = found["total"]
    if not total:
        return PooledScores(None, None, ())
    # What huge scores are divided by so that their sum is finite.
    unit = 2.0**64 if found["largest"] > 1e250 else 1.0
    sums = np.zeros((NUM_BINS, 3))
    edges = np.stack([np.full(NUM_BINS, np.inf), np.full(NUM_BINS, -np.inf)], axis=1)
    rows_before = negatives_before = wins = positives = 0.0
    query = connection.sql(f"SELECT score, outcome {kept} ORDER BY score")
    with query.to_arrow_reader(batch_size=_BATCH) as reader:
        for score, rows, won in _distinct(reader):
            lost = rows - won
            below = negatives_before + np.cumsum(lost) - lost
            wins += float((won * (below + lost / 2)).sum())
            begins = rows_before + np.cumsum(rows) - rows
            place = equal_mass_bin_of_runs(
                begins.astype(np.int64), rows.astype(np.int64), total, NUM_BINS
            )
            for column, weights in enumerate((rows, rows * (score / unit), won)):
                sums[:, column] += np.bincount(place, weights=weights, minlength=NUM_BINS)
            np.minimum.at(edges[:, 0], place, score)
            np.maximum.at(edges[:, 1], place, score)
            rows_before += float(rows.sum())
            negatives_before += float(lost.sum())
            positives += float(won.sum())
    pairs = positives * negatives_before
    held = sums[:, 0] > 0
    (low, high), (rows, claimed, won) = edges[held].T, sums[held].T
    bins = Reliability(low, high, rows.astype(np.int64), claimed / rows * unit, won / rows)
    are_probabilities = low[0] >= 0 and high[-1] <= 1
    ece = expected_calibration_error(bins) if are_probabilities else None
    return PooledScores(wins / pairs if pairs else None, ece, _records(bins))


def _records(bins: Reliability) -> tuple[ReliabilityBin, ...]:
    return tuple(
        ReliabilityBin(*row) for row in zip(*(column.tolist() for column in bins), strict=True)
    )
