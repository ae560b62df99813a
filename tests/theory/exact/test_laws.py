"""The dynamic programs against plain enumeration, and the identities that hold for every model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.exact.tables import (
    ALPHAS,
    PlainLaw,
    Recipe,
    markov,
    plain_sequences,
    recipes,
    tree,
)
from theory.exact import (
    ContextTable,
    Law,
    Layers,
    base_law,
    base_log_prob_moments,
    chi_square,
    enumerate_sequences,
    expected_length,
    kl_divergence,
    length_law,
    log_ess_fraction,
    log_max_ratio,
    mode,
    num_sequences,
    power_law,
    renyi_divergence,
    renyi_entropy,
    summarise,
    temperature_law,
    token_marginals,
    total_variation,
    total_variation_bounds,
    unroll,
)
from theory.exact.laws import token_log_normalisers

alphas = st.sampled_from(ALPHAS)


class Plain:
    """Everything by enumeration, with compensated sums."""

    def __init__(self, table: ContextTable, alpha: float) -> None:
        self.rows: list[PlainLaw] = plain_sequences(table, alpha)
        self.log_base = np.array([row.log_base for row in self.rows])
        weights = alpha * self.log_base
        peak = weights.max()
        self.log_Z = peak + math.log(math.fsum(np.exp(weights - peak)))
        self.log_power = weights - self.log_Z
        self.log_temperature = weights - np.array([row.log_z_sum for row in self.rows])
        self.lengths = np.array([len(row.tokens) for row in self.rows], dtype=float)


def mean(log_probs: np.ndarray, values: np.ndarray) -> float:
    return math.fsum(np.exp(log_probs) * values)


def kl(log_p: np.ndarray, log_q: np.ndarray) -> float:
    return mean(log_p, log_p - log_q)


def close(got: float, truth: float, scale: float = 1.0) -> None:
    assert got == pytest.approx(truth, rel=1e-12, abs=1e-12 * max(1.0, scale))


@given(recipes, alphas)
def test_programs_equal_plain_enumeration(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    plain, layers = Plain(table, alpha), unroll(table)
    assert num_sequences(layers) == len(plain.rows)
    power, temperature = power_law(layers, alpha).law, temperature_law(layers, alpha)
    scale = abs(plain.log_Z)
    s = summarise(layers, alpha)
    close(s.log_Z, plain.log_Z)
    close(s.kl_power_temperature, kl(plain.log_power, plain.log_temperature), scale)
    close(s.kl_temperature_power, kl(plain.log_temperature, plain.log_power), scale)
    close(s.kl_power_base, kl(plain.log_power, plain.log_base), scale)
    close(s.kl_base_power, kl(plain.log_base, plain.log_power), scale)
    close(s.expected_length_power, mean(plain.log_power, plain.lengths))
    close(s.expected_length_temperature, mean(plain.log_temperature, plain.lengths))
    close(s.expected_length_base, mean(plain.log_base, plain.lengths))
    log_prob = mean(plain.log_power, plain.log_base)
    close(s.expected_base_logp_power, log_prob)
    close(s.variance_base_logp_power, mean(plain.log_power, (plain.log_base - log_prob) ** 2))
    close(s.expected_base_logp_temperature, mean(plain.log_temperature, plain.log_base))
    for log_q, log_ess, log_max in (
        (plain.log_base, s.log_ess_fraction_from_base, s.log_max_weight_from_base),
        (
            plain.log_temperature,
            s.log_ess_fraction_from_temperature,
            s.log_max_weight_from_temperature,
        ),
    ):
        close(log_ess, -np.logaddexp.reduce(2 * plain.log_power - log_q), scale)
        close(log_max, (plain.log_power - log_q).max(), scale)
    gap = np.abs(np.exp(plain.log_power) - np.exp(plain.log_temperature))
    truth = math.fsum(gap) / 2
    close(total_variation(power, temperature), truth, scale)
    assert s.tv_bounds.lower - 1e-9 <= truth <= s.tv_bounds.upper + 1e-9


@given(recipes, alphas)
def test_sequences_and_laws_match_one_by_one(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    plain, layers = Plain(table, alpha), unroll(table)
    laws = (base_law(layers), power_law(layers, alpha).law, temperature_law(layers, alpha))
    listed = enumerate_sequences(laws)
    assert listed.sequences == sorted(row.tokens for row in plain.rows)
    order = sorted(range(len(plain.rows)), key=lambda i: plain.rows[i].tokens)
    truth = np.stack([plain.log_base, plain.log_power, plain.log_temperature])[:, order]
    np.testing.assert_allclose(
        listed.log_probs, truth, rtol=1e-12, atol=1e-12 * max(1, abs(plain.log_Z))
    )


@given(recipes, alphas)
def test_gap_to_temperature_is_sum_of_log_z_minus_log_Z(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    rows, layers = plain_sequences(table, alpha), unroll(table)
    power = power_law(layers, alpha)
    listed = enumerate_sequences((power.law, temperature_law(layers, alpha)))
    log_z_sums = {row.tokens: row.log_z_sum for row in rows}
    gaps = np.array([log_z_sums[tokens] for tokens in listed.sequences]) - power.log_Z
    np.testing.assert_allclose(
        listed.log_probs[0] - listed.log_probs[1], gaps, atol=1e-12 * max(1, abs(power.log_Z))
    )


@given(recipes, alphas)
def test_every_conditional_is_normalised(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    layers = unroll(table)
    for law in (power_law(layers, alpha).law, temperature_law(layers, alpha)):
        for depth in range(len(layers)):
            rows = np.exp(law.log_conditional(depth)).sum(axis=1)
            np.testing.assert_allclose(rows, 1.0, atol=1e-11)


@given(recipes)
def test_alpha_one_is_exactly_the_base_law(recipe: Recipe) -> None:
    table = recipe.build()
    layers = unroll(table)
    s = summarise(layers, 1.0)
    assert s.log_Z == 0.0
    assert s.kl_power_temperature == s.kl_power_base == s.kl_base_power == 0.0
    assert s.log_max_weight_from_base == s.log_max_weight_from_temperature == 0.0
    assert token_log_normalisers(layers, 1.0)(0).tolist() == [0.0]


@given(recipes)
def test_log_Z_is_convex_and_its_derivatives_are_moments_of_log_p(recipe: Recipe) -> None:
    table = recipe.build()
    layers, h = unroll(table), 1e-3
    for alpha in (0.5, 1.0, 2.0, 4.0):
        low, middle, high = (power_law(layers, alpha + d).log_Z for d in (-h, 0, h))
        law = base_log_prob_moments(power_law(layers, alpha).law)
        assert (high - low) / (2 * h) == pytest.approx(law.mean, abs=1e-4, rel=1e-4)
        second = (high - 2 * middle + low) / h**2
        assert second == pytest.approx(law.variance, abs=1e-3, rel=1e-3)
        assert second >= -1e-7


@given(recipes)
def test_expected_log_prob_increases_in_alpha(recipe: Recipe) -> None:
    table = recipe.build()
    layers = unroll(table)
    means = [base_log_prob_moments(power_law(layers, a).law).mean for a in ALPHAS]
    assert np.all(np.diff(means) >= -1e-10)


@given(recipes, alphas)
def test_kl_identities(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    layers = unroll(table)
    power = power_law(layers, alpha)
    base = base_law(layers)
    scale = 1e-11 * max(1.0, abs(power.log_Z))
    mean_log_p = base_log_prob_moments(power.law).mean
    entropy = renyi_entropy(layers, 1.0)
    assert kl_divergence(power.law, base) == pytest.approx(
        (alpha - 1) * mean_log_p - power.log_Z, abs=scale
    )
    assert kl_divergence(base, power.law) == pytest.approx(
        power.log_Z + (alpha - 1) * entropy, abs=scale
    )
    assert power.log_Z == pytest.approx((1 - alpha) * renyi_entropy(layers, alpha), abs=scale)
    if alpha != 1:
        two_alpha = power_law(layers, 2 * alpha - 1).log_Z if alpha > 0.5 else None
        if two_alpha is not None:
            assert log_ess_fraction(power.law, base) == pytest.approx(
                2 * power.log_Z - two_alpha, abs=2 * scale
            )


@given(recipes, st.sampled_from([0.5, 2.0, 4.0]))
def test_renyi_divergences_increase_with_order_and_end_in_the_largest_ratio(
    recipe: Recipe, alpha: float
) -> None:
    table = recipe.build()
    layers = unroll(table)
    p, q = power_law(layers, alpha).law, temperature_law(layers, alpha)
    values = [renyi_divergence(p, q, r) for r in (0.25, 0.5, 1.0, 2.0, 10.0, math.inf)]
    assert np.all(np.diff(values) >= -1e-11)
    assert renyi_divergence(p, q, 1.0) == kl_divergence(p, q)
    assert values[-1] == log_max_ratio(p, q)
    assert chi_square(p, q) == pytest.approx(math.expm1(values[3]), rel=1e-12)


@given(recipes, alphas)
def test_lengths_and_marginals(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    layers = unroll(table)
    law = power_law(layers, alpha).law
    lengths = length_law(law)
    np.testing.assert_allclose(lengths.sum(), 1.0, atol=1e-11)
    assert expected_length(law) == pytest.approx(lengths @ np.arange(1, lengths.size + 1))
    listed = enumerate_sequences((law,))
    truth = np.zeros((len(layers), table.vocab_size))
    for tokens, log_prob in zip(listed.sequences, listed.log_probs[0], strict=True):
        for position, token in enumerate(tokens):
            truth[position, token] += math.exp(log_prob)
    np.testing.assert_allclose(token_marginals(law), truth, atol=1e-11)


@given(recipes)
def test_the_mode_is_the_limit_of_the_power_law(recipe: Recipe) -> None:
    table = recipe.build()
    layers = unroll(table)
    found = mode(layers)
    listed = enumerate_sequences((base_law(layers), power_law(layers, 100.0).law))
    best = listed.log_probs[0].max()
    ties = [
        tokens
        for tokens, log_prob in zip(listed.sequences, listed.log_probs[0], strict=True)
        if log_prob >= best - 1e-12
    ]
    assert found.log_prob == pytest.approx(best, abs=1e-12)
    assert found.tokens == ties[0]
    assert found.num_modes == len(ties)
    assert renyi_entropy(layers, math.inf) == pytest.approx(-best, abs=1e-12)
    power = dict(zip(listed.sequences, np.exp(listed.log_probs[1]), strict=True))
    assert power[found.tokens] == pytest.approx(max(power.values()), rel=1e-9)


def test_a_proposal_without_the_support_has_infinite_divergence() -> None:
    """Top-1 of every next-token law, as a proposal for the base law."""
    layers = unroll(markov(np.random.default_rng(9), 3, 3, eos=(2,)))
    p = base_law(layers)

    def greedy(depth: int) -> np.ndarray:
        rows = p.log_conditional(depth)
        return np.where(rows == rows.max(axis=1, keepdims=True), 0.0, -np.inf)

    q = Law(layers, greedy)
    assert kl_divergence(p, q) == math.inf
    assert renyi_divergence(p, q, 2.0) == math.inf
    assert chi_square(p, q) == math.inf
    assert log_max_ratio(p, q) == math.inf
    assert log_ess_fraction(p, q) == -math.inf
    # The other way round, and at orders below 1, everything is finite.
    listed = enumerate_sequences((p, q))
    kept = listed.log_probs[1] == 0.0
    truth = -float(listed.log_probs[0, kept][0])
    assert kl_divergence(q, p) == pytest.approx(truth)
    assert renyi_divergence(p, q, 0.5) == pytest.approx(truth)
    assert renyi_divergence(q, p, 2.0) == pytest.approx(truth)
    assert total_variation(p, q) == pytest.approx(1 - math.exp(-truth))
    bounds = total_variation_bounds(p, q)
    assert bounds.lower <= 1 - math.exp(-truth) <= bounds.upper


def test_markov_and_the_tree_of_its_prefixes_have_the_same_laws() -> None:
    rng = np.random.default_rng(11)
    chain = markov(rng, 3, 4, eos=(1,))
    full = tree(rng, 3, 4, eos=(1,))
    rows = full.log_probs.copy()
    rows[0] = chain.log_probs[3]
    for context, token in np.argwhere(full.next_context > 0):
        rows[full.next_context[context, token]] = chain.log_probs[token]
    full = full._replace(log_probs=rows)
    for alpha in ALPHAS:
        first, second = summarise(unroll(chain), alpha), summarise(unroll(full), alpha)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-9, atol=1e-11)


def test_kl_keeps_its_digits_near_alpha_one() -> None:
    layers: Layers = unroll(markov(np.random.default_rng(8), 3, 6, eos=(2,)))
    values = [
        kl_divergence(power_law(layers, 1 + e).law, temperature_law(layers, 1 + e))
        for e in (1e-3, 1e-4, 1e-5)
    ]
    assert values[0] / values[1] == pytest.approx(100, rel=1e-2)
    assert values[1] / values[2] == pytest.approx(100, rel=1e-3)


@given(recipes, st.sampled_from([0.5, 2.0, 8.0]))
def test_total_variation_bounds_are_the_formulas(recipe: Recipe, alpha: float) -> None:
    table = recipe.build()
    layers = unroll(table)
    p, q = power_law(layers, alpha).law, temperature_law(layers, alpha)
    listed = enumerate_sequences((p, q))
    first, second = np.exp(listed.log_probs)
    b = math.fsum(np.sqrt(first * second))
    symbols = np.array([[*t, *[-1] * (len(layers) - len(t))] for t in listed.sequences])
    marginal = max(
        sum(abs(math.fsum((first - second)[column == v])) for v in np.unique(column)) / 2
        for column in symbols.T
    )
    kls = [kl_divergence(p, q), kl_divergence(q, p)]
    lower = max(1 - b, marginal)
    upper = min(
        [1.0, math.sqrt(max(0.0, 1 - b * b))]
        + [math.sqrt(k / 2) for k in kls]
        + [math.sqrt(-math.expm1(-k)) for k in kls]
    )
    bounds = total_variation_bounds(p, q)
    # The square root turns the rounding of b, 1e-16, into 1e-8.
    assert bounds.lower == pytest.approx(lower, abs=1e-11)
    assert bounds.upper == pytest.approx(max(upper, lower), abs=1e-6)


@given(recipes)
def test_third_moments(recipe: Recipe) -> None:
    table = recipe.build()
    layers = unroll(table)
    law = power_law(layers, 1.5).law
    found = base_log_prob_moments(law)
    listed = enumerate_sequences((law, base_law(layers)))
    probs, values = np.exp(listed.log_probs[0]), listed.log_probs[1]
    mean = math.fsum(probs * values)
    assert found.third == pytest.approx(math.fsum(probs * (values - mean) ** 3), abs=1e-9, rel=1e-9)


def test_total_variation_bounds_hold_next_to_alpha_one() -> None:
    for seed in range(10):
        layers = unroll(markov(np.random.default_rng(seed), 3, 6))
        for e in (1e-9, 1e-7, 1e-5, 1e-3):
            p, q = power_law(layers, 1 + e).law, temperature_law(layers, 1 + e)
            bounds = total_variation_bounds(p, q)
            truth = total_variation(p, q)
            assert bounds.lower <= truth + 1e-14
            assert truth <= bounds.upper + 1e-14
            assert 0 <= bounds.lower <= bounds.upper <= 1
