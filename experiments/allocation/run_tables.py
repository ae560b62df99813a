"""Tidy tables of runs: one row an update, and from those one row a run, and every rule at one ledger."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.allocation.runs import Setting, trimmed
from experiments.allocation.simulator import COVERAGE_KS, Curve
from experiments.tables import from_rows, schema
from theory.estimators.interval import t_interval

COVERAGES = tuple(f"coverage_{k}" for k in COVERAGE_KS)
"""Columns of pass@k."""

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
    **dict.fromkeys(COVERAGES, float),
    groups=int,
    effective=int,
    push=float,
    own_effective=int,
    own_energy=float,
    visited=int,
    rounds=int,
    spent=int,
)
"""rollouts: so far, all that were drawn; accuracy, coverage_k: exact pass@1 and pass@k of the held-out prompts after the update; effective: groups with a success and a
failure; push: sum of sqrt(rbar (1 - rbar)); own_effective, own_energy: effective groups and the sum of sqrt(s f), replayed rollouts left out; visited: prompts asked; spent: rollouts when the run ended, more than the last where an update never came about."""

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
    own_effective_rate=float,
    own_energy_rate=float,
    accuracy=float,
    **dict.fromkeys(COVERAGES, float),
    **{f"mean_{name}": float for name in ("accuracy", *COVERAGES)},
    rounds=float,
    stopped=bool,
)
"""cost: rollouts in units of B n an update, that of uniform allocation; push: mean of sqrt(rbar (1 - rbar)) over the groups; own_effective_rate, own_energy_rate: effective groups and sqrt(s f) per 1000 rollouts, replayed rollouts left out; accuracy, coverage_k: exact pass@1 and
pass@k of the held-out prompts at the end, mean_accuracy and mean_coverage_k over the updates; stopped: the pool had nothing left that the rule would train on."""

PASS_AT_K = schema(
    kind=str, regime=str, method=str, seeds=int, k=int, pass_at_k=float, low=float, high=float
)
"""Exact pass@k of the held-out prompts at the end of the runs, k = 1, 2, 4, ..., 64: mean and 95 % t interval over seeds, which is the mean itself for a single seed."""

LEDGERS = schema(
    regime=str,
    method=str,
    seed=int,
    ledger=int,
    filled=bool,
    updates=int,
    rollouts=int,
    effective_rate=float,
    accuracy=float,
    coverage_32=float,
)
"""Read at the last update within the ledger. effective_rate: n times the effective groups over all rollouts so far, 1 if every rollout were in one; filled: false
for a run that was over before the ledger was spent."""


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
            **dict(zip(COVERAGES, curve.coverage[update], strict=True)),
            "groups": curve.groups[update],
            "effective": curve.effective[update],
            "push": curve.push[update],
            "own_effective": curve.own_effective[update],
            "own_energy": curve.own_energy[update],
            "visited": curve.visited[update],
            "rounds": curve.rounds[update],
            "spent": int(curve.spent),
        }


def update_table(kind: str, setting: Setting, method: str, curves: Iterable[Curve]) -> pa.Table:
    """The runs of a method in a setting by their updates.

    Args:
        kind: of experiment.
        setting: where.
        method: its name.
        curves: one a seed, from seed 0 on.

    Returns:
        Of the schema `UPDATES`.
    """
    rows = (
        row
        for seed, curve in enumerate(curves)
        for row in update_rows(kind, setting, method, seed, trimmed(curve))
    )
    return from_rows(UPDATES, rows)


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


def run_table(updates: pa.Table, information: Mapping[str, str]) -> pa.Table:
    """One row a run.

    Args:
        updates: of the schema `UPDATES`.
        information: what each method may look at.

    Returns:
        Of the schema `RUNS`.
    """
    rows = (
        {**_run_row(key, columns), "information": information[key[2]]}
        for key, columns in by_run(updates).items()
    )
    return from_rows(RUNS, rows)


def _run_row(key: RunKey, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    kind, regime, method, seed = key
    measured = ("accuracy", *COVERAGES)
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
        "seed": seed,
        "updates": updates,
        "rollouts": spent,
        "cost": spent / (updates * size * batch),
        "effective_share": effective / max(groups, 1),
        "rollouts_per_effective": spent / effective if effective else float("inf"),
        "push": float(columns["push"].sum()) / max(groups, 1),
        "own_effective_rate": 1000 * float(columns["own_effective"].sum()) / spent,
        "own_energy_rate": 1000 * float(columns["own_energy"].sum()) / spent,
        **{name: columns[name][-1] for name in measured},
        **{f"mean_{name}": float(columns[name].mean()) for name in measured},
        "rounds": float(columns["rounds"].mean()),
        "stopped": spent > int(columns["rollouts"][-1]),
    }


def pass_at_k_table(runs: pa.Table, kinds: Collection[str]) -> pa.Table:
    """The curve of pass@k of every rule.

    Args:
        runs: of the schema `RUNS`.
        kinds: of experiment, where the policy learns.

    Returns:
        Of the schema `PASS_AT_K`, in the order of the runs.
    """
    values: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in runs.to_pylist():
        if row["kind"] in kinds:
            values.setdefault((row["kind"], row["regime"], row["method"]), []).append(row)
    return from_rows(
        PASS_AT_K,
        (
            {
                "kind": kind,
                "regime": regime,
                "method": method,
                "seeds": len(rows),
                "k": k,
                **mean_interval("pass_at_k", [row[column] for row in rows]),
            }
            for (kind, regime, method), rows in values.items()
            for k, column in zip((1, *COVERAGE_KS), ("accuracy", *COVERAGES), strict=True)
        ),
    )


def mean_interval(name: str, values: Sequence[float]) -> dict[str, float]:
    """Mean and 95 % t interval over seeds, as columns.

    Args:
        name: of the mean's column.
        values: one a seed.

    Returns:
        {name, "low", "high"}; all three are the mean where there is one seed.
    """
    array = np.array(values, np.float64)
    mean = float(array.mean())
    if array.size < 2:
        return {name: mean, "low": mean, "high": mean}
    interval = t_interval(array)
    return {name: mean, "low": float(interval.low), "high": float(interval.high)}


def ledger_table(updates: pa.Table, kind: str, uniform_updates: int) -> pa.Table:
    """Every rule at one ledger: what so many updates of uniform allocation cost.

    Args:
        updates: of the schema `UPDATES`.
        kind: of experiment.
        uniform_updates: whose cost is the ledger.

    Returns:
        Of the schema `LEDGERS`, one row a run of this kind.
    """
    rows = (
        _ledger_row(key, columns, uniform_updates)
        for key, columns in by_run(updates).items()
        if key[0] == kind
    )
    return from_rows(LEDGERS, rows)


def _ledger_row(
    key: RunKey, columns: Mapping[str, np.ndarray], uniform_updates: int
) -> dict[str, Any]:
    _, regime, method, seed = key
    size = int(columns["group_size"][0])
    ledger = uniform_updates * size * int(columns["batch_size"][0])
    inside = int((columns["rollouts"] <= ledger).sum())
    last = max(inside - 1, 0)
    # A run that got stuck has spent the ledger and trained on nothing for the rest of it.
    spent = int(columns["spent"][0])
    ended = inside == len(columns["rollouts"])
    rollouts = min(spent, ledger) if ended else int(columns["rollouts"][last])
    effective = int(columns["effective"][:inside].sum())
    return {
        "regime": regime,
        "method": method,
        "seed": seed,
        "ledger": ledger,
        "filled": not ended or spent >= ledger,
        "updates": inside,
        "rollouts": rollouts,
        "effective_rate": effective * size / rollouts,
        "accuracy": columns["accuracy"][last],
        "coverage_32": columns["coverage_32"][last],
    }
