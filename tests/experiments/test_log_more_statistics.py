"""Statistics beyond the list of the contract: shares of k, verifiers that err, other units of weights, indicators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.rollout_log_tools import analyze, by_name, code, value, verdicts, write_log
from theory.estimators.coverage import g_pass_at_k, pass_at_k_sampling_variance
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
