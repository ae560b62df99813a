"""Exact tables, bounds and targets of the bandit."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special

from experiments.allocation import run_tables, stream_table, target_tables
from experiments.allocation.methods import METHODS
from experiments.allocation.moments import log_moment, success_probability
from experiments.allocation.regimes import POPULATIONS, Population
from experiments.allocation.report import geometric, with_interval
from experiments.allocation.simulator import COVERAGE_KS
from experiments.allocation.static_methods import STATIC_METHODS
from experiments.allocation_bandit import PRESETS, Config, jobs, main
from experiments.tables import from_rows
from tests.experiments.allocation.commands import assert_refused, smoke_report

LAWS = {population.name: population for population in POPULATIONS}


def test_there_are_six_populations_and_two_held_out() -> None:
    assert [each.held_out for each in POPULATIONS] == [False] * 6 + [True] * 2
    for each in POPULATIONS:
        parts = (*each.betas, *each.points, *each.logit_normals)
        assert sum(part[0] for part in parts) == pytest.approx(1)


@pytest.mark.parametrize("name", ["logit-normal-0-8", "logit-normal--2-4"])
@pytest.mark.parametrize(("s", "f"), [(0, 0), (1, 0), (0, 16), (5, 11), (16, 0)])
def test_moments_of_logit_normals_are_their_integrals(name: str, s: int, f: int) -> None:
    _, mean, deviation = LAWS[name].logit_normals[0]

    def integrand(z: float) -> float:
        p = special.expit(mean + deviation * z)
        q = special.expit(-mean - deviation * z)
        return p**s * q**f * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    centre = -mean / deviation
    truth = integrate.quad(
        integrand, -12, 12, points=[centre, centre - 0.5, centre + 0.5], limit=400
    )
    found = np.exp(log_moment(LAWS[name], np.array([s]), np.array([f])))[0]
    assert found == pytest.approx(truth[0], rel=1e-9)


def test_moments_of_mixtures_are_closed_forms() -> None:
    s, f = np.array([0, 1, 0, 2]), np.array([0, 0, 1, 3])
    found = np.exp(log_moment(LAWS["published"], s, f))
    betas = np.exp(special.betaln(2.5 + s, 2.5 + f) - special.betaln(2.5, 2.5))
    expected = 0.36 * betas + 0.32 * (s == 0) + 0.32 * (f == 0)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    mean = success_probability(Population("zero", points=((1.0, 0.0),)))
    assert mean(np.array([0, 1]), np.array([2, 0])).tolist() == [0.0, 0.0]


def test_the_stream_table_has_the_published_figures() -> None:
    """Savings of SARA and of the optimum on the published mixture (21.9 % at n = 8), and where Pilot-Commit loses (allocation.md 6.3)."""
    rows = {
        (row["population"], row["group_size"], row["rule"]): row
        for row in stream_table.rows((8, 16))
    }
    assert rows["published", 8, "sara"]["saving"] == pytest.approx(0.219, abs=5e-4)
    assert rows["published", 8, "sara"]["missed_share"] == pytest.approx(0.188, abs=5e-4)
    assert rows["published", 16, "optimal-stopping"]["saving"] == pytest.approx(0.42, abs=0.005)

    def ratio(population: str) -> float:
        cost = rows[population, 16, "pilot-commit, idealised"]["rollouts_per_group"]
        return rows[population, 16, "dynamic-sampling"]["rollouts_per_group"] / cost

    assert ratio("published") == pytest.approx(1.69, abs=0.01)
    assert ratio("beta-.15-.15") == pytest.approx(1.43, abs=0.015)
    assert ratio("flat") == pytest.approx(0.97, abs=0.005)
    assert ratio("all-hard") == pytest.approx(0.91, abs=0.005)
    for (_, _, rule), row in rows.items():
        assert row["regret"] >= -1e-9
        if rule == "optimal-stopping":
            assert row["regret"] == pytest.approx(0, abs=1e-9)
        if rule == "dynamic-sampling":
            assert row["saving"] == 0 and row["missed_share"] == pytest.approx(0, abs=1e-12)


def updates(
    method: str, seed: int, accuracy: list[float], step: int, spent: int | None = None
) -> list[dict[str, object]]:
    """A run with one update every `step` rollouts."""
    last = step * len(accuracy)
    return [
        {
            "kind": "target",
            "regime": "r",
            "group_size": 8,
            "batch_size": 4,
            "method": method,
            "seed": seed,
            "update": place,
            "rollouts": step * (place + 1),
            "accuracy": value,
            **dict.fromkeys(run_tables.COVERAGES, value),
            "groups": 4,
            "effective": 2,
            "push": 1.0,
            "own_effective": 1,
            "own_energy": 3.0,
            "visited": 4,
            "rounds": 2,
            "spent": last if spent is None else spent,
        }
        for place, value in enumerate(accuracy)
    ]


def target_table(*runs: list[dict[str, object]]) -> list[dict[str, object]]:
    table = from_rows(run_tables.UPDATES, [row for run in runs for row in run])
    return list(target_tables.target_rows(target_tables.curve_table(table, "target")))


def test_a_rule_twice_as_fast_has_ratio_two_and_one_that_never_arrives_is_kept() -> None:
    line = np.linspace(0, 0.8, 400).tolist()
    found = {
        row["method"]: row
        for row in target_table(
            updates("uniform", 0, line, 100),
            updates("sara", 0, line + [0.8] * 400, 50),
            updates("dapo", 0, (0.5 * np.array(line)).tolist(), 100),
        )
    }
    assert found["uniform"]["reached"] and found["uniform"]["ratio"] == pytest.approx(1, abs=0.05)
    assert found["sara"]["reached"] and found["sara"]["ratio"] == pytest.approx(2, abs=0.1)
    assert not found["dapo"]["reached"] and found["dapo"]["ratio"] == pytest.approx(1, abs=0.05)
    assert len({row["target"] for row in found.values()}) == 1


def test_what_was_paid_is_what_the_peak_cost_with_the_same_seed() -> None:
    """Uniform allocation that peaks in the middle and decays, later with one seed than with the other."""
    rise, fall = np.linspace(0, 0.8, 200), np.linspace(0.8, 0.4, 200)
    steady = np.linspace(0, 0.9, 400).tolist()
    runs = [
        *(updates("uniform", seed, [*rise, *fall], 100 * (1 + seed)) for seed in (0, 1)),
        *(updates("sara", seed, steady, 100 * (1 + seed)) for seed in (0, 1)),
    ]
    rows = target_table(*runs)
    assert sorted((row["method"], row["seed"]) for row in rows) == [
        (method, seed) for method in ("sara", "uniform") for seed in (0, 1)
    ]
    for row in rows:
        scale = 1 + float(str(row["seed"]))
        needed = {"uniform": 20_000, "sara": 40_000 * 8 / 9}[str(row["method"])] * scale
        assert row["rollouts"] == pytest.approx(needed, rel=0.06)
        assert row["ratio"] == pytest.approx(20_000 * scale / needed, rel=0.06)


def test_curves_begin_at_the_first_update_and_end_at_the_last() -> None:
    """Nothing is read before or after what was run, on the grid of the longest run."""
    table = from_rows(
        run_tables.UPDATES,
        [*updates("uniform", 0, [0.1, 0.2, 0.3], 800), *updates("sara", 0, [0.5, 0.7], 600)],
    )
    rows = target_tables.curve_table(table, "target").to_pylist()
    for method, first, last in (("uniform", 800, 2400), ("sara", 600, 1200)):
        found = [row["rollouts"] for row in rows if row["method"] == method]
        assert found == list(range(first, last + 1, 10))
    (middle,) = [row for row in rows if row["method"] == "sara" and row["rollouts"] == 900]
    assert middle["accuracy"] == pytest.approx(0.6)


def test_a_lucky_evaluation_is_no_peak() -> None:
    """The target is read off the smoothed curve: one spike does not raise it by its height."""
    line = np.linspace(0, 0.5, 400)
    spiked = line.copy()
    spiked[200] = 1.0
    (row,) = target_table(updates("uniform", 0, spiked.tolist(), 100))
    assert float(row["target"]) < 0.6  # pyright: ignore[reportArgumentType]


def test_a_run_in_one_row() -> None:
    table = from_rows(run_tables.UPDATES, updates("sara", 3, [0.1, 0.2], 64, spent=200))
    (row,) = run_tables.run_table(table, {"sara": "stream"}).to_pylist()
    assert (row["updates"], row["rollouts"], row["stopped"]) == (2, 200, True)
    assert row["cost"] == pytest.approx(200 / 64)
    assert row["effective_share"] == 0.5 and row["rollouts_per_effective"] == 50
    assert row["push"] == pytest.approx(0.25) and row["accuracy"] == 0.2
    assert row["own_effective_rate"] == 10 and row["own_energy_rate"] == 30


def test_rules_are_read_at_one_ledger() -> None:
    """At the last update within what uniform allocation spends (2 updates of 4 groups of 8 are 64 rollouts), dropped rollouts included."""
    rows = [
        *updates("uniform", 0, [0.1, 0.2], 32),
        *updates("dapo", 0, [0.1, 0.3, 0.5], 40),
        *updates("ar3po", 0, [0.1, 0.2], 10),
        *updates("pilot-commit", 0, [0.1], 32, spent=9999),
    ]
    table = run_tables.ledger_table(from_rows(run_tables.UPDATES, rows), "target", 2)
    found = {row["method"]: row for row in table.to_pylist()}
    assert [found[name]["updates"] for name in ("uniform", "dapo", "ar3po")] == [2, 1, 2]
    assert [found[name]["filled"] for name in ("uniform", "dapo", "ar3po")] == [True, True, False]
    assert found["pilot-commit"]["filled"] and found["pilot-commit"]["effective_rate"] == 0.25
    # Two effective groups an update, 8 rollouts each.
    assert found["uniform"]["effective_rate"] == 0.5 and found["uniform"]["accuracy"] == 0.2
    assert found["dapo"]["effective_rate"] == 16 / 40 and found["dapo"]["accuracy"] == 0.1
    assert found["uniform"]["ledger"] == 64


def test_the_curve_of_pass_at_k_is_that_of_the_last_updates() -> None:
    """Mean and interval at k = 1, 2, 4, ..., 64; only where a policy learns."""
    rates = {("sara", 0): 0.1, ("sara", 1): 0.3, ("uniform", 0): 0.02}
    rows = [
        row
        | {f"coverage_{k}": 1 - (1 - float(str(row["accuracy"]))) ** k for k in COVERAGE_KS}
        | {"kind": kind}
        for (method, seed), rate in rates.items()
        for kind in ("fixed-updates", "static")
        for row in updates(method, seed, [0.0, rate], 64)
    ]
    classes = {"sara": "stream", "uniform": "fixed"}
    runs = run_tables.run_table(from_rows(run_tables.UPDATES, rows), classes)
    found = run_tables.pass_at_k_table(runs, ["fixed-updates"]).to_pylist()
    assert [row["k"] for row in found] == 2 * [1, 2, 4, 8, 16, 32, 64]
    assert [row["method"] for row in found] == 7 * ["sara"] + 7 * ["uniform"]
    for row in found[:7]:
        ends = [1 - 0.9 ** row["k"], 1 - 0.7 ** row["k"]]
        assert row["pass_at_k"] == pytest.approx(sum(ends) / 2) and row["seeds"] == 2
        # The half-width of two numbers is half their gap times the quantile of one degree of freedom, tan(.475 pi).
        half = (ends[1] - ends[0]) / 2 * np.tan(0.475 * np.pi)
        assert row["high"] - row["pass_at_k"] == pytest.approx(half)
        assert row["pass_at_k"] - row["low"] == pytest.approx(half)
    for row in found[7:]:
        assert row["low"] == row["high"] == row["pass_at_k"] == pytest.approx(1 - 0.98 ** row["k"])


def test_intervals_over_seeds() -> None:
    assert with_interval([1.0]) == "1.000"
    assert with_interval([1.0, 3.0], 1) == "2.0 [-10.7, 14.7]"
    assert with_interval([float("inf"), 1.0]) == "inf"
    assert geometric([2.0, 2.0]) == "2.00 [2.00, 2.00]"


def test_every_regime_and_method_of_a_preset_is_run() -> None:
    """Nothing that was written down is left out of the full preset."""
    found = list(jobs(PRESETS["full"].config))
    assert {job.setting.name for job in found} >= set(LAWS) | set("ABCDEF")
    default = Config()
    assert len(list(jobs(default))) == len(default.methods) + len(default.target_methods) + len(
        LAWS
    ) * len(default.static_methods)
    assert set(default.static_methods) == set(STATIC_METHODS) >= set(METHODS)
    assert len({(job.kind, job.setting.name, job.method) for job in found}) == len(found)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--methods", "sarra"], "unknown method 'sarra'"),
        (["--populations", "flatt"], "unknown population 'flatt'"),
        (["--parts", "target,fixed"], "unknown part 'fixed'"),
        (["--dapo-ledger", "0.5"], "--dapo-ledger 0.5: must be at least 1"),
        (["--seeds", "0"], "--seeds 0: must be at least 1"),
        (["--static-prompts", "3"], "--static-prompts 3"),
        (["--target-methods", "sara"], "add uniform"),
        (["--group-sizes", "4"], "--group-sizes"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, words, line, capsys)


@pytest.mark.slow
def test_the_smoke_preset_reports_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = smoke_report(main, tmp_path, capsys)
    assert "Fresh streams" in first and "Prompts that stand still" in first
    folder = tmp_path / "csv"
    words = ["--preset", "smoke", "--results-dir", str(tmp_path), "--export", str(folder)]
    assert main(words) == 0
    lines = (folder / "pass_at_k.csv").read_text().splitlines()
    assert lines[0] == "kind,regime,method,seeds,k,pass_at_k,low,high"
    curve = json.loads((tmp_path / "out.json").read_text())["pass_at_k"]
    assert [line.split(",")[4] for line in lines[1:]] == [str(row["k"]) for row in curve]
    for row, after in itertools.pairwise(curve):
        assert after["k"] == 1 or row["pass_at_k"] < after["pass_at_k"] <= 1
