"""Runs are told apart by what their models hold, wherever the files lie."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from experiments import tables
from experiments.model_identity import WithModels, model_digests, with_models
from experiments.runner import Experiment, RunOptions, run_experiment
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "data" / "pretrained" / "llama2"
CASE = ROOT / "tests" / "data" / "reference" / "case-1.json"


@dataclass(frozen=True)
class Config:
    seed: int = 3


def digest(path: Path | str) -> str:
    (found,) = model_digests([str(path)])
    return found


def test_content_counts_and_the_path_does_not(tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "copy")
    assert digest(copy) == digest(FOLDER)
    shard = max(copy.glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    changed = digest(copy)
    assert changed != digest(FOLDER)
    (copy / "config.json").write_text((copy / "config.json").read_text() + " ")
    assert digest(copy) not in (changed, digest(FOLDER))


def test_model_files_and_names(tmp_path: Path) -> None:
    copy = tmp_path / "other.json"
    copy.write_bytes(CASE.read_bytes())
    assert digest(copy) == digest(CASE)
    copy.write_bytes(CASE.read_bytes() + b"\n")
    assert digest(copy) != digest(CASE)
    names = ["builtin:toy-d", "builtin:toy-e", "builtin:countdown-3", "builtin:noisy-chain"]
    assert len(set(model_digests(names))) == len(names)


def test_other_weights_are_another_run(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute(config: Config, *_: object) -> dict[str, pa.Table]:
        calls.append(config.seed)
        return {"table": tables.from_rows(tables.schema(call=int), [{"call": len(calls)}])}

    experiment = with_models(Experiment("identity", 1, compute))
    options = RunOptions(results_dir=tmp_path)
    found = [
        run_experiment(experiment, WithModels(Config(), (each,)), options).tables["table"]
        for each in ("a", "b", "a")
    ]
    assert [table["call"].to_pylist() for table in found] == [[1], [2], [1]]
    assert calls == [3, 3]
    assert WithModels(Config(), ()).seed == 3
