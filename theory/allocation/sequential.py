"""Rules that decide rollout by rollout, as a table over what a group has shown.

A rule that looks at successes and failures only is a function on the lattice of (s, f) with s + f <= n. As a table it is computed once, gathers
in a loop, and is what `theory.exact.allocation` takes to find its operating characteristics: simulation and truth read the same table.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from theory.allocation.assembly import Rule, scores
from theory.allocation.records import Decision, Reason, Requests
from theory.allocation.sources import Belief


class ActionTable(NamedTuple):
    """What to do at each point of the lattice; side n + 1, indexed [s, f].

    Attributes:
        decision: [n+1, n+1] a `Decision`: CONTINUE and COMMIT draw `additional` more, and COMMIT with nothing more accepts the group.
        additional: [n+1, n+1] rollouts to draw at once before looking again; 0 closes the group.
    """

    decision: Int[Array, "M M"]
    additional: Int[Array, "M M"]


def lattice(group_size: int) -> tuple[Int[Array, "M M"], Int[Array, "M M"]]:
    """Successes and failures at each point of the square that holds the lattice.

    Args:
        group_size: n.

    Returns:
        s [n+1, n+1] and f [n+1, n+1].
    """
    counts = jnp.arange(group_size + 1, dtype=jnp.int32)
    side = (group_size + 1, group_size + 1)
    return jnp.broadcast_to(counts[:, None], side), jnp.broadcast_to(counts[None, :], side)


def make_table(
    commit: Bool[Array, "M M"],
    abandon: Bool[Array, "M M"],
    chunk: Int[Array, "M M"] | int,
) -> ActionTable:
    """A table from where a rule commits, gives up, and how much it draws elsewhere.

    A commitment draws all that is missing at once and is not looked at again; what ends without both outcomes is given up.

    Args:
        commit: [n+1, n+1] draw the rest of the group.
        abandon: [n+1, n+1] give the group up.
        chunk: [n+1, n+1] or a number: rollouts to draw before looking again, cut to what is missing.

    Returns:
        The table.
    """
    s, f = lattice(commit.shape[0] - 1)
    missing = jnp.maximum(commit.shape[0] - 1 - s - f, 0)
    full = missing == 0
    mixed = (s > 0) & (f > 0)
    accepts = (full & mixed) | (~full & commit)
    gives_up = (full & ~mixed) | (~full & ~commit & abandon)
    decision = jnp.where(accepts, int(Decision.COMMIT), int(Decision.CONTINUE))
    more = jnp.where(accepts, missing, jnp.minimum(missing, chunk))
    return ActionTable(
        jnp.where(gives_up, int(Decision.ABANDON), decision).astype(jnp.int32),
        jnp.where(gives_up, 0, more).astype(jnp.int32),
    )


def table_rule(table: ActionTable) -> Rule:
    """The rule of a table, for `theory.allocation.assembly`.

    Rollouts before a commitment are pilots, those after it commits. A committed group is drawn to its end even where the budget cuts
    its request in two, since the table commits at every later point as well.

    Args:
        table: of group size n.

    Returns:
        The rule.
    """
    last = table.decision.shape[0] - 1

    def rule(
        belief: Belief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        at = (jnp.minimum(successes, last), jnp.minimum(failures, last))
        decision, additional = table.decision[at], table.additional[at]
        commits = decision == Decision.COMMIT
        reason = jnp.where(commits, int(Reason.COMMIT), int(Reason.PILOT))
        return Requests(additional, decision, reason, scores(successes))

    return rule
