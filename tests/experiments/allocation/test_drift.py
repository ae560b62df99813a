"""Worlds that move without regard to the rule, the baseline that does not look again, and where one curve falls behind another."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from experiments.allocation.drift import Movement, drifting_world, movement
from experiments.allocation.drift_frozen import allocator, mixed_chance
from experiments.allocation.drift_table import (
    AT_ONCE,
    CROSSES,
    NEVER,
    RUNS,
    Case,
    crossing,
    crossing_rows,
    run_row,
)
from experiments.allocation.regimes import DRIFT_RATES, Drift
from experiments.allocation.simulator import Curve
from experiments.allocation_drift import PRESETS, Config, cases, main
from experiments.tables import from_rows
from tests.experiments.allocation.commands import assert_refused
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from tests.theory.allocation.loops import play, updates
from theory.allocation.records import Groups

P = 400
RATES = np.random.default_rng(2).beta(0.3, 0.3, P).astype(np.float32)


def no_groups(num_prompts: int) -> Groups:
    no, zeros = jnp.zeros(num_prompts, bool), jnp.zeros(num_prompts, jnp.int32)
    return Groups(no, zeros, zeros, jnp.asarray(True), zeros, zeros, zeros, zeros)


@partial(jax.jit, static_argnums=2)
def ways(keys: Any, moves: Movement, steps: int) -> Any:
    """[seeds, steps + 1, P] success rates."""

    def one(key: Any) -> Any:
        world = drifting_world(key, jnp.asarray(RATES), moves)

        def step(parameters: Any, _: None) -> tuple[Any, Any]:
            return world.learn(parameters, no_groups(P)), world.success_rate(parameters)

        return jax.lax.scan(step, world.parameters, None, steps + 1)[1]

    return jax.vmap(one)(keys)


def way(kind: str, rate: float) -> np.ndarray:
    """[4, P] of one world; all kinds share a program."""
    found = ways(jax.random.key(0)[None], movement(Drift(kind, rate)), 3)
    return np.asarray(found, np.float64)[0]


def logits(rates: np.ndarray) -> np.ndarray:
    return np.log(rates) - np.log1p(-rates)


def test_an_exchange_keeps_the_pool_and_moves_its_prompts() -> None:
    """The same rates at every update, bit for bit; nothing moves at 0, and at 1 nothing is left of the order."""
    for rate in (0.0, 0.3, 1.0):
        found = way("exchange", rate)
        np.testing.assert_array_equal(np.sort(found), np.sort(found[:1]).repeat(4, axis=0))
        assert (found[1] == found[0]).all() == (rate == 0)


def rank_correlations(rate: float) -> np.ndarray:
    """Of the order of the prompts before and after two updates, one a world."""
    keys = jax.random.split(jax.random.key(1), 160)
    found = np.asarray(ways(keys, movement(Drift("exchange", rate)), 2))
    ranks = found.argsort(axis=2).argsort(axis=2)
    return np.array([np.corrcoef(rank[0], rank[2])[0, 1] for rank in ranks])


def test_scores_forget_at_their_rate() -> None:
    """The correlation of ranks of two normals that are r correlated is 6 / pi asin(r / 2), with r = (1 - rate^2)^(steps / 2)."""
    found = rank_correlations(0.5)
    r = 1 - 0.5**2
    expected = 6 / np.pi * np.arcsin(r / 2) * P / (P + 1)
    assert_mean(found, expected, smallest_bias=0.03)
    assert_rejected(lambda: assert_mean(found, r**2, smallest_bias=0.03))


def test_walks_step_in_logits_within_their_ends() -> None:
    """Steps have the stated deviation away from the ends, and nobody leaves them, hopeless prompts included."""
    found = logits(way("walk", 0.5)[:2])
    assert np.abs(found).max() <= 6 + 1e-3
    inside = np.abs(found[0]) < 3
    steps = np.diff(found, axis=0)[0, inside]
    cuts = np.array([-0.5, -0.2, 0.0, 0.2, 0.5])
    law = np.diff(norm.cdf(cuts / 0.5), prepend=0.0, append=1.0)

    def counts(steps: np.ndarray) -> np.ndarray:
        return np.bincount(np.searchsorted(cuts, steps), minlength=6)

    assert_counts(counts(steps), law)
    assert_rejected(lambda: assert_counts(counts(0.5 * steps), law))
    far = logits(way("walk", 3.0))
    assert np.abs(far).max() <= 6 + 1e-3
    # From the ends they come back, by what would have led beyond.
    at_the_end = np.abs(far[0]) > 5.99
    assert at_the_end.sum() > 10 and (np.abs(far[1, at_the_end]) < 5.99).all()


def test_a_trend_is_common_and_exact() -> None:
    found = logits(way("trend", 0.1))
    low = found[0] < 5
    np.testing.assert_allclose(np.diff(found[:, low], axis=0), 0.1, atol=2e-4)
    assert found.max() <= 6 + 1e-3


def test_the_energy_of_groups_is_kept() -> None:
    world = drifting_world(jax.random.key(0), jnp.asarray(RATES), movement(Drift("walk", 0.1)))
    groups = no_groups(P)
    groups = groups._replace(
        ready=groups.ready.at[:3].set(True),
        successes=groups.successes.at[:4].set(jnp.array([1, 4, 2, 9])),
        failures=groups.failures.at[:4].set(jnp.array([4, 1, 0, 9])),
    )
    once = world.learn(world.parameters, groups)
    assert float(world.held_out_rate(once)[0]) == 4.0
    assert float(world.held_out_rate(world.learn(once, groups))[0]) == 8.0


@pytest.mark.slow
def test_frozen_estimates_are_made_once_and_used_from_then_on() -> None:
    """Each prompt once in the first epoch; then the best by that group, whatever later groups show."""
    batch, n, pool = 4, 6, 20
    rounds = play(allocator(batch, n), np.linspace(0.02, 0.9, pool), 12)
    complete = updates(rounds)
    first = complete[: pool // batch]
    counts = np.sum([update[-1].requests.additional for update in first], axis=0)
    np.testing.assert_array_equal(counts, n)
    right = np.sum([update[-1].groups.successes for update in first], axis=0)
    score = np.asarray(mixed_chance(jnp.asarray(right), jnp.asarray(n - right), n))
    for update in complete[pool // batch :]:
        picked = update[-1].groups.ready
        assert picked.sum() == batch
        assert score[picked].min() >= score[~picked].max() - 1e-6
        np.testing.assert_allclose(update[-1].state.belief.score, score, atol=1e-6)


def test_the_chance_of_a_mixed_group_is_that_of_a_flat_prior() -> None:
    """With s of n seen, 1 - B(1 + s + n, 1 + n - s) / B(1 + s, 1 + n - s) - the same for failures; at s = n = 2 it is 1 - 3 / 5 - 1 / 10."""
    found = mixed_chance(jnp.array([2, 1, 0]), jnp.array([0, 1, 2]), 2)
    np.testing.assert_allclose(found, [0.3, 1 - 2 * 0.3, 0.3], atol=1e-6)


def test_crossings_of_straight_lines() -> None:
    gaps = [np.array([1.0, 3.0]), np.array([0.0, 2.0]), np.array([-3.0, -1.0])]
    found = crossing([0.0, 1.0, 2.0], gaps)
    assert (found.verdict, found.crossing) == (CROSSES, pytest.approx(1 + 1 / 3))
    # The interval of two seeds is 12.7 wide on both sides: it holds 0 everywhere.
    assert found.low == 0.0 and math.isnan(found.high)
    tight = [np.array([2.0 - x, 2.0 - x]) for x in (0.0, 1.0, 4.0)]
    assert crossing([0.0, 1.0, 4.0], tight) == (CROSSES, 2.0, 2.0, 2.0)
    ahead, behind = (
        crossing([0.0, 1.0], tight[:2]),
        crossing([1.0, 2.0], [-gap for gap in tight[:2]]),
    )
    assert ahead.verdict == NEVER and math.isnan(ahead.crossing)
    assert behind.verdict == AT_ONCE and math.isnan(behind.crossing) and behind.low == 1.0


def test_only_what_comes_after_the_first_epoch_counts() -> None:
    case = Case("flat", False, "walk", 0.1)
    column = np.array([10, 30, 60, 60])
    curve = Curve(
        *(np.zeros(4) for _ in Curve._fields)  # pyright: ignore[reportArgumentType]
    )._replace(
        rollouts=column,
        accuracy=np.array([1.0, 5.0, 13.0, 0.0]),
        effective=np.array([1, 2, 4, 9]),
        push=np.array([0.5, 1.0, 2.0, 9.0]),
        num_updates=np.array(3),
        spent=np.array(70),
    )
    row = run_row(case, "sara", 3, curve, 1)
    assert (row["updates"], row["rollouts"], row["effective"], row["stopped"]) == (2, 60, 6, True)
    assert row["per_1000"] == pytest.approx(100) and row["push_per_1000"] == pytest.approx(50)
    assert row["energy_per_1000"] == pytest.approx(200)
    assert row["per_1000_with_start"] == pytest.approx(100)
    table = from_rows(RUNS, [row, {**row, "method": "dps", "per_1000": 120.0}])
    (found,) = crossing_rows(table)
    assert (found["first"], found["second"], found["verdict"]) == ("dps", "sara", NEVER)


def test_every_regime_that_was_written_down_is_run() -> None:
    config = Config()
    found = [case for case, _ in cases(config)]
    assert len(found) == len(config.populations) * sum(map(len, DRIFT_RATES.values()))
    assert len(set(found)) == len(found) and len(config.populations) == 8
    assert PRESETS["full"].config.seeds == 8


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--methods", "spss"], "unknown method 'spss'"),
        (["--populations", "flatt"], "unknown population 'flatt'"),
        (["--seeds", "0"], "--seeds 0: must be at least 1"),
        (["--num-prompts", "3"], "--num-prompts 3"),
        (["--updates", "16"], "--updates 16"),
        (["--exchange", "1.5"], "at most 1"),
        (["--walk", "-1"], "not negative"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, words, line, capsys)
