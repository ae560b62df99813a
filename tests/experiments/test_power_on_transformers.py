"""`rolloutlab power-on-transformers` end to end on a few prompts, and what it refuses."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from experiments import power_on_transformers as command
from experiments.power_on_transformers import METHODS, experiment, load, main
from experiments.runner import RunOptions, run_experiment
from paper_figures.build import LAYOUTS, read_table
from paper_figures.columns import schema
from tests.models.pretrained.published import PUBLISHED

WORDS = (
    *("--alphas", "4", "--num-prompts", "2", "--tokens", "24", "--replicates", "2"),
    *("--methods", "temperature,importance", "--threshold", "1e-3"),
    *("--predicted-alphas", "1.1", "--predicted-from", "8", "--preset", "smoke"),
)
CONFIG = replace(
    command.PRESETS["smoke"].config,
    num_prompts=2,
    tokens=24,
    replicates=2,
    methods=("temperature", "importance"),
    threshold=1e-3,
    predicted_from=8,
)


def tables_in(folder: Path) -> Mapping[str, pa.Table]:
    return run_experiment(
        experiment(*load(CONFIG)), CONFIG, RunOptions("smoke", results_dir=folder)
    ).tables


@pytest.mark.slow
def test_the_command_compares_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [*WORDS, "--results-dir", str(tmp_path / "results")]
    out, export = tmp_path / "out.json", tmp_path / "export"
    assert main([*argv, "--json", str(out), "--export", str(export)]) == 0
    shown = capsys.readouterr().out
    assert "alpha 4: means over prompts, 95 %" in shown and "importance" in shown
    found = json.loads(out.read_text())
    assert any("24 tokens: importance comes nearest" in line for line in found["sentences"])
    summary = {(row["method"], row["metric"]): row for row in found["summary"]}
    laws = ("base_law", "temperature_law", "power_law")
    assert {name for name, _ in summary} == {"temperature", "importance", *laws}
    for law in laws:
        truth = [row["accuracy"] for row in found["truth"] if row["law"] == law]
        assert summary[law, "accuracy"]["value"] == pytest.approx(sum(truth) / 2)
    # Power concentrates: its rows are likelier than those of the base law.
    values = [summary[law, "log_p"]["value"] for law in laws]
    assert values[0] < values[1] and values[0] < values[2]
    (row,) = found["prediction"]
    assert row["alpha"] == 1.1 and row["low"] <= row["predicted"] <= row["high"]
    assert row["exact"] >= 0
    assert all(Path(file).exists() for file in found["figures"])
    figure = read_table(export / "power_on_transformers.csv")
    assert figure.schema.equals(schema(LAYOUTS["power_on_transformers"]))
    shown_rows = [row for row in figure.to_pylist() if row["method"] == "importance"]
    assert [row["metric"] for row in shown_rows] == ["accuracy", "log_p", "diversity"]
    for row in figure.to_pylist():
        said = summary[row["method"], row["metric"]]
        power = summary["power_law", row["metric"]]["value"]
        assert (row["value"], row["low"], row["high"]) == pytest.approx(
            [said["value"], said["low"], said["high"]], rel=1e-4
        )
        assert (row["paired_low"], row["paired_high"]) == pytest.approx(
            [power + said["gap_low"], power + said["gap_high"]], rel=1e-4
        )
    assert {row["label"] for row in figure.to_pylist()} == {"countdown-3"}
    # Without work, the same report.
    assert main([*argv, "--json", str(tmp_path / "again.json")]) == 0
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()


def test_a_run_that_stops_goes_on_to_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    whole = tables_in(tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setitem(METHODS, "importance", stop)
        with pytest.raises(KeyboardInterrupt):
            tables_in(tmp_path / "cut")
    stages = {path.stem for path in (tmp_path / "cut").rglob("stages/*.parquet")}
    assert stages == {"truth-0", "temperature-0"}
    # What was finished is not done again.
    monkeypatch.setitem(METHODS, "temperature", stop)
    resumed = tables_in(tmp_path / "cut")
    assert (
        whole.keys()
        == resumed.keys()
        == {*("table", "truth", "summary", "prediction", "power_on_transformers")}
    )
    for name, table in whole.items():
        assert repr(table.to_pylist()) == repr(resumed[name].to_pylist()), name  # NaN is NaN


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--alphas", "0.5"], "--alphas 0.5: must be at least 1"),
        (["--alphas", "inf"], "--alphas inf: must be at least 1"),
        (["--alphas", "nan"], "--alphas nan: must be at least 1"),
        (["--alphas", "1e13"], "--alphas 1e+13: must be at most 1e+12"),
        (["--methods", "smc,smc"], "--methods smc,smc: name each once"),
        (["--model", str(PUBLISHED / "llama3")], "belongs to no task, give a shipped transformer"),
        (["--alphas", "2,2"], "--alphas 2,2: must ascend, each once"),
        (["--predicted-alphas", "1.1,0.9"], "--predicted-alphas 0.9: must be at least 1"),
        (["--num-prompts", "1"], "--num-prompts 1: must be at least 2"),
        (["--tokens", "7"], "--tokens 7: must be at least 8"),
        (["--replicates", "1"], "--replicates 1: must be at least 2"),
        (["--predicted-from", "2"], "--predicted-from 2: must be at least 3"),
        (["--threshold", "0"], "--threshold 0: must be a probability"),
        (["--threshold", "1"], "--threshold 1: must be a probability"),
        (["--seed", "-1"], "--seed -1: must be in 0.."),
        (["--methods", "suffx"], "did you mean 'suffix'?"),
        (["--model", "builtin:toy-e"], "--model builtin:toy-e: belongs to no task"),
        (["--model", "builtin:countdown-7"], "countdown-7"),
        (["--json", "/nowhere/x.json"], "/nowhere/x.json"),
    ],
)
def test_what_the_user_can_mend(
    argv: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, "--results-dir", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert (out, says in err, err.count("\n")) == ("", True, 1), err
    assert not list(tmp_path.iterdir())
