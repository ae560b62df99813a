"""Weights of tokens, turns, prefixes and tails of logs, against the definition by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.rollout_logs import unit_weights
from tests.experiments.rollout_log_tools import analyze, by_name, code, value, write_log
from theory.estimators.off_policy import largest_alpha, off_policy_pass_at_k
from theory.log_weights import pareto_k

CAP = 1.3


def _rows(num_tasks: int = 9, num_samples: int = 5) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for task in range(num_tasks):
        for sample in range(num_samples):
            size = int(rng.integers(2, 7))
            behavior = np.log(rng.uniform(0.2, 0.8, size))
            target = np.minimum(behavior + rng.normal(0, 0.4, size), -1e-3)
            rows.append(
                {
                    "prompt_id": f"t{task:02}",
                    "sample_id": sample,
                    "correct": bool(rng.random() < 0.4),
                    "behavior_logp_tokens": behavior.tolist(),
                    "target_logp_tokens": target.tolist(),
                    "turn_lengths": [2, size - 2],
                    "base_logp": float(behavior.sum() - rng.random()),
                }
            )
    return rows


def _ratios(row: dict[str, Any]) -> np.ndarray:
    return np.subtract(row["target_logp_tokens"], row["behavior_logp_tokens"])


def _turns(row: dict[str, Any]) -> list[float]:
    ratios, first = _ratios(row), row["turn_lengths"][0]
    return [ratios[:first].sum(), ratios[first:].sum()]


UNITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "token": _ratios,
    "turn": _turns,
    "prefix": lambda row: np.cumsum(_ratios(row)),
}


def _tasks(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    names = sorted({row["prompt_id"] for row in rows})
    return [[row for row in rows if row["prompt_id"] == name] for name in names]


def _fraction(weights: np.ndarray) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum() / weights.size)


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_units_by_hand(unit: str, tmp_path: Path) -> None:
    rows = _rows()
    found = analyze(write_log(tmp_path / "log.jsonl", rows), clip=CAP)
    tasks = [np.exp(np.concatenate([UNITS[unit](row) for row in task])) for task in _tasks(rows)]
    everything = np.concatenate(tasks)
    expected = {
        "ess_fraction": np.median([_fraction(task) for task in tasks]),
        "tis_ess_fraction": np.median([_fraction(np.minimum(task, CAP)) for task in tasks]),
        "clipped_share": np.mean(everything > CAP),
        "masked_share": np.mean((everything > CAP) | (everything < 1 / CAP)),
    }
    for kind, number in expected.items():
        assert value(found, f"{unit}_{kind}") == pytest.approx(number, rel=1e-9), kind
        assert by_name(found)[f"{unit}_{kind}"]["interval"] is not None
    least = min(_fraction(task) * task.size for task in tasks)
    notes = by_name(found)[f"{unit}_ess_fraction"]["notes"]
    assert any(f"minimum {least:.6g}" in note for note in notes)


def test_whole_sequences_by_hand(tmp_path: Path) -> None:
    rows = _rows()
    found = analyze(write_log(tmp_path / "log.jsonl", rows), ks=(1, 3), clip=CAP)
    tasks = _tasks(rows)
    logs = np.array([[_ratios(row).sum() for row in task] for task in tasks])
    correct = np.array([[float(row["correct"]) for row in task] for task in tasks])
    weights = np.exp(logs)
    inside = np.where((weights > CAP) | (weights < 1 / CAP), 0.0, weights)
    expected = {
        "tis_mean": (np.minimum(weights, CAP) * correct).mean(axis=1).mean(),
        "masked_mean": (inside * correct).mean(axis=1).mean(),
        "tis_ess_fraction": np.median([_fraction(np.minimum(w, CAP)) for w in weights]),
        "masked_share": (inside == 0).mean(),
        "off_policy_pass@1": (weights * correct).mean(axis=1).mean(),
        "off_policy_pass@3": off_policy_pass_at_k(logs, correct, 3).mean(),
    }
    for name, number in expected.items():
        assert value(found, name) == pytest.approx(number, rel=1e-9), name
    assert value(found, "off_policy_pass@1") == pytest.approx(value(found, "is_mean"))


def test_tails_and_the_limit_of_alpha(tmp_path: Path) -> None:
    rows = _rows(30)
    found = analyze(write_log(tmp_path / "log.jsonl", rows), power_alpha=1.5)
    logs = np.array([_ratios(row).sum() for row in rows])
    assert value(found, "pareto_k") == pytest.approx(float(pareto_k(logs)), rel=1e-9)
    base = np.array([row["base_logp"] for row in rows])
    behavior = np.array([sum(row["behavior_logp_tokens"]) for row in rows])
    power = (1.5 * base - behavior).reshape(30, 5)
    relative = power - np.log(np.exp(power).mean(axis=1, keepdims=True))
    assert value(found, "power_pareto_k") == pytest.approx(float(pareto_k(relative.ravel())))
    offsets = np.arange(0, 151, 5).astype(np.int64)
    limit = by_name(found)["power_alpha_limit"]
    assert limit["value"] == pytest.approx(largest_alpha(base, behavior, offsets, 2.0))
    assert limit["interval"]["low"] < limit["value"] < limit["interval"]["high"]
    assert "the limit is a median ess of 2" in limit["notes"]


def test_order_and_split_do_not_matter(tmp_path: Path) -> None:
    rows = _rows()
    whole = analyze(write_log(tmp_path / "log.jsonl", rows), ks=(1, 2), power_alpha=1.5)
    mixed = [rows[place] for place in np.random.default_rng(1).permutation(len(rows))]
    parts = [
        write_log(tmp_path / f"part{place}.jsonl", part)
        for place, part in enumerate((mixed[:20], mixed[20:]))
    ]
    assert analyze(parts, ks=(1, 2), power_alpha=1.5)["statistics"] == whole["statistics"]


@pytest.mark.parametrize("units", [1, 2, 7, 20])
def test_long_rows_are_computed_a_few_at_a_time(
    units: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many, and one alone where it is longer than that."""
    log = write_log(tmp_path / "log.jsonl", _rows())
    whole = analyze(log, clip=CAP)["statistics"]
    monkeypatch.setattr(unit_weights, "_UNITS", units)
    assert analyze(log, clip=CAP)["statistics"] == whole


NAMES = ("token_ess_fraction", "turn_clipped_share", "prefix_masked_share")


def _drop(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: found for name, found in row.items() if name not in names}


def _mean_log(row: dict[str, Any]) -> dict[str, Any]:
    return _drop(row, "target_logp_tokens") | {"target_logp": -3.0}


def _one_token_missing(row: dict[str, Any]) -> dict[str, Any]:
    logps = [-9999.0, *row["target_logp_tokens"][1:]]
    return row | {"target_logp_tokens": logps}


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda row: _drop(row, "target_logp_tokens"), ("R0", "R0", "R0")),
        (lambda row: _drop(row, "behavior_logp_tokens"), ("R18", "R18", "R18")),
        (_mean_log, ("R0", "R0", "R0")),
        (lambda row: _drop(row, "turn_lengths"), (None, "R0", None)),
        (lambda row: row | {"turn_lengths": [1]}, (None, "R0", None)),
        (_one_token_missing, ("R0", "R0", "R0")),
        (
            lambda row: _one_token_missing(row) if row["sample_id"] == 0 else row,
            ("R8", "R8", "R8"),
        ),
        (
            lambda row: row | {"temperature": 0.7, "behavior_logp_source": "raw"},
            ("R19", "R19", "R19"),
        ),
        (lambda row: row | {"top_k": 5}, ("R20", "R20", "R20")),
        (lambda row: row | {"policy_id": str(row["sample_id"])}, ("R4", "R4", "R4")),
    ],
)
def test_what_units_are_refused_for(
    change: Callable[[dict[str, Any]], dict[str, Any]],
    codes: tuple[str | None, ...],
    tmp_path: Path,
) -> None:
    found = analyze(write_log(tmp_path / "log.jsonl", [change(row) for row in _rows()]))
    assert tuple(code(found, name) for name in NAMES) == codes


def test_what_tails_and_pass_at_k_are_refused_for(tmp_path: Path) -> None:
    rows = [
        {
            "prompt_id": place // 4,
            "sample_id": place % 4,
            "correct": place % 3 == 0,
            "behavior_logp": -3.0,
            "target_logp": -3.0,
            "base_logp": -3.0,
        }
        for place in range(80)
    ]

    def found(some: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        return analyze(write_log(tmp_path / "log.jsonl", some), ks=(2,), **options)

    equal = found(rows)
    assert code(equal, "pareto_k") == "R0"
    assert "equal" in by_name(equal)["pareto_k"]["reason"]
    assert value(equal, "off_policy_pass@2") == pytest.approx(value(equal, "pass@2"))
    few = found(rows[:40])
    assert "40 rows" in by_name(few)["pareto_k"]["reason"]
    # Equal weights under p^alpha at every exponent: the search ends before the limit is met.
    assert value(few, "power_alpha_limit") == 1024
    twos = [row for row in rows if row["sample_id"] < 2]
    twos = [row | {"base_logp": -3.0 - row["sample_id"]} for row in twos]
    assert code(found(twos), "power_alpha_limit") == "R20"
    lost = [row | ({"target_logp": None} if row["sample_id"] == 0 else {}) for row in rows]
    assert code(found(lost), "off_policy_pass@2") == "R8"
    huge = [{**row, "behavior_logp": -300.0, "base_logp": -300.0} for row in rows]
    assert code(found(huge), "off_policy_pass@2") == "R20"
    assert code(found([*rows, rows[0] | {"prompt_id": "one"}]), "off_policy_pass@2") == "R1"
    assert code(found([row | {"branch_id": "b"} for row in rows]), "off_policy_pass@2") == "R3"
    json.dumps(equal)
    assert math.isfinite(value(few, "power_alpha_limit"))
