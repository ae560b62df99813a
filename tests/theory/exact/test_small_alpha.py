"""The second-order law near alpha = 1."""

import numpy as np
import pytest
from hypothesis import given

from tests.theory.exact.tables import Recipe, markov, plain_sequences, recipes
from theory.exact import (
    base_law,
    kl_divergence,
    log_ess_fraction,
    power_law,
    renyi_entropy,
    small_alpha_law,
    temperature_law,
    unroll,
)
from theory.exact.small_alpha import entropy_sum_moments


@given(recipes)
def test_variances_equal_enumeration_and_the_martingale_adds_up(recipe: Recipe) -> None:
    table = recipe.build()
    layers = unroll(table)
    rows = plain_sequences(table, 2.0)
    probs = np.exp([row.log_base for row in rows])
    log_base = np.array([row.log_base for row in rows])
    entropies = np.array([row.entropy_sum for row in rows])
    law = small_alpha_law(layers)
    mean = probs @ entropies
    assert mean == pytest.approx(renyi_entropy(layers, 1.0), abs=1e-11)
    assert entropy_sum_moments(layers).mean == pytest.approx(mean, abs=1e-11)
    assert law.variance_entropy_sum == pytest.approx(probs @ (entropies - mean) ** 2, abs=1e-10)
    variance = probs @ (log_base - probs @ log_base) ** 2
    assert law.variance_log_prob == pytest.approx(variance, abs=1e-10)
    # log p + sum_t h_t is a martingale: mean zero, and its variance is that of its increments.
    martingale = log_base + entropies
    assert probs @ martingale == pytest.approx(0.0, abs=1e-11)
    increments = 0.0
    for depth, layer in enumerate(layers):
        reached = np.zeros(layer.contexts.size)
        for row, prob in zip(rows, probs, strict=True):
            context = table.initial
            for token in row.tokens[:depth]:
                context = int(table.next_context[context, token])
            if len(row.tokens) > depth:
                reached[np.searchsorted(layer.contexts, context)] += prob
        p = np.exp(layer.log_probs)
        logs = np.where(p > 0, layer.log_probs, 0.0)
        increments += reached @ ((p * logs**2).sum(axis=1) - (p * logs).sum(axis=1) ** 2)
    assert probs @ martingale**2 == pytest.approx(increments, abs=1e-10)


def test_the_law_is_the_limit() -> None:
    for eos in ((), (2,)):
        layers = unroll(markov(np.random.default_rng(14), 3, 6, eos=eos))
        law = small_alpha_law(layers)
        errors: list[list[float]] = []
        for e in (1e-2, 1e-3):
            alpha = 1 + e
            power, temperature = power_law(layers, alpha).law, temperature_law(layers, alpha)
            base = base_law(layers)
            ratios = [
                kl_divergence(power, temperature) / law.kl_power_temperature(alpha),
                kl_divergence(power, base) / law.kl_power_base(alpha),
                log_ess_fraction(power, temperature) / law.log_ess_fraction_from_temperature(alpha),
                log_ess_fraction(power, base) / law.log_ess_fraction_from_base(alpha),
            ]
            errors.append([abs(ratio - 1) for ratio in ratios])
        for coarse, fine in zip(*errors, strict=True):
            assert fine < 0.01
            # The error is of first order in e.
            assert coarse / fine == pytest.approx(10, rel=0.2)


def test_third_order_coefficients_are_those_of_the_expansion() -> None:
    for seed, eos in ((14, ()), (15, (2,)), (16, (0,))):
        layers = unroll(markov(np.random.default_rng(seed), 3, 5, eos=eos))
        law, base = small_alpha_law(layers), base_law(layers)
        e = 1e-3
        for coefficient, divergence in (
            (
                law.third_order_temperature,
                lambda a, x=layers: kl_divergence(power_law(x, a).law, temperature_law(x, a)),
            ),
            (
                law.third_order_base,
                lambda a, x=layers, p=base: kl_divergence(power_law(x, a).law, p),
            ),
        ):
            odd_part = (divergence(1 + e) - divergence(1 - e)) / (2 * e**3)
            assert coefficient == pytest.approx(odd_part, rel=1e-4)


def test_independent_tokens_have_no_gap() -> None:
    from theory.exact import ContextTable

    table = ContextTable(np.log([[0.5, 0.5]]), np.zeros((1, 2), dtype=np.int64), 0, (), 5)
    law = small_alpha_law(unroll(table))
    assert law.variance_entropy_sum == pytest.approx(0.0, abs=1e-30)
    assert law.radius == 0.5
    skewed = ContextTable(np.log([[0.9, 0.1]]), np.zeros((1, 2), dtype=np.int64), 0, (), 5)
    found = small_alpha_law(unroll(skewed))
    assert found.variance_entropy_sum == pytest.approx(0.0, abs=1e-25)
    assert found.variance_log_prob == pytest.approx(5 * 0.09 * np.log(9) ** 2)


def test_the_radius_is_where_the_third_order_comes_to_a_quarter_of_the_second() -> None:
    law = small_alpha_law(unroll(markov(np.random.default_rng(15), 3, 5, eos=(2,))))
    shares = [
        abs(law.third_order_temperature) * law.radius**3 / law.kl_power_temperature(1 + law.radius),
        abs(law.third_order_base) * law.radius**3 / law.kl_power_base(1 + law.radius),
    ]
    assert law.radius < 0.5
    assert max(shares) == pytest.approx(0.25)
