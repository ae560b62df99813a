"""The limit of N times the bias of a self-normalised estimate: by sums over prefixes, and against finite runs."""

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from models.tabular.toys import toy_c, toy_e
from tests.theory.exact.tables import Recipe, recipes
from theory.errors import InvalidInput
from theory.exact import (
    Layers,
    base_law,
    delta_method,
    enumerate_sequences,
    plain_filter,
    power_law,
    smc_bias_terms,
    temperature_law,
    unroll,
    weighted_draw,
)
from theory.exact.semiring import PerDepth

exponents = st.sampled_from([0.5, 1.0, 2.0, 4.0])


def cost_of(depth: int, token: int) -> float:
    """Any cost, so that neither the length nor a count of tokens is special."""
    return (depth + 1.0) * (token - 0.7) ** 2 - token


def costs(layers: Layers) -> PerDepth:
    return lambda depth: np.array(
        [[cost_of(depth, v) for v in range(layers[depth].log_probs.shape[1])]]
        * len(layers[depth].log_probs)
    )


def total(tokens: tuple[int, ...]) -> float:
    return sum(cost_of(depth, token) for depth, token in enumerate(tokens))


@given(recipes, exponents, exponents)
def test_without_resampling_it_is_the_delta_method(
    recipe: Recipe, alpha: float, beta: float
) -> None:
    layers = unroll(recipe.build())
    proposal = temperature_law(layers, beta)
    draw = weighted_draw(power_law(layers, alpha).law, proposal, total)
    (term,) = smc_bias_terms(alpha, proposal, costs(layers), ())
    assert term == pytest.approx(delta_method(draw).bias, rel=1e-9, abs=1e-10)


@given(recipes, exponents, exponents, st.sets(st.integers(1, 6)))
def test_terms_equal_the_sum_over_prefixes(
    recipe: Recipe, alpha: float, beta: float, steps: set[int]
) -> None:
    layers = unroll(recipe.build())
    horizon = len(layers)
    power, proposal = power_law(layers, alpha), temperature_law(layers, beta)
    listed = enumerate_sequences((power.law, base_law(layers), proposal))
    pi, p, q = np.exp(listed.log_probs)
    gaps = np.array([total(y) for y in listed.sequences])
    gaps = gaps - pi @ gaps
    after = {step for step in steps if step <= horizon}
    found = smc_bias_terms(alpha, proposal, costs(layers), after)
    bounds = sorted({0, horizon, *after})
    for term, begin, end in zip(found, bounds, bounds[1:], strict=False):
        groups: dict[tuple[int, ...], list[int]] = {}
        for place, tokens in enumerate(listed.sequences):
            groups.setdefault(tokens[:end], []).append(place)
        first = {
            y[:begin]: [i for i, z in enumerate(listed.sequences) if z[:begin] == y[:begin]]
            for y in listed.sequences
        }
        Z_begin = sum(p[places].sum() ** alpha for places in first.values())
        expected = 0.0
        for x, places in groups.items():
            start = first[x[:begin]]
            mu = p[start].sum() ** alpha / Z_begin * q[places].sum() / q[start].sum()
            expected -= pi[places].sum() * (pi[places] @ gaps[places]) / mu
        assert term == pytest.approx(expected, rel=1e-9, abs=1e-10)
    assert len(found) == len(bounds) - 1


STOP, HORIZON, ALPHA = 0.3, 4, 2.0


def reached_the_end(num: int) -> float:
    """E[R] of N particles exactly, for f = 1 where a sequence has not ended before its last token.

    With one token beside eos a population is only the number of its live rows, which is a Markov chain.
    """
    counts = np.arange(num + 1)
    go, stop = (1 - STOP) ** (ALPHA - 1), STOP ** (ALPHA - 1)  # weights under the base proposal
    law = np.zeros(num + 1)
    law[num] = 1.0
    for _ in range(HORIZON - 1):
        following = np.zeros(num + 1)
        for live in counts:
            moved = counts[: live + 1]
            ended = stop * (live - moved) + (num - live)
            share = go * moved / (go * moved + ended)
            probs = binom.pmf(moved, live, 1 - STOP)
            following += law[live] * (probs @ binom.pmf(counts[None], num, share[:, None]))
        law = following
    mean = 0.0
    for live in counts:
        moved = counts[: live + 1]
        weight = go * moved + stop * (live - moved)
        mean += law[live] * (binom.pmf(moved, live, 1 - STOP) @ (weight / (weight + num - live)))
    return float(mean)


def test_it_is_the_limit_of_exact_biases() -> None:
    layers = unroll(toy_c((1 - STOP,), STOP, HORIZON))
    proposal, every = base_law(layers), range(1, HORIZON)

    def cost(depth: int) -> np.ndarray:
        return np.full(layers[depth].log_probs.shape, float(depth == HORIZON - 1))

    run = plain_filter(ALPHA, proposal, 3, every)
    by_run = run.final_draw @ np.array([len(y) == HORIZON for y in run.sequences])
    assert reached_the_end(3) == pytest.approx(by_run, rel=1e-11)
    power = power_law(layers, ALPHA).law
    listed = enumerate_sequences((power,))
    truth = float(np.exp(listed.log_probs[0]) @ [len(y) == HORIZON for y in listed.sequences])
    # Polynomial in 1 / N, so that three sizes leave an error of order 1 / N^3, relative 1e-4.
    sizes = np.array([32, 64, 128])
    scaled = [num * (reached_the_end(int(num)) - truth) for num in sizes]
    limit = np.polyfit(1 / sizes, scaled, 2)[-1]
    terms = smc_bias_terms(ALPHA, proposal, cost, every)
    assert terms.sum() == pytest.approx(limit, rel=3e-4)
    assert abs(terms.sum() / scaled[-1] - 1) > 4e-3, "the finite sizes alone would do"
    alone = smc_bias_terms(ALPHA, proposal, cost, ()).sum()
    assert abs(alone / limit - 1) > 0.1


def test_an_optimal_proposal_leaves_the_bias_of_resampling_alone() -> None:
    """Draws from the target itself have no bias without resampling, nor has one after the last token."""
    layers = unroll(toy_e())
    power = power_law(layers, 4.0).law
    for after in ((), (len(layers),)):
        terms = smc_bias_terms(4.0, power, costs(layers), after)
        np.testing.assert_allclose(terms.sum(), 0, atol=1e-12)
    assert abs(smc_bias_terms(4.0, power, costs(layers), (2,)).sum()) > 1e-3


def test_bad_steps_are_refused() -> None:
    layers = unroll(toy_e())
    bad: Collection[int]
    for bad in ((0,), (5,)):
        with pytest.raises(InvalidInput, match="steps must be from 1 to 4"):
            smc_bias_terms(2.0, base_law(layers), costs(layers), bad)
    with pytest.raises(InvalidInput, match="alpha"):
        smc_bias_terms(0.0, base_law(layers), costs(layers), ())
