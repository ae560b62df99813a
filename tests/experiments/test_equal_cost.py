"""Methods at equal cost: what they spend, what they hand out, and how they are ranked."""

import functools
import math
from typing import Any

import numpy as np
import pytest

from experiments import equal_cost_ranking, estimator_tables, tables
from experiments.equal_cost_methods import METHODS
from experiments.equal_cost_problem import (
    SCHEMA,
    Outcome,
    Problem,
    Sizes,
    indices,
    make_problem,
    rmse,
    row_of,
)
from experiments.equal_cost_ranking import ranking_rows
from experiments.estimator_sentences import sentences
from experiments.estimator_validation import PRESETS
from models.tabular.catalogue import builtin
from tests.stat_asserts import assert_counts, assert_rejected
from theory.exact import (
    base_law,
    expected_length,
    laws_after,
    proposal_law,
    sequence_space,
    suffix_transition,
    temperature_law,
    unroll,
)
from theory.exact.importance_moments import self_normalised_moments, weighted_draw
from theory.exact.laws import power_law
from theory.mcmc import uniform_cut

ALPHA = 4.0
CHAINS = [
    name
    for name, method in METHODS.items()
    if method.kind == "approximate draws" and name != "particle_gibbs"
]


@functools.cache
def problem() -> Problem:
    return make_problem("toy-e", builtin("toy-e").make(), ALPHA)


@functools.cache
def outcomes(name: str) -> list[Outcome]:
    smoke = PRESETS["smoke"].config
    sizes = Sizes(smoke.num_draws, smoke.accepted, smoke.moves, smoke.replicates, 1)
    return METHODS[name].run(problem(), sizes)


def counts(outcome: Outcome) -> np.ndarray:
    return np.bincount(outcome.rows, minlength=problem().target.size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["importance_base", "importance_temperature", "rejection", *CHAINS]
)
def test_rows_follow_the_law_that_is_known_of_them(name: str) -> None:
    found = outcomes(name)
    for outcome in found[:2]:
        assert outcome.law is not None
        assert_counts(counts(outcome), outcome.law)
    first, last = found[0], found[-1]
    if METHODS[name].kind != "exact draws":
        assert last.law is not None
        late = last.law
        assert_rejected(lambda: assert_counts(counts(first), late))
    gaps = [np.abs(each.law - problem().target).sum() for each in found if each.law is not None]
    assert gaps == sorted(gaps, reverse=True)


@pytest.mark.slow
def test_rows_whose_law_is_not_computed_come_near_the_target() -> None:
    for name in ("smc", "particle_gibbs"):
        first, *_, last = (row_of(problem(), name, "", each) for each in outcomes(name))
        assert not first["tv_is_exact"]
        assert last["tv"] < first["tv"] / 2


def test_errors_of_weighted_rows_are_the_exact_ones() -> None:
    layers = unroll(problem().table)
    draw = weighted_draw(power_law(layers, ALPHA).law, base_law(layers), len)
    truth = problem().truth[0]

    last = outcomes("importance_base")[-1]
    root, error = rmse(last.length, truth)

    def expected(size: int) -> float:
        exact = self_normalised_moments(draw, size)
        return math.sqrt((exact.mean - truth) ** 2 + exact.variance)

    assert abs(root - expected(last.size)) < 5 * error
    assert abs(root - expected(2 * last.size)) > 5 * error


def test_rejection_is_the_mean_of_independent_draws() -> None:
    lengths, target = problem().lengths, problem().target
    variance = target @ (lengths - problem().truth[0]) ** 2
    for outcome in outcomes("rejection"):
        root, error = rmse(outcome.length, problem().truth[0])
        assert abs(root - math.sqrt(variance / outcome.size)) < 5 * error


@pytest.mark.slow
def test_tokens_are_those_of_the_ledger() -> None:
    layers = unroll(problem().table)
    for name, law in (
        ("importance_base", base_law(layers)),
        ("importance_temperature", temperature_law(layers, ALPHA)),
    ):
        for outcome in outcomes(name):
            tokens = outcome.size * expected_length(law)
            assert outcome.cost["generated_tokens"] == pytest.approx(tokens, rel=0.03)
            assert outcome.cost["prefill_tokens"] == 0
    # One proposal is accepted with probability 1 / max(pi / p).
    bound = float(np.max(problem().target / np.exp(problem().space.records.log_p.sum(axis=1))))
    for outcome in outcomes("rejection"):
        tokens = outcome.size * bound * expected_length(base_law(layers))
        assert outcome.cost["generated_tokens"] == pytest.approx(tokens, rel=0.03)
    # A suffix move reads the token before its cut again, unless it cuts at the prompt, as independence moves always do.
    space = sequence_space(problem().table, 1.0)
    inner_cuts = 1 - 1 / space.records.lengths
    kernel = suffix_transition(space, ALPHA, uniform_cut()).matrix
    for outcome in outcomes("suffix_base"):
        before_moves = laws_after(kernel, proposal_law(space), outcome.size - 1)
        tokens = float((before_moves @ inner_cuts).sum())
        assert outcome.cost["prefill_tokens"] == pytest.approx(tokens, rel=0.05)
    for outcome in outcomes("independence_base"):
        assert outcome.cost["prefill_tokens"] == 0
    entropy, uniform = outcomes("suffix_entropy"), outcomes("suffix")
    assert all(
        a.cost["prefill_tokens"] > 2 * b.cost["prefill_tokens"]
        for a, b in zip(entropy, uniform, strict=True)
    )
    tries, tempering = outcomes("multiple_try")[-1], outcomes("tempering")[-1]
    assert tries.cost["generated_tokens"] > 2 * uniform[-1].cost["generated_tokens"]
    # Both rungs read every sequence again after an exchange, besides the tokens before their cuts.
    assert tempering.cost["prefill_tokens"] > 4 * uniform[-1].cost["prefill_tokens"]


def test_a_chain_averages_its_states_and_the_last_is_the_row() -> None:
    one, *_ = outcomes("suffix_base")
    assert one.size == 1
    np.testing.assert_array_equal(one.length, problem().lengths[one.rows])
    np.testing.assert_array_equal(one.first, problem().first[one.rows])


def test_every_sequence_is_found_in_the_list() -> None:
    for model in ("toy-e", "toy-d"):
        here = make_problem(model, builtin(model).make(), 2.0)
        found = indices(here, here.space.tokens, here.lengths)
        np.testing.assert_array_equal(found, np.arange(here.target.size))


def test_a_row_has_the_errors_of_its_estimates() -> None:
    here = problem()
    size = here.target.size
    cost = {"generated_tokens": 3.0, "prefill_tokens": 2.0, "model_calls": 4.0}
    length, first = here.truth
    estimates = np.array([length + 3.0, length - 1.0])
    outcome = Outcome(2, cost, estimates, np.full(2, first), np.array([0, 0]), None)
    row = row_of(here, "m", "kind", outcome)
    assert row["rmse_length"] == pytest.approx(math.sqrt(5.0))
    assert row["rmse_length_error"] == pytest.approx(
        np.std([9.0, 1.0], ddof=1) / math.sqrt(2) / (2 * math.sqrt(5.0))
    )
    assert (row["rmse_first_token"], row["all_tokens"]) == (0.0, 5.0)
    assert row["tv"] == pytest.approx(1 - here.target[0]) and not row["tv_is_exact"]
    uniform = outcome._replace(law=np.full(size, 1 / size))
    assert row_of(here, "m", "kind", uniform)["tv"] == pytest.approx(
        np.abs(1 / size - here.target).sum() / 2
    )


def test_the_noise_of_exact_draws_is_what_exact_draws_show() -> None:
    here, rng = problem(), np.random.default_rng(0)
    cost = {"generated_tokens": 1.0, "prefill_tokens": 0.0, "model_calls": 1.0}
    found: list[dict[str, Any]] = []
    for _ in range(50):
        rows = rng.choice(here.target.size, 10_000, p=here.target)
        outcome = Outcome(1, cost, np.zeros(10_000), np.zeros(10_000), rows, None)
        found.append(row_of(here, "m", "kind", outcome))
    assert np.mean([row["tv"] for row in found]) == pytest.approx(found[0]["tv_noise"], rel=0.1)


def curve(method: str, generated: list[float], prefill: float, errors: list[float]) -> list[Any]:
    """Rows of a method whose prefill is a multiple of what it generates."""
    return [
        {
            "model": "m", "alpha": 2.0, "method": method, "kind": "weighted rows", "size": place,
            "generated_tokens": tokens, "prefill_tokens": prefill * tokens,
            "all_tokens": (1 + prefill) * tokens, "model_calls": 4.0,
            "rmse_length": error, "rmse_length_error": error / 100,
            "rmse_first_token": error, "rmse_first_token_error": error / 100,
            "tv": 0.5, "tv_is_exact": True, "tv_noise": 0.0, "replicates": 100,
        }
        for place, (tokens, error) in enumerate(zip(generated, errors, strict=True))
    ]  # fmt: skip


def test_ranks_are_read_off_the_curves_and_reversals_are_named() -> None:
    rows = curve("frugal", [1.0, 100.0], 0.0, [1.0, 0.1])
    rows += curve("reader", [1.0, 100.0], 9.0, [0.5, 0.05])
    rows += curve("short", [1.0, 5.0], 0.0, [0.01, 0.001])
    cost = tables.from_rows(SCHEMA, rows)
    found = ranking_rows(cost, (10.0,))
    by_column = {
        column: [row for row in found if (row["matched"], row["metric"]) == (column, "rmse_length")]
        for column in ("generated_tokens", "all_tokens")
    }
    generated, everything = by_column["generated_tokens"], by_column["all_tokens"]
    assert [(row["method"], row["rank"]) for row in generated] == [("reader", 1), ("frugal", 2)]
    assert [(row["method"], row["rank"]) for row in everything] == [("frugal", 1), ("reader", 2)]
    # Ten tokens are half the way from 1 to 100 on the logarithmic scale.
    assert generated[1]["error"] == pytest.approx(math.sqrt(0.1))
    assert generated[0]["error"] == pytest.approx(0.5 * math.sqrt(0.1))
    assert everything[1]["error"] == pytest.approx(0.5)
    assert generated[0]["reverses_with"] == "frugal" and generated[1]["reverses_with"] == "reader"


def test_an_order_that_noise_could_turn_is_no_reversal() -> None:
    rows = curve("a", [1.0, 100.0], 0.0, [1.0, 0.1]) + curve("b", [1.0, 100.0], 0.05, [0.99, 0.099])
    found = ranking_rows(tables.from_rows(SCHEMA, rows), (10.0,))
    assert {row["reverses_with"] for row in found} == {""}


def test_sentences_name_the_winner_and_the_reversal() -> None:
    rows = curve("frugal", [1.0, 100.0], 0.0, [1.0, 0.1])
    rows += curve("reader", [1.0, 100.0], 9.0, [0.5, 0.05])
    cost = tables.from_rows(SCHEMA, rows)
    ranking = ranking_rows(cost, (10.0,))
    row = {
        "sweep": "alpha", "model": "m", "alpha": 2.0, "proposal": "base", "proposal_alpha": 1.0,
        "length": 4, "num_draws": 2, "method": "importance", "quantity": "evidence", "value": "length",
        "truth": 1.0, "exact_bias": 0.0, "exact_variance": 1.0, "bias": 1.0, "bias_error": 0.1,
        "variance": 1.0, "variance_error": 0.1, "replicates": 100, "seed": 0,
    }  # fmt: skip
    agreement, length, first, reversal, kinds = sentences(
        {
            "table": tables.from_rows(estimator_tables.SCHEMA, [row]),
            "cost": cost,
            "ranking": tables.from_rows(equal_cost_ranking.SCHEMA, ranking),
        }
    )
    assert "1 contradict it" in agreement and "gap is 10 (importance evidence" in agreement
    assert "10 tokens generated or read: frugal has the least RMSE of E[length], 0.316" in length
    assert "P(first token)" in first
    assert reversal.endswith("The order depends on which for frugal and reader on m.")
    assert kinds == "Weighted rows: frugal, reader."
