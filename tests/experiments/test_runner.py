import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from experiments import runner
from experiments.progress import Progress, track
from experiments.runner import (
    Checkpoint,
    Experiment,
    Run,
    RunOptions,
    config_hash,
    read_run,
    run_and_report,
    run_experiment,
)
from experiments.tables import from_rows, schema
from theory.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = schema(stage=int, value=float)


@dataclass(frozen=True)
class Config:
    stages: int = 3
    seed: int = 7
    die_before: int | None = None  # the stage before which the process kills itself
    calls: str = ""  # a file that gets a line for each stage computed


def run(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
    def compute(stage: int) -> pa.Table:
        if stage == config.die_before and not Path(config.calls).with_suffix(".again").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if config.calls:
            with Path(config.calls).open("a") as log:
                log.write(f"{stage}\n")
        return from_rows(SCHEMA, [{"stage": stage, "value": config.seed / (stage + 3)}])

    stages = [
        checkpoint.stage(f"stage-{stage}", lambda stage=stage: compute(stage))
        for stage in progress(range(config.stages), "stages")
    ]
    return {"table": pa.concat_tables(stages), "first": stages[0]}


EXPERIMENT = Experiment("toy", 1, run)


def test_a_damaged_run_says_how_to_mend_it(tmp_path: Path) -> None:
    options = RunOptions(results_dir=tmp_path)
    done = run_experiment(EXPERIMENT, Config(), options)
    for damage in ("table.parquet", "manifest.json"):
        path = done.folder / damage
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(
            InvalidInput, match=r"this run is damaged .*, compute it again with --force"
        ):
            run_experiment(EXPERIMENT, Config(), options)
        path.unlink()
        again = run_experiment(EXPERIMENT, Config(), replace(options, force=True))
        assert again.tables["table"] == done.tables["table"]


def test_a_report_leaves_stdout_to_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is shown and the folder, then every table or those that are kept; where the JSON takes stdout people read on stderr."""
    options = RunOptions(results_dir=tmp_path)

    def show(console: Console, done: Run) -> None:
        console.print(f"{done.tables['table'].num_rows} stages")

    rows = [{"stage": stage, "value": 7 / (stage + 3)} for stage in range(3)]
    done = run_and_report(EXPERIMENT, Config(), options, str(tmp_path / "out.json"), show)
    assert capsys.readouterr().out.splitlines() == ["3 stages", str(done.folder)]
    written = json.loads((tmp_path / "out.json").read_text())
    assert written == {"table": rows, "first": rows[:1]}
    again = run_and_report(EXPERIMENT, Config(), options, "-", show, ["first"])
    said = capsys.readouterr()
    assert json.loads(said.out) == {"first": rows[:1]} and again.folder == done.folder
    assert "3 stages" in said.err and str(done.folder) in said.err
    missing = str(tmp_path / "missing" / "out.json")
    with pytest.raises(InvalidInput):
        run_and_report(EXPERIMENT, Config(seed=8), options, missing, show)
    assert len(list((tmp_path / "toy").iterdir())) == 1  # nothing ran
    run_and_report(EXPERIMENT, Config(), options, None, show)
    assert capsys.readouterr().out.splitlines() == ["3 stages", str(done.folder)]


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_a_run_folder_holds_config_tables_and_manifest(tmp_path: Path) -> None:
    done = run_experiment(EXPERIMENT, Config(), RunOptions(results_dir=tmp_path))
    assert done.folder == tmp_path / "toy" / config_hash(EXPERIMENT, Config())
    assert files(done.folder) == {
        "config.json",
        "table.parquet",
        "first.parquet",
        "manifest.json",
        ".lock",
    }
    assert json.loads((done.folder / "config.json").read_text()) == {
        "experiment": "toy",
        "version": 1,
        "config": {"stages": 3, "seed": 7, "die_before": None, "calls": ""},
    }
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert manifest["tables"] == {"table": 3, "first": 1}
    assert manifest["seed"] == 7
    assert manifest["wall_s"] >= 0
    assert manifest["ended"] >= manifest["started"]
    assert manifest["versions"]["python"] == sys.version.split()[0]
    assert manifest["device"]  # JAX is imported in this process
    assert len(manifest["commit"] or "0" * 40) == 40
    assert done.tables == read_run(done.folder)


def test_a_run_is_not_computed_twice_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config(calls=str(tmp_path / "calls"))
    options = RunOptions(results_dir=tmp_path / "results")
    first = run_experiment(EXPERIMENT, config, options)
    assert capsys.readouterr().err == ""
    again = run_experiment(EXPERIMENT, config, options)
    assert again == first
    assert "--force" in capsys.readouterr().err
    assert Path(config.calls).read_text() == "0\n1\n2\n"
    assert run_experiment(EXPERIMENT, config, replace(options, force=True)) == first
    assert Path(config.calls).read_text() == "0\n1\n2\n" * 2


def test_a_run_that_fails_is_incomplete_and_goes_on_from_its_last_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config(calls=str(tmp_path / "calls"))
    options = RunOptions(results_dir=tmp_path)

    def failing(config: Config, progress: Progress, checkpoint: Checkpoint) -> Any:
        run(replace(config, stages=2), progress, checkpoint)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run_experiment(Experiment("toy", 1, failing), config, options)
    folder = tmp_path / "toy" / config_hash(EXPERIMENT, config)
    assert files(folder) == {
        "config.json",
        ".lock",
        "stages/stage-0.parquet",
        "stages/stage-1.parquet",
    }
    stored = folder / "stages" / "stage-0.parquet"
    whole = stored.read_bytes()
    stored.write_bytes(whole[:20])
    with pytest.raises(InvalidInput, match=r"stage-0.parquet: .*, begin again with --force"):
        run_experiment(EXPERIMENT, config, options)
    stored.write_bytes(whole)
    done = run_experiment(EXPERIMENT, config, options)
    assert "resumed" in capsys.readouterr().err
    assert Path(config.calls).read_text() == "0\n1\n2\n"
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert manifest["resumed_stages"] == ["stage-0", "stage-1"]
    assert not (folder / "stages").exists()


def subprocess_run(config: Config, results: Path) -> subprocess.Popen[str]:
    code = (
        "from pathlib import Path\n"
        "from experiments.runner import RunOptions, run_experiment\n"
        "from tests.experiments.test_runner import EXPERIMENT, Config\n"
        f"run_experiment(EXPERIMENT, {config}, RunOptions(results_dir=Path({str(results)!r})))"
    )
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=-1, text=True)


def test_a_killed_run_resumes_with_the_same_numbers(tmp_path: Path) -> None:
    config = Config(die_before=2, calls=str(tmp_path / "calls"))
    killed = subprocess_run(config, tmp_path / "killed")
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    folder = tmp_path / "killed" / "toy" / config_hash(EXPERIMENT, config)
    assert not (folder / "manifest.json").exists()
    assert Path(config.calls).read_text() == "0\n1\n"

    (folder / ".table.parquet.1.partial").touch()  # as if killed while writing it
    (tmp_path / "calls.again").touch()
    resumed = run_experiment(EXPERIMENT, config, RunOptions(results_dir=tmp_path / "killed"))
    assert Path(config.calls).read_text() == "0\n1\n2\n"
    whole = run_experiment(EXPERIMENT, config, RunOptions(results_dir=tmp_path / "whole"))
    assert resumed.tables == whole.tables
    assert files(resumed.folder) == files(whole.folder)
    for name in ("config.json", "table.parquet", "first.parquet"):
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_second_process_waits_and_takes_the_result_of_the_first(tmp_path: Path) -> None:
    config = Config(calls=str(tmp_path / "calls"))
    seconds: list[subprocess.Popen[str]] = []

    def slow(config: Config, progress: Progress, checkpoint: Checkpoint) -> Mapping[str, pa.Table]:
        second = subprocess_run(config, tmp_path)
        assert second.stderr is not None
        assert "waiting" in second.stderr.readline()  # it has found the folder held
        seconds.append(second)
        return run(config, progress, checkpoint)

    run_experiment(Experiment("toy", 1, slow), config, RunOptions(results_dir=tmp_path))
    _, said = seconds[0].communicate()
    assert (seconds[0].returncode, "done before" in said) == (0, True)
    assert Path(config.calls).read_text() == "0\n1\n2\n"


def test_the_hash_changes_with_every_value_and_with_the_version() -> None:
    config = Config()
    changed = [Config(stages=4), Config(seed=8), Config(die_before=0), Config(calls="a")]
    hashes = {config_hash(EXPERIMENT, c) for c in (config, *changed)}
    hashes |= {config_hash(Experiment("toy", 2, run), config)}
    hashes |= {config_hash(Experiment("other", 1, run), config)}
    assert len(hashes) == 7
    assert all(len(h) == 12 for h in hashes)


def test_the_hash_does_not_depend_on_the_order_of_fields() -> None:
    one = make_dataclass("One", [("a", float, 0.1), ("b", tuple, (1, 2))], frozen=True)
    two = make_dataclass("Two", [("b", tuple, (1, 2)), ("a", float, 0.1)], frozen=True)
    experiment: Experiment[Any] = Experiment("toy", 1, lambda *_: {})
    assert config_hash(experiment, one()) == config_hash(experiment, two())
    assert config_hash(experiment, one(b=(2, 1))) != config_hash(experiment, one())
    inf, minus_inf = one(a=float("inf")), one(a=-float("inf"))
    assert config_hash(experiment, inf) != config_hash(experiment, minus_inf)


def test_only_the_first_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.process_index", lambda: 1)
    done = run_experiment(EXPERIMENT, Config(), RunOptions(results_dir=tmp_path))
    assert done.tables["table"].num_rows == 3
    assert files(tmp_path) == set()
    monkeypatch.undo()
    written = run_experiment(EXPERIMENT, Config(), RunOptions(results_dir=tmp_path))
    assert written.tables == done.tables


def test_outside_a_checkout_no_commit_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "__file__", str(tmp_path / "experiments" / "runner.py"))
    done = run_experiment(EXPERIMENT, Config(), RunOptions(results_dir=tmp_path))
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert (manifest["commit"], manifest["dirty"]) == (None, None)


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def never(config: Config, progress: Progress, checkpoint: Checkpoint) -> Any:
        raise AssertionError

    with pytest.raises(InvalidInput, match="cannot be made"):
        run_experiment(
            Experiment("toy", 1, never), Config(), RunOptions(results_dir=tmp_path / "file")
        )


def test_stage_names_and_the_main_table_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.\./up"):
        Checkpoint(tmp_path).stage("../up", lambda: pa.table({}))
    nothing: Experiment[Config] = Experiment("toy", 1, lambda *_: {})
    with pytest.raises(ValueError, match="'table'"):
        run_experiment(nothing, Config(), RunOptions(results_dir=tmp_path))


def test_progress_is_handed_to_the_experiment(tmp_path: Path) -> None:
    described: list[str] = []

    def listen(items: Any, description: str, total: int | None = None) -> Any:
        described.append(description)
        return track(items, description, total)

    run_experiment(EXPERIMENT, Config(), RunOptions(results_dir=tmp_path), progress=listen)
    assert described == ["stages"]
