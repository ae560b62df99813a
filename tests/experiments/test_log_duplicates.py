"""Copies of a sample are found whatever its id, by bits or by looking closely."""

from pathlib import Path

import pytest

from tests.experiments.rollout_log_tools import analyze, write_log


@pytest.mark.parametrize("sample", [0, 5, 31, 32, 63, 64, 127, 128, -1, 2**40, "a", "63"])
def test_a_copy_is_left_out(sample: int | str, tmp_path: Path) -> None:
    rows = [{"prompt_id": 1, "sample_id": other, "correct": True} for other in (1, 2, 62, 65)]
    row = {"prompt_id": 1, "sample_id": sample, "correct": False}
    other_prompt = {"prompt_id": 2, "sample_id": sample, "correct": False}
    log = write_log(tmp_path / "log.jsonl", [*rows, row, other_prompt])
    assert analyze(log, ks=(1,))["counts"]["excluded"] == {}
    write_log(log, [*rows, row, other_prompt, row])
    counts = analyze(log, ks=(1,))["counts"]
    assert (counts["rows"], counts["used"], counts["excluded"]) == (7, 6, {"duplicate": 1})


def test_a_copy_among_small_numbers_alone(tmp_path: Path) -> None:
    rows = [{"prompt_id": 1, "sample_id": sample, "score": 0.5} for sample in range(64)]
    log = write_log(tmp_path / "log.jsonl", rows)
    assert analyze(log, ks=(1,))["counts"]["excluded"] == {}
    write_log(log, [*rows, rows[63]])
    assert analyze(log, ks=(1,))["counts"]["excluded"] == {"duplicate": 1}
