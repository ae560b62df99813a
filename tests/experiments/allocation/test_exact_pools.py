"""The exact tables of pools and ledgers: priors, trades, costs and accounting, and the whole command."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import special

from experiments.allocation.exact_tables import (
    accounting,
    hora_priors,
    hora_trade,
    pilot_commit_costs,
    pilot_commit_filing,
)
from experiments.allocation.exact_tables.figure_tables import figure_tables
from experiments.allocation.exact_tables.laws import LAWS, on_host, prior
from experiments.allocation.moments import log_moment
from experiments.allocation_tables import PRESETS, SCHEMAS, main
from paper_figures.build import HOME, read_table

pytestmark = pytest.mark.slow


def test_the_ledger_keeps_its_identities_and_loses_no_rollout() -> None:
    found = accounting.rows(2, 8)
    assert {row["verdict"] for row in accounting.comparisons(found)} == {"reached"}
    assert any(row["epochs_ended"] for row in found) and any(row["held"] for row in found)
    # A rollout that goes missing anywhere breaks an identity.
    for column in ("explore", "commit", "sampled", "trained", "dropped", "held"):
        broken = [dict(row) for row in found]
        broken[2][column] -= 1
        assert "not reached" in {row["verdict"] for row in accounting.comparisons(broken)}


@pytest.mark.parametrize("name", ["logit-normal-0-8", "logit-normal--2-4"])
def test_nodes_of_a_logit_normal_law_have_its_moments(name: str) -> None:
    s = np.arange(65)
    truth = log_moment(LAWS[name], s, 64 - s)
    with jax.enable_x64(True):
        law = on_host(prior(LAWS[name]))
    powers = special.xlogy(s[:, None], law.points) + special.xlog1py(64 - s[:, None], -law.points)
    found = np.asarray(special.logsumexp(law.log_point_weights + powers, axis=1))
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-11)


def test_learned_priors_are_bounded_by_the_law_and_equal_groups_are_known() -> None:
    rows = hora_priors.rows()
    for world in hora_priors.WORLDS:
        mine = {row["prior"]: row for row in rows if row["world"] == world.name}
        best = mine["best for hits, with the law known"]["hit"]
        assert len(mine) == 8 and all(row["hit"] <= best + 1e-12 for row in mine.values())
        assert mine["flat"]["hit_gain"] == 0
        before, weights = hora_priors._level_rates(world.concentration)  # pyright: ignore[reportPrivateUsage]
        now = special.expit(special.logit(before) + world.moved)
        equal = mine["none: equal groups"]
        hit = (weights * (1 - (1 - now) ** 16)).sum() / 5
        mixed = (weights * (1 - now**16 - (1 - now) ** 16)).sum() / 5
        np.testing.assert_allclose([equal["hit"], equal["mixed"]], [hit, mixed], rtol=1e-10)
    assert {row["verdict"] for row in hora_priors.comparisons(rows)} == {"reached"}


def test_hits_are_bought_with_mixed_groups() -> None:
    rows = {(row["population"], row["rule"]): row for row in hora_trade.rows()}
    for population in hora_trade.POPULATIONS:
        equal, hora, aware = (
            rows[population.name, rule] for rule in ("uniform", "hora", "mass-aware")
        )
        assert equal["hit"] < hora["hit"] <= aware["hit"]
        assert equal["mixed"] > hora["mixed"] > aware["mixed"]
        assert equal["largest"] == 16 < hora["largest"] < aware["largest"]
    found = hora_trade.comparisons(list(rows.values()))
    assert len(found) == 22 and {row["verdict"] for row in found} == {"reached"}


def test_costs_are_those_of_moments() -> None:
    """kappa, P and the push from the Beta-Binomial law in NumPy; uniform and dynamic sampling push alike for each rollout."""
    size, k = 16, 4
    for row in pilot_commit_costs.rows((size,)):
        law = LAWS[row["population"]]
        x = np.arange(size + 1)
        log_ways = -np.log(size + 1) - special.betaln(size - x + 1, x + 1)
        chances = np.exp(log_ways + log_moment(law, x, size - x))
        pilots = np.arange(k + 1)
        ways = special.comb(k, pilots)
        passing = (ways * np.exp(log_moment(law, pilots, k - pilots)))[1:4].sum()
        effective = chances[1:-1].sum()
        weights = np.sqrt(x * (size - x)) / size
        # Of the orders of x successes, those with equal pilots are dropped.
        alike = (special.comb(size - k, x - k) + special.comb(size - k, x)) / special.comb(size, x)
        pushed = (chances * (1 - alike)) @ weights / passing
        coded = k * max(3.0, 1 / passing) + size - k
        np.testing.assert_allclose(
            [row["kappa"], row["effective"], row["coded"], row["dynamic_sampling"]],
            [passing, effective, coded, size / effective],
            rtol=1e-10,
        )
        ratio = pushed / coded / (chances @ weights / size)
        assert row["push_coded"] == pytest.approx(ratio, rel=1e-10)
        assert row["push_dapo"] == pytest.approx(1 / max(3 * effective, 1.0), rel=1e-12)


def test_the_whole_command_reports_and_gives_its_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--preset", "smoke", "--results-dir", str(tmp_path), "--json", f"{tmp_path}/out.json"]
    assert main([*words, "--export", f"{tmp_path}/csv"]) == 0
    first = capsys.readouterr().out
    assert "Beside what was published" in first and "PC-2" in first
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(found) - {"table"} <= set(SCHEMAS) and found["table"]
    for path in (tmp_path / "csv").iterdir():
        assert read_table(path).num_rows
    assert main(words) == 0
    assert capsys.readouterr().out == first


def test_committed_figure_tables_are_those_of_the_program() -> None:
    """The curves of four pilots, computed anew."""
    k = 4
    rows = pilot_commit_filing.misfile_rows((k,))
    table = read_table(HOME / "tables" / "pilot_commit_misfile.csv").to_pylist()
    committed = [row for row in table if row["pilots"] == k]
    for name in ("rate", "screened_out", "mixed", "mixed_lost"):
        np.testing.assert_allclose(
            [row[name] for row in rows], [row[name] for row in committed], atol=1e-13
        )
    assert figure_tables({}) == {} and PRESETS["default"].config.pilots[0] == k
