import json
from pathlib import Path

import pytest

from experiments import models
from experiments.model_argument import load_model
from models.tabular.catalogue import BUILTINS


def test_one_line_a_model(capfd: pytest.CaptureFixture[str]) -> None:
    assert models.main([]) == 0
    out, err = capfd.readouterr()
    heading, *lines = out.splitlines()
    assert err == ""
    assert heading.split() == ["model", "kind", "V", "horizon", "eos"]
    assert [line.split()[0] for line in lines] == [f"builtin:{name}" for name in BUILTINS]
    for line, model in zip(lines, BUILTINS.values(), strict=True):
        assert line.rstrip().endswith(model.description)


def test_json_names_what_load_model_takes(capfd: pytest.CaptureFixture[str]) -> None:
    assert models.main(["--json", "-"]) == 0
    listed = json.loads(capfd.readouterr().out)["models"]
    assert len(listed) == len(BUILTINS)
    for model in listed:
        loaded = load_model(model["name"])
        assert model["vocab_size"] == loaded.table.vocab_size == len(model["token_labels"])
        assert model["horizon"] == loaded.table.horizon
        assert model["eos"] == list(loaded.table.eos)


def test_json_to_a_file_prints_nothing(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert models.main(["--json", str(tmp_path / "out.json")]) == 0
    assert capfd.readouterr() == ("", "")
    assert models.main(["--json", str(tmp_path / "missing" / "out.json")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
