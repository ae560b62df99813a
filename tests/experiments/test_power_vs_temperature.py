"""The demonstration: its verdicts can fail, its numbers are exact, and a second run is the first."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments import power_verdicts
from experiments.command_line import list_options, parse
from experiments.model_argument import load_model
from experiments.power_tables import MIN_BAR, two_laws_rows
from experiments.power_vs_temperature import PRESETS, Arguments, main
from models.tabular.context_model import ContextModel
from tests.conftest import ROOT
from theory.exact import Draws, Law, draw_sequences

# Whole runs of the demonstration.
pytestmark = pytest.mark.slow

SMOKE = ("--preset", "smoke")
ONE_TOKEN: dict[str, Any] = {
    "kind": "markov",
    "vocab_size": 2,
    "max_length": 1,
    "eos": None,
    "initial": [0.7, 0.3],
    "transition": [[0.5, 0.5], [0.5, 0.5]],
}


def run(tmp_path: Path, *argv: str) -> dict[str, Any]:
    out = tmp_path / "result.json"
    words = [*argv, *SMOKE, "--results-dir", str(tmp_path / "results"), "--json", str(out)]
    assert main(words) == 0
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demonstration")
    return folder, run(folder)


def test_every_verdict_is_reached_and_every_figure_drawn(
    demonstration: tuple[Path, dict[str, Any]],
) -> None:
    _, result = demonstration
    checks = {row["check"] for row in result["verdicts"]}
    assert checks == {
        "float32 model = float64 law",
        "dynamic program = enumeration",
        "draws follow the power law",
        "draws follow the temperature law",
    }
    assert all(row["ok"] for row in result["verdicts"])
    names = {Path(file).name for file in result["figures"]}
    for figure in (
        "two_laws",
        "divergence_against_alpha",
        "ess_against_length",
        "first_token_ranking",
    ):
        assert {f"{figure}.pdf", f"{figure}.png"} <= names
    assert all(Path(file).stat().st_size > 1000 for file in result["figures"])


def test_three_sentences_say_what_the_numbers_show(
    demonstration: tuple[Path, dict[str, Any]],
) -> None:
    first, second, third = demonstration[1]["sentences"]
    assert "p(y)^2" in first
    assert "are different laws on 15 of 15 models" in first
    assert second.startswith("They prefer different first tokens on 7 of 15 models: on sharp-path")
    assert "with its horizon set to 32 tokens" in third


def test_a_second_run_reads_the_first(
    demonstration: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, result = demonstration
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert files
    before = (folder / "result.json").read_bytes()
    assert run(folder) == result
    assert (folder / "result.json").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == files
    assert "done before" in capsys.readouterr().err


def test_a_model_of_the_users_own(tmp_path: Path) -> None:
    model = tmp_path / "mine.json"
    chain: dict[str, Any] = {
        "kind": "markov",
        "vocab_size": 3,
        "max_length": 4,
        "eos": 2,
        "initial": ["1/2", "3/10", "1/5"],
        "transition": [[0.6, 0.1, 0.3], [0.2, 0.2, 0.6], [0, 0, 1]],
    }
    model.write_text(json.dumps(chain))
    result = run(tmp_path, str(model), "--alpha", "4")
    rows = {(row["law"], row["quantity"], row["token"]): row["value"] for row in result["rows"]}
    assert rows["power", "expected_length", ""] == pytest.approx(1.631432, abs=5e-7)
    assert rows["power", "first_token_probability", "0"] == pytest.approx(0.2129, abs=5e-5)
    assert rows["power", "tv_power_temperature", ""] == pytest.approx(0.754189, abs=5e-7)
    assert {row["model"] for row in result["rows"]} == {"mine"}
    # The folder is named after the content: an edited file is another run.
    chain["initial"] = [0.4, 0.4, 0.2]
    model.write_text(json.dumps(chain))
    other = run(tmp_path, str(model), "--alpha", "4")
    assert other["rows"] != result["rows"]


@pytest.mark.parametrize("name", ["builtin:toy-b", "builtin:toy-c-long", "builtin:hidden-markov"])
def test_trees_and_models_that_nothing_enumerates(name: str, tmp_path: Path) -> None:
    result = run(tmp_path, name, "--lengths", "1,2,4")
    assert all(row["ok"] for row in result["verdicts"])
    assert len(result["sentences"]) == 3


def test_bars_add_up_to_one() -> None:
    for name in ("toy-e", "sharp-path", "toy-d", "random-tree"):
        rows = two_laws_rows(load_model(f"builtin:{name}"), 2.0)
        for law in ("base", "temperature", "power"):
            assert sum(row[law] for row in rows) == pytest.approx(1.0, abs=1e-9)
        assert [row["rank"] for row in rows] == list(range(len(rows)))
        shown = [row for row in rows if row["num_sequences"] == 1]
        assert np.all(np.diff([row["power"] for row in shown]) <= 1e-15)
        if len(shown) < len(rows):
            assert all(
                max(row[law] for law in ("base", "temperature", "power")) >= MIN_BAR
                for row in shown
            )


def test_a_model_is_known_by_name_and_content_wherever_its_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "else").mkdir()
    for folder in (".", "else"):
        (tmp_path / folder / "one.json").write_text(json.dumps(ONE_TOKEN))
    monkeypatch.chdir(tmp_path)
    results = [
        run(tmp_path, path, "--lengths", "1,2")
        for path in ("one.json", "./one.json", str(tmp_path / "else" / "one.json"))
    ]
    assert results[0] == results[1] == results[2]
    (manifest,) = tmp_path.glob("results/*/*/manifest.json")
    assert json.loads(manifest.read_text())["seed"] == 0


def test_the_two_samples_of_a_verdict_are_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[Any] = []

    def noted(key: jax.Array, law: Law, num: int) -> Draws:
        keys.append(jax.random.key_data(key).tolist())
        return draw_sequences(key, law, num)

    monkeypatch.setattr(power_verdicts, "draw_sequences", noted)
    power_verdicts.verdict_rows(load_model("builtin:toy-e"), 2.0, 1000, 0)
    assert len(keys) == 3
    assert len({str(key) for key in keys}) == 3


def test_help_is_short_and_names_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "[MODEL]" in shown.splitlines()[0]
    assert "41 from 1/4 to 8" in shown
    assert "0.2726" not in shown


def test_repeated_alphas_are_one_list() -> None:
    assert list_options(Arguments) == {"--alphas", "--lengths"}
    words = ["--alphas", "1", "--alphas", "2"]
    arguments = parse("x", Arguments, words, PRESETS)
    assert arguments.sweep.alphas == (1.0, 2.0)


# Each verdict, given a planted bug, must fail.


def failed(model: str) -> set[str]:
    rows = power_verdicts.verdict_rows(load_model(model), 2.0, 4000, 0)
    return {row["check"] for row in rows if not row["ok"]}


def test_no_verdict_fails_without_a_bug() -> None:
    assert failed("builtin:toy-e") == set()


def test_a_float32_model_that_drops_the_eos_probability_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = ContextModel.from_table
    monkeypatch.setattr(
        power_verdicts.ContextModel,
        "from_table",
        lambda table: right(table._replace(log_probs=table.log_probs + 1e-4)),
    )
    assert failed("builtin:toy-e") == {"float32 model = float64 law"}


def test_draws_at_temperature_passed_off_as_power_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from theory.exact import temperature_law

    def wrong(key: jax.Array, law: Law, num: int) -> Draws:
        return draw_sequences(key, temperature_law(law.layers, 2.0), num)

    monkeypatch.setattr(power_verdicts, "draw_sequences", wrong)
    assert "draws follow the power law" in failed("builtin:toy-e")


def test_a_failed_verdict_is_exit_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power_verdicts, "LARGEST_FLOAT32_ERROR", 0.0)
    words = ["builtin:toy-e", *SMOKE, "--lengths", "1,2", "--results-dir", str(tmp_path)]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert "FAILED: builtin:toy-e: float32 model = float64 law" in out
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--alpha", "0"], "alpha"),
        (["--alphas", "1,0"], "alpha"),
        (["--preset", "huge"], "huge"),
        (["builtin:none"], "none"),
        (["--lengths", "0"], "length"),
        (["--draws", "0"], "draws"),
        (["--prompt", "0"], "--prompt"),
    ],
)
def test_bad_input(
    argv: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, "--results-dir", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert word in err


def test_the_customary_script(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "power_vs_temperature.py"
    command = [sys.executable, str(script), "builtin:toy-e", "--alpha", "2", *SMOKE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "two_laws.pdf" in done.stdout
