"""`rolloutlab pretrain`: what it leaves behind, and that interruptions leave no trace in it."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow.compute as pc
import pytest
from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]

from experiments import tables
from experiments.command_line import parse
from experiments.language_model import load_transformer
from experiments.pretrain import PRESETS, Arguments, main
from experiments.pretraining import training_run
from experiments.pretraining.model_folder import command
from experiments.pretraining.settings import Training, complete
from experiments.runner import read_run
from models.pretrained.load import load_folder
from models.training.packing import PackedRows

SMOKE = ("--preset", "smoke", "--checkpoint-every", "6")
NUM_STEPS = 20


def run(results: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> Path:
    """The run folder, as the last line of stdout names it."""
    assert main([*SMOKE, *argv, "--results-dir", str(results)]) == 0
    return Path(capsys.readouterr().out.splitlines()[-1])


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """All scalars of the event files: records of a length, its checksum, the bytes and their checksum."""
    found: dict[str, list[tuple[int, float]]] = {}
    for path in folder.glob("events.out.tfevents.*"):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            event = Event.FromString(data[place + 12 : place + 12 + length])
            place += length + 16
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("pretrain")
    assert main([*SMOKE, "--results-dir", str(results)]) == 0
    (folder,) = (results / "pretrain").iterdir()
    return folder


def test_run_folder_holds_a_model_its_card_and_every_step(uninterrupted: Path) -> None:
    loaded = load_folder(uninterrupted / "model")
    assert loaded.about["task"] == "countdown-3"
    assert loaded.model.horizon == 6
    assert loaded.model.eos == (15,)
    tables = read_run(uninterrupted)
    assert tables["table"].column("step").to_pylist() == list(range(NUM_STEPS))
    assert tables["evaluation"].to_pylist() == loaded.about["evaluation"]
    rates = tables["table"].column("learning_rate").to_pylist()
    assert rates[0] == 0.0
    assert rates[5] == max(rates) == pytest.approx(4e-3)
    card = (uninterrupted / "model" / "README.md").read_text()
    for row in tables["evaluation"].to_pylist():
        assert f"| {row['quantity']} | {row['value']:.3f} |" in card
    assert not (uninterrupted / "stages").exists()


def test_run_folder_is_a_model(uninterrupted: Path) -> None:
    loaded = load_transformer(str(uninterrupted))
    expected = load_folder(uninterrupted / "model")
    assert loaded.about == expected.about
    for ours, theirs in zip(
        jax.tree.leaves(loaded.model), jax.tree.leaves(expected.model), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_run_without_its_model_is_trained_again(
    uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = shutil.copytree(uninterrupted.parents[1], tmp_path / "results")
    shutil.rmtree(results / "pretrain" / uninterrupted.name / "model")
    words = [*SMOKE, "--results-dir", str(results), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "model: is missing, train it again with --force" in capsys.readouterr().err


def test_curves_hold_every_step_once(uninterrupted: Path) -> None:
    table = read_run(uninterrupted)["table"]
    found = events(uninterrupted / "tensorboard")
    for name in ("loss", "num_tokens", "gradient_norm", "learning_rate"):
        steps, values = zip(*found[name], strict=True)
        assert steps == tuple(range(NUM_STEPS))
        np.testing.assert_allclose(values, table.column(name).to_numpy(), rtol=1e-6)


class Killed(Exception):
    """Stands for the death of the process."""


def dies_at(step: int) -> Callable[..., PackedRows]:
    """`batch_at`, but for one step."""
    real = training_run.batch_at

    def batch_at(*arguments: Any) -> PackedRows:
        if arguments[-1] == step:
            raise Killed
        return real(*arguments)

    return batch_at


@pytest.mark.slow
def test_interrupted_runs_end_with_the_same_bits(
    uninterrupted: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Before the first state is stored, between two, and right after one.
    for step in (2, 9, 12):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(training_run, "batch_at", dies_at(step))
            run(tmp_path, capsys)

    # When the metrics up to a state are there and the state is not.
    def no_save(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(training_run.TrainingCheckpoints, "save", no_save)
        run(tmp_path, capsys)
    (stored,) = tmp_path.rglob("stages/metrics.parquet")
    stored.rename(stored.with_name("aside"))
    assert main([*SMOKE, "--results-dir", str(tmp_path)]) == 2
    assert "metrics.parquet: stored by an earlier attempt, cannot" in capsys.readouterr().err
    rows = tables.read_parquet(stored.with_name("aside"))
    for changed in (
        rows.filter(pc.field("step") != 3),
        rows.rename_columns(rows.schema.names[::-1]),
    ):
        tables.write_parquet(changed, stored)
        assert main([*SMOKE, "--results-dir", str(tmp_path)]) == 2
        assert "metrics.parquet: has changed since it was stored" in capsys.readouterr().err
    stored.with_name("aside").rename(stored)
    asked: list[int] = []
    real = training_run.batch_at

    def batch_at(*arguments: Any) -> PackedRows:
        asked.append(arguments[-1])
        return real(*arguments)

    monkeypatch.setattr(training_run, "batch_at", batch_at)
    folder = run(tmp_path, capsys)
    assert asked == list(range(12, NUM_STEPS))
    assert folder.name == uninterrupted.name
    files = ("table.parquet", "evaluation.parquet", "model/config.json", "model/README.md")
    for name in (*files, "model/model.safetensors"):
        assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name
    assert [step for step, _ in events(folder / "tensorboard")["loss"]] == list(range(NUM_STEPS))


def test_how_often_states_are_stored_changes_no_number(
    uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path, capsys, "--checkpoint-every", "7", "--out", str(tmp_path / "out"))
    assert folder.name == uninterrupted.name
    for name in ("config.json", "model.safetensors", "README.md"):
        expected = (uninterrupted / "model" / name).read_bytes()
        assert (tmp_path / "out" / name).read_bytes() == expected


def test_card_names_a_command_that_asks_for_the_same(uninterrupted: Path) -> None:
    config = json.loads((uninterrupted / "config.json").read_text())["config"]
    training = complete(PRESETS["smoke"].training)
    words = command(training).replace("\\\n", " ").split()
    again = parse("rolloutlab pretrain", Arguments, words[2:], PRESETS)
    assert again.training == training
    assert config["steps"] == training.steps
    assert command(training) in (uninterrupted / "model" / "README.md").read_text()


def test_open_values_are_those_of_the_task() -> None:
    smoke = PRESETS["smoke"].training
    assert complete(smoke) == complete(complete(smoke))
    countdown, chain = complete(Training()), complete(Training(task="noisy-chain"))
    assert (countdown.steps, countdown.optimiser.weight_decay, countdown.row_tokens) == (
        2000,
        1.0,
        11,
    )
    assert (chain.steps, chain.optimiser.weight_decay, chain.row_tokens) == (1000, 0.1, 18)


def test_diverged_training_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--learning-rate", "1e30", "--warmup-steps", "0", "--results-dir", str(tmp_path)]
    assert main([*SMOKE, *words]) == 2
    assert "the loss is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "countdown-5"), "no task 'countdown-5'"),
        (("--steps", "0"), "--steps 0: must be at least 1"),
        (("--warmup-steps", "30"), "--warmup-steps 30"),
        (("--heads", "3"), "--heads 3: must divide --width 16"),
        (
            ("--row-tokens", "5"),
            "--row-tokens 5: an example takes up to 11, give at least that many",
        ),
        (("--heads", "16"), "--heads 16: 1 of --width 16 for each, must be even"),
        (("--batch", "0"), "--batch 0: must be at least 1"),
        (("--micro-batches", "0"), "micro-batches 0"),
        (("--seed", "-1"), "--seed -1"),
        (("--test-prompts", "1"), "--test-prompts 1"),
        (("--samples", "0"), "--samples 0"),
        (("--checkpoint-every", "0"), "--checkpoint-every 0"),
        (("--layers", "0"), "--layers 0: must be at least 1"),
        (("--width", "0"), "--width 0: must be at least 1"),
        (("--hidden", "0"), "--hidden 0: must be at least 1"),
        (("--heads", "-2"), "--heads -2: must be at least 1"),
        (("--out", ""), "--out: is empty, give a path or leave it out"),
    ],
)
def test_bad_options_are_one_line(
    options: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMOKE, *options, "--results-dir", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not list(tmp_path.iterdir())
