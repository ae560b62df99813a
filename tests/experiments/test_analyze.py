"""`rolloutlab analyze` on logs whose statistics are known."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.analyze import main

Run = Callable[..., dict[str, Any]]


def write_log(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Run:  # pyright: ignore[reportUnusedFunction]
    """Run the command and read its JSON."""

    def run(path: Path | str, *options: str) -> dict[str, Any]:
        out = tmp_path / "out.json"
        assert main([str(path), *options, "--json", str(out)]) == 0
        return json.loads(out.read_text())

    return run


def values_of(document: Mapping[str, Any]) -> dict[str, float | None]:
    """Name -> value."""
    return {statistic["name"]: statistic["value"] for statistic in document["statistics"]}


def test_published_pass_at_k_of_cruxeval(run: Run, shared_data_dir: Path) -> None:
    path = shared_data_dir / "facebookresearch+cruxeval" / "cruxeval_input.rollouts.jsonl"
    document = run(path, "--k", "1,5")
    assert values_of(document)["pass@1"] == pytest.approx(0.3595, abs=1e-9)
    assert values_of(document)["pass@5"] == pytest.approx(0.44991071, abs=1e-8)
    assert document["counts"]["rows"] == document["counts"]["used"] == 8000


def test_two_tasks_by_hand(run: Run, tmp_path: Path) -> None:
    rows = [
        {"prompt_id": prompt, "sample_id": sample, "correct": correct, "reward": 2.0 * correct}
        for prompt, verdicts in (("a", [1, 0, 0]), ("b", [1, 1, 0]))
        for sample, correct in enumerate(verdicts)
    ]
    found = values_of(run(write_log(tmp_path / "log.jsonl", rows), "--k", "1,2,4"))
    assert found["pass@1"] == pytest.approx(1 / 2)
    assert found["pass@2"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["pass^2"] == pytest.approx((0 + 1 / 3) / 2)
    assert found["pass@4"] is None
    assert found["oracle@N"] == 1
    assert found["mean_reward"] == pytest.approx(1.0)
