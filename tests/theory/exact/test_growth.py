"""Exponents of long sequences against finite differences of exact values at finite length."""

import math

import numpy as np
import pytest

from tests.theory.exact.tables import markov, tree
from theory.errors import InvalidInput
from theory.exact import (
    ContextTable,
    context_graph,
    kl_divergence,
    power_law,
    renyi_divergence,
    temperature_law,
    unroll,
    with_horizon,
)
from theory.exact.growth import (
    best_proposal_rate,
    importance_divergence_rate,
    kl_rate,
    power_growth,
    smc_growth,
)
from theory.exact.length_scaling import (
    METHODS,
    best_proposal,
    crossover_length,
    variances_at_length,
)
from theory.exact.limit_chain import limit_chain
from theory.exact.smc_variance import adapted_variance_terms, every_step_variance_terms

TABLE = markov(np.random.default_rng(21), 3, 1)
ALPHAS = (0.5, 1.5, 2.0, 4.0, 8.0, 100.0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_growth_of_log_Z_and_of_the_divergences(alpha: float) -> None:
    graph = context_graph(TABLE)
    short, long = (unroll(with_horizon(TABLE, length)) for length in (300, 301))
    log_Z = [power_law(layers, alpha).log_Z for layers in (short, long)]
    assert power_growth(graph, alpha) == pytest.approx(log_Z[1] - log_Z[0], abs=1e-10)
    kl = [
        kl_divergence(power_law(layers, alpha).law, temperature_law(layers, alpha))
        for layers in (short, long)
    ]
    assert kl_rate(graph, alpha) == pytest.approx(kl[1] - kl[0], abs=1e-9)
    for beta in (1.0, alpha, 0.5 * (1 + alpha)):
        d2 = [
            renyi_divergence(power_law(layers, alpha).law, temperature_law(layers, beta), 2.0)
            for layers in (short, long)
        ]
        rate = importance_divergence_rate(graph, alpha, beta)
        assert rate == pytest.approx(d2[1] - d2[0], abs=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS[:-1])
def test_smc_variance_grows_by_its_slope(alpha: float) -> None:
    slopes = smc_growth(context_graph(TABLE), alpha)
    layers = unroll(with_horizon(TABLE, 401))
    # In the middle, far from both ends, every term has converged; its logarithms are of order 1000.
    every_step = every_step_variance_terms(layers, alpha, alpha)[200]
    assert slopes.every_step == pytest.approx(every_step, abs=1e-10)
    adapted = adapted_variance_terms(layers, alpha)[200]
    assert slopes.adapted == pytest.approx(adapted, abs=1e-10)


def test_limit_chain_is_the_doob_transform() -> None:
    graph = context_graph(TABLE)
    for alpha in ALPHAS:
        chain = limit_chain(graph, alpha)
        np.testing.assert_allclose(chain.transition.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(
            chain.stationary @ chain.transition, chain.stationary, atol=1e-12
        )
        assert chain.left.sum() == pytest.approx(1.0)
        assert chain.left @ chain.right == pytest.approx(1.0)
        np.testing.assert_allclose(chain.left * chain.right, chain.stationary, atol=1e-12)
        weights = np.exp(alpha * TABLE.log_probs[:3])
        np.testing.assert_allclose(
            weights @ chain.right / chain.right, math.exp(chain.log_growth), rtol=1e-9
        )
        power = power_law(unroll(with_horizon(TABLE, 200)), alpha).law
        np.testing.assert_allclose(np.exp(power.log_conditional(100)), chain.transition, atol=1e-9)


def test_the_best_proposal_is_a_minimum() -> None:
    graph = context_graph(TABLE)
    layers = unroll(with_horizon(TABLE, 12))
    for alpha in (0.5, 2.0, 4.0):
        rate = best_proposal_rate(graph, alpha)
        best = best_proposal(layers, alpha)
        target = power_law(layers, alpha).law
        for beta in (1.0, alpha, rate.proposal_alpha * 1.01, rate.proposal_alpha * 0.99):
            assert rate.value <= importance_divergence_rate(graph, alpha, beta) + 1e-12
            at_beta = renyi_divergence(target, temperature_law(layers, beta), 2.0)
            assert best.value <= at_beta + 1e-9
        at_best = renyi_divergence(target, temperature_law(layers, best.proposal_alpha), 2.0)
        assert best.value == pytest.approx(at_best, abs=1e-12)


def test_growth_with_eos_never_falls_below_that_of_ended_sequences() -> None:
    graph = context_graph(markov(np.random.default_rng(3), 3, 1, eos=(0,)))
    assert power_growth(graph, 2.0) == 0.0
    assert power_growth(graph, 0.2) > 0.0
    # One token, eos with probability 0.1: E_q[w^2] = e^2a/c + c * (same), finite iff s c < 1, with s = .9^a, c = z.
    geometric = context_graph(
        ContextTable(np.log([[0.1, 0.9]]), np.zeros((1, 2), dtype=np.int64), 0, (0,), 1)
    )
    for alpha in (0.3, 2.0):
        s, c = 0.9**alpha, 0.1**alpha + 0.9**alpha
        two_log_Z_rate = 2 * max(0.0, math.log(s))
        truth = max(0.0, math.log(s * c)) - two_log_Z_rate
        rate = importance_divergence_rate(geometric, alpha, alpha)
        assert rate == pytest.approx(max(0.0, truth), abs=1e-12)


def test_limit_chain_refuses_what_has_none() -> None:
    with pytest.raises(InvalidInput, match="can end"):
        limit_chain(context_graph(markov(np.random.default_rng(3), 3, 1, eos=(0,))), 2.0)
    two_classes = ContextTable(
        np.log([[0.5, 0.5], [1.0, 1e-300], [1e-300, 1.0]]),
        np.array([[1, 2], [1, 1], [2, 2]]),
        0,
        (),
        1,
    )
    with pytest.raises(InvalidInput, match="2 recurrent classes"):
        limit_chain(context_graph(two_classes), 2.0)
    ends = tree(np.random.default_rng(0), 2, 3)
    rows = np.concatenate([ends.log_probs, np.full((1, 2), np.nan)])
    following = np.where(ends.next_context == 0, 7, ends.next_context)
    following = np.concatenate([following, [[7, 7]]])
    with pytest.raises(InvalidInput, match="not a tree"):
        context_graph(ContextTable(rows, following, 0, (), 3))


def test_periodic_and_reducible_chains() -> None:
    # A cycle of period 2: token 0 leads to a sharp context, token 1 back.
    periodic = ContextTable(np.log([[0.3, 0.7], [0.6, 0.4]]), np.array([[1, 1], [0, 0]]), 0, (), 1)
    chain = limit_chain(context_graph(periodic), 2.0)
    two_steps = math.log((0.3**2 + 0.7**2) * (0.6**2 + 0.4**2))
    assert chain.log_growth == pytest.approx(two_steps / 2, rel=1e-12)
    np.testing.assert_allclose(chain.stationary, 0.5)
    # A transient context that leads into one class, never back.
    reducible = ContextTable(np.log([[0.5, 0.5], [0.2, 0.8]]), np.array([[0, 1], [1, 1]]), 0, (), 1)
    graph = context_graph(reducible)
    assert power_growth(graph, 2.0) == pytest.approx(math.log(0.2**2 + 0.8**2))


def test_crossovers_are_where_the_curves_cross() -> None:
    alpha, pairs = (
        2.0,
        (("importance_temperature", "smc"), ("importance_temperature", "smc_adapted")),
    )
    table = ContextTable(
        np.log([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]), np.tile([0, 1], (3, 1)), 2, (), 1
    )

    def value(method: str, length: int) -> float:
        found = variances_at_length(table, alpha, length)
        assert [entry.method for entry in found] == list(METHODS)
        return found[METHODS.index(method)].log_one_plus_variance

    for first, second in pairs:
        length = crossover_length(table, alpha, first, second, 512)
        assert length is not None
        assert value(second, length) < value(first, length)
        assert value(second, length - 1) >= value(first, length - 1)
    assert crossover_length(table, alpha, "smc", "importance_base", 512) is None


STICKY = ContextTable(
    np.log([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]), np.tile([0, 1], (3, 1)), 2, (), 1
)


def test_the_best_temperature_may_be_colder_than_the_target() -> None:
    found = best_proposal(unroll(with_horizon(STICKY, 512)), 2.0)
    assert found.proposal_alpha == pytest.approx(2.3494, abs=1e-3)
    assert found.value == pytest.approx(1.319935660, abs=1e-8)


def test_each_method_is_what_its_name_says() -> None:
    layers = unroll(with_horizon(STICKY, 9))
    target = power_law(layers, 2.0).law
    found = {entry.method: entry for entry in variances_at_length(STICKY, 2.0, 9)}
    for method, beta in (("importance_base", 1.0), ("importance_temperature", 2.0)):
        assert found[method].proposal_alpha == beta
        truth = renyi_divergence(target, temperature_law(layers, beta), 2.0)
        assert found[method].log_one_plus_variance == pytest.approx(truth, abs=1e-12)
    every_step = every_step_variance_terms(layers, 2.0, 2.0).sum()
    assert found["smc"].log_one_plus_variance == pytest.approx(math.log1p(every_step))
    adapted = adapted_variance_terms(layers, 2.0).sum()
    assert found["smc_adapted"].log_one_plus_variance == pytest.approx(math.log1p(adapted))


def test_a_tie_is_no_lead() -> None:
    # At one token from an even start both proposals are the target; from two on temperature is better.
    pair = ("importance_base", "importance_temperature")
    assert crossover_length(STICKY, 2.0, *pair, 64) is None


def test_an_eos_of_probability_zero_is_none() -> None:
    rows = np.log([[0.9, 0.1, 1e-300], [0.4, 0.6, 1e-300], [0.5, 0.5, 1e-300], [0.5, 0.5, 1e-300]])
    rows[:, 2] = -np.inf
    table = ContextTable(rows, np.tile([0, 1, 2], (4, 1)), 3, (2,), 1)
    graph = context_graph(table)
    assert not graph.can_end
    assert power_growth(graph, 2.0) == pytest.approx(power_growth(context_graph(STICKY), 2.0))


def test_a_crossover_between_two_powers_of_two_is_found() -> None:
    pair = ("importance_temperature", "smc")
    assert crossover_length(STICKY, 2.0, *pair, 300) == 262
    assert crossover_length(STICKY, 2.0, *pair, 262) == 262
    assert crossover_length(STICKY, 2.0, *pair, 261) is None
