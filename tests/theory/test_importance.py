"""Importance sampling: exact means and variances by enumeration, the recorded weights, and what is refused."""

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from tests.stat_asserts import assert_mean, assert_rejected
from theory.decoding import TokenRule, temperature, top_k, top_p
from theory.errors import InvalidInput
from theory.exact import base_law, enumerate_sequences, power_law, temperature_law, unroll
from theory.generation import Trajectories, generate, start
from theory.importance import (
    check_alive,
    check_full_support,
    estimated_divergence,
    plain_estimate,
    sample_size,
    self_normalised_estimate,
    smoothed_estimate,
    token_log_weights,
    trajectory_log_weights,
    truncate,
    truncated_estimate,
    weighted_sums,
)
from theory.keys import Role, role_key, row_keys
from theory.log_weights import log_mean_weight

TABLE = toy_e()
MODEL = ContextModel.from_table(TABLE)
LAYERS = unroll(TABLE)
ALPHA = 2.0
LOG_Z = power_law(LAYERS, ALPHA).log_Z
MAX_TUPLES = 1500
NUM = 40_000


@jax.jit
def generate_rows(key: jax.Array, rules: tuple[TokenRule, ...]) -> Trajectories:
    rows = row_keys(role_key(key, Role.TOKEN), jnp.arange(NUM))
    begin = start(MODEL, jnp.zeros((NUM, 0), jnp.int32), jnp.zeros(NUM, jnp.int32))
    return generate(rows, MODEL, rules, ALPHA, begin, jnp.full(NUM, 4)).trajectories


@functools.cache
def draw(proposal: str) -> Trajectories:
    """Base and temperature are one compiled program: the temperature is a leaf."""
    rule = temperature({"base": 1.0, "temperature": 0.5}[proposal])
    return generate_rows(jax.random.key(len(proposal)), (rule,))


def test_reference_values_by_enumeration(reference_cases: list[dict[str, Any]]) -> None:
    checked = 0
    for case in reference_cases:
        for truth in case["importance"]:
            power = next(item for item in case["power"] if item["alpha"] == truth["alpha"])
            sequences = list(case["base"])
            proposal = case["base"] if truth["proposal"] == "base" else power["temperature"]
            q = np.array([proposal[s] for s in sequences])
            log_w = truth["alpha"] * np.log([case["base"][s] for s in sequences]) - np.log(q)
            reward = np.array([float(case["reward"][s]) for s in sequences])
            tuples = np.array(list(itertools.product(range(q.size), repeat=truth["n"])))
            mass = q[tuples].prod(axis=1)
            # To one shape, so that it compiles once; the fillers have no mass.
            fillers = np.zeros((MAX_TUPLES - mass.size, truth["n"]), np.int64)
            tuples, mass = np.concatenate([tuples, fillers]), np.pad(mass, (0, len(fillers)))
            with jax.enable_x64(True):
                weights, values = jnp.asarray(log_w[tuples]), jnp.asarray(reward[tuples])
                z = np.asarray(jnp.exp(log_mean_weight(weights)))
                plain = np.asarray(plain_estimate(weights, values, power["log_Z"]))
                snis = np.asarray(self_normalised_estimate(weights, values))
            for name, estimate in (("z", z), ("is", plain), ("snis", snis)):
                mean = math.fsum(mass * estimate)
                variance = math.fsum(mass * (estimate - mean) ** 2)
                assert mean == pytest.approx(truth[f"{name}_mean"], rel=1e-9, abs=1e-12)
                assert variance == pytest.approx(truth[f"{name}_variance"], rel=1e-8, abs=1e-12)
                checked += 1
    assert checked >= 20 * len(reference_cases)


@pytest.mark.parametrize("proposal", ["base", "temperature"])
def test_recorded_weights_are_those_of_the_laws(proposal: str) -> None:
    rows = draw(proposal)
    laws = {"base": base_law(LAYERS), "temperature": temperature_law(LAYERS, ALPHA)}
    listed = enumerate_sequences((base_law(LAYERS), laws[proposal]))
    truth = dict(zip(listed.sequences, listed.log_probs.T, strict=True))
    log_weights = np.asarray(trajectory_log_weights(rows, ALPHA))
    for row, log_weight in enumerate(log_weights[:300]):
        base, q = truth[tuple(np.asarray(rows.tokens[row, : int(rows.lengths[row])]).tolist())]
        assert log_weight == pytest.approx(ALPHA * base - q, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("proposal", ["base", "temperature"])
def test_mean_weight_is_unbiased_for_the_normaliser(proposal: str) -> None:
    rows = draw(proposal)
    weights = np.exp(np.asarray(trajectory_log_weights(rows, ALPHA), np.float64) - LOG_Z)
    assert_mean(weights, 1.0, smallest_bias=0.04)
    # A mean of log probs over tokens, in place of their sum, is another target: E = 2.2 instead of 1.
    length = np.asarray(rows.lengths, np.float64)
    wrong = np.exp(np.asarray(trajectory_log_weights(rows, ALPHA), np.float64) / length - LOG_Z)
    assert_rejected(lambda: assert_mean(wrong, 1.0, smallest_bias=0.2))


def test_an_exponent_off_by_one_under_the_base_is_seen() -> None:
    """Alpha in place of alpha - 1: the weights p^alpha under p have mean Z_(alpha+1), .037 instead of .12."""
    rows = draw("base")
    wrong = np.exp(ALPHA * np.asarray(rows.log_p, np.float64).sum(axis=1) - LOG_Z)
    assert_rejected(lambda: assert_mean(wrong, 1.0, smallest_bias=0.1))


def test_alpha_one_from_the_base_weighs_nothing() -> None:
    rows = draw("base")
    assert np.abs(np.asarray(trajectory_log_weights(rows, 1.0))).max() < 1e-6


def test_impossible_tokens_have_no_weight_and_pads_no_influence() -> None:
    rows = draw("base")
    dead = rows._replace(log_p=rows.log_p.at[0, 0].set(-jnp.inf).at[1, 0].set(-jnp.inf))
    dead = dead._replace(log_q=dead.log_q.at[0, 0].set(-jnp.inf))
    weights = np.asarray(trajectory_log_weights(dead, ALPHA))
    assert np.isneginf(weights[:2]).all() and np.isfinite(weights[2:]).all()
    past = np.arange(4) >= np.asarray(rows.lengths)[:, None]
    assert not np.asarray(token_log_weights(rows, ALPHA))[past].any()


def test_estimators_agree_where_they_must() -> None:
    rng = np.random.default_rng(5)
    values = jnp.asarray(rng.normal(size=(3, 64)), jnp.float32)
    equal = jnp.full((3, 64), -500.0)
    for estimate in (self_normalised_estimate, truncated_estimate):
        np.testing.assert_allclose(estimate(equal, values), values.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(plain_estimate(equal, values, -500.0), values.mean(1), rtol=1e-5)
    smoothed = smoothed_estimate(np.asarray(equal), np.asarray(values))
    np.testing.assert_allclose(smoothed.value, values.mean(axis=1), rtol=1e-5)
    log_weights = jnp.asarray(rng.normal(size=(3, 64)), jnp.float32)
    sums = weighted_sums(log_weights, values)
    np.testing.assert_allclose(
        sums.numerator / sums.denominator, self_normalised_estimate(log_weights, values), rtol=1e-5
    )
    shifted = self_normalised_estimate(log_weights - 700.0, values)
    np.testing.assert_allclose(shifted, self_normalised_estimate(log_weights, values), rtol=1e-3)


def test_truncation_caps_at_the_root_of_n_times_the_mean() -> None:
    weights = jnp.asarray([[1.0] * 15 + [113.0]])
    capped = np.exp(np.asarray(truncate(jnp.log(weights))))
    np.testing.assert_allclose(capped, [[1.0] * 15 + [4 * 8.0]], rtol=1e-5)
    values = jnp.arange(16.0)[None]
    expected = (105 + 32 * 15) / 47
    np.testing.assert_allclose(truncated_estimate(jnp.log(weights), values), [expected], rtol=1e-5)


def test_smoothing_moves_the_tail_only_and_reports_its_shape() -> None:
    rng = np.random.default_rng(6)
    log_weights = rng.exponential(scale=0.5, size=2000)
    values = (log_weights > 1.0).astype(float)
    smoothed = smoothed_estimate(log_weights, values)
    raw = float(self_normalised_estimate(jnp.asarray(log_weights), jnp.asarray(values)))
    assert smoothed.value == pytest.approx(raw, rel=0.05)
    # exp of an exponential with mean k is a Pareto law of shape k.
    assert smoothed.pareto_k == pytest.approx(0.5, abs=0.15)


def test_dead_populations_are_visible() -> None:
    dead = jnp.asarray([[-jnp.inf, -jnp.inf], [0.0, -jnp.inf]])
    values = jnp.ones((2, 2))
    for estimate in (self_normalised_estimate, truncated_estimate):
        assert np.isnan(np.asarray(estimate(dead, values))).tolist() == [True, False]
    smoothed = smoothed_estimate(np.asarray(dead), np.asarray(values))
    assert np.isnan(smoothed.value).tolist() == [True, False]
    assert np.isnan(np.asarray(estimated_divergence(dead))).tolist() == [True, False]
    assert np.asarray(plain_estimate(dead, values, 0.0)).tolist() == [0.0, 0.5]
    with pytest.raises(InvalidInput, match="population 0: all 2 weights are 0"):
        check_alive(dead)
    check_alive(dead[1:])


def test_values_of_dead_rows_are_not_read() -> None:
    log_weights = jnp.asarray([0.0, -jnp.inf])
    values = jnp.asarray([3.0, jnp.nan])
    assert float(self_normalised_estimate(log_weights, values)) == 3.0


def test_divergence_and_sample_size() -> None:
    # q uniform on four rows: KL(pi || q) = log 4 - H(pi), whatever the scale of the weights.
    pi = np.array([0.1, 0.2, 0.3, 0.4])
    exact = math.log(4) + float((pi * np.log(pi)).sum())
    estimate = estimated_divergence(jnp.log(jnp.asarray(pi, jnp.float32)) - 40.0)
    assert float(estimate) == pytest.approx(exact, rel=1e-4)
    assert float(sample_size(estimate)) == pytest.approx(math.exp(exact), rel=1e-4)
    one_alive = jnp.asarray([0.0, -jnp.inf, -jnp.inf])
    assert float(estimated_divergence(one_alive)) == pytest.approx(math.log(3), rel=1e-6)


def test_truncated_proposals_are_refused() -> None:
    check_full_support((temperature(0.5),))
    check_full_support(())
    for rule in (top_k(2), top_p(0.9), temperature(0.0)):
        with pytest.raises(InvalidInput, match=f"proposal rule {rule.name}"):
            check_full_support((temperature(0.5), rule))
