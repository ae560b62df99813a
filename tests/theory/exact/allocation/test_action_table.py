"""A policy's table and the lattice rule made of it do the same on every outcome sequence."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.exact.allocation.enumeration import Visit, visit
from theory.allocation.policies import sara, speed
from theory.allocation.priors import beta
from theory.allocation.records import Decision
from theory.allocation.sequential import ActionTable
from theory.errors import InvalidInput
from theory.exact.allocation.action_table import rule_of_table
from theory.exact.allocation.claims import threshold_rules
from theory.exact.allocation.lattice import SequentialRule
from theory.exact.allocation.pilot_commit import Screening, screening_rule

STOPS = [int(each) for each in Decision if each not in (Decision.COMMIT, Decision.CONTINUE)]


def follow(table: ActionTable, outcomes: tuple[int, ...]) -> Visit:
    """The table along one sequence, chunk by chunk."""
    t = s = 0
    while table.decision[s, t - s] == Decision.CONTINUE:
        more = int(table.additional[s, t - s])
        s, t = s + sum(outcomes[t : t + more]), t + more
    trains = bool(table.decision[s, t - s] == Decision.COMMIT)
    rollouts = t + int(table.additional[s, t - s]) * trains
    return Visit(t, trains, rollouts, sum(outcomes[:rollouts]))


def random_table(seed: int, n: int) -> ActionTable:
    """Chunks that end at some sizes, and any decision there."""
    rng = np.random.default_rng(seed)
    ends = np.append(np.flatnonzero(rng.random(n) < 0.6), n)
    s, f = np.indices((n + 1, n + 1))
    t = s + f
    following = ends[np.minimum(np.searchsorted(ends, t, side="right"), ends.size - 1)]
    goes_on = (rng.random(t.shape) < 0.7) & (following > t)
    commits = rng.random(t.shape) < 0.5
    decision = np.where(commits, int(Decision.COMMIT), rng.choice(STOPS, t.shape))
    decision = np.where(goes_on, int(Decision.CONTINUE), decision)
    completing = rng.integers(0, np.maximum(n - t, 0) + 1)
    return ActionTable(decision, np.where(goes_on, following - t, completing))  # pyright: ignore[reportArgumentType]


def as_numpy(table: ActionTable) -> ActionTable:
    return ActionTable(*(np.asarray(part) for part in table))  # pyright: ignore[reportArgumentType]


def rule_visit(rule: SequentialRule, outcomes: tuple[int, ...]) -> Visit:
    """The lattice rule along one sequence."""
    goes_on, trains, group_size = (np.asarray(part) for part in rule)
    return visit(goes_on, trains, group_size, outcomes)


def check(table: ActionTable) -> None:
    """The same stops, groups and rollouts on all 2^n sequences."""
    n = table.decision.shape[0] - 1
    rule = rule_of_table(table)
    for outcomes in product((0, 1), repeat=n):
        assert rule_visit(rule, outcomes) == follow(table, outcomes)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6))
def test_any_table_on_every_outcome_sequence(seed: int, n: int) -> None:
    check(random_table(seed, n))


def test_tables_of_policies_on_every_outcome_sequence() -> None:
    check(as_numpy(sara.table(beta(0.4, 0.6), 7, 0.3, 0.8)))
    check(as_numpy(speed.table(3, 4)))


def test_tables_of_policies_are_the_rules_of_the_exact_programs() -> None:
    """SARA's thresholds, and a screen (whose pilots pass where they are mixed), are what their own modules have."""
    flat = beta(1.0, 1.0)
    thresholds = threshold_rules(flat, 8, jnp.array([sara.TAU_LOW]))
    pairs = (
        (sara.table(flat, 8), thresholds._replace(goes_on=thresholds.goes_on[0])),
        (speed.table(4, 4), screening_rule(Screening(4, 4, 0.25, 0.25))),
    )
    for table, rule in pairs:
        ours = rule_of_table(table)
        for outcomes in product((0, 1), repeat=8):
            assert rule_visit(ours, outcomes) == rule_visit(rule, outcomes)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], "0 successes and 0 failures: continues with 0"),
        ([[3, 0, 0], [0, 0, 0], [0, 0, 0]], "continues with 3 rollouts, must be 1 to 2"),
        # After a success it looks at two rollouts; after a failure it draws past them.
        ([[1, 2, 0, 0], [1, 0, 0, 0], [0] * 4, [0] * 4], "1 successes and 1 failures: is looked"),
    ],
)
def test_tables_that_are_no_rule(more: list[list[int]], message: str) -> None:
    additional = np.array(more)
    stops = (additional == 0) & (additional.any())
    decision = np.where(stops, int(Decision.ABANDON), int(Decision.CONTINUE))
    with pytest.raises(InvalidInput, match=message):
        rule_of_table(ActionTable(decision, additional))  # pyright: ignore[reportArgumentType]
