"""What needs the scores of all rows at once: AUROC over rows, and bins of equal mass. The database sorts; the rows pass through once."""

from typing import NamedTuple

import duckdb
import numpy as np

from experiments.rollout_logs.analysis import ReliabilityBin
from experiments.rollout_logs.database import one_number
from experiments.rollout_logs.task_table import Success

NUM_BINS = 10
_BATCH = 1 << 17


class PooledScores(NamedTuple):
    """Of all rows with a finite score and an outcome.

    Attributes:
        auroc: probability that a success scores above a failure, ties one half; None where there is one class.
        ece: expected calibration error over the bins.
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


def pool_scores(connection: duckdb.DuckDBPyConnection, success: Success) -> PooledScores:
    """Pass over the distinct scores in ascending order.

    Args:
        connection: with `staged`.
        success: what counts.

    Returns:
        The pooled numbers.
    """
    outcome = outcome_sql(success)
    source = f"(SELECT score, {outcome} AS outcome FROM staged WHERE isfinite(score))"
    kept = f"FROM {source} WHERE outcome IS NOT NULL"
    total = one_number(connection, f"SELECT count(*) {kept}")
    if not total:
        return PooledScores(None, None, ())
    sums = np.zeros((NUM_BINS, 3))
    edges = np.stack([np.full(NUM_BINS, np.inf), np.full(NUM_BINS, -np.inf)], axis=1)
    rows_before = negatives_before = wins = positives = 0.0
    query = connection.sql(
        f"SELECT score, count(*)::DOUBLE AS rows, sum(outcome) AS successes {kept} GROUP BY score ORDER BY score"
    )
    with query.to_arrow_reader(batch_size=_BATCH) as reader:
        for batch in reader:
            score, rows, won = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            lost = rows - won
            below = negatives_before + np.cumsum(lost) - lost
            wins += float((won * (below + lost / 2)).sum())
            middle = rows_before + np.cumsum(rows) - rows / 2
            place = np.minimum((middle * NUM_BINS / total).astype(np.int64), NUM_BINS - 1)
            for column, weights in enumerate((rows, rows * score, won)):
                sums[:, column] += np.bincount(place, weights=weights, minlength=NUM_BINS)
            np.minimum.at(edges[:, 0], place, score)
            np.maximum.at(edges[:, 1], place, score)
            rows_before += float(rows.sum())
            negatives_before += float(lost.sum())
            positives += float(won.sum())
    pairs = positives * negatives_before
    bins = tuple(
        ReliabilityBin(
            float(low), float(high), int(number), float(total_score / number), float(won / number)
        )
        for (number, total_score, won), (low, high) in zip(sums, edges, strict=True)
        if number
    )
    ece = sum(each.num_rows * abs(each.mean_score - each.accuracy) for each in bins) / total
    return PooledScores(wins / pairs if pairs else None, ece, bins)
