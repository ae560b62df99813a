"""Estimators against their exact moments: the numbers are right, a wrong exponent is seen, a killed run resumes to the same numbers."""

import dataclasses
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments import estimator_draws, estimator_validation
from experiments.estimator_cells import Cell, Estimator, exact_moments
from experiments.estimator_draws import run_populations, simulate
from experiments.estimator_tables import cell_rows, disagreements, make_cell, moments_of
from experiments.estimator_validation import EXPERIMENT, PRESETS, cells, main
from experiments.progress import track
from experiments.runner import RunOptions, read_run, run_experiment
from models.tabular.catalogue import builtin
from models.tabular.context_model import ContextModel
from paper_figures.build import read_table
from tests.stat_asserts import assert_mean, assert_rejected
from theory.exact import power_law, temperature_law, unroll
from theory.exact.importance_moments import (
    self_normalised_moments_by_enumeration,
    weighted_draw,
)
from theory.exact.length_scaling import variances_at_length

# Whole runs of the experiment.
pytestmark = pytest.mark.slow

SMOKE = PRESETS["smoke"].config
NUM_DRAWS, REPLICATES = SMOKE.num_draws[-1], SMOKE.replicates  # shapes that the smoke run compiles


def cell_of(alpha: float, proposal: str, num_draws: int, model: str = "toy-e") -> Cell:
    return make_cell("test", model, alpha, proposal, num_draws)


def mean_of(cell: Cell, method: str, quantity: str = "mean") -> float:
    found = exact_moments(cell)[method, quantity]
    return found.truth + found.bias


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("estimators")
    words = ["--preset", "smoke", "--results-dir", str(folder / "results")]
    words += ["--json", str(folder / "result.json"), "--export", str(folder / "tables")]
    assert main(words) == 0
    return folder, json.loads((folder / "result.json").read_text())


def test_expected_lengths_are_those_measured_elsewhere() -> None:
    # Simulations that share no code with the project, to their three digits.
    for num_draws, length in ((1, 3.5629), (2, 3.233), (4, 2.787), (16, 2.014), (64, 1.736)):
        cell = cell_of(4.0, "temperature", num_draws)
        assert mean_of(cell, "importance") == pytest.approx(length, abs=6e-3)
        assert mean_of(cell, "importance", "draw") == pytest.approx(mean_of(cell, "importance"))
        assert exact_moments(cell)["importance", "mean"].truth == pytest.approx(1.6314, abs=5e-5)
    assert mean_of(cell_of(4.0, "temperature", 2), "smc") == pytest.approx(3.446, abs=6e-3)
    assert mean_of(cell_of(4.0, "temperature", 1), "smc") == pytest.approx(3.5629, abs=5e-5)


@pytest.mark.parametrize(
    ("alpha", "limits"),
    [(2.0, (1.771728, 1.014530, 0.755874, 0.314774)), (4.0, (22.982132, 12.463862, 10.517521, 0.836867))],
)  # fmt: skip
def test_variances_of_z_are_those_of_the_theory(alpha: float, limits: tuple[float, ...]) -> None:
    many = 10**9
    found = exact_moments(cell_of(alpha, "temperature", many))
    base = exact_moments(cell_of(alpha, "base", many))
    scaled = [found[name, "evidence"].variance for name in ("smc", "smc_adapted", "importance")]
    scaled.append(base["importance", "evidence"].variance)
    np.testing.assert_allclose(many * np.array(scaled), limits, rtol=2e-6)


@pytest.mark.parametrize("num_draws", [1, 2, 3])
def test_self_normalised_moments_are_those_of_enumeration(num_draws: int) -> None:
    for model in ("toy-e", "toy-d"):
        cell = cell_of(2.0, "temperature", num_draws, model)
        layers = unroll(cell.table)

        def value(tokens: tuple[int, ...], has_eos: bool = bool(cell.table.eos)) -> float:
            return len(tokens) if has_eos else tokens[0] == 0

        one = weighted_draw(power_law(layers, 2.0).law, temperature_law(layers, 2.0), value)
        mean, variance = self_normalised_moments_by_enumeration(one, num_draws)
        found = exact_moments(cell)["importance", "mean"]
        assert found.truth + found.bias == pytest.approx(mean, abs=1e-10)
        assert found.variance == pytest.approx(variance, abs=1e-10)


def test_one_particle_is_one_draw_of_the_proposal_whatever_the_method() -> None:
    found = exact_moments(cell_of(4.0, "temperature", 1))
    for method in ("smc", "smc_adapted", "smc_ess"):
        assert found[method, "mean"].bias == pytest.approx(found["importance", "mean"].bias)
        assert found[method, "draw"].variance == pytest.approx(found["importance", "draw"].variance)
        assert found[method, "evidence"].variance == pytest.approx(
            found["importance", "evidence"].variance
        )


def test_what_is_not_known_exactly_is_nan_and_the_best_proposal_has_least_variance() -> None:
    long = exact_moments(make_cell("test", "toy-d", 2.0, "base", 4, length=64))
    assert math.isnan(long["importance", "mean"].bias)
    assert not math.isnan(long["smc", "evidence"].variance)
    best = next(
        each for each in variances_at_length(builtin("toy-e").make(), 4.0, 4)
        if each.method == "importance_best"
    )  # fmt: skip
    cell = cell_of(4.0, "best", 1)
    assert cell.proposal_alpha == best.proposal_alpha
    variance = exact_moments(cell)["importance", "evidence"].variance
    assert variance == pytest.approx(math.expm1(best.log_one_plus_variance))
    assert make_cell("test", "toy-e", 4.0, 4.0, 1).proposal == "temperature"
    assert make_cell("test", "toy-e", 4.0, 3.0, 1).proposal == "between"


def known(cell: Cell, drawn: dict[Estimator, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Replicates and expectations of the estimators whose expectation is known, in units of their standard deviations."""
    exact = {name: each for name, each in exact_moments(cell).items() if not math.isnan(each.bias)}
    replicates = np.stack([drawn[name] for name in exact], axis=1)
    scales = replicates.std(axis=0)
    expected = np.array([each.truth + each.bias for each in exact.values()])
    return replicates / scales, expected / scales


def test_simulated_means_are_the_exact_ones_and_a_wrong_exponent_is_seen() -> None:
    cell = cell_of(1.5, "base", NUM_DRAWS)

    def check(alpha: float) -> None:
        replicates, expected = known(cell, simulate(cell, REPLICATES, 1, alpha=alpha))
        assert_mean(replicates, expected, smallest_bias=0.2)

    check(1.5)
    assert_rejected(lambda: check(1.55))


def test_simulated_variances_are_the_exact_ones() -> None:
    cell = cell_of(1.5, "temperature", NUM_DRAWS)
    exact, drawn = exact_moments(cell), simulate(cell, REPLICATES, 2)
    # A squared deviation has the variance as its expectation.
    names = [name for name, each in exact.items() if not math.isnan(each.variance)]
    assert {("smc", "evidence"), ("smc_adapted", "evidence"), ("importance", "mean")} <= set(names)
    for method, quantity in names:
        each = exact[method, quantity]
        squares = (drawn[method, quantity] - each.truth - each.bias) ** 2
        error = squares.std() / math.sqrt(REPLICATES)
        assert abs(squares.mean() - each.variance) < 6 * error


def test_a_table_of_a_wrong_alpha_disagrees_and_the_right_one_does_not() -> None:
    cell = cell_of(2.0, "base", NUM_DRAWS)
    assert disagreements(cell_rows(cell, REPLICATES, 0)) == []
    wrong = disagreements(cell_rows(cell, REPLICATES, 0, simulated_alpha=2.1))
    assert {"importance", "smc", "smc_ess"} <= {row["method"] for row in wrong}
    row = dict(cell_rows(cell, REPLICATES, 0)[0], bias=math.nan)
    assert disagreements([row]) == [row]  # NaN is no agreement


def test_populations_do_not_depend_on_how_many_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model, key = ContextModel.from_table(builtin("toy-e").make()), jax.random.key(3)
    few = run_populations(key, model, "smc", 2.0, 2.0, 2, REPLICATES)
    monkeypatch.setattr(estimator_draws, "ROWS_AT_A_TIME", 2 * REPLICATES)
    many = run_populations(key, model, "smc", 2.0, 2.0, 2, REPLICATES + 900)
    assert many.log_weights.shape == (REPLICATES + 900, 2)
    for name in ("log_weights", "lengths", "first_tokens", "drawn_tokens", "drawn_lengths"):
        np.testing.assert_array_equal(getattr(many, name)[:REPLICATES], getattr(few, name))
    later = many.log_weights[REPLICATES:]
    assert not np.array_equal(later, many.log_weights[:900])
    # Populations that fill the last batch are neither returned nor paid for by the others.
    assert many.cost["generated_tokens"] == pytest.approx(few.cost["generated_tokens"], rel=0.05)


def test_moments_of_a_known_sample() -> None:
    sample = np.array([0.0, 0.0, 3.0, 5.0])
    found = moments_of(sample, 1.5)
    assert found["bias"] == 0.5
    assert found["variance"] == pytest.approx(6.0)
    assert found["bias_error"] == pytest.approx(math.sqrt(6.0 / 4))
    wide = np.array([-5.0] + [0.0] * 8 + [5.0])
    fourth, variance = 2 * 625 / 10, 50 / 9
    assert moments_of(wide, 0.0)["variance_error"] == pytest.approx(
        math.sqrt((fourth - variance**2) / 10)
    )


def test_the_smoke_run_says_what_it_found(smoke: tuple[Path, dict[str, Any]]) -> None:
    folder, result = smoke
    agreement, *lines = result["sentences"]
    assert "none contradicts it by more than 6 standard errors" in agreement
    assert any("importance_base has the least RMSE of E[length]" in line for line in lines)
    assert "Matched were generated tokens, and generated plus prefill tokens" in lines[-2]
    assert lines[-1].startswith("Exact draws: rejection. Weighted rows: importance_base")
    assert lines[-1].endswith("Approximate draws: suffix_base.")
    names = {"estimator_bias_and_variance", "estimator_against_length", "equal_cost_curves"}
    assert {Path(file).stem for file in result["figures"]} == names
    for name in names:
        assert read_table(folder / "tables" / f"{name}.csv").num_rows


def test_every_axis_is_swept_and_every_estimator_simulated(
    smoke: tuple[Path, dict[str, Any]],
) -> None:
    rows = smoke[1]["estimators"]
    assert {row["sweep"] for row in rows} == {"num_draws", "alpha", "proposal", "length"}
    estimators = {(row["method"], row["quantity"]) for row in rows}
    assert estimators == set(exact_moments(cell_of(4.0, "temperature", 2)))
    default = cells(PRESETS["default"].config)
    assert {cell.num_draws for cell in default} >= {1, 256}
    assert {cell.alpha for cell in default} >= {0.5, 1.5, 2.0, 4.0, 8.0}
    assert {cell.table.horizon for cell in default} >= {4, 64}
    assert {cell.proposal for cell in default} == {"base", "temperature", "between", "best"}


def test_a_killed_run_resumes_to_the_same_numbers(
    smoke: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    config = dataclasses.replace(SMOKE, methods=("importance_base", "rejection"))
    options = RunOptions("smoke", results_dir=tmp_path)

    def killed(items: Iterable[Any], description: str, total: int | None = None) -> Iterable[Any]:
        for place, item in enumerate(items):
            if (description, place) == ("equal cost", 1):
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        run_experiment(EXPERIMENT, config, options, killed)
    (stages,) = tmp_path.glob("*/*/stages")
    finished = {path.stem for path in stages.iterdir()}
    assert "cost-toy-e-importance_base" in finished and "cell-0" in finished
    assert "cost-toy-e-rejection" not in finished
    resumed = run_experiment(EXPERIMENT, config, options, track)
    (manifest,) = tmp_path.glob("*/*/manifest.json")
    assert len(json.loads(manifest.read_text())["resumed_stages"]) == len(finished)
    (folder,) = smoke[0].glob("results/*/*")
    whole = read_run(folder)
    # As text: NaN, for what is not known exactly, is not equal to itself.
    assert repr(resumed.tables["table"].to_pylist()) == repr(whole["table"].to_pylist())
    kept = [row for row in whole["cost"].to_pylist() if row["method"] in config.methods]
    assert resumed.tables["cost"].to_pylist() == kept


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--replicates", "10"], "--replicates 10: must be at least 100"),
        (["--num-draws", "4,2"], "--num-draws 4,2: must ascend from at least 1"),
        (["--moves", "0,2"], "--moves 0,2: must ascend"),
        (["--methods", "sufix"], "unknown method 'sufix'"),
        (["--cost-models", "toy-z"], "no built-in model 'toy-z'"),
        (["--alphas", "0"], "alpha"),
        (["--budgets", "-1"], "--budgets"),
        (["--swept-draws", "0"], "--swept-draws 0"),
        (["--seed", "-1"], "--seed -1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capfd.readouterr().err
    assert says in error and error.count("\n") == 1


def test_a_contradiction_is_said_and_the_status_is_1(
    smoke: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder, _ = smoke

    def spoilt(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rows[:1]

    monkeypatch.setattr(estimator_validation, "disagreements", spoilt)
    assert main(["--preset", "smoke", "--results-dir", str(folder / "results")]) == 1
    assert "importance evidence, toy-e, alpha 4, N 2: bias" in capfd.readouterr().err
