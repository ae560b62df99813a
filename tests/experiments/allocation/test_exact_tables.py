"""The exact tables against closed forms in NumPy, against each other, and what may not hold anywhere."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest
from scipy import stats

from experiments.allocation.exact_tables import (
    comparison,
    hora_batches,
    objective_of_rules,
    pilot_commit_filing,
    sara_dominance,
    sara_sweep,
)
from experiments.allocation.exact_tables.comparison import Compared, printed_range
from experiments.allocation.exact_tables.laws import EVEN, HARD, LAWS, PUBLISHED
from experiments.allocation.exact_tables.objective_of_rules import NamedRule, phi
from experiments.allocation.moments import log_moment
from experiments.allocation.regimes import Population
from experiments.allocation_tables import main
from tests.experiments.allocation.commands import assert_refused
from theory.allocation.policies.sara import TAU_LOW
from theory.exact.allocation.claims import flat_stop


def mixed(population: Population, *sizes: int) -> np.ndarray:
    """P(a group is mixed) of several sizes, by moments."""
    k = np.array(sizes)
    return 1 - np.exp(log_moment(population, k, 0 * k)) - np.exp(log_moment(population, 0 * k, k))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("0.92", 0.915, 0.925),
        ("21.9 %", 0.2185, 0.2195),
        ("-6 %", -0.065, -0.055),
        ("1.5 to 1.9", 1.45, 1.95),
        ("0.716 +- 0.007", 0.709, 0.723),
        ("3", 2.5, 3.5),
        ("about 8.6 %", 0.0817, 0.0903),
        ("0 +- 1e-12", -1e-12, 1e-12),
    ],
)
def test_a_printed_number_stands_for_all_that_round_to_it(
    text: str, low: float, high: float
) -> None:
    assert printed_range(text) == pytest.approx((low, high), rel=1e-12)


def test_a_number_is_reached_or_not_and_nothing_in_between() -> None:
    found = comparison.rows(
        "T",
        [
            Compared("s", "q", value, "81.2 %", "second-hand")
            for value in (0.8114, 0.8116, 0.8124, 0.8126)
        ],
    )
    assert [row["verdict"] for row in found] == ["not reached", "reached", "reached", "not reached"]


@pytest.mark.slow
def test_the_sweep_is_the_closed_forms_of_the_claims() -> None:
    """Costs and errors from q_m and P alone, in NumPy; the last stop is dynamic sampling."""
    size = 8
    sweep = sara_sweep.sweep(PUBLISHED, size)
    rows = sara_sweep.sweep_rows([sweep])
    full = mixed(PUBLISHED, size)[0]
    q = mixed(PUBLISHED, *(row["stop"] for row in rows))
    m = np.array([row["stop"] for row in rows])
    cost = size + m * (1 - q) / q
    np.testing.assert_allclose([row["cost"] for row in rows], cost, rtol=1e-12)
    np.testing.assert_allclose(
        [row["saving"] for row in rows], 1 - cost * full / size, rtol=1e-10, atol=1e-13
    )
    np.testing.assert_allclose(
        [row["missed_share"] for row in rows], (full - q) / full, rtol=1e-10, atol=1e-13
    )
    np.testing.assert_allclose(
        [row["false_abandonment"] for row in rows], (full - q) / (1 - q), rtol=1e-10, atol=1e-13
    )
    for row in rows:
        assert flat_stop(row["threshold"], size) == row["stop"]
    times = sara_sweep.time_rows([sweep])
    decided = sum(row["committed"] + row["abandoned"] for row in times)
    assert decided == pytest.approx(1, abs=1e-13)
    assert {row["step"] for row in times if row["abandoned"] > 0} == {flat_stop(TAU_LOW, size)}
    missed = rows[flat_stop(TAU_LOW, size) - 2]["missed_share"]
    committed = sum(row["committed_of_effective"] for row in times)
    assert committed + missed == pytest.approx(1, abs=1e-13)
    found = sara_sweep.comparisons([sweep])
    # Both were worked out to a unit in the last place.
    off = {(row["setting"], row["quantity"]) for row in found if row["verdict"] != "reached"}
    assert len(found) == 20 and off == {
        (f"published, n = 8, tau {tau}", "false abandonment") for tau in (0.35, 0.67)
    }


@functools.cache
def region() -> list[comparison.Row]:
    """Of groups of five."""
    return sara_dominance.region_rows((5,))


def cells(family: str, parameters: np.ndarray, size: int, stop: int) -> np.ndarray:
    """Savings of members of a family, in NumPy."""
    out: list[float] = []
    for share, a in zip(*sara_dominance.FAMILIES[family](parameters), strict=True):
        law = Population(
            "member", ((1 - share, a, a),), ((share / 2, 0.0), (share / 2, 1.0)) if share else ()
        )
        full, q = mixed(law, size, stop)
        out.append(1 - (size + stop * (1 - q) / q) * full / size)
    return np.array(out)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "beta-2.5-and-atoms" else name
        for name in sara_dominance.FAMILIES
    ],
)
def test_the_failure_region_ends_where_the_saving_is_nothing(family: str) -> None:
    """In NumPy, at the edge that was found; below it the saving is less, above it more, so that there is one edge."""
    rows = [row for row in region() if row["family"] == family]
    grid = np.linspace(0.0213, 0.9713, 25)
    for row in rows:
        along = cells(family, grid, row["group_size"], row["stop"])
        if math.isnan(row["parameter"]):
            assert along.max() < row["saving"]
        else:
            np.testing.assert_array_equal(along > row["saving"], grid > row["parameter"])
            at = cells(family, np.array([row["parameter"]]), row["group_size"], row["stop"])
            assert at[0] == pytest.approx(row["saving"], abs=1e-8)


def test_the_parameter_of_a_family_is_what_it_is_said_to_be() -> None:
    """The correlation of two rollouts of one prompt, Var p / (E p (1 - E p)); or the share of prompts at 0 or 1."""
    spread = np.array([0.1, 1 / 3, 0.9])
    share, a = sara_dominance.FAMILIES["beta-a-a"](spread)
    np.testing.assert_allclose(4 * np.asarray(stats.beta.var(a, a)), spread, rtol=1e-12)
    assert not share.any()
    for family, of_rest in (("beta-2.5-and-atoms", 2.5), ("flat-and-atoms", 1.0)):
        share, a = sara_dominance.FAMILIES[family](spread)
        np.testing.assert_array_equal(share, spread)
        np.testing.assert_array_equal(a, of_rest)
    for family in sara_dominance.FAMILIES:
        with jax.enable_x64(True):
            law = sara_dominance.family_law(family, spread)
            weights = np.concatenate([law.log_weights, law.log_point_weights], axis=1)
        np.testing.assert_allclose(np.exp(weights).sum(axis=1), 1, rtol=1e-12)


def test_one_rate_for_all_is_a_loss_whatever_the_rate_the_stop_and_the_size() -> None:
    """Outcomes are independent then: 1 / (P(all alike) after k rollouts) is convex in k, so that odds(q_k) / k grows with k."""
    for rate in (1e-6, 0.02, 0.1, 0.3, 0.5, 0.77, 0.99):
        sizes = np.arange(2, 65)
        alike = rate**sizes + (1 - rate) ** sizes
        assert np.all(np.diff((1 - alike) / alike / sizes) > 0)


@pytest.mark.slow
def test_dominance_holds_where_rollouts_are_saved_and_agrees_with_the_sweep() -> None:
    rows = sara_dominance.dominance_rows((8, 16))
    for row in rows:
        assert row["holds"] == (row["saving"] > 0) == (row["margin"] > 0)
        if row["population"] in (EVEN.name, HARD.name):
            assert not row["holds"]
    for size in (8, 16):
        mine = {
            row["stop"]: row["saving"]
            for row in rows
            if (row["population"], row["group_size"]) == ("beta-.3-.3", size)
        }
        swept = sara_sweep.sweep_rows([sara_sweep.sweep(LAWS["beta-.3-.3"], size)])
        for row in swept[:-1]:
            assert mine[row["stop"]] == pytest.approx(row["saving"], rel=1e-9)
    found = {row["quantity"]: row for row in sara_dominance.comparisons(rows)}
    assert found["saving if every group drawn is mixed"]["verdict"] == "reached"
    assert found["saving with only prompts of its Beta"]["verdict"] == "not reached"


def test_the_best_value_is_that_of_every_allocation() -> None:
    """Over all ways to spend seven rollouts on three prompts; greedy has it for falling rows and misses it for others."""
    rng = np.random.default_rng(0)
    total = 7
    for _ in range(5):
        rows = rng.random((3, total))
        ways = [w for w in itertools.product(range(total + 1), repeat=3) if sum(w) == total]

        def value(way: tuple[int, ...], rows: np.ndarray = rows) -> float:
            return sum(float(row[:m].sum()) for row, m in zip(rows, way, strict=True))

        assert hora_batches.best_value(rows, total) == pytest.approx(max(map(value, ways)))
        falling = -np.sort(-rows, axis=1)
        chosen = hora_batches.greedy(falling, total)
        assert value(tuple(chosen), falling) == pytest.approx(
            hora_batches.best_value(falling, total)
        )
    rising = np.array([[0.0, 1.0], [0.6, 0.0]])
    assert hora_batches.best_value(rising, 2) == 1.0


def test_the_worked_examples_of_hora_are_best() -> None:
    rows = hora_batches.optimality_rows()
    assert [row["greedy"] for row in rows] == ["25 15 10 6 4", "21 20 20 13 8 6 4 4"]
    for row in rows:
        assert row["greedy_value"] == pytest.approx(row["best_value"], abs=1e-12)


@pytest.mark.slow
def test_a_cap_lowers_the_largest_group_and_hits_and_equal_groups_are_known() -> None:
    rows = {(row["population"], row["rule"], row["cap"]): row for row in hora_batches.capped_rows()}
    for population in hora_batches.POPULATIONS:
        equal = rows[population.name, "uniform", 0]
        k, nothing = np.array([16]), np.array([0])
        hit = 1 - np.exp(log_moment(population, nothing, k))[0]
        assert equal["hit"] == pytest.approx(hit, rel=1e-10)
        assert equal["mixed"] == pytest.approx(mixed(population, 16)[0], rel=1e-10)
        assert equal["largest"] == 16 and equal["mean_largest"] == pytest.approx(16)
        for rule in ("hora", "mass-aware"):
            free, capped = rows[population.name, rule, 0], rows[population.name, rule, 32]
            assert capped["largest"] == 32 < free["largest"]
            assert equal["hit"] < capped["hit"] <= free["hit"]


@pytest.mark.slow
def test_misfile_curves_are_binomial_sums() -> None:
    k, size = 4, 16
    rows = pilot_commit_filing.misfile_rows((k,))
    rates = np.array([row["rate"] for row in rows])
    pmf = stats.binom.pmf(np.arange(k + 1), k, rates[:, None])
    np.testing.assert_allclose([row["too_hard"] for row in rows], pmf[:, 0], atol=1e-14)
    np.testing.assert_allclose([row["too_easy"] for row in rows], pmf[:, 4], atol=1e-14)
    alike = rates**size + (1 - rates) ** size
    np.testing.assert_allclose([row["mixed"] for row in rows], 1 - alike, atol=1e-13)
    # Screened out by equal pilots, mixed by a commit that differs.
    lost = rates**k * (1 - rates ** (size - k)) + (1 - rates) ** k * (1 - (1 - rates) ** (size - k))
    np.testing.assert_allclose([row["mixed_lost"] for row in rows], lost, atol=1e-13)


def test_the_share_of_mastered_prompts_gives_the_published_share_back() -> None:
    once, twice = 1 / 17, 1 / 33
    w = pilot_commit_filing.mastered_share(once, twice)
    again = (w + (1 - w) * twice) / (w + (1 - w) * once)
    assert again == pytest.approx(pilot_commit_filing.SOLVED_AGAIN, rel=1e-12)
    assert math.isnan(pilot_commit_filing.mastered_share(0.5, 0.45))


@pytest.mark.slow
def test_phi_of_full_groups_is_one_and_a_screen_of_four_is_a_stop_at_four() -> None:
    rates = np.array([0.0, 0.02, 0.1, 0.5, 0.9, 1.0])
    full = phi(objective_of_rules.RULES[0], rates)
    np.testing.assert_allclose(full["leave-one-out"], 1, rtol=1e-12)
    counts = np.arange(17)
    inside = rates[1:-1]
    weights = np.sqrt(counts * (16 - counts)) / 16
    pushes = stats.binom.pmf(counts, 16, inside[:, None]) @ weights
    np.testing.assert_allclose(
        full["standardised"][1:-1], pushes / (inside * (1 - inside)), rtol=1e-12
    )
    stopped = phi(NamedRule("", 16, 0, 4), rates)["leave-one-out"]
    # Four equal outcomes drop the group: E[X (n - X); not dropped] / (n (n - 1) p (1 - p)).
    for place, p in enumerate(inside.tolist()):
        first = stats.binom.pmf(np.arange(5), 4, p)
        first[[0, 4]] = 0
        law = np.convolve(first, stats.binom.pmf(np.arange(13), 12, p))
        kept = law @ (counts * (16 - counts)) / (16 * 15 * p * (1 - p))
        assert stopped[1 + place] == pytest.approx(kept, rel=1e-11)
    screened = phi(NamedRule("", 16, 4, 4), rates)["leave-one-out"]
    np.testing.assert_allclose(screened, stopped, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--tables", "sarra"], "unknown family of tables 'sarra'"),
        (["--populations", "flatt"], "unknown population 'flatt'"),
        (["--pilots", "2"], "--pilots 2: give at least one, each in 4..256"),
        (["--cost-sizes", "18"], "--cost-sizes: each must be a multiple of 4"),
        (["--group-sizes", "2"], "--group-sizes 2"),
        (["--group-sizes", "65"], "each in 3..64: laws of logits are exact up to there"),
        (["--cost-sizes", "8"], "--cost-sizes 8"),
        (["--region-sizes", "1000"], "--region-sizes 1000"),
        (["--updates", "0"], "--updates 0: must be at least 1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, words, line, capsys)


def test_no_table_leaves_float64_on() -> None:
    sara_dominance.region_rows((5,))
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
