"""Distinct sequences against plain enumeration: the law of ordered samples, of the threshold, and the estimator."""

import importlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.random_tables import random_tree_table
from tests.planted_bugs import decoding as planted
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from tests.theory.decoding import reference
from theory.decoding import (
    DistinctDraws,
    TokenRule,
    estimate_expectation,
    log_importance_weights,
    log_inclusion_probs,
    repetition,
    stochastic_beam,
    temperature,
    top_p,
)
from theory.decoding.stochastic_beam import gumbels_given_max
from theory.errors import InvalidInput
from theory.exact import (
    after_prompt,
    base_law,
    enumerate_sequences,
    temperature_law,
    unroll,
    with_horizon,
)
from theory.keys import row_keys
from theory.ledger import totals

HORIZON, EOS = 3, 2
NUM_PROMPTS = 8192
# Narrow, so that a wrong beam loses prefixes that it should keep.
NARROW = 3
# Wide, so that the weights have moments enough for a t-test: 1 / q_kappa has those below the number of sequences.
WIDE = 6
# The sampled law is not the model's, so that p and q cannot be confused.
HEAT = 2.0

# A tree, whose laws depend on the whole prefix: a beam that loses track of its states is wrong. Deep enough for prompts.
TABLE = with_horizon(
    random_tree_table(np.random.default_rng(3), 3, (EOS,), HORIZON + 2, concentration=4.0), HORIZON
)
LAYERS = unroll(TABLE)
ALL = enumerate_sequences([base_law(LAYERS), temperature_law(LAYERS, 1 / HEAT)])
PLACE = {sequence: place for place, sequence in enumerate(ALL.sequences)}
P, Q = np.exp(ALL.log_probs)
MODEL = ContextModel.from_table(TABLE)
BEAM = jax.jit(stochastic_beam, static_argnames="num_sequences")


def run(
    rules: tuple[TokenRule, ...],
    num_sequences: int,
    rows: np.ndarray,
    prompts: list[list[int]] | None = None,
    beam: Callable[..., DistinctDraws] = BEAM,
) -> DistinctDraws:
    """The compiled beam for some prompts, by their global ids."""
    prompts = prompts or [[]] * rows.size
    width = max(map(len, prompts))
    padded = jnp.asarray([[*prompt, *[0] * (width - len(prompt))] for prompt in prompts], jnp.int32)
    lengths = jnp.asarray([len(prompt) for prompt in prompts], jnp.int32)
    keys = row_keys(jax.random.key(5), jnp.asarray(rows))
    return beam(keys, MODEL, padded, lengths, rules, num_sequences=num_sequences)


@pytest.fixture(scope="module")
def narrow() -> DistinctDraws:
    return run((temperature(HEAT),), NARROW, np.arange(NUM_PROMPTS))


@pytest.fixture(scope="module")
def wide() -> DistinctDraws:
    return run((temperature(HEAT),), WIDE, np.arange(4 * NUM_PROMPTS))


def sequences(draws: DistinctDraws) -> list[list[tuple[int, ...]]]:
    return [
        [tuple(row[:n].tolist()) for row, n in zip(rows, lengths, strict=True)]
        for rows, lengths in zip(np.asarray(draws.tokens), np.asarray(draws.lengths), strict=True)
    ]


def places(draws: DistinctDraws) -> np.ndarray:
    return np.array([[PLACE[sequence] for sequence in row] for row in sequences(draws)])


def check_order_law(draws: DistinctDraws) -> None:
    """The first two sequences are y, y' with probability q(y) q(y') / (1 - q(y))."""
    law = np.outer(Q / (1 - Q), Q)
    np.fill_diagonal(law, 0.0)
    first, second = places(draws)[:, :2].T
    counts = np.bincount(first * Q.size + second, minlength=Q.size**2)
    assert_counts(counts, law.ravel() / law.sum())


def at_most(k: int, exceed: np.ndarray) -> np.ndarray:
    """P(at most k of independent events), probabilities [..., M]."""
    law = np.zeros((*exceed.shape[:-1], k + 1))
    law[..., 0] = 1.0
    for m in range(exceed.shape[-1]):
        p = exceed[..., m, None]
        shifted = np.concatenate([np.zeros_like(law[..., :1]), law[..., :-1]], axis=-1)
        law = law * (1 - p) + shifted * p
    return law.sum(axis=-1)


def test_the_law_of_ordered_samples(narrow: DistinctDraws) -> None:
    check_order_law(narrow)


def test_inclusion_probabilities_by_enumeration(narrow: DistinctDraws) -> None:
    """P(y among the 3) over all ordered triples, against how often it is."""
    pairs = Q[:, None] * Q[None] / (1 - Q[:, None])
    left = np.maximum(1 - Q[:, None, None] - Q[None, :, None], 1e-300)
    triples = pairs[..., None] * Q / left
    index = np.arange(Q.size)
    i, j, k = np.meshgrid(index, index, index, indexing="ij")
    triples[(i == j) | (j == k) | (i == k)] = 0.0
    included = triples.sum((1, 2)) + triples.sum((0, 2)) + triples.sum((0, 1))
    np.testing.assert_allclose(included.sum(), NARROW, rtol=1e-9)
    hits = (places(narrow)[..., None] == index).any(axis=1).sum(axis=0)
    for y in np.argsort(Q)[::4]:
        share = np.array([included[y], 1 - included[y]])
        assert_counts(np.array([hits[y], NUM_PROMPTS - hits[y]]), share)


def test_children_that_ignore_their_parent_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("theory.decoding.stochastic_beam")
    monkeypatch.setattr(module, "gumbels_given_max", planted.gumbels_not_given_max)
    # A new function, so that the compiled right one is not taken for it.

    def unconditioned(keys: Any, model: Any, *given: Any, num_sequences: int) -> DistinctDraws:
        return stochastic_beam(keys, model, *given, num_sequences=num_sequences)

    beam = jax.jit(unconditioned, static_argnames="num_sequences")
    wrong = run((temperature(HEAT),), NARROW, np.arange(NUM_PROMPTS), beam=beam)
    assert_rejected(lambda: check_order_law(wrong))


def test_the_threshold_follows_its_order_statistic(narrow: DistinctDraws) -> None:
    """kappa <= x iff at most k of the independent Gumbels log q(y) + G exceed x."""
    edges = np.array([-2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5])
    exceed = -np.expm1(-np.exp(np.log(Q)[None] - edges[:, None]))
    cumulative = np.concatenate([[0.0], at_most(NARROW, exceed), [1.0]])
    counts = np.bincount(np.searchsorted(edges, np.asarray(narrow.kappa)), minlength=edges.size + 1)
    assert_counts(counts, np.diff(cumulative))


def test_sequences_are_distinct_and_what_is_recorded_is_true(narrow: DistinctDraws) -> None:
    where = places(narrow)
    assert (np.diff(np.sort(where, axis=1), axis=1) > 0).all()
    np.testing.assert_allclose(np.asarray(narrow.log_p), ALL.log_probs[0][where], atol=2e-6)
    np.testing.assert_allclose(np.asarray(narrow.log_q), ALL.log_probs[1][where], atol=3e-6)
    scores = np.concatenate([narrow.scores, np.asarray(narrow.kappa)[:, None]], axis=1)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert np.asarray(narrow.drawn).all() and not np.asarray(narrow.failed).any()
    ends = [[sequence[-1] == EOS for sequence in row] for row in sequences(narrow)]
    np.testing.assert_array_equal(np.asarray(narrow.ended), ends)


Weights = Callable[[DistinctDraws], jax.Array]


def right_weights(draws: DistinctDraws) -> jax.Array:
    return log_importance_weights(draws.log_p, draws.log_q, draws.kappa)


def check_estimator(draws: DistinctDraws, weights: Weights) -> None:
    """Unbiased for the mass of p, and for an expectation under it."""
    log_weights = weights(draws)
    starts_with_b = (draws.tokens[..., 0] == 1).astype(jnp.float32)
    values = [jnp.ones_like(log_weights), starts_with_b, draws.lengths.astype(jnp.float32)]
    estimates = jnp.stack([estimate_expectation(value, log_weights) for value in values], axis=1)
    first = np.array([sequence[0] == 1 for sequence in ALL.sequences])
    lengths = np.array([len(sequence) for sequence in ALL.sequences])
    truth = np.array([1.0, P[first].sum(), P @ lengths])
    assert_mean(np.asarray(estimates), truth, smallest_bias=[0.1, 0.1, 0.25])


def test_the_estimator_is_unbiased(wide: DistinctDraws) -> None:
    check_estimator(wide, right_weights)


@pytest.mark.parametrize(
    "bug", [planted.weights_without_threshold, planted.weights_by_own_threshold]
)
def test_wrong_weights_are_rejected(wide: DistinctDraws, bug: Callable[..., jax.Array]) -> None:
    assert_rejected(
        lambda: check_estimator(wide, lambda d: bug(d.log_p, d.scores, d.log_q, d.kappa))
    )


RULES = (repetition(1.5), temperature(0.7), top_p(0.95))


def law_under_rules(prompt: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Every sequence with its probability under RULES, by walking the table."""
    start = after_prompt(TABLE, prompt).initial
    found: dict[tuple[int, ...], float] = {}
    level: list[tuple[tuple[int, ...], int, float]] = [((), start, 1.0)]
    while level:
        sequence, context, mass = level.pop()
        counts = np.bincount(np.array(sequence, int), minlength=3)
        law = reference.in_sequence(
            reference.repetition(1.5, counts), reference.temperature(0.7), reference.top_p(0.95)
        )(np.exp(TABLE.log_probs[context]))
        for token in np.flatnonzero(law).tolist():
            child, child_mass = (*sequence, token), mass * law[token]
            if token == EOS or len(child) == HORIZON:
                found[child] = child_mass
            else:
                level.append((child, int(TABLE.next_context[context, token]), child_mass))
    return found


def test_all_sequences_are_drawn_where_there_are_not_more() -> None:
    """Then kappa is -inf, every weight is p, and the estimate is exact. Prompts and rules that read counts included."""
    prompts = [[0], [1, 0], [0]]
    draws = run(RULES, 15, np.array([7, 1, 3]), prompts)
    log_weights = log_importance_weights(draws.log_q, draws.log_q, draws.kappa)
    assert np.isneginf(np.asarray(draws.kappa)).all()
    for row, prompt in enumerate(prompts):
        expected = law_under_rules(tuple(prompt))
        drawn = np.asarray(draws.drawn)[row]
        assert drawn.sum() == len(expected)
        found = [s for s, is_drawn in zip(sequences(draws)[row], drawn, strict=True) if is_drawn]
        assert set(found) == set(expected) and len(found) == len(expected)
        log_q = np.asarray(draws.log_q)[row]
        np.testing.assert_allclose(log_q[drawn], [math.log(expected[s]) for s in found], atol=5e-6)
        for empty in (draws.log_q, draws.log_p, draws.scores, log_weights):
            assert np.isneginf(np.asarray(empty)[row][~drawn]).all()
        assert (np.asarray(draws.lengths)[row][~drawn] == 0).all()
        assert (np.asarray(draws.tokens)[row][~drawn] == 0).all()
    total = estimate_expectation(jnp.ones_like(log_weights), log_weights)
    np.testing.assert_allclose(np.asarray(total), 1.0, atol=1e-5)


def test_a_prompt_does_not_see_the_prompts_beside_it() -> None:
    one = run(RULES, 15, np.array([7, 1, 3]), [[0], [1, 0], [0]])
    another = run(RULES, 15, np.array([1, 8, 9]), [[1, 0], [1, 1], [0]])
    for ours, others in zip(one[:-1], another[:-1], strict=True):
        np.testing.assert_array_equal(np.asarray(ours)[1], np.asarray(others)[0])


def test_what_was_spent_is_recorded() -> None:
    draws = run(RULES, 15, np.array([7, 1, 3]), [[0], [1, 0], [0]])
    record = totals(draws.ledger)
    assert record["rollouts_commit"] == int(draws.drawn.sum())
    assert record["prefill_tokens"] == 4
    assert record["generated_tokens"] >= int(draws.lengths.max(axis=1).sum())
    assert record["row_steps_useful"] <= record["row_steps_executed"]


def test_a_prefix_without_a_law_is_flagged() -> None:
    """Nothing follows eos, so the model has no law after the second prompt; the others go on."""
    draws = run(RULES, 15, np.array([7, 1, 3]), [[0], [EOS, 0], [0]])
    np.testing.assert_array_equal(np.asarray(draws.failed), [False, True, False])
    np.testing.assert_array_equal(
        np.asarray(draws.drawn).any(axis=1), np.logical_not(np.asarray(draws.failed))
    )
    assert not np.isnan(np.asarray(draws.scores)).any()


def check_given_max(given_max: Callable[[jax.Array, jax.Array], jax.Array]) -> None:
    """-log(exp(-T) - exp(-Z) + exp(-G)): the largest becomes T exactly, impossible ones stay so."""
    rng = np.random.default_rng(0)
    perturbed = rng.gumbel(size=(64, 5)) - 3 * rng.random((64, 5))
    maximum = rng.gumbel(size=64)
    largest = perturbed.max(axis=1, keepdims=True)
    expected = -np.log(np.exp(-maximum)[:, None] - np.exp(-largest) + np.exp(-perturbed))
    perturbed[:, 1:][perturbed[:, 1:] < -2.5] = -np.inf
    impossible = np.isneginf(perturbed)
    expected[impossible] = -np.inf
    moved = np.asarray(
        given_max(jnp.asarray(perturbed, jnp.float32), jnp.asarray(maximum, jnp.float32))
    )
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(moved.max(axis=1), np.asarray(maximum, np.float32))


def test_gumbels_given_their_maximum() -> None:
    check_given_max(gumbels_given_max)
    nothing = gumbels_given_max(jnp.zeros((2, 3)), jnp.full(2, -jnp.inf))
    assert np.isneginf(np.asarray(nothing)).all()
    with pytest.raises(AssertionError):
        check_given_max(planted.gumbels_not_given_max)


def test_log_inclusion_probs_over_the_whole_range() -> None:
    gaps = np.array([-80.0, -30.0, -17.5, -16.5, -3.0, 0.0, 2.0, 40.0])
    expected = np.log(-np.expm1(-np.exp(gaps)))
    log_q = jnp.asarray(gaps[None] - 1.0, jnp.float32)
    actual = log_inclusion_probs(log_q, jnp.array([-1.0]))
    np.testing.assert_allclose(np.asarray(actual)[0], expected, rtol=1e-5, atol=1e-7)
    all_drawn = log_inclusion_probs(jnp.array([[-3.0, -jnp.inf]]), jnp.array([-jnp.inf]))
    np.testing.assert_array_equal(np.asarray(all_drawn), [[0.0, -np.inf]])


def test_no_sequences_are_refused() -> None:
    with pytest.raises(InvalidInput, match="distinct sequences 0: must be at least 1"):
        run((), 0, np.arange(1))
