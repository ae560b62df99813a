"""From a source of prompts, a stopping rule, a refill and a selection to a whole method.

An update opens prompts, draws of the open ones what the rule asks for, closes a prompt when the rule wants no more of it (accepted or given
up), and opens others as the refill says. It is complete when nothing is open and nothing is to be opened; then the accepted groups are
cut to the batch size in the order in which they were opened, the selection says which rollouts of each are trained on, and the source
learns. A rule that decides rollout by rollout keeps as many prompts open as groups are still needed, so it never overshoots, and by Wald's
identity spends in expectation what it would spend on one prompt after another.

A request that the budget cuts short is simply asked for again: what to draw is a function of the state.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.records import (
    Decision,
    Groups,
    Reason,
    Requests,
    Results,
    check_whole,
    filled,
    served,
)
from theory.allocation.sources import Belief, Source
from theory.errors import InvalidInput
from theory.protocols import Allocator

# (belief, successes [P], failures [P], open [P]) -> what to do with each open prompt. A prompt for which nothing more is asked is closed:
# accepted if the decision is COMMIT, given up otherwise; CONTINUE keeps it waiting for the others. Entries outside `open` are not read.
Rule = Callable[[Belief, Int[Array, " P"], Int[Array, " P"], Bool[Array, " P"]], Requests]

# (belief, accepted groups, open prompts, refills so far) -> how many prompts to open now.
Refill = Callable[[Belief, Int[Array, ""], Int[Array, ""], Int[Array, ""]], Int[Array, ""]]

# (belief, successes [P], failures [P]) -> the successes and failures of each group to train on, and how many were replayed.
Selection = Callable[
    [Belief, Int[Array, " P"], Int[Array, " P"]],
    tuple[Int[Array, " P"], Int[Array, " P"], Int[Array, " P"]],
]


class AllocatorState(NamedTuple):
    """What an assembled method needs for its next step.

    Attributes:
        belief: of the source.
        open: [P] prompts being drawn.
        ready: [P] prompts of this update whose group was accepted.
        visited: [P] prompts that this update has opened.
        successes: [P] right rollouts of this update's last visit.
        failures: [P] wrong ones.
        opened_at: [P] when this update opened the prompt, counted from 1; 0 for those it did not.
        num_opened: visits of this update.
        refills: how often this update has opened prompts.
        update: batches completed so far.
    """

    belief: Belief
    open: Bool[Array, " P"]
    ready: Bool[Array, " P"]
    visited: Bool[Array, " P"]
    successes: Int[Array, " P"]
    failures: Int[Array, " P"]
    opened_at: Int[Array, " P"]
    num_opened: Int[Array, ""]
    refills: Int[Array, ""]
    update: Int[Array, ""]


def assemble(
    source: Source, rule: Rule, refill: Refill, batch_size: int, selection: Selection | None = None
) -> Allocator:
    """A whole method.

    Args:
        source: which prompts come next.
        rule: what to draw of an open prompt, and when to close it.
        refill: how many prompts to open.
        batch_size: most groups of a batch.
        selection: which rollouts of a group are trained on; all by default.

    Returns:
        init(key, number of prompts), propose(state, budget), observe(state, results).

    Raises:
        InvalidInput: the batch size is below 1; by `init`, if the pool has fewer prompts.
    """
    check_whole("batch size", batch_size, 1)
    choose = whole_groups if selection is None else selection

    def init(key: Key[Array, ""], prompts: int) -> AllocatorState:
        if check_whole("number of prompts", prompts, 1) < batch_size:
            raise InvalidInput(
                f"batch size {batch_size}: the pool has only {prompts} prompts, lower it"
            )
        return _opened(source, refill, _empty(source.init(key, prompts), prompts))

    def propose(state: AllocatorState, budget: Int[Array, ""] | int) -> Requests:
        wish = _wish(rule, state)
        return wish._replace(additional=served(wish.additional, budget))

    observe = partial(_observe, source, rule, refill, choose, batch_size)
    return Allocator(init, propose, observe)


def whole_groups(
    belief: Belief, successes: Int[Array, " P"], failures: Int[Array, " P"]
) -> tuple[Int[Array, " P"], Int[Array, " P"], Int[Array, " P"]]:
    """Train on every rollout of the group.

    Args:
        belief: not used.
        successes: [P] right ones.
        failures: [P] wrong ones.

    Returns:
        The same, and nothing replayed.
    """
    return successes, failures, jnp.zeros_like(successes)


def filled_groups(sizes: Callable[[Belief, Bool[Array, " P"]], Int[Array, "..."]]) -> Rule:
    """Draw every open group up to its size, and accept it whatever its rewards.

    Args:
        sizes: (belief, open [P]) -> [P] sizes, or one for all; entries outside `open` are not read.

    Returns:
        The rule.
    """

    def rule(
        belief: Belief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        wanted = sizes(belief, opened).astype(successes.dtype)
        return Requests(
            jnp.maximum(wanted - successes - failures, 0),
            filled(successes, Decision.COMMIT),
            filled(successes, Reason.COMMIT),
            scores(successes),
        )

    return rule


def once(batch_size: int) -> Refill:
    """Open a batch at the start of an update and nothing later: a prompt that is given up is not replaced.

    Args:
        batch_size: prompts to open.

    Returns:
        The refill.
    """

    def refill(
        belief: Belief,
        num_ready: Int[Array, ""],
        num_open: Int[Array, ""],
        refills: Int[Array, ""],
    ) -> Int[Array, ""]:
        return jnp.where(refills == 0, jnp.int32(batch_size), 0)

    return refill


def top_up(batch_size: int) -> Refill:
    """Keep as many prompts open as groups are still needed.

    Args:
        batch_size: groups of a batch.

    Returns:
        The refill.
    """

    def refill(
        belief: Belief,
        num_ready: Int[Array, ""],
        num_open: Int[Array, ""],
        refills: Int[Array, ""],
    ) -> Int[Array, ""]:
        return jnp.maximum(batch_size - num_ready - num_open, 0)

    return refill


def _empty(belief: Belief, num_prompts: int) -> AllocatorState:
    zeros = jnp.zeros(num_prompts, jnp.int32)
    no = jnp.zeros(num_prompts, bool)
    zero = jnp.zeros((), jnp.int32)
    return AllocatorState(belief, no, no, no, zeros, zeros, zeros, zero, zero, zero)


def _wish(rule: Rule, state: AllocatorState) -> Requests:
    """What the rule asks for, with nothing outside the open prompts."""
    wish = rule(state.belief, state.successes, state.failures, state.open)
    return Requests(
        jnp.where(state.open, wish.additional, 0),
        jnp.where(state.open, wish.decision, int(Decision.NONE)),
        wish.reason,
        wish.score,
    )


def _observe(
    source: Source,
    rule: Rule,
    refill: Refill,
    selection: Selection,
    batch_size: int,
    state: AllocatorState,
    results: Results,
) -> tuple[AllocatorState, Groups]:
    drawn = state._replace(
        successes=state.successes + results.successes.astype(jnp.int32),
        failures=state.failures + results.failures.astype(jnp.int32),
    )
    wish = _wish(rule, drawn)
    closed = drawn.open & (wish.additional == 0) & (wish.decision != Decision.CONTINUE)
    accepted = closed & (wish.decision == Decision.COMMIT)
    state = drawn._replace(open=drawn.open & ~closed, ready=drawn.ready | accepted)
    complete = ~jnp.any(state.open) & (_to_open(refill, state) == 0)
    lost = jnp.where(closed & ~accepted, state.successes + state.failures, 0)

    def full() -> tuple[AllocatorState, Groups]:
        groups = _groups(selection, batch_size, state, lost)
        learned = source.learn(state.belief, state.visited, state.successes, state.failures)
        fresh = _empty(learned, state.open.size)._replace(update=state.update + 1)
        return _opened(source, refill, fresh), groups

    def under_way() -> tuple[AllocatorState, Groups]:
        return _opened(source, refill, state), _no_groups(lost)

    return jax.lax.cond(complete, full, under_way)


def _no_groups(dropped: Int[Array, " P"]) -> Groups:
    no, zeros = jnp.zeros(dropped.size, bool), jnp.zeros_like(dropped)
    return Groups(no, zeros, zeros, jnp.asarray(False), zeros, zeros, dropped, zeros)


def _groups(
    selection: Selection,
    batch_size: int,
    state: AllocatorState,
    lost: Int[Array, " P"],
) -> Groups:
    size = state.successes + state.failures
    early = jnp.where(state.ready, state.opened_at, jnp.iinfo(jnp.int32).max)
    place = (
        jnp.zeros_like(early).at[jnp.argsort(early)].set(jnp.arange(early.size, dtype=jnp.int32))
    )
    kept = state.ready & (place < batch_size)
    successes, failures, replayed = (
        jnp.where(kept, part, 0)
        for part in selection(state.belief, state.successes, state.failures)
    )
    surplus = jnp.where(state.ready, size, 0) - (successes + failures - replayed)
    return Groups(
        kept,
        successes,
        failures,
        jnp.asarray(True),
        jnp.where(kept, state.successes, 0),
        jnp.where(kept, state.failures, 0),
        lost + surplus,
        replayed,
    )


def _to_open(refill: Refill, state: AllocatorState) -> Int[Array, ""]:
    num_ready = jnp.sum(state.ready, dtype=jnp.int32)
    num_open = jnp.sum(state.open, dtype=jnp.int32)
    wanted = refill(state.belief, num_ready, num_open, state.refills)
    return jnp.minimum(wanted.astype(jnp.int32), state.open.size - num_ready - num_open)


def _opened(source: Source, refill: Refill, state: AllocatorState) -> AllocatorState:
    """Open the prompts that are due."""
    count = _to_open(refill, state)
    belief, places = source.pick(state.belief, count, ~state.open & ~state.ready, state.visited)
    new = places > 0
    return state._replace(
        belief=belief,
        open=state.open | new,
        visited=state.visited | new,
        successes=jnp.where(new, 0, state.successes),
        failures=jnp.where(new, 0, state.failures),
        opened_at=jnp.where(new, state.num_opened + places, state.opened_at),
        num_opened=state.num_opened + jnp.max(places, initial=0),
        refills=state.refills + (count > 0).astype(jnp.int32),
    )


def scores(like: Int[Array, " P"]) -> Float[Array, " P"]:
    """Scores of a rule that keeps the order given.

    Args:
        like: [P] gives the shape.

    Returns:
        [P] zeros.
    """
    return jnp.zeros(like.shape)
