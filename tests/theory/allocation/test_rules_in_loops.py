"""Allocators in their loop against the lattice: what a visit costs, yields and gives up is what the exact program finds for the policy's own table.

Every prompt of the pool is opened at once and its outcomes are drawn beforehand, so that first visits are independent replicates, and of a group that was
given up it is known whether it would have become mixed.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import allocation as planted
from tests.planted_bugs.damage.allocation import GROUP, population
from tests.planted_bugs.damage.allocation import sara as right_table
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from tests.theory.allocation.loops import PLENTY, play
from theory.allocation.assembly import assemble, top_up
from theory.allocation.policies import (
    ar3po,
    dynamic_sampling,
    optimal_stopping,
    pilot_commit,
    pilot_commit_loop,
    reinforce_ada,
    sara,
    speed,
)
from theory.allocation.priors import BetaMixture, beta
from theory.allocation.records import Decision, Requests, Results
from theory.allocation.sequential import ActionTable, lattice, table_rule
from theory.allocation.sources import epochs
from theory.exact.allocation.action_table import rule_of_table
from theory.exact.allocation.lattice import (
    Characteristics,
    SequentialRule,
    characteristics,
    cost_per_effective_group,
    mixed_in_the_end,
    stopped_shares,
    success_law,
)
from theory.protocols import Allocator

B = 4096
MOST = 12  # rollouts of the longest visit


class Pool(NamedTuple):
    """Prompts of the population.

    Attributes:
        outcomes: [B, MOST] of 0 and 1, in the order in which they are drawn.
        right: [B, MOST + 1] successes among the first t.
    """

    outcomes: np.ndarray
    right: np.ndarray


class Visits(NamedTuple):
    """First visits, [B] each.

    Attributes:
        stopped_after: rollouts when the rule committed or gave up.
        rollouts: drawn.
        commits: whether it committed.
    """

    stopped_after: np.ndarray
    rollouts: np.ndarray
    commits: np.ndarray


class Truth(NamedTuple):
    """Of one rule under the population.

    Attributes:
        law: [T, 4] probability of stopping after t rollouts, by what comes of it: trained on mixed, not mixed; given up a mixed group, another.
        found: operating characteristics.
    """

    law: np.ndarray
    found: Characteristics


def draw_pool(seed: int) -> Pool:
    """Independent prompts, and their outcomes."""
    rng = np.random.default_rng(seed)
    prior = population()
    rates = rng.choice(np.asarray(prior.points), B, p=np.exp(np.asarray(prior.log_point_weights)))
    outcomes = (rng.random((B, MOST)) < rates[:, None]).astype(np.int32)
    return Pool(outcomes, np.pad(outcomes.cumsum(axis=1), ((0, 0), (1, 0))).astype(np.int32))


def drawn(right: Any, before: Any, additional: Any) -> Results:
    """The next rollouts of each prompt."""
    after = jnp.minimum(before + additional, MOST)
    rows = jnp.arange(B)
    successes = right[rows, after] - right[rows, before]
    return Results(successes, after - before - successes)


def step(allocator: Allocator, state: Any, right: Any) -> Any:
    """One round of an assembled method."""
    requests = allocator.propose(state, PLENTY)
    results = drawn(right, state.successes + state.failures, requests.additional)
    after, groups = allocator.observe(state, results)
    first = after.open & (after.opened_at <= B) & (after.update == 0)
    return after, requests, first, after.ready | groups.ready


def first_visits(advance: Callable[[Any, Any], Any], state: Any, pool: Pool) -> Visits:
    """Follow every prompt until its first visit ends."""
    rollouts, stopped_after = np.zeros(B, int), np.full(B, -1)
    live, commits = np.ones(B, bool), np.zeros(B, bool)
    right = jnp.asarray(pool.right)
    while live.any():
        state, *told = advance(state, right)
        requests, first, accepted = jax.tree.map(np.asarray, told)
        more = np.where(live, requests.additional, 0)
        asks = live & (requests.decision == Decision.COMMIT) & (more > 0) & (stopped_after < 0)
        stopped_after[asks], commits[asks] = rollouts[asks], True
        rollouts += more
        closed = live & ~first
        commits |= closed & accepted
        stopped_after = np.where(closed & (stopped_after < 0), rollouts, stopped_after)
        live &= first
    return Visits(stopped_after, rollouts, commits)


@jax.jit
def exact(rule: SequentialRule, prior: BetaMixture) -> tuple[Any, Characteristics]:
    """[T, 4] and the operating characteristics; n is the horizon."""
    full = rule.goes_on.shape[-1] - 1
    reached = stopped_shares(rule, prior.points) * success_law(prior, full)
    mixed = mixed_in_the_end(prior, jnp.where(rule.trains, rule.group_size, full))
    trained, lost = jnp.where(rule.trains, reached, 0), jnp.where(rule.trains, 0, reached)
    cells = (trained * mixed, trained * (1 - mixed), lost * mixed, lost * (1 - mixed))
    law = jnp.stack([each.sum(axis=-1) for each in cells], axis=-1)
    return law, characteristics(rule, prior, full)


def truth_of(table: ActionTable) -> Truth:
    """What the lattice says, in float64."""
    with jax.enable_x64(True):
        law, found = exact(rule_of_table(table), population())
    return Truth(np.asarray(law), found)


@cache
def right_truth() -> Truth:
    """Of the rule that has twins."""
    return truth_of(right_table(GROUP))


def counted(visits: Visits, pool: Pool, full: int) -> np.ndarray:
    """[T, 4] first visits in the cells of `Truth.law`."""
    size = np.where(visits.commits, visits.rollouts, full)
    hits = pool.right[np.arange(size.size), size]
    mixed = (hits > 0) & (hits < size)
    counts = np.zeros((full + 1, 4), np.int64)
    np.add.at(counts, (visits.stopped_after, 2 * ~visits.commits + ~mixed), 1)
    return counts


def check_law(visits: Visits, pool: Pool, truth: Truth) -> None:
    """When it stops, and what comes of it."""
    assert_counts(counted(visits, pool, truth.law.shape[0] - 1), truth.law)


def check_cost(visits: Visits, pool: Pool, truth: Truth) -> None:
    """Rollouts less those that the effective groups are worth have mean 0, by Wald's identity."""
    cost = float(cost_per_effective_group(truth.found))
    hits = pool.right[np.arange(visits.rollouts.size), visits.rollouts]
    effective = visits.commits & (hits > 0) & (hits < visits.rollouts)
    assert_mean(visits.rollouts - cost * effective, 0.0, smallest_bias=0.1 * cost)


def of_table(table: ActionTable) -> Allocator:
    """A table in a loop."""
    return assemble(epochs(), table_rule(table), top_up(B), B)


def visits_of(allocator: Allocator, pool: Pool, state: Any = None) -> Visits:
    """First visits under an allocator, from its own first state."""
    start = allocator.init(jax.random.key(0), B) if state is None else state
    return first_visits(jax.jit(partial(step, allocator)), start, pool)


# One compiled loop for every table of this size.
table_step = jax.jit(lambda table, state, right: step(of_table(table), state, right))


def table_visits(table: ActionTable, pool: Pool) -> Visits:
    """First visits under a table."""
    state = of_table(table).init(jax.random.key(0), B)
    return first_visits(partial(table_step, table), state, pool)


def test_a_table_in_its_loop() -> None:
    """SARA's: law of the stopping time, effective, missed and wasted visits, cost."""
    pool, truth = draw_pool(1), right_truth()
    visits = table_visits(right_table(GROUP), pool)
    check_law(visits, pool, truth)
    check_cost(visits, pool, truth)
    # The law that was tested is the one that the operating characteristics sum up.
    found, (effective, ineffective, missed, hopeless) = truth.found, truth.law.sum(axis=0)
    np.testing.assert_allclose(truth.law.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(effective, found.effective, rtol=1e-12)
    np.testing.assert_allclose(ineffective, found.ineffective, atol=1e-12)
    np.testing.assert_allclose(missed, found.abandoned_effective, rtol=1e-12)
    np.testing.assert_allclose(missed + hopeless, found.abandoned, rtol=1e-12)
    np.testing.assert_allclose(truth.law[:, :2].sum(axis=1), found.trains_at, atol=1e-14)
    np.testing.assert_allclose(truth.law[:, 2:].sum(axis=1), found.abandons_at, atol=1e-14)


@pytest.mark.parametrize(
    "twin",
    [
        planted.outcomes_counted_without_the_prior,
        planted.first_outcome_counted_twice,
        planted.committed_at_the_first_success,
    ],
)
def test_planted_rules_are_rejected(twin: Callable[[int], ActionTable]) -> None:
    """A wrong rule in the loop has not the right rule's law."""
    pool = draw_pool(1)
    visits = table_visits(twin(GROUP), pool)
    assert_rejected(partial(check_law, visits, pool, right_truth()))


def test_a_planted_cost_is_rejected() -> None:
    """Rollouts of groups that were given up are forgotten."""
    pool, truth = draw_pool(1), right_truth()
    visits = table_visits(right_table(GROUP), pool)
    forgotten = visits._replace(rollouts=np.where(visits.commits, visits.rollouts, 0))
    assert_rejected(partial(check_cost, forgotten, pool, truth))


def table_of(rule: Callable[[Any, Any], Requests], most: int) -> ActionTable:
    """The one-step rule that `rolloutlab allocate` calls, at every count."""
    s, f = lattice(most)
    found = rule(s.ravel(), f.ravel())
    return ActionTable(found.decision.reshape(s.shape), found.additional.reshape(s.shape))


def round_of_three(s: Any, f: Any) -> Requests:
    leaves = reinforce_ada.leaves_balanced(s, f)
    return reinforce_ada.allocate(s, f, leaves, 10**6, 4, 3)


def round_until_positive(s: Any, f: Any) -> Requests:
    leaves = reinforce_ada.leaves_positive(s, f)
    return reinforce_ada.allocate(s, f, leaves, 10**6, 4, 3)


OWN = beta(0.4, 0.6)
CASES: dict[str, tuple[Callable[[], Allocator], Callable[[], ActionTable]]] = {
    "sara": (lambda: sara.allocator(B, GROUP), lambda: right_table(GROUP)),
    "sara, own prior": (
        lambda: sara.allocator(B, 10, 0.3, 0.9, OWN),
        lambda: sara.table(OWN, 10, 0.3, 0.9),
    ),
    "sara, probe": (lambda: sara.probe_allocator(B, GROUP), lambda: sara.probe_table(GROUP)),
    "speed": (lambda: speed.allocator(B, 3, 5), lambda: speed.table(3, 5)),
    "dynamic-sampling": (
        lambda: dynamic_sampling.allocator(B, 8),
        lambda: table_of(lambda s, f: dynamic_sampling.allocate(s, f, 10**6, 8), 8),
    ),
    "reinforce-ada": (
        lambda: reinforce_ada.allocator(B, 4, True, 4, 3),
        lambda: table_of(round_of_three, MOST),
    ),
    "reinforce-ada, first success": (
        lambda: reinforce_ada.allocator(B, 4, False, 4, 3),
        lambda: table_of(round_until_positive, MOST),
    ),
    "ar3po": (
        lambda: ar3po.allocator(B, 8, 3),
        lambda: table_of(lambda s, f: ar3po.allocate(s, f, 0 * s > 0, 10**6, 8, 3), 8),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_allocators_in_their_loops(name: str) -> None:
    """Each against the table that it runs, or the one-step rule that the command line calls."""
    build, table = CASES[name]
    pool, truth = draw_pool(2), truth_of(table())
    visits = visits_of(build(), pool)
    check_law(visits, pool, truth)
    check_cost(visits, pool, truth)


@pytest.mark.slow
def test_optimal_stopping_in_its_loop() -> None:
    """At a prior of one part, which learns nothing, and with the table that the allocator itself finds after its first update."""
    prior = beta(0.3, 0.3)
    small = optimal_stopping.allocator(1, GROUP, prior=prior, warm_up=0)
    learned = next(each.state for each in play(small, [0.5, 0.5], 30) if each.state.update > 0)
    table = learned.belief.table
    allocator = optimal_stopping.allocator(B, GROUP, prior=prior, warm_up=0)
    state = allocator.init(jax.random.key(0), B)
    state = state._replace(belief=state.belief._replace(table=table))
    pool, truth = draw_pool(3), truth_of(table)
    assert truth.law[3, 2:].sum() > 0.1
    visits = visits_of(allocator, pool, state)
    check_law(visits, pool, truth)
    check_cost(visits, pool, truth)


@pytest.mark.slow
def test_the_screen_of_pilot_commit_in_its_loop() -> None:
    """Pilots of half of the pool, then the commits of all that passed; two rounds make an update."""
    pilots, commits = 4, 8
    allocator = pilot_commit_loop.allocator(
        B // 2, pilots, commits, num_candidates=B // 2, most_rounds=2
    )
    pool, right = draw_pool(4), jnp.asarray(draw_pool(4).right)

    def one_step(s: Any, f: Any) -> Requests:
        return pilot_commit.allocate(s, f, 10**6, pilots, commits)

    @jax.jit
    def advance(state: Any) -> Any:
        requests = allocator.propose(state, PLENTY)
        before = state.pilot_successes + state.pilot_failures
        after, groups = allocator.observe(state, drawn(right, before, requests.additional))
        return after, requests, groups

    state = allocator.init(jax.random.key(0), B)
    first = np.asarray(state.candidates)
    state, piloted, _ = advance(state)
    state, second, groups = advance(state)
    ready, more = np.asarray(groups.ready), np.asarray(second.additional)
    assert groups.complete and (np.asarray(piloted.additional) == pilots * first).all()
    np.testing.assert_array_equal(first & (more > 0), ready)
    rollouts = np.where(first, pilots + more, 0)
    visits = Visits(np.full(B, pilots), rollouts, ready)
    truth = truth_of(table_of(one_step, pilots + commits))
    kept = Pool(pool.outcomes[first], pool.right[first])
    check_law(Visits(*(part[first] for part in visits)), kept, truth)
    check_cost(Visits(*(part[first] for part in visits)), kept, truth)
