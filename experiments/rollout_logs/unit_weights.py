"""Weights of tokens, turns and prefixes: sums of each task, in one pass over the rows that record their log probabilities by token."""

from collections.abc import Iterator, Mapping

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from experiments.rollout_logs.options import AnalysisOptions, band_of
from experiments.rollout_logs.task_table import Column
from theory.estimators.off_policy import masked, prefix_log_ratios, truncated, weigh_tasks
from theory.estimators.ragged import reduce_tasks

UNITS = ("token", "turn", "prefix")
_ROWS = 512  # whose lists the database hands over at a time
_UNITS = (
    1 << 20
)  # of rows that are computed at a time, more where one row has more: a dozen arrays of as many numbers
_LOGS = ("log_total", "log_squares", "applied_log_total", "applied_log_squares")
_COUNTS = ("number", "clipped", "masked")

Parts = dict[str, Column]


def unit_columns(
    connection: duckdb.DuckDBPyConnection, num_tasks: int, options: AnalysisOptions
) -> Mapping[str, Column]:
    """The sums of each task.

    A row has them where target and behavior log probabilities are there of every one of its tokens, and the lengths of its turns add up to them.

    Args:
        connection: with `staged` and `prompts`.
        num_tasks: prompts.
        options: the cap.

    Returns:
        For each unit "UNIT_number" and the sums of raw and of truncated weights in logarithms, the units above the cap and outside the band, and "UNIT_rows".
    """
    found: Parts = {}
    for unit, column in (("token", "token_log_ratios"), ("turn", "turn_log_ratios")):
        rows, codes = _rows(connection, unit, column, options)
        for name in (unit, "prefix") if unit == "token" else (unit,):
            parts = {key: rows[f"{name}_{key}"] for key in (*_COUNTS, *_LOGS)}
            found |= {f"{name}_{key}": value for key, value in _by_task(codes, parts, num_tasks)}
    return found


def _rows(
    connection: duckdb.DuckDBPyConnection, unit: str, column: str, options: AnalysisOptions
) -> tuple[Parts, NDArray[np.int64]]:
    """The sums of each row."""
    names = (unit, "prefix") if unit == "token" else (unit,)
    parts: dict[str, list[Column]] = {
        f"{name}_{key}": [] for name in names for key in (*_COUNTS, *_LOGS)
    }
    codes: list[NDArray[np.int64]] = []
    query = connection.sql(
        f"SELECT code, {column} AS ratios FROM staged JOIN prompts USING (prompt) WHERE {column} IS NOT NULL"
    )
    with query.to_arrow_reader(batch_size=_ROWS) as reader:
        for batch in reader:
            code, lists = batch.columns
            codes.append(code.to_numpy(zero_copy_only=False).astype(np.int64))
            for few in _pieces(lists):
                ratios = few.flatten().to_numpy(zero_copy_only=False)
                sizes = few.value_lengths().to_numpy(zero_copy_only=False)
                offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
                for name in names:
                    weights = prefix_log_ratios(ratios, offsets) if name == "prefix" else ratios
                    for key, value in _sums(weights, offsets, options).items():
                        parts[f"{name}_{key}"].append(value)
    nothing = [np.empty(0)]
    return (
        {name: np.concatenate(values or nothing) for name, values in parts.items()},
        np.concatenate(codes or [np.empty(0, np.int64)]),
    )


def _pieces(lists: pa.ListArray) -> Iterator[pa.ListArray]:
    """Some rows at a time, by how long they are."""
    ends = np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False))
    begin = 0
    while begin < len(lists):
        taken = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, taken + _UNITS, side="right")))
        yield lists.slice(begin, end - begin)
        begin = end


def _sums(log_weights: Column, offsets: NDArray[np.int64], options: AnalysisOptions) -> Parts:
    """Of the units of each row."""
    applied = truncated(log_weights, options.clip, "unit").log_weights
    outside = np.isneginf(masked(log_weights, *band_of(options.clip), "unit").log_weights)
    clipped = log_weights > np.log(options.clip)
    found: Parts = {
        "number": np.diff(offsets).astype(np.float64),
        "clipped": reduce_tasks(np.add, clipped.astype(np.float64), offsets, 0.0),
        "masked": reduce_tasks(np.add, outside.astype(np.float64), offsets, 0.0),
    }
    for name, weights in (("", log_weights), ("applied_", applied)):
        weighed = weigh_tasks(weights, offsets)
        with np.errstate(divide="ignore"):
            found[f"{name}log_total"] = weighed.peak + np.log(weighed.total)
            found[f"{name}log_squares"] = 2 * weighed.peak + np.log(weighed.squares)
    return found


def _by_task(codes: NDArray[np.int64], parts: Parts, num_tasks: int) -> list[tuple[str, Column]]:
    """Sums of rows into sums of tasks, in an order that does not depend on that of the rows."""
    order = np.lexsort((*parts.values(), codes))
    offsets = np.searchsorted(codes[order], np.arange(num_tasks + 1)).astype(np.int64)
    found = [("rows", np.diff(offsets).astype(np.float64))]
    for name in _COUNTS:
        found.append((name, reduce_tasks(np.add, parts[name][order], offsets, 0.0)))
    for name in _LOGS:
        weighed = weigh_tasks(parts[name][order], offsets)
        with np.errstate(divide="ignore"):
            found.append((name, weighed.peak + np.log(weighed.total)))
    return found
