"""Tidy tables of runs: one row an update, and from those one row a run, curves on one grid, and the rollouts to a target."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from experiments.allocation.methods import METHODS
from experiments.allocation.runs import Setting
from experiments.allocation.simulator import COVERAGE_KS, Curve
from experiments.tables import from_rows, schema

UPDATES = schema(
    kind=str,
    regime=str,
    group_size=int,
    batch_size=int,
    method=str,
    seed=int,
    update=int,
    rollouts=int,
    accuracy=float,
    coverage_8=float,
    coverage_32=float,
    groups=int,
    effective=int,
    push=float,
    visited=int,
    rounds=int,
    spent=int,
)
"""rollouts: so far, all that were drawn; accuracy, coverage_k: exact pass@1 and pass@k of the held-out prompts after the update; effective: groups with a success and a
failure; push: sum of sqrt(rbar (1 - rbar)); visited: prompts asked; spent: rollouts when the run ended, more than the last where an update never came about."""

RUNS = schema(
    kind=str,
    regime=str,
    group_size=int,
    batch_size=int,
    method=str,
    information=str,
    seed=int,
    updates=int,
    rollouts=int,
    cost=float,
    effective_share=float,
    rollouts_per_effective=float,
    push=float,
    accuracy=float,
    coverage_8=float,
    coverage_32=float,
    rounds=float,
    stopped=bool,
)
"""cost: rollouts in units of B n an update, that of uniform allocation; push: mean of sqrt(rbar (1 - rbar)) over the groups; accuracy, coverage_k: exact pass@1 and
pass@k of the held-out prompts at the end; stopped: the pool had nothing left that the rule would train on."""

CURVES = schema(regime=str, method=str, seed=int, rollouts=int, accuracy=float, coverage_32=float)
"""Held-out curves, linear between updates, at the same ledger points for all; a run that has ended keeps no further rows."""

TARGETS = schema(
    regime=str, method=str, seed=int, target=float, reached=bool, rollouts=int, ratio=float
)
"""rollouts: at which the smoothed curve reaches the target, or at which the run ended; ratio: those of uniform over these, an upper bound where not reached."""

GRID_POINTS = 120
SMOOTHING = 5
"""Grid points of the centred mean that a target is read off, for every method alike."""


def update_rows(
    kind: str, setting: Setting, method: str, seed: int, curve: Curve
) -> Iterator[dict[str, Any]]:
    """A run by its updates.

    Args:
        kind: of experiment.
        setting: where.
        method: its name.
        seed: of the run.
        curve: trimmed.

    Yields:
        Rows of `UPDATES`.
    """
    for update in range(len(curve.rollouts)):
        yield {
            "kind": kind,
            "regime": setting.name,
            "group_size": setting.group_size,
            "batch_size": setting.batch_size,
            "method": method,
            "seed": seed,
            "update": update,
            "rollouts": curve.rollouts[update],
            "accuracy": curve.accuracy[update],
            "coverage_8": curve.coverage[update, COVERAGE_KS.index(8)],
            "coverage_32": curve.coverage[update, COVERAGE_KS.index(32)],
            "groups": curve.groups[update],
            "effective": curve.effective[update],
            "push": curve.push[update],
            "visited": curve.visited[update],
            "rounds": curve.rounds[update],
            "spent": int(curve.spent),
        }


RunKey = tuple[str, str, str, int]
"""Kind, regime, method and seed of a run."""


def by_run(updates: pa.Table) -> dict[RunKey, Mapping[str, np.ndarray]]:
    """The columns of every run.

    Args:
        updates: of the schema `UPDATES`.

    Returns:
        By kind, regime, method and seed, in the order of the table.
    """
    columns = {name: updates[name].to_numpy(zero_copy_only=False) for name in updates.column_names}
    places: dict[RunKey, list[int]] = {}
    keys = zip(*(columns[name] for name in ("kind", "regime", "method", "seed")), strict=True)
    for place, (kind, regime, method, seed) in enumerate(keys):
        places.setdefault((kind, regime, method, int(seed)), []).append(place)
    return {
        key: {name: column[rows] for name, column in columns.items()}
        for key, rows in places.items()
    }


def run_table(updates: pa.Table) -> pa.Table:
    """One row a run.

    Args:
        updates: of the schema `UPDATES`.

    Returns:
        Of the schema `RUNS`.
    """
    rows = (_run_row(key, columns) for key, columns in by_run(updates).items())
    return from_rows(RUNS, rows)


def _run_row(key: RunKey, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    kind, regime, method, seed = key
    updates = len(columns["update"])
    size, batch = (int(columns[name][0]) for name in ("group_size", "batch_size"))
    spent, groups, effective = (
        int(columns["spent"][-1]),
        int(columns["groups"].sum()),
        int(columns["effective"].sum()),
    )
    return {
        "kind": kind,
        "regime": regime,
        "group_size": size,
        "batch_size": batch,
        "method": method,
        "information": METHODS[method].information,
        "seed": seed,
        "updates": updates,
        "rollouts": spent,
        "cost": spent / (updates * size * batch),
        "effective_share": effective / max(groups, 1),
        "rollouts_per_effective": spent / effective if effective else float("inf"),
        "push": float(columns["push"].sum()) / max(groups, 1),
        "accuracy": columns["accuracy"][-1],
        "coverage_8": columns["coverage_8"][-1],
        "coverage_32": columns["coverage_32"][-1],
        "rounds": float(columns["rounds"].mean()),
        "stopped": spent > int(columns["rollouts"][-1]),
    }


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
    by_run: dict[tuple[str, int, str], list[tuple[int, float]]] = {}
    for row in curves.to_pylist():
        key = (row["regime"], row["seed"], row["method"])
        by_run.setdefault(key, []).append((row["rollouts"], row["accuracy"]))
    for (regime, seed, method), points in by_run.items():
        if method != baseline:
            continue
        rollouts, values = _columns(points)
        peak = smoothed(values)
        target = float(peak.max())
        paid = int(rollouts[peak.argmax()])
        for (regime2, seed2, other), theirs in by_run.items():
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
