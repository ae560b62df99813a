"""Var(Z_hat) at a finite number of particles: the reference, every population listed, and both ends of N."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.tabular.files import read_model
from models.tabular.toys import toy_e
from tests.conftest import ROOT
from tests.theory.exact.tables import Recipe, markov, recipes
from theory.errors import InvalidInput
from theory.exact import (
    Law,
    Layers,
    base_law,
    chi_square,
    make_context_table,
    num_sequences,
    power_law,
    smc_finite_variance,
    temperature_law,
    unroll,
)
from theory.exact.smc_finite_variance import (
    adapted_relative_variance,
    every_step_relative_variance,
    twisted_relative_variance,
)
from theory.exact.smc_population import adapted_filter, plain_filter, weighted_filter
from theory.exact.smc_variance import adapted_variance_terms, every_step_variance_terms

exponents = st.sampled_from([0.5, 1.0, 2.0, 4.0])


def test_reference_values(reference_cases: list[dict[str, Any]]) -> None:
    checked = 0
    for number, case in enumerate(reference_cases):
        path = ROOT / "tests" / "data" / "reference" / f"case-{number}.json"
        layers = unroll(read_model(path).table)
        for truth in case["smc_variance"]:
            alpha = float(truth["alpha"])
            power, proposal = power_law(layers, alpha), temperature_law(layers, alpha)
            for row in truth["by_n"]:
                found = every_step_relative_variance(power, proposal, row["n"])
                scaled = row["n"] * found
                assert scaled == pytest.approx(row["n_times_relative_variance"], rel=1e-11)
                assert found * math.exp(2 * power.log_Z) == pytest.approx(
                    row["z_variance"], rel=1e-11
                )
                checked += 1
    assert checked == 8 * len(reference_cases)


def test_reference_values_of_the_adapted_filter(reference_cases: list[dict[str, Any]]) -> None:
    checked = 0
    for number, case in enumerate(reference_cases):
        path = ROOT / "tests" / "data" / "reference" / f"case-{number}.json"
        layers = unroll(read_model(path).table)
        for truth in case.get("smc", []):
            if truth["kind"] == "adapted":
                alpha = float(truth["alpha"])
                found = adapted_relative_variance(layers, alpha, truth["n"])
                scale = math.exp(2 * power_law(layers, alpha).log_Z)
                assert found * scale == pytest.approx(truth["z_variance"], rel=1e-11)
                checked += 1
    assert checked >= 5


@settings(max_examples=30)
@given(recipes, exponents, exponents, st.integers(1, 3))
def test_equals_the_sum_over_populations(
    recipe: Recipe, alpha: float, beta: float, num_particles: int
) -> None:
    layers = unroll(recipe.build())
    assume(num_sequences(layers) ** num_particles < 200)
    power, proposal = power_law(layers, alpha), temperature_law(layers, beta)
    every_step = range(1, len(layers))
    plain = plain_filter(alpha, proposal, num_particles, every_step).evidence
    adapted = adapted_filter(layers, alpha, num_particles).evidence
    assert every_step_relative_variance(power, proposal, num_particles) == pytest.approx(
        plain.relative_variance, rel=1e-9, abs=1e-14
    )
    assert adapted_relative_variance(layers, alpha, num_particles) == pytest.approx(
        adapted.relative_variance, rel=1e-9, abs=1e-14
    )


@given(recipes, exponents, exponents)
def test_one_particle_is_one_draw_and_many_reach_the_limit(
    recipe: Recipe, alpha: float, beta: float
) -> None:
    layers = unroll(recipe.build())
    power, proposal = power_law(layers, alpha), temperature_law(layers, beta)
    tempered = temperature_law(layers, alpha)
    one = every_step_relative_variance(power, proposal, 1)
    assert one == pytest.approx(chi_square(power.law, proposal), rel=1e-9, abs=1e-12)
    adapted = adapted_relative_variance(layers, alpha, 1)
    assert adapted == pytest.approx(chi_square(power.law, tempered), rel=1e-9, abs=1e-12)
    # The next term is of order 1 / N.
    many = 10**9
    every_step = many * every_step_relative_variance(power, proposal, many)
    limit = every_step_variance_terms(layers, alpha, beta).sum()
    assert every_step == pytest.approx(limit, rel=1e-5, abs=1e-12)
    adapted = many * adapted_relative_variance(layers, alpha, many)
    limit = adapted_variance_terms(layers, alpha).sum()
    assert adapted == pytest.approx(limit, rel=1e-5, abs=1e-12)


@given(recipes, st.integers(1, 100))
def test_equal_weights_leave_no_variance(recipe: Recipe, num_particles: int) -> None:
    layers = unroll(recipe.build())
    power = power_law(layers, 1.0)
    assert every_step_relative_variance(power, base_law(layers), num_particles) < 1e-25
    assert adapted_relative_variance(layers, 1.0, num_particles) < 1e-25


@settings(max_examples=20)
@given(recipes, exponents, exponents, st.integers(0, 100))
def test_twists_equal_the_sum_over_populations(
    recipe: Recipe, alpha: float, beta: float, seed: int
) -> None:
    layers = unroll(recipe.build())
    assume(num_sequences(layers) < 12)
    rng = np.random.default_rng(seed)
    twists = [rng.normal(size=layer.contexts.size) for layer in layers]
    power, proposal = power_law(layers, alpha), temperature_law(layers, beta)
    weights = twisted_log_weights(layers, alpha, proposal, twists)
    run = weighted_filter(proposal, weights, 2, range(1, len(layers)))
    assert run.evidence.log_mean == pytest.approx(power.log_Z, rel=1e-9, abs=1e-12)
    found = twisted_relative_variance(power, proposal, lambda t: twists[t], 2)
    assert found == pytest.approx(run.evidence.relative_variance, rel=1e-8, abs=1e-13)


def test_an_exact_twist_needs_its_own_proposal() -> None:
    layers = unroll(toy_e())
    power = power_law(layers, 4.0)
    exact = power.log_lookahead
    assert twisted_relative_variance(power, power.law, lambda t: exact[t], 2) < 1e-25
    # Without it, and with the proposal of the token temperature, the variance stays.
    tempered = temperature_law(layers, 4.0)
    assert twisted_relative_variance(power, tempered, lambda t: exact[t], 2) > 0.1
    assert every_step_relative_variance(power, power.law, 2) > 0.1


def twisted_log_weights(
    layers: Layers, alpha: float, proposal: Law, twists: list[np.ndarray]
) -> Callable[[int], np.ndarray]:
    """Weights (p^alpha / q) psi(xv) / psi(x), psi(empty) and psi(ended) being 1."""

    def log_weights(depth: int) -> np.ndarray:
        layer = layers[depth]
        ahead = np.append(twists[depth + 1] if depth + 1 < len(layers) else [], 0.0)
        behind = twists[depth] if depth else np.zeros(1)
        possible = np.isfinite(layer.log_probs)
        plain = alpha * np.where(possible, layer.log_probs, 0.0)
        plain -= np.where(possible, proposal.log_conditional(depth), 0.0)
        return plain + ahead[layer.successor] - behind[:, None]

    return log_weights


def test_digits_of_a_tiny_variance() -> None:
    # Nearly uniform rows: the variance is of the order of eps^4, far below the rounding of E[Z_hat^2] - Z^2.
    eps = 1e-5
    rows = np.log([[0.5, 0.5], [0.5 + eps, 0.5 - eps], [0.5, 0.5]])
    table = make_context_table(rows, np.tile([1, 2], (3, 1)), 0, (), 2)
    layers = unroll(table)
    # Only the second step weighs: z(a) / z(b) = 1 + 4 eps^2 at alpha = 2, and the first token is a fair coin.
    found = every_step_relative_variance(power_law(layers, 2.0), temperature_law(layers, 2.0), 8)
    assert found == pytest.approx((4 * eps**2) ** 2 / 4 / 8, rel=1e-5)


def test_the_limit_is_not_the_variance_at_sixteen_particles() -> None:
    layers = unroll(toy_e())
    power, proposal = power_law(layers, 4.0), temperature_law(layers, 4.0)
    limit = every_step_variance_terms(layers, 4.0, 4.0).sum()
    assert limit == pytest.approx(22.982132, rel=1e-7)
    ratio = 16 * every_step_relative_variance(power, proposal, 16) / limit
    assert 0.96 < ratio < 0.97  # a z-test against the limit would fail a sound sampler


def test_cost_is_linear_in_the_horizon() -> None:
    layers = unroll(markov(np.random.default_rng(0), 16, 512, (3,)))
    power, proposal = power_law(layers, 2.0), temperature_law(layers, 2.0)
    value = 64 * every_step_relative_variance(power, proposal, 64)
    limit = every_step_variance_terms(layers, 2.0, 2.0).sum()
    assert 0.5 < value / limit < 1.5


def test_bad_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = unroll(toy_e())
    power = power_law(layers, 2.0)

    def truncated(depth: int) -> np.ndarray:
        return np.log([[0.0, 0.5, 0.5]] * layers[depth].contexts.size)

    with pytest.raises(InvalidInput, match="0 particles"):
        every_step_relative_variance(power, base_law(layers), 0)
    with pytest.raises(InvalidInput, match="0 particles"):
        adapted_relative_variance(layers, 2.0, 0)
    with np.errstate(divide="ignore"), pytest.raises(InvalidInput, match="token 0 after 0 tokens"):
        every_step_relative_variance(power, Law(layers, truncated), 2)
    wide = unroll(markov(np.random.default_rng(0), 4, 2))
    monkeypatch.setattr(smc_finite_variance, "MAX_CONTEXTS", 2)
    with pytest.raises(InvalidInput, match="4 contexts at one depth: more than the 2"):
        every_step_relative_variance(power_law(wide, 2.0), base_law(wide), 2)
