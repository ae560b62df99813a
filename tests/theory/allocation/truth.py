"""What one visit to a prompt comes to under a rule, exactly: by following every outcome over the lattice of (s, f)."""

from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple

import numpy as np

from theory.allocation.records import Decision
from theory.allocation.sequential import ActionTable, lattice

# (s [M], f [M]) -> decision [M] and additional [M].
Step = Callable[[Any, Any], tuple[Any, Any]]


class Visit(NamedTuple):
    """One visit.

    Attributes:
        law: probability of (rollouts, whether the group is accepted).
        rollouts: drawn.
        trained: probability that the group is accepted.
        abandoned: probability that it is given up before it is full.
    """

    law: dict[tuple[int, bool], float]
    rollouts: float
    trained: float
    abandoned: float


def table_of(step: Step, most: int) -> ActionTable:
    """A one-step rule at every point of the lattice with at most `most` rollouts."""
    s, f = (np.asarray(part) for part in lattice(most))
    decision, additional = (
        np.asarray(part).reshape(s.shape) for part in step(s.ravel(), f.ravel())
    )
    return ActionTable(decision, additional)  # pyright: ignore[reportArgumentType]


def visit(table: ActionTable, rates: Any, most: int) -> Visit:
    """Mean over prompts of these rates.

    Args:
        table: of the rule.
        rates: success rates, equally likely.
        most: rollouts of a full group.
    """
    p = np.asarray(rates, np.float64)
    decisions, more = np.asarray(table.decision), np.asarray(table.additional)
    reach = {(0, 0): np.ones_like(p)}
    law: dict[tuple[int, bool], float] = {}
    abandoned = 0.0
    for total in range(most + 1):
        for s in range(total + 1):
            here = reach.pop((s, total - s), None)
            if here is None:
                continue
            drawn = int(more[s, total - s])
            if drawn == 0:
                accepts = bool(decisions[s, total - s] == Decision.COMMIT)
                law[total, accepts] = law.get((total, accepts), 0.0) + float(here.mean())
                abandoned += float(here.mean()) if not accepts and total < most else 0.0
                continue
            for wins in range(drawn + 1):
                chance = comb(drawn, wins) * p**wins * (1 - p) ** (drawn - wins)
                to = (s + wins, total - s + drawn - wins)
                reach[to] = reach.get(to, 0) + here * chance
    assert not reach
    rollouts = sum(total * chance for (total, _), chance in law.items())
    trained = sum(chance for (_, accepts), chance in law.items() if accepts)
    return Visit(law, rollouts, trained, abandoned)
