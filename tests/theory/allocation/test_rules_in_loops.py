"""Assembled rules against the exact lattice: what a visit costs and yields in a compiled loop is what its table says.

Every prompt of the pool is opened at once, so that the first visits are independent replicates.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import allocation as planted
from tests.planted_bugs.damage.allocation import GROUP, RATES
from tests.planted_bugs.damage.allocation import sara as right_table
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.allocation.loops import PLENTY, step_of
from tests.theory.allocation.truth import Step, Visit, table_of, visit
from theory.allocation.assembly import assemble, top_up
from theory.allocation.policies import ar3po, dynamic_sampling, reinforce_ada, sara, speed
from theory.allocation.priors import beta
from theory.allocation.sequential import ActionTable, table_rule
from theory.allocation.sources import epochs
from theory.protocols import Allocator

COPIES = 60
POOL = np.tile(RATES, COPIES)
B = POOL.size


def first_visits(allocator: Allocator, num_rounds: int, seed: int = 0) -> np.ndarray:
    """Rollouts and acceptance [B, 2] of every prompt's first visit."""
    rates = jnp.asarray(POOL, jnp.float32)
    state = allocator.init(jax.random.key(seed), B)
    step = step_of(allocator, rates, PLENTY)
    rollouts, accepted = np.zeros(B), np.zeros(B)
    open_first = np.ones(B, bool)
    for number in range(num_rounds):
        state, _, results, groups = step(state, jax.random.key(seed + number + 7))
        rollouts[open_first] += np.asarray(results.successes + results.failures)[open_first]
        same_visit = np.asarray((state.opened_at <= B) & state.open & (int(state.update) == 0))
        closed = open_first & ~same_visit
        accepted[closed] = np.asarray(state.ready | groups.ready)[closed]
        open_first &= same_visit
        if groups.complete:
            break
    assert not open_first.any()
    return np.stack([rollouts, accepted], axis=1)


def check(found: np.ndarray, truth: Visit) -> None:
    """Counts of (rollouts, accepted) are those of the lattice. Each rate has equally many prompts, so they vary less than a multinomial."""
    cells = sorted(truth.law)
    places = {cell: place for place, cell in enumerate(cells)}
    counts = np.zeros(len(cells) + 1)
    for rollouts, accepted in found:
        counts[places.get((int(rollouts), bool(accepted)), -1)] += 1
    assert_counts(counts, np.array([*(truth.law[cell] for cell in cells), 0.0]))


def of_table(table: ActionTable) -> Allocator:
    """A table in a loop."""
    return assemble(epochs(), table_rule(table), top_up(B), B)


def ada_step(s: np.ndarray, f: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """Reinforce-Ada's one-step rule."""
    right, wrong = jnp.asarray(s), jnp.asarray(f)
    found = reinforce_ada.allocate(
        right, wrong, reinforce_ada.leaves_balanced(right, wrong), 10**6, 4, 3
    )
    return found.decision, found.additional


def stages_step(s: np.ndarray, f: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """AR3PO's, with nothing stored."""
    stored = jnp.zeros(s.size, bool)
    found = ar3po.allocate(jnp.asarray(s), jnp.asarray(f), stored, 10**6, 8, 3)
    return found.decision, found.additional


def sampling_step(s: np.ndarray, f: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """Dynamic sampling's."""
    found = dynamic_sampling.allocate(jnp.asarray(s), jnp.asarray(f), 10**6, 8)
    return found.decision, found.additional


CASES: dict[str, tuple[Callable[[], Allocator], Callable[[], ActionTable], int]] = {
    "sara": (lambda: sara.allocator(B, GROUP), lambda: right_table(GROUP), GROUP),
    "sara, own prior": (
        lambda: sara.allocator(B, 10, 0.3, 0.9, beta(0.4, 0.6)),
        lambda: sara.table(beta(0.4, 0.6), 10, 0.3, 0.9),
        10,
    ),
    "speed": (lambda: speed.allocator(B, 3, 5), lambda: speed.table(3, 5), 8),
}

STEPS: dict[str, tuple[Callable[[], Allocator], Step, int]] = {
    "dynamic-sampling": (partial(dynamic_sampling.allocator, B, 8), sampling_step, 8),
    "reinforce-ada": (partial(reinforce_ada.allocator, B, 4, True, 4, 3), ada_step, 12),
    "ar3po": (partial(ar3po.allocator, B, 8, 3), stages_step, 8),
}


@pytest.mark.parametrize("name", CASES)
def test_tables_in_loops(name: str) -> None:
    """Rules that are tables."""
    build, table, most = CASES[name]
    check(first_visits(build(), 40), visit(table(), RATES, most))


@pytest.mark.parametrize("name", STEPS)
def test_one_step_rules_in_loops(name: str) -> None:
    """Allocators against the one-step rules that `rolloutlab allocate` calls."""
    build, step, most = STEPS[name]
    check(first_visits(build(), 12), visit(table_of(step, most), RATES, most))


@pytest.mark.parametrize(
    "twin",
    [
        planted.outcomes_counted_without_the_prior,
        planted.first_outcome_counted_twice,
        planted.committed_at_the_first_success,
    ],
)
def test_planted_rules_are_rejected(twin: Callable[[int], ActionTable]) -> None:
    """A wrong rule in the loop does not have the right rule's cost and yield."""
    found = first_visits(of_table(twin(GROUP)), 40)
    assert_rejected(partial(check, found, visit(right_table(GROUP), RATES, GROUP)))


def test_sara_of_the_notes() -> None:
    """.36 Beta(2.5, 2.5) + .64 points at 0 and 1, n = 8, tau .45: saves 21.9 % against dynamic sampling, gives up 8.5 % wrongly."""
    middles = (np.arange(4000) + 0.5) / 4000
    law = (middles * (1 - middles)) ** 1.5
    law *= 0.36 / law.sum()
    q = {m: float(law @ (1 - middles**m - (1 - middles) ** m)) for m in (4, 8)}
    visits = [visit(right_table(8), [p], 8) for p in (0.0, 0.3, 1.0)]
    assert [each.rollouts for each in visits[::2]] == [4, 4]
    cost = 8 + 4 * (1 - q[4]) / q[4]
    assert 1 - cost / (8 / q[8]) == pytest.approx(0.219, abs=0.0015)
    assert (q[8] - q[4]) / (1 - q[4]) == pytest.approx(0.085, abs=0.001)
    # A visited prompt costs n q_m + m (1 - q_m), whatever its rate.
    mixed = 1 - 0.3**4 - 0.7**4
    assert visits[1].rollouts == pytest.approx(8 * mixed + 4 * (1 - mixed))
    assert visits[1].trained == pytest.approx(mixed)
