"""pass@K beyond the samples drawn: the model beside the bounds, and nothing of it unless it is asked for."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from experiments.analyze import main
from experiments.rollout_logs.engine import analyze_logs
from experiments.rollout_logs.html_report import render_html
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.reading import open_logs
from experiments.rollout_logs.statistics import beyond
from experiments.rollout_logs.terminal_report import print_analysis
from tests.experiments.rollout_log_tools import analyze, by_name, code, value, verdicts, write_log
from theory.estimators.hierarchical.closed_forms import Hyperparameters
from theory.estimators.hierarchical.coverage import population_pass_at_k
from theory.estimators.hierarchical.posterior_diagnostics import Diagnostics, Fit
from theory.estimators.hierarchical.task_counts import TaskCounts
from theory.estimators.moment_bounds import count_law, pass_at_k_bounds, sampling_band

KS = (50, 400)


def _draws() -> Hyperparameters:
    rng = np.random.default_rng(0)
    zero, one = rng.uniform(0, 0.2, (2, 200))
    return Hyperparameters(zero, one, rng.uniform(0.3, 0.6, 200), rng.uniform(1, 2, 200))


def _fitted(r_hat: float = 1.0, divergences: int = 0) -> Callable[[int, TaskCounts], Fit]:
    good = Diagnostics({"a": r_hat}, {"a": 1000.0}, divergences, 200)
    return lambda seed, data: Fit(_draws(), good)


@pytest.fixture(name="quick")
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(beyond, "fitted", _fitted())


def _log(path: Path, sizes: list[int]) -> tuple[Path, np.ndarray]:
    rng = np.random.default_rng(1)
    tasks = [(rng.random(size) < rng.random()).astype(int) for size in sizes]
    rows = write_log(path / "log.jsonl", verdicts(*tasks))
    return rows, np.array([int(task.sum()) for task in tasks])


@pytest.mark.usefixtures("quick")
def test_model_and_bounds_side_by_side(tmp_path: Path) -> None:
    log, correct = _log(tmp_path, [6] * 25)
    found = by_name(analyze(log, beyond=KS, level=0.9))
    names = [name for name in found if "_pass@" in name and name.split("@")[1] in ("50", "400")]
    assert names == [f"{kind}_pass@{k}" for k in KS for kind in ("model", "least", "greatest")]
    for k in KS:
        posterior = population_pass_at_k(_draws(), k, 0.9)
        model = found[f"model_pass@{k}"]
        assert model["value"] == pytest.approx(posterior.mean)
        interval = model["interval"]
        assert (interval["low"], interval["high"]) == pytest.approx((posterior.low, posterior.high))
        assert interval["level"] == 0.9 and "credible" in interval["method"]
        bounds = pass_at_k_bounds(count_law(correct, 6), k, sampling_band(25, 0.9))
        assert found[f"least_pass@{k}"]["value"] == pytest.approx(bounds.low)
        assert found[f"greatest_pass@{k}"]["value"] == pytest.approx(bounds.high)
        assert "the law's word, not the data's" in model["notes"][0]
    within = by_name(analyze(log, beyond=(6,)))["model_pass@6"]
    assert "read pass@6" in within["notes"][0]


@pytest.mark.usefixtures("quick")
def test_unequal_tasks_are_thinned_for_the_bounds(tmp_path: Path) -> None:
    log, _ = _log(tmp_path, [4] * 10 + [9] * 15)
    found = by_name(analyze(log, beyond=(50,)))
    assert any("4 of each were taken at random" in note for note in found["least_pass@50"]["notes"])
    assert 0 <= found["least_pass@50"]["value"] < found["greatest_pass@50"]["value"] <= 1
    assert found["least_pass@50"]["samples"] == {"min": 4, "max": 9}
    again = by_name(analyze(log, beyond=(50,)))
    assert again["least_pass@50"] == found["least_pass@50"]


def test_chains_that_do_not_agree_give_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = _log(tmp_path, [6] * 25)
    for fitted in (_fitted(r_hat=1.2), _fitted(divergences=3)):
        monkeypatch.setattr(beyond, "fitted", fitted)
        found = analyze(log, beyond=(50,))
        assert code(found, "model_pass@50") == "R20"
        assert "least_pass@K" in by_name(found)["model_pass@50"]["reason"]
        assert value(found, "least_pass@50") is not None


@pytest.mark.usefixtures("quick")
def test_what_is_refused(tmp_path: Path) -> None:
    def codes(rows: list[dict[str, Any]]) -> set[Any]:
        found = analyze(write_log(tmp_path / "log.jsonl", rows), beyond=(50,))
        return {code(found, f"{kind}_pass@50") for kind in ("model", "least", "greatest")}

    assert codes([{"prompt_id": 1}]) == {"R0"}
    assert codes(verdicts([1, 0], [1, 1], branch_id="b")) == {"R3"}
    rows = verdicts([1, 0], [1, 1])
    assert codes([{**row, "policy_id": row["sample_id"]} for row in rows]) == {"R4"}
    assert codes(rows) == {None}


@pytest.mark.usefixtures("quick")
def test_page_and_terminal_tell_them_apart(tmp_path: Path) -> None:
    log, _ = _log(tmp_path, [6] * 25)
    opened = open_logs([str(log)], "auto", {}, None, strict=False)
    analysis = analyze_logs(opened, AnalysisOptions(beyond=KS, num_resamples=50))
    page = render_html(analysis)
    for words in ("Beyond the samples drawn", "bounds, no model", "the word is the model's"):
        assert words.replace("'", "&#x27;") in page or words in page
    stream = io.StringIO()
    print_analysis(analysis, Console(file=stream, width=300))
    assert "all that the counts say" in stream.getvalue()
    plain = analyze_logs(
        open_logs([str(log)], "auto", {}, None, strict=False), AnalysisOptions(num_resamples=50)
    )
    assert "Beyond the samples drawn" not in render_html(plain)


@pytest.mark.parametrize("k", ["0", "20000"])
def test_samples_out_of_range_have_one_line(
    k: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, _ = _log(tmp_path, [2, 2])
    assert main([str(log), "--beyond", k]) == 2
    said = capsys.readouterr().err
    assert f"--beyond {k}" in said and said.count("\n") == 1


def test_a_plain_analysis_does_not_wait_for_numpyro(tmp_path: Path) -> None:
    log, _ = _log(tmp_path, [3, 3])
    program = (
        "import sys\nfrom experiments.analyze import main\n"
        f"assert main([{str(log)!r}, '--json', {str(tmp_path / 'out.json')!r}]) == 0\n"
        "assert 'numpyro' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_posterior_itself(tmp_path: Path) -> None:
    log, _ = _log(tmp_path, [6] * 25)
    found = by_name(analyze(log, beyond=(6, 400)))
    for k in (6, 400):
        least, model, greatest = (
            found[f"{kind}_pass@{k}"]["value"] for kind in ("least", "model", "greatest")
        )
        assert least < model < greatest
    assert found["model_pass@6"]["value"] == pytest.approx(found["oracle@N"]["value"], abs=0.1)
