import json
from pathlib import Path

import pytest

from experiments import models
from experiments.language_model import load_language_model
from experiments.model_argument import load_model
from experiments.prompts import PromptSource
from models import shipped
from models.tabular.catalogue import BUILTINS


def test_one_line_a_model(capfd: pytest.CaptureFixture[str]) -> None:
    assert models.main([]) == 0
    out, err = capfd.readouterr()
    heading, *lines = out.splitlines()
    assert err == ""
    assert heading.split() == ["model", "kind", "V", "horizon", "eos"]
    described = {name: model.description for name, model in BUILTINS.items()} | shipped.MODELS
    assert [line.split()[0] for line in lines] == [f"builtin:{name}" for name in described]
    for line, description in zip(lines, described.values(), strict=True):
        assert line.rstrip().endswith(description)


def test_json_names_what_load_model_takes(capfd: pytest.CaptureFixture[str]) -> None:
    assert models.main(["--json", "-"]) == 0
    listed = json.loads(capfd.readouterr().out)["models"]
    toys = [model for model in listed if model["kind"] != "transformer"]
    assert len(toys) == len(BUILTINS)
    for model in toys:
        loaded = load_model(model["name"])
        assert model["vocab_size"] == loaded.table.vocab_size == len(model["token_labels"])
        assert model["horizon"] == loaded.table.horizon
        assert model["eos"] == list(loaded.table.eos)


def test_json_describes_transformers_by_what_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    assert models.main(["--json", "-"]) == 0
    listed = json.loads(capfd.readouterr().out)["models"]
    found = [model for model in listed if model["kind"] == "transformer"]
    assert [model["name"] for model in found] == [f"builtin:{name}" for name in shipped.MODELS]
    for model in found:
        loaded = load_language_model(model["name"], PromptSource(), None)
        assert model["vocab_size"] == loaded.model.vocab_size == len(model["token_labels"])
        assert (model["horizon"], model["eos"]) == (loaded.model.horizon, list(loaded.model.eos))
        assert loaded.task is not None and model["task"] == loaded.task.name


def test_json_to_a_file_prints_nothing(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert models.main(["--json", str(tmp_path / "out.json")]) == 0
    assert capfd.readouterr() == ("", "")
    assert models.main(["--json", str(tmp_path / "missing" / "out.json")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
