"""Moments of importance sampling: against the reference, against every tuple of draws, and in their limits."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.tabular.files import read_model
from models.tabular.toys import toy_b, toy_e
from tests.conftest import ROOT
from tests.theory.exact.tables import Recipe, markov, recipes
from theory.errors import InvalidInput
from theory.exact import (
    Law,
    Layers,
    base_law,
    chi_square,
    num_sequences,
    power_law,
    temperature_law,
    unroll,
)
from theory.exact.importance_moments import (
    MeanVariance,
    WeightedDraw,
    delta_method,
    evidence_moments,
    self_normalised_moments,
    self_normalised_moments_by_enumeration,
    target_mean,
    unnormalised_moments,
    weighted_draw,
)

exponents = st.sampled_from([0.5, 1.0, 2.0, 4.0])
Moments = Callable[[WeightedDraw, int], MeanVariance]


def hashed(tokens: tuple[int, ...]) -> float:
    """A function of sequences without any structure."""
    return math.sin(1.0 + sum((i + 2) ** 2 * (v + 1) for i, v in enumerate(tokens)))


def draw_of(layers: Layers, alpha: float, beta: float) -> WeightedDraw:
    return weighted_draw(power_law(layers, alpha).law, temperature_law(layers, beta), hashed)


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-9, abs=1e-13)


def by_tuples(draw: WeightedDraw, num_draws: int) -> dict[str, MeanVariance]:
    """Mean and variance of all three estimators over every tuple of draws."""
    atoms = list(zip(*(part.tolist() for part in draw), strict=True))
    values: dict[str, list[tuple[float, float]]] = {"is": [], "snis": [], "evidence": []}
    for tuple_ in itertools.product(atoms, repeat=num_draws):
        probability = math.exp(math.fsum(log_prob for log_prob, _, _ in tuple_))
        total = math.fsum(math.exp(w) for _, w, _ in tuple_)
        weighted = math.fsum(math.exp(w) * f for _, w, f in tuple_)
        values["is"].append((probability, weighted / num_draws))
        values["snis"].append((probability, weighted / total if total else math.nan))
        values["evidence"].append((probability, total / num_draws))
    return {name: _moments(pairs) for name, pairs in values.items()}


def _moments(pairs: list[tuple[float, float]]) -> MeanVariance:
    mean = math.fsum(p * x for p, x in pairs)
    return MeanVariance(mean, math.fsum(p * (x - mean) ** 2 for p, x in pairs))


def reference_errors(cases: list[dict[str, Any]], self_normalised: Moments) -> list[float]:
    """Relative error of every number under "importance" (absolute where the number is 0)."""
    errors: list[float] = []
    for number, case in enumerate(cases):
        path = ROOT / "tests" / "data" / "reference" / f"case-{number}.json"
        layers = unroll(read_model(path).table)
        reward = {tuple(map(int, key.split())): r for key, r in case["reward"].items()}
        for truth in case["importance"]:
            alpha, n = float(truth["alpha"]), truth["n"]
            power = power_law(layers, alpha)
            named = {"base": base_law(layers), "temperature": temperature_law(layers, alpha)}
            proposal = named[truth["proposal"]]
            draw = weighted_draw(power.law, proposal, reward.__getitem__)
            plain, ratio = unnormalised_moments(draw, n), self_normalised(draw, n)
            evidence = evidence_moments(power, proposal, n)
            z_mean = math.exp(evidence.log_mean)
            found = {
                "truth": target_mean(draw),
                "is_mean": plain.mean,
                "is_variance": plain.variance,
                "snis_mean": ratio.mean,
                "snis_bias": ratio.mean - target_mean(draw),
                "snis_variance": ratio.variance,
                "z_mean": z_mean,
                "z_variance": evidence.relative_variance * z_mean**2,
            }
            for name, value in found.items():
                errors.append(abs(value - truth[name]) / (abs(truth[name]) or 1.0))
    return errors


@pytest.mark.parametrize(
    "moments", [self_normalised_moments, self_normalised_moments_by_enumeration]
)
def test_reference_values(reference_cases: list[dict[str, Any]], moments: Moments) -> None:
    errors = reference_errors(reference_cases, moments)
    assert len(errors) == 8 * 8 * len(reference_cases)
    assert max(errors) < 1e-9


def test_the_reference_sees_multisets_counted_once(reference_cases: list[dict[str, Any]]) -> None:
    def counted_once(draw: WeightedDraw, num_draws: int) -> MeanVariance:
        pairs: list[tuple[float, float]] = []
        for chosen in itertools.combinations_with_replacement(range(draw.values.size), num_draws):
            weights = np.exp(draw.log_weights[list(chosen)])
            estimate = float(weights @ draw.values[list(chosen)] / weights.sum())
            pairs.append((math.exp(draw.log_probs[list(chosen)].sum()), estimate))
        total = math.fsum(p for p, _ in pairs)
        return _moments([(p / total, x) for p, x in pairs])

    assert max(reference_errors(reference_cases[:2], counted_once)) > 1e-3


@settings(max_examples=30)
@given(recipes, exponents, exponents, st.integers(1, 3))
def test_all_estimators_equal_the_sum_over_tuples(
    recipe: Recipe, alpha: float, beta: float, num_draws: int
) -> None:
    layers = unroll(recipe.build())
    assume(num_sequences(layers) ** num_draws < 800)
    draw = draw_of(layers, alpha, beta)
    truth = by_tuples(draw, num_draws)
    evidence = evidence_moments(power_law(layers, alpha), temperature_law(layers, beta), num_draws)
    assert unnormalised_moments(draw, num_draws) == close(truth["is"])
    assert self_normalised_moments(draw, num_draws) == close(truth["snis"])
    assert self_normalised_moments_by_enumeration(draw, num_draws) == close(truth["snis"])
    assert truth["evidence"].mean == pytest.approx(1.0, rel=1e-12)
    assert evidence.relative_variance == close(truth["evidence"].variance)


@settings(max_examples=30)
@given(recipes, st.sampled_from([0.3, 4.0, 20.0]), exponents, st.integers(4, 6))
def test_quadrature_equals_multisets(
    recipe: Recipe, alpha: float, beta: float, num_draws: int
) -> None:
    layers = unroll(recipe.build())
    assume(math.comb(int(num_sequences(layers)) + num_draws - 1, num_draws) < 20_000)
    draw = draw_of(layers, alpha, beta)
    listed = self_normalised_moments_by_enumeration(draw, num_draws)
    assert self_normalised_moments(draw, num_draws) == pytest.approx(listed, rel=1e-10, abs=1e-13)


def test_six_draws_from_thirty_one_sequences() -> None:
    draw = draw_of(unroll(toy_e()), 4.0, 4.0)
    assert draw.values.size == 31
    listed = self_normalised_moments_by_enumeration(draw, 6)
    assert self_normalised_moments(draw, 6) == pytest.approx(listed, rel=1e-11)


@given(recipes, exponents, st.integers(1, 1000))
def test_equal_weights_are_plain_monte_carlo(recipe: Recipe, beta: float, num_draws: int) -> None:
    layers = unroll(recipe.build())
    law = temperature_law(layers, beta)
    draw = weighted_draw(law, law, hashed)
    probs = np.exp(draw.log_probs)
    mean = float(probs @ draw.values)
    plain = MeanVariance(mean, float(probs @ (draw.values - mean) ** 2) / num_draws)
    assert unnormalised_moments(draw, num_draws) == close(plain)
    assert self_normalised_moments(draw, num_draws) == close(plain)


def test_one_self_normalised_draw_ignores_its_weight() -> None:
    draw = draw_of(unroll(toy_b()), 4.0, 1.0)
    probs = np.exp(draw.log_probs)
    mean = float(probs @ draw.values)
    expected = MeanVariance(mean, float(probs @ (draw.values - mean) ** 2))
    assert self_normalised_moments(draw, 1) == pytest.approx(expected, rel=1e-12)
    assert abs(mean - target_mean(draw)) > 1e-3


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_the_delta_method_is_the_limit_and_misses_it_by_order_one_over_n(beta: float) -> None:
    draw = draw_of(unroll(toy_b()), 4.0, beta)
    limit, truth = delta_method(draw), target_mean(draw)
    misses = []
    for n in (10_000, 20_000, 40_000):
        found = self_normalised_moments(draw, n)
        misses.append((n * (found.mean - truth) - limit.bias, n * found.variance - limit.variance))
    ratios = np.array(misses[:-1]) / np.array(misses[1:])
    assert ratios == pytest.approx(2.0, rel=1e-2)
    assert (np.abs(misses[-1]) < 1e-2 * np.abs(limit)).all()


def test_digits_at_a_number_of_draws_beyond_any_budget() -> None:
    draw, num_draws = draw_of(unroll(toy_e()), 4.0, 4.0), 10**18
    variance = self_normalised_moments(draw, num_draws).variance
    assert num_draws * variance == pytest.approx(delta_method(draw).variance, rel=1e-12)


def test_bias_of_the_golden_case() -> None:
    # Simulated elsewhere: mean length of one row drawn by weight from N draws of the temperature law.
    layers = unroll(toy_e())
    power, proposal = power_law(layers, 4.0).law, temperature_law(layers, 4.0)
    lengths = weighted_draw(power, proposal, len)
    found = [self_normalised_moments(lengths, n).mean for n in (2, 4, 16, 64)]
    assert found == pytest.approx([3.233, 2.787, 2.014, 1.736], abs=0.005)
    assert target_mean(lengths) == pytest.approx(1.631432, abs=1e-6)
    first_is_a = weighted_draw(power, proposal, lambda tokens: float(tokens[0] == 0))
    assert self_normalised_moments(first_is_a, 64).mean == pytest.approx(0.2484, abs=0.002)


def test_values_shift_and_scale() -> None:
    layers = unroll(toy_b())
    power, q = power_law(layers, 2.0).law, base_law(layers)
    plain = self_normalised_moments(weighted_draw(power, q, hashed), 5)
    moved = self_normalised_moments(weighted_draw(power, q, lambda y: 3 - 2 * hashed(y)), 5)
    assert moved == pytest.approx((3 - 2 * plain.mean, 4 * plain.variance), rel=1e-12)


def test_the_evidence_needs_no_enumeration() -> None:
    layers = unroll(markov(np.random.default_rng(3), 8, 60, (7,)))
    power, proposal = power_law(layers, 2.0), temperature_law(layers, 2.0)
    found = evidence_moments(power, proposal, 50)
    assert found.log_mean == power.log_Z
    assert found.relative_variance == chi_square(power.law, proposal) / 50 > 0


def test_weights_beyond_the_double_range() -> None:
    layers = unroll(markov(np.random.default_rng(4), 3, 3, concentration=0.3))
    draw = draw_of(layers, 400.0, 1.0)
    assert np.ptp(draw.log_weights) > 800
    listed = self_normalised_moments_by_enumeration(draw, 3)
    assert self_normalised_moments(draw, 3) == pytest.approx(listed, rel=1e-10)


def without_first_token(layers: Layers) -> Law:
    """The base law with token 0 cut off."""

    def log_conditional(depth: int) -> np.ndarray:
        probs = np.exp(layers[depth].log_probs)
        probs[:, 0] = 0.0
        with np.errstate(divide="ignore"):
            return np.log(probs / probs.sum(axis=1, keepdims=True))

    return Law(layers, log_conditional)


def test_bad_input_is_refused() -> None:
    layers = unroll(toy_e())
    power, q = power_law(layers, 2.0), base_law(layers)
    truncated = without_first_token(layers)
    draw = weighted_draw(power.law, q, hashed)
    with pytest.raises(InvalidInput, match=r"sequence \(0, 0, 0, 0\): has probability 0"):
        weighted_draw(power.law, truncated, hashed)
    with pytest.raises(InvalidInput, match="token 0 after 0 tokens"):
        evidence_moments(power, truncated, 1)
    for moments in (
        unnormalised_moments,
        self_normalised_moments,
        self_normalised_moments_by_enumeration,
    ):
        with pytest.raises(InvalidInput, match="0 draws"):
            moments(draw, 0)
    with pytest.raises(InvalidInput, match="0 draws"):
        evidence_moments(power, q, 0)
    with pytest.raises(InvalidInput, match="multisets of 20 draws from 31 sequences"):
        self_normalised_moments_by_enumeration(draw, 20)


def test_a_target_smaller_than_the_proposal() -> None:
    layers = unroll(toy_e())
    draw = weighted_draw(without_first_token(layers), base_law(layers), hashed)
    plain, truth = unnormalised_moments(draw, 7), by_tuples(draw, 1)["is"]
    assert plain == pytest.approx((truth.mean, truth.variance / 7), rel=1e-12)
    assert truth.mean == pytest.approx(target_mean(draw), rel=1e-12)
    for moments in (self_normalised_moments, self_normalised_moments_by_enumeration):
        with pytest.raises(InvalidInput, match="of 31 sequences have weight 0"):
            moments(draw, 2)
