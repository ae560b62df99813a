"""The small-alpha law from base samples against its exact coefficients."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from tests.planted_bugs import estimators as planted
from tests.planted_bugs.damage import small_alpha as exact
from tests.stat_asserts import assert_mean, assert_rejected
from tests.theory.exact.tables import markov, tree
from theory.errors import InvalidInput
from theory.estimators.bootstrap import resample_counts
from theory.estimators.small_alpha import (
    StepMoments,
    estimate_from_draws,
    estimate_over_prompts,
    law_from_draws,
    predict,
    predicted_radius,
    record_step_moments,
    step_moments,
)
from theory.exact import base_law, small_alpha_law, unroll
from theory.exact.functionals import base_log_prob_moments, moments
from theory.exact.small_alpha import SmallAlphaLaw, entropy_sum_moments

TABLES = {
    "chain": markov(np.random.default_rng(14), 2, 4, eos=()),
    "eos": markov(np.random.default_rng(15), 3, 3, eos=(2,)),
    "zeros": tree(np.random.default_rng(16), 3, 3, eos=(0,), zeros=0.4),
}
CHAIN = markov(np.random.default_rng(21), 3, 6, eos=(2,))


@pytest.mark.parametrize("name", TABLES)
def test_statistics_of_a_sequence_have_the_exact_moments(name: str) -> None:
    table = TABLES[name]
    layers = unroll(table)
    probs, sums = exact.all_sums(table)
    assert probs.sum() == pytest.approx(1.0, abs=1e-12)
    log_p, entropy, variance, third = sums
    mean = base_log_prob_moments(base_law(layers)).mean
    assert probs @ log_p == pytest.approx(mean, abs=1e-12)
    assert probs @ entropy == pytest.approx(entropy_sum_moments(layers).mean, abs=1e-12)
    for values, power in ((variance, 2), (third, 3)):
        # Under p the drawn token's own central power has the same expectation.
        own = moments(base_law(layers), exact.central_powers(layers, power)).mean
        assert probs @ values == pytest.approx(own, abs=1e-12)


@pytest.mark.parametrize("name", ["chain", "eos"])
@pytest.mark.parametrize("num_draws", [3, 4])
def test_the_estimated_law_is_unbiased(name: str, num_draws: int) -> None:
    """The mean over every tuple of draws."""
    truth = small_alpha_law(unroll(TABLES[name]))
    probs, sums = exact.all_sums(TABLES[name])
    if num_draws == 4:  # a fourth draw from fewer sequences: all of a law of its own
        keep = np.argsort(-probs)[:6]
        probs, sums = probs[keep] / probs[keep].sum(), StepMoments(*(x[keep] for x in sums))
        truth = exact.law_of(probs, sums)
    expected = np.zeros(4)
    for drawn in itertools.product(range(probs.size), repeat=num_draws):
        picked = list(drawn)
        law = law_from_draws(StepMoments(*(x[picked] for x in sums)))
        expected += probs[picked].prod() * np.array(law)
    np.testing.assert_allclose(expected, truth, rtol=1e-10, atol=1e-12)


def test_recorded_steps_are_those_of_the_table() -> None:
    """In float32, through the protocol, with padding and after a prompt."""
    table = TABLES["eos"]
    model = ContextModel.from_table(table)
    tokens, lengths = exact.all_tokens(table)
    rows = len(tokens)
    found = record_step_moments(
        model,
        jnp.zeros((rows, 0), jnp.int32),
        jnp.zeros(rows, jnp.int32),
        jnp.asarray(tokens),
        jnp.asarray(lengths),
    )
    _, sums = exact.all_sums(table)
    for recorded, truth in zip(found, sums, strict=True):
        assert recorded.shape == tokens.shape
        np.testing.assert_array_equal(
            np.asarray(recorded)[np.arange(table.horizon) >= lengths[:, None]], 0.0
        )
        np.testing.assert_allclose(np.asarray(recorded).sum(axis=1), truth, rtol=2e-5, atol=2e-6)


def test_a_real_zero_counts_nothing() -> None:
    law = jnp.log(jnp.array([0.5, 0.5, 0.0]))
    found = step_moments(law, jnp.array(0))
    assert float(found.log_prob) == pytest.approx(np.log(0.5))
    assert float(found.entropy) == pytest.approx(np.log(2), rel=1e-6)
    assert float(found.variance) == pytest.approx(0.0, abs=1e-12)
    assert float(found.third) == pytest.approx(0.0, abs=1e-12)


def test_surprisal_is_not_entropy() -> None:
    assert exact.of_variance(law_from_draws) < 1e-10
    assert exact.of_variance(planted.surprisal_for_entropy) == pytest.approx(1.996488, abs=1e-6)


def test_draws_of_the_model_estimate_its_law() -> None:
    """In batches of 64 draws; with surprisals in the place of entropies they do not. (Third-order coefficients are too skewed for a t-test.)"""
    truth = np.array(small_alpha_law(unroll(CHAIN)))[:2]
    num_batches = 4000
    rows = exact.drawn(CHAIN, 64 * num_batches)
    batches = [StepMoments(*(part[i::num_batches] for part in rows)) for i in range(num_batches)]

    def check(estimate: Callable[[StepMoments], SmallAlphaLaw]) -> None:
        found = np.array([estimate(batch)[:2] for batch in batches])
        assert_mean(found, truth, smallest_bias=0.35 * np.abs(truth))

    check(law_from_draws)
    assert_rejected(lambda: check(planted.surprisal_for_entropy))


def test_intervals_stand_around_their_values() -> None:
    sums = StepMoments(*np.random.default_rng(7).normal(size=(4, 400)))
    estimate = estimate_from_draws(np.random.default_rng(0), sums)
    assert (estimate.unit, estimate.num_units) == ("draws", 400)
    law = estimate.law
    for alpha in (0.9, 1.2):
        found = predict(estimate, alpha, 0.9)
        ends = np.quantile(estimate.replicates[:, :2], [0.05, 0.95], axis=0, method="inverted_cdf")
        half = 0.5 * (alpha - 1) ** 2
        assert found.kl_power_temperature.interval[:2] == pytest.approx(tuple(half * ends[:, 0]))
        assert found.kl_power_base.interval[:2] == pytest.approx(tuple(half * ends[:, 1]))
        from_temperature = found.log_ess_fraction_from_temperature
        assert from_temperature.interval[:2] == pytest.approx(tuple(-2 * half * ends[::-1, 0]))
        from_base = found.log_ess_fraction_from_base
        assert from_base.interval[:2] == pytest.approx(tuple(-2 * half * ends[::-1, 1]))
        for name in ("kl_power_temperature", "kl_power_base"):
            assert getattr(found, name).value == getattr(law, name)(alpha)
            name = f"log_ess_fraction_from_{name.removeprefix('kl_power_')}"
            assert getattr(found, name).value == getattr(law, name)(alpha)
    radius = predicted_radius(estimate, 0.9)
    assert radius.value == law.radius
    assert 0 < radius.interval.low <= radius.value <= radius.interval.high <= 0.5
    assert predict(estimate, 1 + 0.99 * radius.value).is_inside_radius
    assert not predict(estimate, 1 - 1.01 * radius.value).is_inside_radius


def test_replicates_are_estimates_of_resampled_draws() -> None:
    rng = np.random.default_rng(5)
    sums = StepMoments(*rng.gamma(2.0, size=(4, 7)))
    estimate = estimate_from_draws(np.random.default_rng(8), sums, 30)
    counts = resample_counts(np.random.default_rng(8), 7, 30)
    for row, replicate in zip(counts, estimate.replicates, strict=True):
        again = StepMoments(*(np.repeat(part, row) for part in sums))
        np.testing.assert_allclose(replicate, law_from_draws(again), rtol=1e-9, atol=1e-12)


def test_several_prompts_are_the_units() -> None:
    rng = np.random.default_rng(6)
    prompts = [StepMoments(*rng.gamma(2.0, size=(4, n))) for n in (3, 5, 9)]
    estimate = estimate_over_prompts(np.random.default_rng(0), prompts, 500)
    laws = np.array([law_from_draws(each) for each in prompts])
    np.testing.assert_allclose(estimate.law, laws.mean(axis=0), rtol=1e-12)
    assert (estimate.unit, estimate.num_units) == ("prompts", 3)
    ends = np.sort(laws[:, 1])[[0, -1]]
    found = predict(estimate, 3.0, 0.999).kl_power_base
    assert found.interval[:2] == pytest.approx(2 * ends, rel=1e-12)
    assert found.interval.tasks == 3


def test_what_cannot_be_estimated_is_refused() -> None:
    two = StepMoments(*np.ones((4, 2)))
    with pytest.raises(InvalidInput, match="2 draws of a prompt"):
        law_from_draws(two)
    three = StepMoments(*np.ones((4, 3)))
    with pytest.raises(InvalidInput, match="at least 2"):
        estimate_over_prompts(np.random.default_rng(0), [three])
    with pytest.raises(InvalidInput, match="alpha"):
        predict(estimate_from_draws(np.random.default_rng(0), three, 5), 0.0)


def test_float64_in_float64_out() -> None:
    with jax.enable_x64(True):
        assert step_moments(jnp.log(jnp.array([0.25, 0.75])), jnp.array(1)).third.dtype == "float64"
