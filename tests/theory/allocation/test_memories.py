"""Memories side by side: what each knows, and which one is used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from tests.planted_bugs.damage.stopping import log_moments
from theory.allocation.memories import (
    EM_STEPS,
    MEMORIES,
    SCORE_DISCOUNT,
    Memories,
    best_memory,
    remember,
    start_memories,
)
from theory.allocation.population import flat_grid

P = 12
compiled = jax.jit(lambda memories, v, s, f: remember(flat_grid(), memories, v, s, f))


def after(updates: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Memories:
    memories = start_memories(flat_grid(), P)
    for visited, s, f in updates:
        memories = compiled(memories, jnp.asarray(visited), jnp.asarray(s), jnp.asarray(f))
    return memories


def marginal(log_weights: np.ndarray, likelihoods: np.ndarray) -> np.ndarray:
    return np.asarray(logsumexp(log_weights + likelihoods, axis=-1))


def em(log_weights: np.ndarray, likelihoods: np.ndarray, known: np.ndarray) -> np.ndarray:
    for _ in range(EM_STEPS):
        joint = log_weights + likelihoods
        shares = np.exp(joint - logsumexp(joint, axis=-1, keepdims=True))
        number = shares[known].sum(axis=0) + 1 / log_weights.size
        log_weights = np.log(number / number.sum())
    return log_weights


def test_every_memory_is_what_it_says() -> None:
    """Discounted counts, the population that EM finds in them, and the log probability that they gave to what came."""
    rng = np.random.default_rng(3)
    seen = [
        (rng.uniform(size=P) < 0.6, rng.integers(0, 4, P), rng.integers(0, 4, P)) for _ in range(3)
    ]
    found = after(seen)
    for place, memory in enumerate(MEMORIES):
        right, wrong, log_weights = np.zeros(P), np.zeros(P), np.full(21, -np.log(21.0))
        score = 0.0
        for visited, s, f in seen:
            here = marginal(log_weights, log_moments(flat_grid(), right, wrong))
            right, wrong = right + visited * s, wrong + visited * f
            likelihoods = log_moments(flat_grid(), right, wrong)
            then = marginal(log_weights, likelihoods)
            score = SCORE_DISCOUNT * score + (then - here)[visited].sum()
            log_weights = em(log_weights, likelihoods, right + wrong > 0)
            right, wrong = memory * right, memory * wrong
        np.testing.assert_allclose(found.successes[place], right, rtol=1e-5)
        np.testing.assert_allclose(found.failures[place], wrong, rtol=1e-5)
        np.testing.assert_allclose(found.log_weights[place], log_weights, atol=2e-3)
        assert float(found.score[place]) == pytest.approx(score, rel=1e-4)


def used(updates: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> float:
    """Which memory: by what it keeps of a rollout of the first prompt."""
    memories = after(updates)
    chosen = best_memory(flat_grid(), memories)
    kept = np.asarray(memories.failures + memories.successes)[:, 0]
    place = int(np.flatnonzero(kept == float(chosen.successes[0] + chosen.failures[0]))[-1])
    np.testing.assert_array_equal(chosen.population.log_weights, memories.log_weights[place][:-2])
    np.testing.assert_array_equal(
        chosen.population.log_point_weights, memories.log_weights[place][-2:]
    )
    return MEMORIES[place]


def test_what_stands_still_is_remembered_and_what_turns_is_forgotten() -> None:
    everyone, side = np.ones(P, bool), np.arange(P) % 2
    still = [(everyone, 4 * side, 4 - 4 * side)] * 6
    assert used(still) == 1.0
    # New sides at every update: what was seen last says nothing.
    rng = np.random.default_rng(4)
    turning = [(everyone, 4 * new, 4 - 4 * new) for new in rng.integers(0, 2, (8, P))]
    assert used(turning) == 0.0


def test_before_anything_is_seen_the_longest_memory_is_used() -> None:
    memories = start_memories(flat_grid(), 3)
    marked = memories._replace(successes=memories.successes.at[-1, 0].set(2.0))
    assert float(best_memory(flat_grid(), marked).successes[0]) == 2.0
