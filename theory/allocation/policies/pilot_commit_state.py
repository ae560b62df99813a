"""What Pilot-Commit remembers between rounds, and its choices: who is committed first, with how many rollouts, and which pilots are trained on."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from theory.allocation.policies.pilot_commit import pilot_variance
from theory.allocation.records import rank_by
from theory.keys import Role, role_key


class PilotCommitState(NamedTuple):
    """What the next round needs.

    Attributes:
        key: of orders and random choices.
        order: [P] the epoch's order; evicted prompts stand last.
        epoch: from 0.
        batch_of_epoch: candidate batches of this epoch before this round.
        candidates: [P] prompts that this round pilots.
        chosen: [P] prompts that this round commits.
        planned: [P] commits that this round draws of them.
        buffered: [P] prompts whose pilots passed and wait.
        added: [P] update in which they passed.
        pilot_successes: [P] right pilots.
        pilot_failures: [P] wrong ones.
        commit_successes: [P] right commits.
        commit_failures: [P] wrong ones.
        in_batch: [P] groups of this update.
        evicted: [P] prompts left out.
        marked: [P] prompts that leave at the end of the epoch.
        rounds: rounds of this update before this one.
        total_rounds: of the run.
        update: batches completed so far.
    """

    key: Key[Array, ""]
    order: Int[Array, " P"]
    epoch: Int[Array, ""]
    batch_of_epoch: Int[Array, ""]
    candidates: Bool[Array, " P"]
    chosen: Bool[Array, " P"]
    planned: Int[Array, " P"]
    buffered: Bool[Array, " P"]
    added: Int[Array, " P"]
    pilot_successes: Int[Array, " P"]
    pilot_failures: Int[Array, " P"]
    commit_successes: Int[Array, " P"]
    commit_failures: Int[Array, " P"]
    in_batch: Bool[Array, " P"]
    evicted: Bool[Array, " P"]
    marked: Bool[Array, " P"]
    rounds: Int[Array, ""]
    total_rounds: Int[Array, ""]
    update: Int[Array, ""]


# (chosen [P], pilot successes [P], pilot failures [P]) -> commits of each chosen prompt.
CommitSizes = Callable[[Bool[Array, " P"], Int[Array, " P"], Int[Array, " P"]], Int[Array, " P"]]

# (state, buffered [P]) -> [P] places, 0 for the prompt that is committed first.
Preference = Callable[[PilotCommitState], Int[Array, " P"]]


def max_variance(state: PilotCommitState) -> Int[Array, " P"]:
    """Commit first what has the largest pilot variance, then what was added last, then by position.

    Args:
        state: before the choice.

    Returns:
        [P] places among the buffered prompts.
    """
    variance = pilot_variance(state.pilot_successes, state.pilot_failures)
    order = jnp.lexsort((-state.added, -variance, ~state.buffered))
    return jnp.zeros_like(order).at[order].set(jnp.arange(order.size, dtype=order.dtype))


def random(state: PilotCommitState) -> Int[Array, " P"]:
    """Commit a random choice of the buffer, each prompt equally likely.

    Args:
        state: before the choice.

    Returns:
        [P] places among the buffered prompts.
    """
    key = jax.random.fold_in(role_key(state.key, Role.BELIEF), state.total_rounds)
    noise = jax.random.uniform(key, state.order.shape)
    return rank_by(jnp.where(state.buffered, noise, -1.0))


def equal_commits(commits: int) -> CommitSizes:
    """M for every chosen prompt.

    Args:
        commits: m.

    Returns:
        The sizes.
    """

    def sizes(
        chosen: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> Int[Array, " P"]:
        return jnp.where(chosen, jnp.int32(commits), 0)

    return sizes


def max_variance_subset(
    successes: Int[Array, "*batch"], failures: Int[Array, "*batch"], size: int
) -> tuple[Int[Array, "*batch"], Int[Array, "*batch"]]:
    """The subset of binary rewards whose variance is largest: as close to halves as can be, the odd one a failure.

    Args:
        successes: right rollouts there are.
        failures: wrong ones.
        size: how many to keep; all are kept where there are no more.

    Returns:
        Right and wrong ones kept.
    """
    total = successes + failures
    kept = jnp.minimum(total, size)
    ones = jnp.clip(kept // 2, kept - jnp.minimum(failures, kept), jnp.minimum(successes, kept))
    return ones, kept - ones
