"""Curves of runs on one grid of rollouts, and the rollouts to a target: what uniform allocation reaches at its peak."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from experiments.allocation.run_tables import by_run
from experiments.tables import from_rows, schema

CURVES = schema(regime=str, method=str, seed=int, rollouts=int, accuracy=float, coverage_32=float)
"""Held-out curves, linear between updates, at the same ledger points for all; a run that has ended keeps no further rows."""

TARGETS = schema(
    regime=str, method=str, seed=int, target=float, reached=bool, rollouts=int, ratio=float
)
"""rollouts: at which the smoothed curve reaches the target, or at which the run ended; ratio: those of uniform over these, an upper bound where not reached."""

GRID_POINTS = 240
SMOOTHING = 9
"""Grid points of the centred mean that a target is read off, for every method alike."""


def curve_table(updates: pa.Table, kind: str) -> pa.Table:
    """Held-out curves of one kind of experiment on one grid a regime.

    Args:
        updates: of the schema `UPDATES`.
        kind: of experiment.

    Returns:
        Of the schema `CURVES`.
    """
    runs = {key: columns for key, columns in by_run(updates).items() if key[0] == kind}
    ends: dict[str, int] = {}
    for (_, regime, _, _), columns in runs.items():
        ends[regime] = max(ends.get(regime, 0), int(columns["rollouts"][-1]))
    rows = (
        row
        for (_, regime, method, seed), columns in runs.items()
        for row in _curve_rows(regime, method, seed, columns, ends[regime])
    )
    return from_rows(CURVES, rows)


def _curve_rows(
    regime: str, method: str, seed: int, columns: Mapping[str, np.ndarray], end: int
) -> Iterator[dict[str, Any]]:
    grid = np.linspace(0, end, GRID_POINTS + 1)[1:]
    rollouts = columns["rollouts"]
    accuracy = np.interp(grid, rollouts, columns["accuracy"])
    coverage = np.interp(grid, rollouts, columns["coverage_32"])
    for point in np.flatnonzero((grid >= rollouts[0]) & (grid <= rollouts[-1])):
        yield {
            "regime": regime,
            "method": method,
            "seed": seed,
            "rollouts": int(grid[point]),
            "accuracy": accuracy[point],
            "coverage_32": coverage[point],
        }


def smoothed(values: Float64[np.ndarray, " U"]) -> Float64[np.ndarray, " U"]:
    """Centred mean over `SMOOTHING` points, fewer at the ends.

    Args:
        values: on the grid.

    Returns:
        The same length.
    """
    window = np.ones(SMOOTHING)
    return np.convolve(values, window, "same") / np.convolve(np.ones_like(values), window, "same")


def target_rows(curves: pa.Table, baseline: str = "uniform") -> Iterator[dict[str, Any]]:
    """Rollouts until each method has the best accuracy that the baseline ever has, by regime and seed.

    Args:
        curves: of the schema `CURVES`.
        baseline: whose smoothed peak is the target.

    Yields:
        Rows of `TARGETS`.
    """
    runs: dict[tuple[str, int, str], list[tuple[int, float]]] = {}
    for row in curves.to_pylist():
        key = (row["regime"], row["seed"], row["method"])
        runs.setdefault(key, []).append((row["rollouts"], row["accuracy"]))
    for (regime, seed, method), points in runs.items():
        if method != baseline:
            continue
        rollouts, values = _columns(points)
        peak = smoothed(values)
        target = float(peak.max())
        paid = int(rollouts[peak.argmax()])
        for (regime2, seed2, other), theirs in runs.items():
            if (regime2, seed2) == (regime, seed):
                yield _target_row(regime, seed, other, theirs, target, paid)


def _target_row(
    regime: str,
    seed: int,
    method: str,
    points: Sequence[tuple[int, float]],
    target: float,
    paid: int,
) -> dict[str, Any]:
    rollouts, values = _columns(points)
    hits = np.flatnonzero(smoothed(values) >= target)
    needed = int(rollouts[hits[0]] if hits.size else rollouts[-1])
    return {
        "regime": regime,
        "method": method,
        "seed": seed,
        "target": target,
        "reached": bool(hits.size),
        "rollouts": needed,
        "ratio": paid / needed,
    }


def _columns(points: Sequence[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    rollouts, values = zip(*points, strict=True)
    return np.array(rollouts), np.array(values)
