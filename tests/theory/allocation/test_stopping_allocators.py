"""The two stopping rules of this project in a training loop: what they have learnt, and what they do with it, against exact programs.

The truth is float64 NumPy: EM with moments from log-gamma functions, and the lattice programs of `theory.exact.allocation`.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from tests.planted_bugs import stopping as planted
from tests.planted_bugs.damage.stopping import (
    BATCH,
    GROUP,
    Foresee,
    TableOf,
    arm_of,
    drawn,
    histories,
    log_moments,
    optimal_table,
    pool_by,
    population,
    table_by,
)
from tests.theory.allocation.loops import Round, play, updates
from theory.allocation.equal_runs import Prospects
from theory.allocation.memories import EM_STEPS
from theory.allocation.policies import optimal_stopping, predictive_stopping
from theory.allocation.policies.predictive_stopping import foresee
from theory.allocation.population import flat_grid
from theory.allocation.priors import BetaMixture
from theory.allocation.rates import remembered_epochs
from theory.allocation.records import Decision
from theory.allocation.sequential import ActionTable
from theory.exact.allocation.arms import Arm
from theory.exact.allocation.fresh_stream import optimum, priced_values, renewal

N, B, POOL = 6, 4, 48
RATES = np.repeat([0.0, 1.0, 0.15], (20, 8, 20))
MEMORY, DISCOUNT, WARM_UP = 0.8, 0.7, 30


def check_stream(actions: ActionTable, prior: BetaMixture, n: int) -> None:
    """It earns the best rate of its class, and accepts what is mixed."""
    arm = arm_of(prior, n)
    found = renewal(arm, drawn(actions, arm)).rate
    assert found == pytest.approx(optimum(arm).rate, rel=1e-9)
    full = arm.depth == n
    accepts = np.asarray(actions.decision)[arm.successes, arm.failures] == Decision.COMMIT
    np.testing.assert_array_equal(accepts[full], (arm.successes * arm.failures > 0)[full])


def check_pool(
    price: float,
    found: Prospects,
    prior: BetaMixture,
    s: np.ndarray,
    f: np.ndarray,
    n: int,
    b: int,
    atol: float,
) -> None:
    """The price clears the market, values are those of the whole lattice at it, and nobody waits longer or shorter than pays."""
    cells = sorted(set(zip(s.tolist(), f.tolist(), strict=True)))
    arms = [arm_of(prior, n, cell) for cell in cells]
    best = [optimum(arm).rate for arm in arms]
    mine = [cells.index(cell) for cell in zip(s.tolist(), f.tolist(), strict=True)]

    def at(price: float) -> list[tuple[float, list[int], float]]:
        found = [prospect_of(arm, rate, price, n) for arm, rate in zip(arms, best, strict=True)]
        return [found[cell] for cell in mine]

    exact = at(price)
    np.testing.assert_allclose(found.value, [value for value, _, _ in exact], atol=atol)
    np.testing.assert_array_equal(
        np.asarray(found.patience).T, [patience for _, patience, _ in exact]
    )
    np.testing.assert_allclose(found.chance, [chance for _, _, chance in exact], atol=atol)
    for factor, enough in ((1 - 30 * atol, True), (1 + 30 * atol, False)):
        assert (sum(chance for value, _, chance in at(price * factor) if value > 0) >= b) == enough


def prospect_of(arm: Arm, best: float, price: float, n: int) -> tuple[float, list[int], float]:
    """The same of an arm whose best rate is known."""
    _, drawing = priced_values(arm, np.array([price, min(price, best)]))
    patience: list[int] = []
    for alone, other in ((arm.failures, arm.successes), (arm.successes, arm.failures)):
        run = (other == 0) & (alone > 0) & arm.drawable
        stops = alone[run & (drawing[:, 1] <= 1e-9)]
        patience.append(int(stops.min()) if stops.size else n)
    mixed = (arm.successes > 0) & (arm.failures > 0)
    waits = (arm.failures < patience[0]) & (arm.successes < patience[1])
    chance = renewal(arm, (mixed | waits) & arm.drawable).reward
    return float(drawing[0, 0]), patience, chance


def test_one_rule_of_a_stream_is_the_best() -> None:
    with jax.enable_x64(True):
        check_stream(table_by(optimal_table), population(), GROUP)


@pytest.mark.parametrize(
    "twin",
    [
        planted.priced_as_if_nothing_were_given_up,
        planted.failures_forgotten_by_the_posterior,
        planted.given_up_one_outcome_late,
        planted.completion_not_paid_for,
    ],
)
def test_planted_rules_of_a_stream_are_rejected(
    twin: TableOf,
) -> None:
    with jax.enable_x64(True):
        actions = table_by(twin)
        with pytest.raises(AssertionError):
            check_stream(actions, population(), GROUP)


def check_planted_pool(build: Foresee) -> None:
    """The law of the pool on the histories of the catalogue."""
    with jax.enable_x64(True):
        price, found = pool_by(build)
        check_pool(float(price), found, population(), *histories(), GROUP, BATCH, 1e-9)


def test_prospects_of_a_pool_are_the_best() -> None:
    check_planted_pool(foresee)


@pytest.mark.parametrize(
    "twin",
    [
        planted.failures_forgotten_by_the_memory,
        planted.priced_like_a_stream,
        planted.patience_one_too_long,
        planted.poor_prompts_at_the_shared_price,
    ],
)
def test_planted_prospects_are_rejected(twin: Foresee) -> None:
    with pytest.raises(AssertionError):
        check_planted_pool(twin)


def em(
    log_weights: np.ndarray, times: np.ndarray, likelihoods: np.ndarray, steps: int
) -> np.ndarray:
    """EM for the weights of the grid; a Dirichlet prior worth one visit."""
    for _ in range(steps):
        joint = log_weights + likelihoods
        shares = np.exp(joint - logsumexp(joint, axis=-1, keepdims=True))
        number = (times[:, None] * shares).sum(axis=0) + 1 / log_weights.size
        log_weights = np.log(number / number.sum())
    return log_weights


def fitted(log_weights: np.ndarray) -> BetaMixture:
    """The grid with these weights, in float64."""
    grid = flat_grid()
    return BetaMixture(log_weights[:-2], grid.a, grid.b, log_weights[-2:], grid.points)  # pyright: ignore[reportArgumentType]


FLAT = np.full(21, -np.log(21.0))


@cache
def history_of(name: str) -> tuple[Any, list[list[Round]], list[tuple[np.ndarray, ...]]]:
    """A run: the state before it, its complete updates, and what every update has seen of each prompt: visited, successes, failures."""
    allocator = {
        "optimal": lambda: optimal_stopping.allocator(
            B, N, discount=DISCOUNT, warm_up=WARM_UP, source=remembered_epochs(1.0)
        ),
        "predictive": lambda: predictive_stopping.allocator(B, N, memory=MEMORY),
    }[name]()
    start = allocator.init(jax.random.key(0), POOL)
    complete = updates(play(allocator, RATES, 180))
    seen: list[tuple[np.ndarray, ...]] = []
    state = start
    for update in complete:
        before = update[-2].state if len(update) > 1 else state
        last = update[-1].results
        seen.append(
            (
                np.asarray(before.visited),
                np.asarray(before.successes) + last.successes,
                np.asarray(before.failures) + last.failures,
            )
        )
        state = update[-1].state
    return start, complete, seen


@pytest.mark.slow
def test_optimal_stopping_has_learnt_the_rule_of_its_visits() -> None:
    """After every update its table is the best one for the population that EM finds in all its discounted visits; before enough of them it stops nothing."""
    _, complete, seen = history_of("optimal")
    assert len(complete) > 4
    counts, log_weights = np.zeros((N + 1, N + 1)), FLAT
    s, f = (part.ravel() for part in np.indices(counts.shape))
    warm, shown = 0, np.zeros(POOL)
    for update, (visited, right, wrong) in zip(complete, seen, strict=True):
        counts *= DISCOUNT
        np.add.at(counts, (right[visited], wrong[visited]), 1)
        log_weights = em(log_weights, counts.ravel(), log_moments(flat_grid(), s, f), 20)
        best = optimum(arm := arm_of(fitted(log_weights), N))
        belief = update[-1].state.belief
        np.testing.assert_allclose(belief.fit.counts, counts, rtol=1e-5)
        # The source of prompts learns too.
        shown += visited * right
        np.testing.assert_allclose(belief.inner.successes, shown, rtol=1e-6)
        assert float(belief.rate) == pytest.approx(best.rate, rel=1e-3)
        warm += counts.sum() >= WARM_UP
        expected = best.draws if counts.sum() >= WARM_UP else arm.drawable
        # What lies behind a stop is never looked at.
        ahead = np.ones(len(expected), bool)
        for k in range(1, N):
            for edge in (arm.successes, arm.failures):
                stop = (edge == k) & (arm.depth == k) & ~expected
                if stop.any():
                    ahead &= ~((edge == arm.depth) & (edge > k))
        looked = ahead & arm.drawable
        np.testing.assert_array_equal(drawn(belief.table, arm)[looked], expected[looked])
    assert 1 < warm < len(complete)


@pytest.mark.slow
def test_predictive_stopping_has_learnt_the_prospects_of_its_histories() -> None:
    """After every update price, values, patience and chances are those of the whole lattice under what EM finds in all discounted histories."""
    _, complete, seen = history_of("predictive")
    assert len(complete) > 4
    right, wrong, log_weights = np.zeros(POOL), np.zeros(POOL), FLAT
    for place, (update, (visited, s, f)) in enumerate(zip(complete, seen, strict=True)):
        right = MEMORY * right + visited * s
        wrong = MEMORY * wrong + visited * f
        known = (right + wrong > 0).astype(float)
        log_weights = em(log_weights, known, log_moments(flat_grid(), right, wrong), EM_STEPS)
        if place not in (0, len(complete) - 1):
            continue
        belief = update[-1].state.belief
        np.testing.assert_allclose(belief.successes, right, rtol=1e-5)
        np.testing.assert_allclose(belief.failures, wrong, rtol=1e-5)
        check_pool(
            float(belief.price), belief.prospects, fitted(log_weights), right, wrong, N, B, 3e-5
        )


def test_predictive_stopping_does_what_its_prospects_say() -> None:
    """It opens the most valuable prompts, asks one rollout of each while patience lasts, and the rest at once of a mixed one."""
    before, complete, _ = history_of("predictive")
    for update in complete:
        value = np.asarray(before.belief.prospects.value)
        opened = np.asarray(before.opened_at) > 0
        assert opened.sum() == B
        assert value[opened].min() >= value[~opened].max() - 2e-6
        for each in update:
            s, f = np.asarray(before.successes), np.asarray(before.failures)
            wrong, right = np.asarray(before.belief.prospects.patience)
            mixed = (s > 0) & (f > 0)
            wish = np.where(mixed, N - s - f, (s < right) & (f < wrong))
            expected = np.where(np.asarray(before.open), wish, 0)
            np.testing.assert_array_equal(each.requests.additional, expected)
            before = each.state
        groups = update[-1].groups
        assert groups.ready.sum() == B
        assert (groups.successes[groups.ready] * groups.failures[groups.ready] > 0).all()
        assert ((groups.successes + groups.failures)[groups.ready] == N).all()


def test_predictive_stopping_ranks_by_value() -> None:
    """Not by the chance of a mixed group, which may be dear."""
    belief = history_of("predictive")[1][-1][-1].state.belief
    values = np.linspace(-0.05, 0.4, POOL).astype(np.float32)
    ranked = belief._replace(
        prospects=belief.prospects._replace(value=values, chance=values[::-1].copy())
    )
    eligible = np.arange(POOL) != POOL - 2
    source = predictive_stopping.source(B, N)
    _, places = source.pick(ranked, jnp.int32(3), jnp.asarray(eligible), jnp.zeros(POOL, bool))
    assert np.flatnonzero(np.asarray(places)).tolist() == [POOL - 4, POOL - 3, POOL - 1]
