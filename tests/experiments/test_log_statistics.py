"""The statistics of logs against the definition: every subset of k rows, listed."""

import gzip
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.experiments.rollout_log_tools import (
    Rows,
    analyze,
    by_name,
    code,
    value,
    verdicts,
    warned,
    write_log,
)

KS = (1, 2, 3)


def _row() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "answer": st.sampled_from([None, "A", "B", "C", 'é " \\']),
            "correct": st.booleans(),
            "score": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
            "reward": st.sampled_from([-1.0, 0.0, 0.5, 2.0]),
            "completion_tokens": st.integers(1, 9),
            "base_logp": st.floats(-3, -0.1),
            "behavior_logp": st.floats(-3, -0.1),
            "target_logp": st.floats(-3, -0.1),
            "tokens": st.lists(st.integers(0, 2), max_size=2),
        }
    )


@st.composite
def _logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    sizes = draw(st.lists(st.integers(3, 5), min_size=1, max_size=3))
    rows = [
        {"prompt_id": task, "sample_id": sample, **draw(_row())}
        for task, size in enumerate(sizes)
        for sample in range(size)
    ]
    rows[0]["answer"] = "A"  # a field that no row has is refused
    return rows


def _mean_over_tasks(rows: Rows, of_task: Callable[[Any], Any]) -> float:
    tasks: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        tasks.setdefault(row["prompt_id"], []).append(row)
    return float(np.mean([of_task(task) for task in tasks.values()]))


def _over_subsets(k: int, of_subset: Callable[[Any, Any], Any]) -> Callable[[Any], float]:
    return lambda task: float(
        np.mean([of_subset(subset, task) for subset in itertools.combinations(task, k)])
    )


def _vote(
    subset: Sequence[Mapping[str, Any]], task: Sequence[Mapping[str, Any]], key: str | None
) -> float:
    weights: Counter[str] = Counter()
    for row in subset:
        if row["answer"] is not None:
            weights[row["answer"]] += 1 if key is None else row[key]
    if not weights:
        return 0.0
    best = max(weights.values())
    worth = [
        np.mean([row["correct"] for row in task if row["answer"] == answer])
        for answer, weight in weights.items()
        if weight == best
    ]
    return float(np.mean(worth))


def _best(subset: Sequence[Mapping[str, Any]]) -> float:
    top = max(row["score"] for row in subset)
    return float(np.mean([row["correct"] for row in subset if row["score"] == top]))


def _number_in(notes: Sequence[str], words: str) -> float:
    (note,) = [note for note in notes if words in note]
    return float(note.rpartition(": ")[2])


def _ess(weights: Sequence[float]) -> float:
    return sum(weights) ** 2 / sum(w * w for w in weights)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(rows=_logs())
def test_statistics_are_means_over_all_subsets(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    found = analyze(write_log(tmp_path / "log.jsonl", rows), ks=KS, power_alpha=1.5)
    for k in KS:
        expected = {
            f"pass@{k}": _over_subsets(k, lambda s, _: any(r["correct"] for r in s)),
            f"pass^{k}": _over_subsets(k, lambda s, _: all(r["correct"] for r in s)),
            f"g_pass@{k}": _over_subsets(
                k, lambda s, _: sum(r["correct"] for r in s) >= len(s) / 2
            ),
            f"majority@{k}": _over_subsets(k, lambda s, t: _vote(s, t, None)),
            f"best_of_n@{k}": _over_subsets(k, lambda s, _: _best(s)),
            f"distinct_answers@{k}": _over_subsets(
                k, lambda s, _: len({r["answer"] for r in s} - {None})
            ),
        }
        for name, of_task in expected.items():
            assert value(found, name) == pytest.approx(_mean_over_tasks(rows, of_task), abs=1e-12)
    weights = lambda task: [math.exp(r["target_logp"] - r["behavior_logp"]) for r in task]
    rewards = lambda task: [r["reward"] for r in task]
    means = {
        "oracle@N": lambda t: any(r["correct"] for r in t),
        "mean_reward": lambda t: np.mean(rewards(t)),
        "unique_answer_rate": lambda t: len({r["answer"] for r in t} - {None}) / len(t),
        "unique_trajectory_rate": lambda t: len({tuple(r["tokens"]) for r in t}) / len(t),
        "is_mean": lambda t: np.mean(np.multiply(weights(t), rewards(t))),
        "snis_mean": lambda t: np.average(rewards(t), weights=weights(t)),
    }
    for name, of_task in means.items():
        assert value(found, name) == pytest.approx(_mean_over_tasks(rows, of_task), abs=1e-9)
    tasks = [list(group) for _, group in itertools.groupby(rows, lambda r: r["prompt_id"])]
    power = [[math.exp(1.5 * r["base_logp"] - r["behavior_logp"]) for r in task] for task in tasks]
    plain = [weights(task) for task in tasks]
    medians = {
        "ess": [_ess(each) for each in plain],
        "ess_fraction": [_ess(each) / len(each) for each in plain],
        "max_weight": [max(each) / sum(each) for each in plain],
        "power_ess": [_ess(each) for each in power],
        "power_max_weight": [max(each) / sum(each) for each in power],
    }
    for name, numbers in medians.items():
        assert value(found, name) == pytest.approx(np.median(numbers), rel=1e-9)
        assert f"minimum {min(numbers):.6g}" in by_name(found)[name]["notes"]
    pooled = f"pooled over all rows {_ess(list(itertools.chain(*plain))):.6g}"
    assert pooled in by_name(found)["ess"]["notes"]
    flat = list(itertools.chain(*plain))
    assert value(found, "clipped_share") == pytest.approx(np.mean([w > 2 for w in flat]))
    lengths = [r["completion_tokens"] for r in rows]
    assert value(found, "tokens_mean") == pytest.approx(np.mean(lengths))
    assert value(found, "tokens_median") == np.median(lengths)
    brier = np.mean([(r["score"] - r["correct"]) ** 2 for r in rows])
    assert value(found, "brier") == pytest.approx(brier)
    gap = _mean_over_tasks(
        rows, _over_subsets(2, lambda s, _: max(r["score"] for r in s) - _best(s))
    )
    assert value(found, "optimism_gap@2") == pytest.approx(gap, abs=1e-12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=4)
@given(rows=_logs(), order=st.randoms())
def test_order_split_and_reader_do_not_matter(
    rows: list[dict[str, Any]], order: Any, tmp_path: Path
) -> None:
    whole = analyze(write_log(tmp_path / "log.jsonl", rows), ks=KS, power_alpha=1.5)
    mixed = list(rows)
    order.shuffle(mixed)
    half = len(mixed) // 2
    parts = [
        write_log(tmp_path / f"part{place}.jsonl", part)
        for place, part in enumerate((mixed[:half], mixed[half:]))
    ]
    split = analyze(parts, ks=KS, power_alpha=1.5)
    packed = tmp_path / "log.jsonl.gz"  # which the database does not read itself
    packed.write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))
    checked = analyze(packed, ks=KS, power_alpha=1.5)
    for other in (split, checked):
        assert other["statistics"] == whole["statistics"]
        assert other["counts"] == whole["counts"]
        assert other["warnings"] == whole["warnings"]


@pytest.mark.parametrize(("k", "size"), [(1, 4), (2, 4), (4, 4), (3, 6), (5, 12)])
def test_weighted_votes_by_subsets(k: int, size: int, tmp_path: Path) -> None:
    """Of one or two samples, of all, of few subsets: exact; of 792 subsets 500 are drawn."""
    rng = np.random.default_rng(k)
    rows = [
        {
            "prompt_id": task,
            "sample_id": sample,
            "answer": "AB"[rng.integers(2)],
            "correct": bool(rng.integers(2)),
            "score": float(rng.integers(0, 5)) / 4,
        }
        for task in range(30)
        for sample in range(size)
    ]
    found = by_name(analyze(write_log(tmp_path / "log.jsonl", rows), ks=(k,)))
    statistic = found[f"weighted_majority@{k}"]
    exact = _mean_over_tasks(rows, _over_subsets(k, lambda s, t: _vote(s, t, "score")))
    error = _number_in(statistic["notes"], "Monte Carlo standard error")
    assert (error == 0) == (size < 12)
    # Six standard errors: P < 1e-8 of normal numbers; the subsets are seeded.
    assert statistic["value"] == pytest.approx(exact, abs=6 * error + 1e-12)
    assert error < 0.01


def test_auroc_within_and_pooled_by_pairs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {
            "prompt_id": task,
            "sample_id": sample,
            "correct": bool(rng.random() < 0.5),
            "score": float(rng.integers(0, 4)) / 3,
        }
        for task in range(12)
        for sample in range(5)
    ]

    def auroc(some: Sequence[Mapping[str, Any]]) -> float:
        good = [r["score"] for r in some if r["correct"]]
        bad = [r["score"] for r in some if not r["correct"]]
        if not good or not bad:
            return math.nan
        return float(np.mean([(a > b) + 0.5 * (a == b) for a in good for b in bad]))

    found = analyze(write_log(tmp_path / "log.jsonl", rows))
    assert value(found, "auroc_pooled") == pytest.approx(auroc(rows))
    tasks = [[r for r in rows if r["prompt_id"] == task] for task in range(12)]
    assert value(found, "auroc_within") == pytest.approx(np.nanmean([auroc(t) for t in tasks]))
    assert by_name(found)["auroc_within"]["tasks"] == sum(
        not math.isnan(auroc(task)) for task in tasks
    )


def test_calibration_in_bins_of_equal_mass(tmp_path: Path) -> None:
    scores, outcomes = (0.9, 0.8, 0.7, 0.6, 0.2, 0.1), (1, 1, 0, 1, 0, 0)
    rows = [
        {"prompt_id": place, "sample_id": 0, "score": score, "correct": bool(outcome)}
        for place, (score, outcome) in enumerate(zip(scores, outcomes, strict=True))
    ]
    found = analyze(write_log(tmp_path / "log.jsonl", rows))
    assert value(found, "brier") == pytest.approx(0.125)
    assert value(found, "auroc_pooled") == pytest.approx(8 / 9)
    # Six scores fall into six of ten bins: each is its own bin.
    gaps = [abs(s - o) for s, o in zip(scores, outcomes, strict=True)]
    assert value(found, "ece") == pytest.approx(np.mean(gaps))


def test_clustered_error_and_design_effect(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", verdicts([1] * 4, [0] * 4, [1, 0, 1, 0]))
    note = by_name(analyze(log))["pass@1"]["notes"][0]
    assert "standard error 0.288675 over tasks, 0.150756 if rows were independent" in note


def test_intervals_of_a_curve_share_their_resamples(tmp_path: Path) -> None:
    """pass@1 and pass^1 are one number, and so are their intervals; the seed moves them."""
    log = write_log(tmp_path / "log.jsonl", verdicts([1, 0], [0, 0], [1, 1], [0, 1], [1, 1]))
    first, second = (by_name(analyze(log, seed=seed)) for seed in (0, 1))
    assert first["pass@1"]["interval"] == first["pass^1"]["interval"] is not None
    assert first["pass@1"]["interval"]["low"] <= first["pass@1"]["value"]
    assert first["pass@1"]["interval"]["high"] >= first["pass@1"]["value"]
    assert first["pass@1"]["seed"] == 0
    assert second["pass@1"]["seed"] == 1


def test_place_in_the_task_is_found(tmp_path: Path) -> None:
    rows = verdicts(*([1, 1, 0, 0] for _ in range(60)))
    assert "R5" in warned(analyze(write_log(tmp_path / "log.jsonl", rows)))
    rng = np.random.default_rng(0)
    mixed = verdicts(*(rng.permutation([1, 1, 0, 0]) for _ in range(60)))
    assert "R5" not in warned(analyze(write_log(tmp_path / "log.jsonl", mixed)))


def test_every_name_has_a_row_whatever_the_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [{"prompt_id": 1}])
    found = analyze(log, ks=(1, 4), power_alpha=2.0)
    names = [
        "oracle@N",
        "mean_reward",
        "unique_answer_rate",
        "unique_trajectory_rate",
        "brier",
        "ece",
        "auroc_within",
        "auroc_pooled",
        "length_coupling",
        "truncation_pay",
        "tokens_mean",
        "tokens_median",
        "wall_s_mean",
        "model_calls",
        "verifier_calls",
        "tool_calls",
        "env_steps",
        "truncated_rate",
        "is_mean",
        "snis_mean",
        "ess",
        "ess_fraction",
        "max_weight",
        "clipped_share",
        "power_ess",
        "power_max_weight",
        "power_accuracy",
    ]
    names += [
        f"{name}{k}"
        for name in (
            "pass@",
            "pass^",
            "g_pass@",
            "majority@",
            "weighted_majority@",
            "best_of_n@",
            "optimism_gap@",
        )
        for k in (1, 4)
    ]
    assert {name: code(found, name) for name in names} == dict.fromkeys(names, "R0")


def test_indicators_by_hand(tmp_path: Path) -> None:
    """One task: scores rank as lengths do, outcomes the other way round; a cut row pays 1 less, a repeated answer 0.3 more."""
    rows: list[dict[str, Any]] = [
        {"prompt_id": 0, "sample_id": place, **values}
        for place, values in enumerate(
            [
                {"score": 0.1, "completion_tokens": 1, "correct": True, "reward": 2, "answer": "A"},
                {"score": 0.2, "completion_tokens": 2, "correct": True, "reward": 2, "answer": "B"},
                {
                    "score": 0.3,
                    "completion_tokens": 3,
                    "correct": False,
                    "reward": 1,
                    "answer": "C",
                },
                {
                    "score": 0.6,
                    "completion_tokens": 4,
                    "correct": False,
                    "reward": 1,
                    "answer": "C",
                },
            ]
        )
    ]
    reasons = ["eos", "eos", "length", "length"]
    rows = [{**row, "finish_reason": reason} for row, reason in zip(rows, reasons, strict=True)]
    # Says nothing of its end or its length.
    rows.append({"prompt_id": 0, "sample_id": 9, "correct": True, "reward": 7, "score": 0.0})
    found = analyze(write_log(tmp_path / "log.jsonl", rows), ks=(1,))
    # Spearman of (score, length) is 1, that of (outcome, length) -2 / sqrt(5).
    assert value(found, "length_coupling") == pytest.approx(1 + 2 / math.sqrt(5))
    assert value(found, "truncation_pay") == pytest.approx(-1)
    assert value(found, "repeated_answer_pay") == pytest.approx(0.45 - 0.15)
    assert value(found, "truncated_rate") == pytest.approx(0.5)
