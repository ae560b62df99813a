"""Training killed for good, and training from scratch as the package's own models were trained."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.pretrain import main
from experiments.runner import read_run
from models.pretrained.load import load_folder
from models.shipped import MODELS, folder
from tests.conftest import ROOT

NUM_STEPS = 40

# Kills itself when a step's examples are asked for, or as soon as a state is being written.
DRIVER = """
import os, pathlib, signal, sys, threading, time
from experiments.pretrain import main
from experiments.pretraining import training_run

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def watch(results):
    while True:
        if any("tmp" in path.name for path in results.glob("*/*/stages/checkpoints/*")):
            die()
        time.sleep(1e-4)

where, results, *words = sys.argv[1:]
real = training_run.batch_at

def batch_at(*arguments):
    if str(arguments[-1]) == where:
        die()
    return real(*arguments)

training_run.batch_at = batch_at
if where == "writing":
    threading.Thread(target=watch, args=(pathlib.Path(results),), daemon=True).start()
sys.exit(main(["--results-dir", results, *words]))
"""


def start(results: Path, where: str) -> subprocess.Popen[str]:
    options = ["--preset", "smoke", "--steps", str(NUM_STEPS), "--checkpoint-every", "4"]
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, where, str(results), *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finish(results: Path) -> Path:
    process = start(results, "nowhere")
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return Path(out.splitlines()[-1])


@pytest.mark.slow
def test_killed_runs_end_with_the_same_bits(tmp_path: Path) -> None:
    whole = finish(tmp_path / "whole")
    results, rng = tmp_path / "killed", random.Random(0)
    steps = sorted(rng.sample(range(1, NUM_STEPS), 3))
    for where in (str(steps[0]), "writing", str(steps[1]), str(steps[2])):
        process = start(results, where)
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, where
    # From outside, wherever it is by then.
    process = start(results, "nowhere")
    time.sleep(rng.uniform(1, 6))
    process.kill()
    process.communicate(timeout=300)
    killed = finish(results)
    assert killed.name == whole.name
    for name in ("model/model.safetensors", "model/config.json", "table.parquet"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert not list(killed.glob(".*.partial"))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_are_reproduced_from_scratch(name: str, tmp_path: Path) -> None:
    assert main(["--task", name, "--results-dir", str(tmp_path)]) == 0
    (made,) = (tmp_path / "pretrain").iterdir()
    recorded = load_folder(folder(name)).about["evaluation"]
    ours, theirs = (
        {row["quantity"]: row["value"] for row in rows}
        for rows in (read_run(made)["evaluation"].to_pylist(), recorded)
    )
    quantity = "exact pass@1" if "exact pass@1" in theirs else "pass@1"
    assert abs(ours[quantity] - theirs[quantity]) < 0.03
