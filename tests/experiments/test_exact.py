"""`rolloutlab exact` against exact values computed in rational arithmetic, and at sizes that nothing enumerates."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.exact import main
from tests.conftest import ROOT

REFERENCE = ROOT / "tests" / "data" / "reference"


def exact(tmp_path: Path, *argv: str) -> dict[str, Any]:
    out = tmp_path / "out.json"
    assert main([*argv, "--json", str(out)]) == 0
    return json.loads(out.read_text())


def compare(found: Any, truth: Any, where: str) -> int:
    """Every number of `truth` to relative 1e-9; returns how many there were."""
    if isinstance(truth, dict):
        return sum(compare(found[key], value, f"{where} {key!r}") for key, value in truth.items())
    if isinstance(truth, list):
        assert len(found) == len(truth), where
        pairs = zip(found, truth, strict=True)
        return sum(compare(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(pairs))
    assert found == pytest.approx(truth, rel=1e-9, abs=1e-15 if truth else 1e-12), where
    return 1


@pytest.mark.parametrize("number", range(10))
def test_every_number_of_the_reference(number: int, tmp_path: Path) -> None:
    path = REFERENCE / f"case-{number}.json"
    truth = json.loads(path.read_text())["power"]
    alphas = ",".join(str(block["alpha"]) for block in truth)
    found = exact(tmp_path, str(path), "--alpha", alphas)["results"]
    assert [block["alpha"] for block in found] == [block["alpha"] for block in truth]
    assert compare(found, truth, path.name) > 100


def markov_file(tmp_path: Path, vocab_size: int, horizon: int, eos: int | None) -> Path:
    rng = np.random.default_rng(7)
    rows = rng.dirichlet(np.ones(vocab_size), size=vocab_size + 1)
    content = {
        "kind": "markov",
        "vocab_size": vocab_size,
        "max_length": horizon,
        "eos": eos,
        "initial": rows[-1].tolist(),
        "transition": rows[:-1].tolist(),
    }
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("eos", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_a_long_chain_has_scalars_bounds_and_logarithms(eos: int | None, tmp_path: Path) -> None:
    path = markov_file(tmp_path, 50, 500, eos)
    content = json.loads(path.read_text())
    found = exact(tmp_path, str(path), "--alpha", "2", "--alpha", "0.5")
    for block in found["results"]:
        value = np.zeros(50)
        weights = block["alpha"] * np.log(content["transition"])
        for _ in range(499):
            value = np.logaddexp.reduce(weights + value, axis=1)
            if eos is not None:
                value[eos] = 0.0
        first = block["alpha"] * np.log(content["initial"])
        assert block["log_Z"] == pytest.approx(np.logaddexp.reduce(first + value), rel=1e-12)
        bounds = block["tv_power_temperature"]
        assert 0 < bounds["lower"] <= bounds["upper"] <= 1
        assert "power" not in block
        assert set(block["omitted"]["keys"]) >= {"power", "log_lookahead"}
        assert "sequences" in block["omitted"]["reason"]
        for proposal in ("base", "temperature"):
            for quantity in ("ess_fraction", "max_weight"):
                key = f"{quantity}_from_{proposal}"
                log_value = block[f"log_{key}"]
                if block[key] is None:
                    assert "outside double range" in block[f"{key}_reason"]
                    assert abs(log_value) >= 708
                else:
                    assert block[key] == pytest.approx(math.exp(log_value), rel=1e-12)


@pytest.mark.slow
def test_a_ratio_outside_double_range_is_null_with_its_reason(tmp_path: Path) -> None:
    path = markov_file(tmp_path, 10, 1500, None)
    block = exact(tmp_path, str(path), "--alpha", "8")["results"][0]
    assert block["ess_fraction_from_base"] is None
    assert block["ess_fraction_from_base_reason"].startswith("outside double range")
    assert block["log_ess_fraction_from_base"] < -708


def test_a_prompt_is_the_rest_of_the_model(tmp_path: Path) -> None:
    """After prefix "0" of a tree, log Z is the look-ahead of that prefix, and the tables lose the prefix."""
    path = REFERENCE / "case-1.json"
    whole = exact(tmp_path, str(path), "--alpha", "2")["results"][0]
    rest = exact(tmp_path, str(path), "--alpha", "2", "--prompt", "0")["results"][0]
    assert rest["log_Z"] == pytest.approx(whole["log_lookahead"]["0"], abs=1e-12)
    longer = {key.removeprefix("0 "): value for key, value in whole["log_lookahead"].items()}
    for prefix, value in rest["log_lookahead"].items():
        if prefix:
            assert value == pytest.approx(longer[prefix], abs=1e-12)


def test_json_on_stdout_stands_alone_and_is_the_same_each_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs: list[str] = []
    for _ in range(2):
        assert main(["builtin:toy-e", "--alpha", "2,4", "--json", "-"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    result = json.loads(outputs[0])
    assert result["model"]["name"] == "builtin:toy-e"
    assert result["model"]["num_sequences"] == 31
    assert result["results"][1]["expected_length_power"] == pytest.approx(1.631432, abs=5e-7)


def test_without_json_the_scalars_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builtin:toy-b", "--alpha", "4"]) == 0
    shown = capsys.readouterr().out
    assert "kl_power_temperature" in shown
    assert "0.381165" in shown


def test_a_table_has_its_title_on_one_line_and_no_negative_zero(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["builtin:toy-c-long", "--alpha", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == "builtin:toy-c-long: exact laws (nats, tokens)"
    assert " 0 " in shown and " -0 " not in shown


def test_counts_are_whole_numbers_as_long_as_they_are_exact(tmp_path: Path) -> None:
    few = exact(tmp_path, "builtin:toy-e")["model"]["num_sequences"]
    assert (few, type(few)) == (31, int)
    many = exact(tmp_path, "builtin:random-endless", "--max-new-tokens", "40")
    assert type(many["model"]["num_sequences"]) is float
    assert many["model"]["num_sequences"] == pytest.approx(5.0**40)


def test_help_names_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(" MODEL")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["builtin:toy-b", "--alpha", "0"], ("alpha 0", "above 0")),
        (["builtin:toy-b", "--alpha", "-1"], ("alpha",)),
        (["builtin:toy-b", "--alpha", "inf"], ("alpha inf", "finite")),
        (["builtin:toy-b", "--alpha", "nan"], ("alpha nan", "finite")),
        (["builtin:toy-b", "--alpha", "two"], ("two",)),
        (["builtin:toy-b", "--alpha", "1e308"], ("alpha 1e+308", "at most")),
        (["builtin:toy-d", "--max-new-tokens", "99999999999"], ("horizon 99999999999", "at most")),
        (["builtin:toy-z"], ("toy-z",)),
        (["nowhere.json"], ("nowhere.json",)),
        (["builtin:toy-b", "--prompt", "9"], ("--prompt", "9")),
        (["builtin:toy-b", "--prompt", "0 2"], ("--prompt", "shorter")),
        (["builtin:toy-e", "--prompt", "2"], ("ends the sequence",)),
        (["builtin:toy-d", "--max-new-tokens", "0"], ("--max-new-tokens 0",)),
        (["builtin:toy-b", "--max-new-tokens", "5"], ("--max-new-tokens 5", "at most 2")),
        (["builtin:toy-b", "--json", "/nowhere/at/all.json"], ("/nowhere/at/all.json",)),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_status_2(
    argv: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    for word in words:
        assert word in err
