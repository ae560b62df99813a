"""Statistics beyond the list of the contract: shares of k, verifiers that err, other units of weights, indicators."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.rollout_log_tools import (
    analyze,
    by_name,
    code,
    value,
    verdicts,
    warned,
    write_log,
)
from theory.estimators.coverage import g_pass_at_k, pass_at_k_sampling_variance
from theory.estimators.indicators import length_coupling, optimism_gap, pay, repeated
from theory.estimators.off_policy import noise_corrected_pass_at_k


def _tasks(num_tasks: int, num_samples: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.random((num_tasks, num_samples)) < rng.random((num_tasks, 1))).astype(int)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 1.0])
def test_share_of_k(threshold: float, tmp_path: Path) -> None:
    tasks = _tasks(20, 6)
    log = write_log(tmp_path / "log.jsonl", verdicts(*tasks))
    found = analyze(log, ks=(1, 2, 4), g_pass_threshold=threshold)
    correct = tasks.sum(axis=1)
    for k in (1, 2, 4):
        expected = g_pass_at_k(np.full(20, 6), correct, k, threshold).mean()
        assert value(found, f"g_pass@{k}") == pytest.approx(expected)
        interval = by_name(found)[f"g_pass@{k}"]["interval"]
        assert interval["low"] <= expected <= interval["high"]
    if threshold == 1.0:
        assert value(found, "g_pass@4") == pytest.approx(value(found, "pass^4"))
    assert found["options"]["G-Pass threshold"] == f"{threshold:g}"
    assert code(analyze(log, ks=(7,)), "g_pass@7") == "R1"


def test_error_of_the_samples_of_the_same_tasks(tmp_path: Path) -> None:
    tasks = _tasks(20, 6)
    found = by_name(analyze(write_log(tmp_path / "log.jsonl", verdicts(*tasks)), ks=(1, 3, 4)))
    for k in (1, 3):
        variance = pass_at_k_sampling_variance(np.full(20, 6), tasks.sum(axis=1), k)
        note = (
            f"standard error of other samples of the same tasks: {variance.sum() ** 0.5 / 20:.6g}"
        )
        assert note in found[f"pass@{k}"]["notes"]
    assert not any("other samples" in note for note in found["pass@4"]["notes"])  # needs 8


def test_a_verifier_that_errs(tmp_path: Path) -> None:
    tasks = _tasks(20, 6)
    log = write_log(tmp_path / "log.jsonl", verdicts(*tasks))
    found = analyze(log, ks=(1, 3), verifier_rates=(0.9, 0.2))
    passed = tasks.sum(axis=1)
    expected = noise_corrected_pass_at_k(np.full(20, 6), passed, 3, 0.9, 0.2)
    assert value(found, "noise_corrected_pass@3") == pytest.approx(expected.mean())
    assert value(found, "noise_corrected_pass@1") == pytest.approx((tasks.mean() - 0.2) / 0.7)
    assert code(analyze(log, ks=(9,), verifier_rates=(0.9, 0.2)), "noise_corrected_pass@9") == "R1"
    assert not any("noise" in name for name in by_name(analyze(log)))


def test_equal_texts_under_other_ids_are_counted(tmp_path: Path) -> None:
    rows = verdicts([1, 0, 1], [1, 0, 1], text_sha256="a", behavior_logp=-30.0)
    for place, row in enumerate(rows):
        row["text_sha256"] = "aabbcd"[place]

    def warning(some: list[dict[str, Any]]) -> dict[str, Any] | None:
        found = analyze(write_log(tmp_path / "log.jsonl", some))
        return next((each for each in found["warnings"] if each["code"] == "R2"), None)

    found = warning(rows)
    assert found is not None and found["count"] == 1
    # Six pairs, one of them equal, of texts that a draw gives with probability e^-30.
    assert "1 equal pairs, about 5.61e-13 among independent draws" in found["message"]
    assert "p = 5.6e-13" in found["message"]
    for row in rows:
        del row["behavior_logp"]
    alone = warning(rows)
    assert alone is not None and alone["count"] == 1 and "pairs" not in alone["message"]
    # The same text of another prompt is none, nor is a row without a text.
    rows[1]["text_sha256"] = "c"
    assert warning(rows) is None
    rows[0]["text_sha256"] = rows[1]["text_sha256"] = None
    assert warning(rows) is None


def test_long_texts_that_begin_alike_are_not_equal(tmp_path: Path) -> None:
    """Texts are kept in part; what tells them apart is the whole."""
    begins = "x" * 120_000
    texts = [begins, begins, begins + "a", begins + "b", begins[:-1], "x"]
    rows = [{"task_id": "t", "completion": text, "passed": True} for text in texts]
    found = analyze(write_log(tmp_path / "log.jsonl", rows))
    assert value(found, "unique_trajectory_rate") == pytest.approx(5 / 6)
    assert warned(found)["R2"] == 1


def test_rows_of_several_steps_without_a_common_task_are_warned_of(tmp_path: Path) -> None:
    def steps(*of_task: int) -> int | None:
        rows = verdicts(*[[1, 0]] * 4)
        for row, step in zip(rows, (step for step in of_task for _ in range(2)), strict=True):
            row["step"] = step
        return warned(analyze(write_log(tmp_path / "log.jsonl", rows))).get("steps")

    assert steps(1, 1, 2, 2) == 8
    assert steps(3, 3, 3, 3) is None
    rows = verdicts([1, 0], [1, 0])
    for row, step in zip(rows, (1, 2, 1, 1), strict=True):  # one task is of both
        row["step"] = step
    assert "steps" not in warned(analyze(write_log(tmp_path / "log.jsonl", rows)))


def _scored(num_tasks: int = 24, num_samples: int = 6) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    rows = verdicts(*_tasks(num_tasks, num_samples))
    for place, row in enumerate(rows):
        row |= {
            "score": float(rng.integers(0, 9)) / 8,
            "completion_tokens": int(rng.integers(1, 9)),
        }
        row |= {"reward": float(rng.normal()), "answer": "ABC"[rng.integers(3)]}
        row |= {"finish_reason": ("eos", "length")[rng.integers(2)], "step": place % num_samples}
    return rows


def _noted(statistic: dict[str, Any], words: str) -> list[float]:
    """The numbers of the note that holds these words."""
    (note,) = [note for note in statistic["notes"] if words in note]
    return [float(number) for number in re.findall(r"-?[0-9]+\.?[0-9]*(?:e-?[0-9]+)?", note)]


def test_indicators_have_the_baseline_of_noise_beside_them(tmp_path: Path) -> None:
    """The mean and the standard deviation over all ways to deal scores out anew, of the mean over tasks."""
    rows = _scored()
    found = by_name(analyze(write_log(tmp_path / "log.jsonl", rows), ks=(3,)))
    offsets = np.arange(0, len(rows) + 1, 6).astype(np.int64)
    numbers = {
        name: np.array([float(row[name]) for row in rows])
        for name in ("score", "correct", "reward", "completion_tokens")
    }
    cut = np.array([row["finish_reason"] == "length" for row in rows])
    again = repeated(np.array([ord(row["answer"]) for row in rows]), offsets)
    expected = {
        "length_coupling": length_coupling(
            numbers["score"], numbers["correct"], numbers["completion_tokens"], offsets
        ),
        "truncation_pay": pay(numbers["reward"], cut, offsets),
        "repeated_answer_pay": pay(numbers["score"], again, offsets),
    }
    for name, made in expected.items():
        mean, deviation = _noted(found[name], "dealt out anew")
        known = np.isfinite(made.value)
        assert found[name]["value"] == pytest.approx(made.value[known].mean())
        assert found[name]["tasks"] == known.sum()
        assert mean == pytest.approx(made.noise[known].mean(), abs=1e-4)
        error = math.sqrt(made.noise_variance[known].sum()) / known.sum()
        assert deviation == pytest.approx(error, rel=5e-3)
    gap, noise = optimism_gap(numbers["score"], numbers["correct"], offsets, 3)
    assert found["optimism_gap@3"]["value"] == pytest.approx(gap.mean())
    assert _noted(found["optimism_gap@3"], "dealt out anew")[0] == pytest.approx(
        noise.mean(), abs=1e-4
    )


def test_the_curve_of_what_is_selected(tmp_path: Path) -> None:
    """A score that is right for small k and wrong at its top: vector 5, beside a rising score."""
    rows = [
        {"prompt_id": task, "sample_id": place, "score": score, "correct": correct}
        for task in range(8)
        for place, (score, correct) in enumerate(
            zip((0.1, 0.4, 0.7, 0.9), (False, True, True, False), strict=True)
        )
    ]
    log = write_log(tmp_path / "log.jsonl", rows)
    found = analyze(log, ks=(1, 2, 3, 4))
    # best_of_n is .5, .5, .25, 0 and the greatest score .525, .75, .85, .9: the peak is k = 1.
    assert value(found, "best_of_n_peak") == 1
    assert value(found, "best_of_n_drop") == pytest.approx(0.5)
    assert value(found, "selected_proxy_rise") == pytest.approx(0.9 - 0.525)
    assert [value(found, f"expected_proxy@{k}") for k in (1, 2, 3, 4)] == pytest.approx(
        [0.525, 0.75, 0.85, 0.9]
    )
    assert all("not a verdict" in by_name(found)[name]["estimator"] for name in ("best_of_n_drop",))
    shape = ("best_of_n_peak", "best_of_n_drop", "selected_proxy_rise")
    assert [code(analyze(log, ks=(3,)), name) for name in shape] == ["R1"] * 3
    assert [code(analyze(log, ks=(1, 5)), name) for name in shape] == ["R1"] * 3
    assert value(analyze(log, ks=(1, 4, 5)), "best_of_n_drop") == pytest.approx(0.5)
    same = [{**row, "verifier_id_search": "v", "verifier_id_final": "v"} for row in rows]
    alone = analyze(write_log(tmp_path / "same.jsonl", same), ks=(1, 2))
    assert [code(alone, name) for name in (*shape, "expected_proxy@1")] == ["R6"] * 4


def _run_of(proxy: float, truth: float, field: str = "step") -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    return [
        {
            "prompt_id": task,
            "sample_id": f"{step}",
            field: step,
            "score": 0.5 + proxy * step + 0.05 * float(rng.normal()),
            "correct": bool(rng.random() < 0.5 + truth * step),
        }
        for task in range(40)
        for step in range(10)
    ]


@pytest.mark.parametrize("field", ["step", "policy_version"])
def test_proxy_and_truth_over_training(field: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    apart = by_name(analyze(write_log(log, _run_of(0.02, -0.045, field))))["proxy_truth_divergence"]
    said = "the proxy rises and outcomes fall, each with an interval clear of 0"
    assert said in apart["notes"] and apart["interval"]["low"] > 0
    together = by_name(analyze(write_log(log, _run_of(0.02, 0.045, field))))[
        "proxy_truth_divergence"
    ]
    assert said not in together["notes"]
    rows = _run_of(0.02, -0.045, field)
    steps = np.array([row[field] for row in rows], float)
    slopes = [
        np.polyfit(steps, values / values.std(), 1)[0]
        for values in (
            np.array([row[name] for row in rows], float) for name in ("score", "correct")
        )
    ]
    assert apart["value"] == pytest.approx(slopes[0] - slopes[1], rel=1e-9)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda row: {**row, "step": None}, "R0"),
        (lambda row: {**row, "step": 4}, "R0"),
        (lambda row: {**row, "step": None, "policy_version": "final"}, "R0"),
        (lambda row: {**row, "score": None}, "R0"),
        (lambda row: {**row, "score": 0.5}, "R0"),
        (lambda row: {**row, "correct": None}, "R0"),
        (lambda row: {**row, "verifier_id_search": "v", "verifier_id_final": "v"}, "R6"),
        (lambda row: {**row, "score": None if row["step"] == 3 else row["score"]}, "R8"),
        (lambda row: {**row, "score": None, "reward": float(row["correct"])}, None),
    ],
)
def test_what_a_divergence_is_refused_for(change: Any, refusal: str | None, tmp_path: Path) -> None:
    rows = [change(row) for row in _run_of(0.02, -0.045)]
    found = analyze(write_log(tmp_path / "log.jsonl", rows))
    assert code(found, "proxy_truth_divergence") == refusal
