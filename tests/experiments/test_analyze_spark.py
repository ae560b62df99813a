"""`rolloutlab analyze --engine spark` gives the document of DuckDB, and workers lose no line."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.analyze import main
from experiments.rollout_logs.backend import Backend, open_backend
from experiments.rollout_logs.document import to_document
from experiments.rollout_logs.engine import analyze_logs
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.reading import open_logs
from experiments.rollout_logs.spark import lines_of, parts_of, typed_batches
from tests.experiments.rollout_log_tools import write_log

PROMPTS = ("7", "Straße", "a\nb", "'); DROP TABLE staged; --", "{x}", " ", "\u2028", "10", "9")


def _rows() -> list[dict[str, Any]]:
    """Tasks of unequal size, some fields missing in some rows, and rows that stand twice."""
    rows: list[dict[str, Any]] = [
        {
            "prompt_id": prompt,
            "sample_id": sample,
            "answer": None if (place + sample) % 5 == 0 else str((place * sample) % 4),
            "correct": (place + sample) % 3 == 0,
            "reward": (place * 7 + sample) % 11 / 11,
            "score": (place * 5 + sample * 3) % 8 / 8,
            "base_logp": -1.5 - sample / 7,
            "behavior_logp": -1.25 - sample / 9,
            "target_logp": -1.0 - place / 3 - sample / 5,
            "completion_tokens": 10 + place * sample,
            "finish_reason": "length" if sample == 4 else "eos",
            "error": "timeout" if (place, sample) == (2, 3) else None,
        }
        for place, prompt in enumerate(PROMPTS)
        for sample in range(5 + place % 4)
    ]
    for place, row in enumerate(rows):
        if place % 6 == 0:
            del row["score"], row["target_logp"]
    return [*rows, rows[3], rows[3], rows[20]]


def _document(backend: Backend, *paths: Path) -> dict[str, Any]:
    opened = open_logs([str(path) for path in paths], "auto", {}, None, strict=False)
    options = AnalysisOptions(num_resamples=50, power_alpha=1.2)
    return to_document(analyze_logs(opened, options, backend))


@pytest.fixture(name="spark", scope="module")
def _spark() -> Iterator[Backend]:  # pyright: ignore[reportUnusedFunction]
    """One Spark for all tests; stopped at the end."""
    if shutil.which("java") is None and not os.environ.get("ROLLOUTLAB_NO_SKIPS"):
        pytest.skip("needs Java 17")
    with open_backend("spark") as backend:
        yield backend


def _agree(spark: Backend, *paths: Path) -> dict[str, Any]:
    found = _document(spark, *paths)
    with open_backend("duckdb") as duckdb:
        # Text, so that NaN equals NaN and every digit counts.
        assert json.dumps(found) == json.dumps(_document(duckdb, *paths))
    return found


@pytest.mark.slow
def test_several_files_with_duplicates_and_missing_values(
    spark: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows()
    names = ("_hidden {a,b} [1].jsonl", "percent %2B.jsonl", "ä.jsonl")
    paths = [write_log(tmp_path / name, rows[place::3]) for place, name in enumerate(names)]
    # The workers are to read these: the row by row path of the driver would agree by itself.
    monkeypatch.setattr("experiments.rollout_logs.spark.stage_checked", None)
    found = _agree(spark, *paths)
    assert found["counts"]["rows"] == len(rows)
    assert found["counts"]["excluded"] == {"duplicate": 3}
    assert found["counts"]["prompts"] == len(PROMPTS)


@pytest.mark.slow
def test_rows_without_a_sample_id(spark: Backend, tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "sample_id"} for row in _rows()]
    _agree(spark, write_log(tmp_path / "log.jsonl", rows))


@pytest.mark.slow
def test_an_irregular_log_has_the_same_reasons(spark: Backend, tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.jsonl", _rows())
    with path.open("a") as stream:
        stream.write('{"prompt_id": "7", "reward": "much"}\n\n[1]\n{"prompt_id": "7", "sam')
    excluded = _agree(spark, path)["counts"]["excluded"]
    assert excluded == {"duplicate": 3, "invalid reward": 1, "not an object": 1, "unreadable": 1}


@pytest.mark.slow
def test_another_format(spark: Backend, tmp_path: Path) -> None:
    rows = [
        {
            "task_id": f"HumanEval/{place}",
            "completion": f"return {sample}",
            "passed": sample < place,
        }
        for place in range(6)
        for sample in range(5)
    ]
    found = _agree(spark, write_log(tmp_path / "samples.jsonl_results.jsonl", rows))
    assert found["format"] == "human-eval"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["game24_io100", "game24_cot100"])
def test_published_rollouts(name: str, spark: Backend, shared_data_dir: Path) -> None:
    folder = shared_data_dir / "princeton-nlp+tree-of-thought-llm"
    _agree(spark, folder / f"{name}.rollouts.jsonl")


def test_parts_hold_every_line_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    texts = [b"a", b"bc", b"", b"d" * 9, b"\r", b"ef\r", b"g"]
    for end in (b"", b"\n"):
        path.write_bytes(b"\n".join(texts) + end)
        for size in range(1, 30):
            lines = [line for part in parts_of([str(path)], size) for line in lines_of(part)]
            assert [line.rstrip(b"\r\n") for line in lines] == [b"a", b"bc", b"d" * 9, b"ef", b"g"]


@pytest.mark.parametrize(
    "line",
    ['{"prompt_id": 1', '{"reward": 1}', '{"prompt_id": "a", "reward": "1"}', "[1]", "\x00"],
)
def test_an_irregular_line_is_left_to_the_checked_path(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt_id": "a"}\n' + line + "\n")
    batches = [batch for part in parts_of([str(path)]) for batch in typed_batches(part)]
    assert batches == [None]


def test_without_java_or_pyspark_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path / "log.jsonl", [{"prompt_id": "a", "correct": True}])
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert main([str(path), "--engine", "spark"]) == 2
    assert "no Java found" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main([str(path), "--engine", "spark"]) == 2
    assert "pyspark is not installed" in capsys.readouterr().err
