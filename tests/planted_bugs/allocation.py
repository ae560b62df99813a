"""Stopping rules of SARA and the recurrence of hit utility, with one mistake each; `theory.allocation.policies.sara` and `theory.allocation.beta_binomial` have the right ones.

Each rule makes the action table of a group of n at tau .45 under the flat prior, and must be rejected by the law that holds the simulated rule against its exact
cost and yield; the recurrence by simulated first successes; the rate of a stream by a rule that is played.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from theory.allocation.policies.sara import TAU_LOW, table
from theory.allocation.priors import beta
from theory.allocation.sequential import ActionTable, lattice, make_table
from theory.exact.allocation.arms import Arm
from theory.exact.allocation.fresh_stream import Renewal, renewal


def _threshold_table(group_size: int, seen: int, left: int) -> ActionTable:
    """Commit when mixed, abandon where 1 - (m + seen) / (n + left) <= tau."""
    s, f = lattice(group_size)
    mixed = (s > 0) & (f > 0)
    chance = 1 - (s + f + seen).astype(jnp.float32) / (group_size + left)
    return make_table(mixed, ~mixed & (s + f > 0) & (chance <= TAU_LOW + 1e-6), 1)


def outcomes_counted_without_the_prior(group_size: int) -> ActionTable:
    """P_eff of m equal outcomes as 1 - m / n."""
    return _threshold_table(group_size, 0, 0)


def first_outcome_counted_twice(group_size: int) -> ActionTable:
    """P_eff of m equal outcomes as 1 - (m + 2) / (n + 1): the rule gives up one outcome too soon."""
    return _threshold_table(group_size, 2, 1)


def committed_at_the_first_success(group_size: int) -> ActionTable:
    """A success alone is taken for a mixed group."""
    s, f = lattice(group_size)
    right = table(beta(1.0, 1.0), group_size)
    gives_up = right.additional == 0
    return make_table(s > 0, gives_up & (s == 0) & (f > 0), 1)


def next_marginal_of_the_first_posterior(
    marginal: Float[Array, ""], a: Float[Array, ""], b: Float[Array, ""], extra: Float[Array, ""]
) -> Float[Array, ""]:
    """Extra failures are not learnt from: M(l + 1) = M(l) b / (a + b + 1) whatever l."""
    return marginal * (b / (a + b + 1))


def dropped_rollouts_not_paid(arm: Arm, draws: Bool[np.ndarray, " K"]) -> Renewal:
    """Only rollouts of groups that are worth something are counted: those of a group that was given up are lost sight of."""
    right = renewal(arm, draws)
    # The rollouts of a group at its end, where it is worth something, in the place of its worth.
    paid = np.where((arm.successes > 0) & (arm.failures > 0), arm.depth, 0).astype(np.float64)
    counted = arm._replace(
        reward_success=paid[arm.next_success] - paid, reward_failure=paid[arm.next_failure] - paid
    )
    return Renewal(right.reward, renewal(counted, draws).reward)
