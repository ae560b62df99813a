"""Limits of N Var(Z_hat / Z): by enumeration of prefixes, and against the reference."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tabular.sharp_path import sharp_against_blurred_table
from tests.theory.exact.tables import Recipe, recipes
from theory.exact import (
    base_law,
    chi_square,
    enumerate_sequences,
    power_law,
    temperature_law,
    unroll,
)
from theory.exact.smc_variance import adapted_variance_terms, every_step_variance_terms


@given(recipes, st.sampled_from([0.5, 1.0, 2.0, 4.0]), st.sampled_from([0.5, 1.0, 2.0, 4.0]))
def test_terms_equal_the_sum_over_prefixes(recipe: Recipe, alpha: float, beta: float) -> None:
    layers = unroll(recipe.build())
    power, proposal = power_law(layers, alpha), temperature_law(layers, beta)
    listed = enumerate_sequences((power.law, base_law(layers), proposal))
    every_step = every_step_variance_terms(layers, alpha, beta)
    adapted = adapted_variance_terms(layers, alpha)
    for t in range(1, len(layers) + 1):
        marginal, base, proposed = _prefixes(listed.sequences, listed.log_probs, t)
        before_base = _prefixes(listed.sequences, listed.log_probs, t - 1)[1]
        before_proposed = _prefixes(listed.sequences, listed.log_probs, t - 1)[2]
        Z_t = sum(p**alpha for p in base.values())
        Z_before = sum(p**alpha for p in before_base.values())
        with_resampling = with_adaption = 0.0
        for x, mass in marginal.items():
            previous = x[: t - 1] if len(x) == t else x
            q = proposed[x] / before_proposed[previous]
            with_resampling += mass**2 / (before_base[previous] ** alpha / Z_before * q)
            with_adaption += mass**2 / (base[x] ** alpha / Z_t)
        assert every_step[t - 1] == pytest.approx(with_resampling - 1, rel=1e-9, abs=1e-10)
        assert adapted[t - 1] == pytest.approx(with_adaption - 1, rel=1e-9, abs=1e-10)


def _prefixes(
    sequences: list[tuple[int, ...]], log_probs: np.ndarray, t: int
) -> tuple[dict[tuple[int, ...], float], ...]:
    """Marginal probability of each prefix of t tokens (shorter: an ended sequence) under power, base, proposal."""
    totals: tuple[dict[tuple[int, ...], float], ...] = ({}, {}, {})
    for index, tokens in enumerate(sequences):
        for law, total in enumerate(totals):
            prefix = tokens[:t]
            total[prefix] = total.get(prefix, 0.0) + math.exp(log_probs[law, index])
    return totals


def test_reference_values(reference_cases: list[dict[str, Any]]) -> None:
    from models.tabular.files import read_model
    from tests.conftest import ROOT

    checked = 0
    for number, case in enumerate(reference_cases):
        path = ROOT / "tests" / "data" / "reference" / f"case-{number}.json"
        layers = unroll(read_model(path).table)
        for truth in case["smc_asymptotic_variance"]:
            alpha = float(truth["alpha"])
            power, temperature = power_law(layers, alpha).law, temperature_law(layers, alpha)
            values = {
                "every_step_multinomial": every_step_variance_terms(layers, alpha, alpha).sum(),
                "fully_adapted": adapted_variance_terms(layers, alpha).sum(),
                "importance_from_temperature": chi_square(power, temperature),
                "importance_from_base": chi_square(power, base_law(layers)),
            }
            for name, value in values.items():
                assert value == pytest.approx(truth[name], rel=1e-9, abs=1e-12), (number, name)
                checked += 1
    assert checked >= 4 * len(reference_cases)


def test_a_context_far_below_the_peak_may_dominate_in_the_end() -> None:
    """One sharp path against many blurred ones at alpha 100: by hand, since there are only two kinds of prefix."""
    s, vocab_size, horizon, alpha = 1e-4, 10, 30, 100.0
    layers = unroll(sharp_against_blurred_table(s, vocab_size, horizon))
    log_sharp, log_first = alpha * math.log(s), alpha * math.log(1 - s)
    spread = (1 - alpha) * math.log(vocab_size)  # of one more blurred token
    log_Z = np.logaddexp(log_sharp, log_first + (horizon - 1) * spread)
    terms: list[float] = []
    for t in range(1, horizon):
        log_blurred = log_first + (t - 1) * spread
        log_mass = np.logaddexp(log_sharp, log_blurred)
        square = np.logaddexp(log_sharp, log_blurred + 2 * (horizon - t) * spread)
        terms.append(square + log_mass - 2 * log_Z)
    with np.errstate(over="ignore"):
        truth = np.expm1(np.array([*terms, 0.0]))
    found = adapted_variance_terms(layers, alpha)
    assert (found >= -1e-9).all()
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9)
    assert (every_step_variance_terms(layers, alpha, alpha) >= -1e-9).all()
