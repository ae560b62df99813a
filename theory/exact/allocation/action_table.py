"""The table that an allocator runs, as the rule that the exact programs take.

A table (`theory.allocation.sequential`) says at each (s, f) what to draw before looking again; a rule of the lattice says at each (t, s) whether to draw one
more. They are the same rule where it is known from (t, s) whether the table is being looked at there: inside a chunk every rollout is drawn.
"""

import jax.numpy as jnp
import numpy as np

from theory.allocation.records import Decision
from theory.allocation.sequential import ActionTable
from theory.errors import InvalidInput
from theory.exact.allocation.lattice import SequentialRule


def rule_of_table(table: ActionTable) -> SequentialRule:
    """What an action table does, rollout by rollout.

    A commitment stops there and completes the group with the rollouts that it asks for; whether a group that ends with equal outcomes is then trained on is
    `ineffective` in the operating characteristics, in the loop it is given up. Every decision but COMMIT and CONTINUE trains on nothing.

    Args:
        table: [n+1, n+1] of a policy; only what can be reached from (0, 0) counts.

    Returns:
        T = n + 1.

    Raises:
        InvalidInput: the table waits for ever, draws beyond n before it looks, or looks at a place that another chunk of it passes through.
    """
    decision, additional = np.asarray(table.decision), np.asarray(table.additional)
    side = decision.shape[0]
    looks, passes = np.zeros((2, side, side), bool)
    trains = np.zeros_like(looks)
    size = np.broadcast_to(np.arange(side)[:, None], looks.shape).copy()
    looks[0, 0] = True
    for t in range(side):
        for s in np.flatnonzero(looks[t]):
            action, more = decision[s, t - s], int(additional[s, t - s])
            if action == Decision.COMMIT:
                trains[t, s], size[t, s] = True, t + more
            if action != Decision.CONTINUE:
                continue
            if not 0 < more < side - t:
                raise InvalidInput(
                    f"table, {s} successes and {t - s} failures: continues with {more} rollouts, must be 1 to {side - 1 - t}"
                )
            for j in range(1, more):
                passes[t + j, s : s + j + 1] = True
            looks[t + more, s : s + more + 1] = True
    clash = np.argwhere(looks & passes)
    if clash.size:
        t, s = clash[0]
        raise InvalidInput(
            f"table, {s} successes and {t - s} failures: is looked at after some orders of outcomes and not after others, end chunks at equal sizes"
        )
    undecided = looks & (decision[_places(side)] == Decision.CONTINUE)
    return SequentialRule(jnp.asarray(undecided | passes), jnp.asarray(trains), jnp.asarray(size))


def _places(side: int) -> tuple[np.ndarray, np.ndarray]:
    """S and f of each place (t, s); 0 failures where there is no such place."""
    t, s = np.indices((side, side))
    return s, np.maximum(t - s, 0)
