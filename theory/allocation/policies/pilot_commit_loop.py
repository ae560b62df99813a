"""Pilot-Commit in a training loop, as its program runs it.

A round is one generation call: pilots for the next C candidates and commits for prompts that earlier rounds put into the buffer. A prompt is never committed in the
round that piloted it. An epoch is cut into whole candidate batches; at its end a partial batch and the buffer are thrown away, and prompts marked for
eviction leave the pool. Pilots are at most `most_stale` + 1 updates old when they are trained on, since the buffer is flushed after it is used.

Read as code (github.com/databricks/pilot-commit). Where it stops with an error, this goes on: after `most_rounds` rounds the update ends with the groups it has,
and a pool with fewer than C prompts left is one candidate batch. Where the buffer holds no more than is asked for, the program forgets n_effective and fails
its own check; here the pilots are selected.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from theory.allocation.assembly import scores
from theory.allocation.policies.pilot_commit import (
    EVICT,
    LOWER,
    UPPER,
    in_band,
    pilot_mean,
)
from theory.allocation.policies.pilot_commit_state import (
    CommitSizes,
    PilotCommitState,
    Preference,
    equal_commits,
    max_variance,
    max_variance_subset,
)
from theory.allocation.records import (
    Decision,
    Groups,
    Reason,
    Requests,
    Results,
    check_share,
    check_whole,
    served,
)
from theory.errors import InvalidInput
from theory.keys import Role, role_key
from theory.protocols import Allocator


class _Design(NamedTuple):
    batch_size: int
    pilots: int
    commits: int
    num_candidates: int
    lower: float
    upper: float
    evict: float | None
    most_stale: int
    most_rounds: int
    num_effective: int
    num_devices: int
    preference: Preference
    sizes: CommitSizes


def allocator(
    batch_size: int,
    pilots: int,
    commits: int,
    num_candidates: int | None = None,
    lower: float = LOWER,
    upper: float = UPPER,
    evict: float | None = EVICT,
    most_stale: int = 4,
    most_rounds: int = 10,
    num_effective: int | None = None,
    num_devices: int = 1,
    preference: Preference = max_variance,
    sizes: CommitSizes | None = None,
) -> Allocator:
    """Pilot-Commit.

    Args:
        batch_size: B, groups an update.
        pilots: k.
        commits: m, in the mean if `sizes` shares them out.
        num_candidates: C, prompts piloted a round; 3 B by default.
        lower: least pilot mean that passes.
        upper: 1 - upper is the largest.
        evict: pilot mean at or above which a prompt leaves the pool at the end of the epoch; None evicts nothing.
        most_stale: pilots that are older than this many updates are flushed after an update.
        most_rounds: rounds of an update; 0 or less for no limit.
        num_effective: pilots of a group that are trained on, chosen for variance; all by default.
        num_devices: a round's rollouts are made divisible by it, by fewer commits.
        preference: who is committed first: `max_variance`, the scripts' choice, or `random`, the program's default.
        sizes: commits of each chosen prompt; m each by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a count below 1 or a share outside [0, 1]; by `init`, a pool smaller than the batch.
    """
    for name, value in (("pilots", pilots), ("commits", commits), ("devices", num_devices)):
        check_whole(name, value, 1)
    candidates = 3 * check_whole("batch size", batch_size, 1)
    candidates = candidates if num_candidates is None else num_candidates
    check_whole("number of candidates", candidates, 1)
    check_whole("most stale", most_stale, 0)
    for name, value in (
        ("lower", lower),
        ("upper", upper),
        ("evict", 1.0 if evict is None else evict),
    ):
        check_share(name, value)
    effective = pilots if num_effective is None else num_effective
    if check_whole("effective pilots", effective, 0) > pilots:
        raise InvalidInput(f"effective pilots {effective}: must be at most the {pilots} pilots")
    design = _Design(
        batch_size,
        pilots,
        commits,
        candidates,
        lower,
        upper,
        evict,
        most_stale,
        most_rounds,
        effective,
        num_devices,
        preference,
        equal_commits(commits) if sizes is None else sizes,
    )

    def init(key: Key[Array, ""], prompts: int) -> PilotCommitState:
        if check_whole("number of prompts", prompts, 1) < batch_size:
            raise InvalidInput(
                f"batch size {batch_size}: the pool has only {prompts} prompts, lower it"
            )
        zeros, no = jnp.zeros(prompts, jnp.int32), jnp.zeros(prompts, bool)
        zero = jnp.zeros((), jnp.int32)
        state = PilotCommitState(
            key=key,
            order=zeros,
            epoch=zero,
            batch_of_epoch=zero,
            candidates=no,
            chosen=no,
            planned=zeros,
            buffered=no,
            added=zeros,
            pilot_successes=zeros,
            pilot_failures=zeros,
            commit_successes=zeros,
            commit_failures=zeros,
            in_batch=no,
            evicted=no,
            marked=no,
            rounds=zero,
            total_rounds=zero,
            update=zero,
        )
        return _planned(design, state._replace(order=_epoch_order(state)))

    return Allocator(init, partial(_propose, design), partial(_observe, design))


def _propose(design: _Design, state: PilotCommitState, budget: Int[Array, ""] | int) -> Requests:
    pilots, commits = _missing(design, state)
    first = served(pilots, budget)
    second = served(commits, jnp.asarray(budget, jnp.int32) - jnp.sum(first))
    decision = jnp.where(state.chosen, int(Decision.COMMIT), int(Decision.NONE))
    decision = jnp.where(state.candidates, int(Decision.CONTINUE), decision)
    reason = jnp.where(state.candidates, int(Reason.PILOT), int(Reason.COMMIT))
    return Requests(first + second, decision, reason, scores(pilots))


def _missing(design: _Design, state: PilotCommitState) -> tuple[Int[Array, " P"], Int[Array, " P"]]:
    pilots = design.pilots - state.pilot_successes - state.pilot_failures
    commits = state.planned - state.commit_successes - state.commit_failures
    return jnp.where(state.candidates, pilots, 0), jnp.where(state.chosen, commits, 0)


def _observe(
    design: _Design, state: PilotCommitState, results: Results
) -> tuple[PilotCommitState, Groups]:
    s, f = (part.astype(jnp.int32) for part in results)
    state = state._replace(
        pilot_successes=state.pilot_successes + jnp.where(state.candidates, s, 0),
        pilot_failures=state.pilot_failures + jnp.where(state.candidates, f, 0),
        commit_successes=state.commit_successes + jnp.where(state.chosen, s, 0),
        commit_failures=state.commit_failures + jnp.where(state.chosen, f, 0),
    )
    pilots, commits = _missing(design, state)
    finished = (jnp.sum(pilots) + jnp.sum(commits)) == 0
    return jax.lax.cond(
        finished, lambda: _finished(design, state), lambda: (state, _nothing(state))
    )


def _nothing(state: PilotCommitState) -> Groups:
    no, zeros = jnp.zeros(state.order.size, bool), jnp.zeros_like(state.order)
    return Groups(no, zeros, zeros, jnp.asarray(False), zeros, zeros, zeros, zeros)


def _finished(design: _Design, state: PilotCommitState) -> tuple[PilotCommitState, Groups]:
    """Screen the pilots, train if the batch is full, end the epoch if it is used up, and plan the next round."""
    pilots = state.pilot_successes + state.pilot_failures
    mean = pilot_mean(state.pilot_successes, state.pilot_failures)
    passes = state.candidates & in_band(
        state.pilot_successes, state.pilot_failures, design.lower, design.upper
    )
    dropped = jnp.where(state.candidates & ~passes, pilots, 0)
    easy = jnp.zeros_like(passes) if design.evict is None else mean >= design.evict
    state = state._replace(
        buffered=state.buffered | passes,
        added=jnp.where(passes, state.update, state.added),
        marked=state.marked | (state.candidates & easy),
        in_batch=state.in_batch | state.chosen,
        rounds=state.rounds + 1,
        total_rounds=state.total_rounds + 1,
        batch_of_epoch=state.batch_of_epoch + 1,
    )
    spent = (design.most_rounds > 0) & (state.rounds >= design.most_rounds)
    complete = (jnp.sum(state.in_batch) >= design.batch_size) | spent
    kept_s, kept_f = max_variance_subset(
        state.pilot_successes, state.pilot_failures, design.num_effective
    )
    trained = complete & state.in_batch
    pool_s = state.pilot_successes + state.commit_successes
    pool_f = state.pilot_failures + state.commit_failures
    unselected = pilots - kept_s - kept_f
    stale = complete & state.buffered & (state.update - state.added > design.most_stale)
    state = state._replace(
        in_batch=state.in_batch & ~complete,
        buffered=state.buffered & ~stale,
        rounds=jnp.where(complete, 0, state.rounds),
        update=state.update + complete.astype(jnp.int32),
    )
    dropped = dropped + jnp.where(trained, unselected, 0) + jnp.where(stale, pilots, 0)
    active = jnp.sum(~state.evicted)
    over = state.batch_of_epoch >= jnp.maximum(active // design.num_candidates, 1)
    lost = over & (state.in_batch | state.buffered)
    groups = Groups(
        trained,
        jnp.where(trained, kept_s + state.commit_successes, 0),
        jnp.where(trained, kept_f + state.commit_failures, 0),
        complete,
        jnp.where(trained, pool_s, 0),
        jnp.where(trained, pool_f, 0),
        dropped + jnp.where(lost, pool_s + pool_f, 0),
        jnp.zeros_like(dropped),
    )
    # What is neither buffered nor in the batch is forgotten.
    state = jax.lax.cond(over, lambda: _next_epoch(state), lambda: state)
    held = state.buffered | state.in_batch
    counts = {
        name: jnp.where(held, getattr(state, name), 0)
        for name in ("pilot_successes", "pilot_failures", "commit_successes", "commit_failures")
    }
    return _planned(design, state._replace(**counts)), groups


def _next_epoch(state: PilotCommitState) -> PilotCommitState:
    """Throw the partial batch and the buffer away, let the marked prompts go, and shuffle."""
    # As in the program, the rounds of an update are counted on where no partial batch was thrown away.
    rounds = jnp.where(jnp.any(state.in_batch), 0, state.rounds)
    no = jnp.zeros_like(state.marked)
    state = state._replace(
        epoch=state.epoch + 1,
        batch_of_epoch=jnp.zeros_like(state.batch_of_epoch),
        buffered=no,
        in_batch=no,
        evicted=state.evicted | state.marked,
        marked=no,
        rounds=rounds,
    )
    return state._replace(order=_epoch_order(state))


def _epoch_order(state: PilotCommitState) -> Int[Array, " P"]:
    key = jax.random.fold_in(role_key(state.key, Role.ORDER), state.epoch)
    shuffled = jax.random.permutation(key, state.evicted.size).astype(jnp.int32)
    return shuffled[jnp.argsort(state.evicted[shuffled], stable=True)]


def _planned(design: _Design, state: PilotCommitState) -> PilotCommitState:
    """The next candidates, and who is committed beside them."""
    index = jnp.arange(state.order.size, dtype=jnp.int32)
    start = state.batch_of_epoch * design.num_candidates
    active = jnp.sum(~state.evicted, dtype=jnp.int32)
    end = jnp.minimum(start + design.num_candidates, active)
    candidates = jnp.zeros_like(state.evicted).at[state.order].set((index >= start) & (index < end))
    need = design.batch_size - jnp.sum(state.in_batch, dtype=jnp.int32)
    most = jnp.minimum(need, jnp.sum(state.buffered, dtype=jnp.int32))
    count = _divisible(design, jnp.sum(candidates, dtype=jnp.int32), most)
    chosen = state.buffered & (design.preference(state) < count)
    planned = design.sizes(chosen, state.pilot_successes, state.pilot_failures)
    return state._replace(
        candidates=candidates,
        chosen=chosen,
        planned=planned.astype(jnp.int32),
        buffered=state.buffered & ~chosen,
    )


def _divisible(
    design: _Design, num_candidates: Int[Array, ""], most: Int[Array, ""]
) -> Int[Array, ""]:
    """The largest number of commits with which the devices share the round's rollouts evenly; 0 where there is none."""
    counts = jnp.arange(design.batch_size + 1, dtype=jnp.int32)
    total = num_candidates * design.pilots + counts * design.commits
    fits = (total % design.num_devices == 0) & (counts <= most)
    return jnp.max(jnp.where(fits, counts, 0))
