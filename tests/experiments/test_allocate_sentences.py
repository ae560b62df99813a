"""`rolloutlab allocate` against its own document: pools of six prompts with histories, budgets from nothing to more than enough."""

from collections.abc import Callable
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma

from experiments.allocation_methods import METHODS, Counts, Settings
from experiments.allocation_state import PoolState
from tests.experiments import allocation_sentences as sentences
from tests.experiments.allocation_sentences import Pool, Step
from theory.allocation.records import Decision

PROMPTS, POOLS = 6, 16
LEAST = np.finfo(float).tiny ** 0.25  # of a fitted a and b, where all verdicts are alike


def of_dps(pool: Pool, settings: Settings) -> Step:
    """Whole groups by the exact belief."""
    score = sentences.chances(pool, Fraction(settings.discount))
    found = sentences.whole(
        [float(each) for each in score], pool, settings.budget, settings.group_size
    )
    return found._replace(score=score)


def of_greso(pool: Pool, settings: Settings) -> Step:
    """The same draws, kept by the exact chances."""
    score = sentences.kept_chances(pool)
    noise = np.asarray(jax.random.uniform(jax.random.key(settings.seed), (PROMPTS,)))
    kept = [float(u) < float(c) for u, c in zip(noise, score, strict=True)]
    asked = [
        group if keeps else (settings.group_size, 0)
        for group, keeps in zip(pool.groups, kept, strict=True)
    ]
    found = sentences.whole(
        [0.0] * PROMPTS, pool._replace(groups=asked), settings.budget, settings.group_size
    )
    decision = [
        each if keeps or sum(group) >= settings.group_size else "skip"
        for each, keeps, group in zip(found.decision, kept, pool.groups, strict=True)
    ]
    return Step(found.additional, decision, score)


def of_last_visit(pool: Pool, settings: Settings) -> Step:
    """HORA with Beta(1 + lam S, 1 + lam F)."""
    discount = Fraction(settings.discount)
    priors = [(1 + discount * s, 1 + discount * f) for s, f in sentences.remembered(pool, discount)]
    return sentences.hits(pool, settings.budget, settings.cap, priors)


def of_population(pool: Pool, settings: Settings) -> Step:
    """HORA with one Beta law for all, by 100 steps of Minka's."""
    seen = np.array(sentences.remembered(pool, Fraction(settings.discount)), float)
    a = b = 1.0
    for _ in range(100 if seen.any() else 0):
        rollouts = (digamma(a + b + seen.sum(axis=1)) - digamma(a + b)).sum()
        a, b = (
            max(side * (digamma(side + part) - digamma(side)).sum() / rollouts, LEAST)
            for side, part in zip((a, b), seen.T, strict=True)
        )
    return sentences.hits(pool, settings.budget, settings.cap, [(a, b)] * PROMPTS)


RULES: dict[str, tuple[Callable[[Pool, Settings], Step], list[Settings]]] = {
    "speed": (
        lambda pool, o: sentences.screens(pool, o.budget, o.screen, o.completion),
        [Settings(0), Settings(0, screen=3, completion=5)],
    ),
    "reinforce-ada": (
        lambda pool, o: sentences.rounds(
            pool, o.budget, o.per_round, o.max_rounds, o.kept, o.positive
        ),
        [
            Settings(0, per_round=4, max_rounds=2, kept=3),
            Settings(0, per_round=3, max_rounds=3, positive=True),
        ],
    ),
    "ar3po": (
        lambda pool, o: sentences.stages(pool, o.budget, o.group_size, o.stage),
        [Settings(0), Settings(0, stage=3)],
    ),
    "pods": (
        lambda pool, o: sentences.varied(pool, o.budget, o.group_size, o.kept),
        [Settings(0), Settings(0, group_size=6, kept=3)],
    ),
    "vip": (
        lambda pool, o: sentences.least_variance(pool, o.budget, o.least, o.cap),
        [Settings(0), Settings(0, least=3, cap=9)],
    ),
    "dps": (of_dps, [Settings(0), Settings(0, discount=0.75)]),
    "hora-last-visit": (of_last_visit, [Settings(0), Settings(0, discount=0.75, cap=9)]),
    "hora-population": (of_population, [Settings(0), Settings(0, discount=0.75, cap=9)]),
    "greso": (of_greso, [Settings(0, seed=seed) for seed in range(3)]),
}

TRACED_ANEW = ("vip", "hora-population")
"""Rules with loops that JAX traces at every call: they get every other pool, which has all kinds of groups and histories with both options."""


def pools() -> list[tuple[Pool, int]]:
    """Groups from empty to beyond n, many of them all right or all wrong, and a budget for each."""
    rng = np.random.default_rng(2)
    found: list[tuple[Pool, int]] = []
    for each in range(POOLS):
        rows: list[list[tuple[int, int]]] = []
        for _ in range(1 + each % 4):
            size = rng.integers(0, 11, PROMPTS)
            share = rng.choice([0, 1, 2, 2], PROMPTS)
            right = np.where(share == 2, rng.integers(0, size + 1), share * size)
            rows.append([(int(s), int(n - s)) for s, n in zip(right, size, strict=True)])
        rows[-1][:2] = [[(7, 1), (3, 1)], [(1, 7), (1, 3)], [(0, 8), (0, 9)]][each // 2 % 3]
        if each % 3 == 2:
            # An update without a draw, and one at the share from which a group counts as hard.
            rows[:0] = [[(0, 0)] * PROMPTS, [(11, 89)] + [(4, 4)] * (PROMPTS - 1)]
        budget = int(rng.choice([0, 5, 17, 30, 90]))
        found.append((Pool(rows[-1], rows[:-1]), budget))
    return found


@pytest.mark.parametrize("name", RULES)
def test_one_step_is_its_sentence(name: str) -> None:
    """Requests, decisions and scores, to the rollout."""
    rule, options = RULES[name]
    every = 2 if name in TRACED_ANEW else 1
    for place, (pool, budget) in enumerate(pools()[::every]):
        settings = options[place % len(options)]._replace(budget=budget)
        groups = np.array(pool.groups, np.int64)
        history = np.array(pool.history, np.int64).reshape(-1, PROMPTS, 2)
        ids = tuple(range(PROMPTS))
        with jax.enable_x64(True):
            state = PoolState(ids, groups[:, 0], groups[:, 1], history, None)
            counts = Counts(jnp.asarray(state.successes), jnp.asarray(state.failures))
            found = METHODS[name].run(state, counts, settings)
            expected = rule(pool, settings)
        assert np.asarray(found.additional).tolist() == expected.additional
        assert [Decision(int(d)).name.lower() for d in found.decision] == expected.decision
        np.testing.assert_allclose(found.score, [float(x) for x in expected.score], rtol=1e-12)
