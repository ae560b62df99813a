"""What goes between an allocator and whoever draws the rollouts.

    requests = allocator.propose(state, budget)
    results = ...                                    # draw requests.additional rollouts of each prompt
    state, groups = allocator.observe(state, results)
    if groups.complete: ...                          # train on groups.successes and groups.failures where groups.ready

A pool has P prompts, and every array has one entry a prompt: shapes never change, so a loop compiles, maps over seeds, and its state
can be written down. Unit: the trajectory (one rollout of a prompt), with a verdict that is right or wrong.
"""

import enum
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.errors import InvalidInput
from theory.ledger import Ledger, charge


class Decision(enum.IntEnum):
    """What a rule says of a prompt. The numbers are part of the record: append, never renumber."""

    COMMIT = 0
    """Its group is worth training on: complete it, or it is complete."""
    CONTINUE = 1
    """Undecided: draw more."""
    ABANDON = 2
    """Its group is not worth completing."""
    DEFER = 3
    """Not now; it may come back."""
    SKIP = 4
    """Too easy for now; it comes back in the next epoch."""
    EVICT = 5
    """Leave it out for good."""
    NONE = 6
    """The rule has nothing to say of it."""


class Reason(enum.IntEnum):
    """What a rollout is for: the columns `rollouts_*` of `theory.ledger.Ledger`, by name."""

    PILOT = 0
    COMMIT = 1
    PROBE = 2
    EXTEND = 3
    BRANCH = 4
    DROPPED = 5


class Requests(NamedTuple):
    """How to spend the next rollouts.

    Attributes:
        additional: [P] rollouts to draw of each prompt, not negative.
        decision: [P] a `Decision`.
        reason: [P] a `Reason`: what the rollouts are for.
        score: [P] what the rule orders prompts by, larger first; 0 for a rule that keeps the order given.
    """

    additional: Int[Array, " P"]
    decision: Int[Array, " P"]
    reason: Int[Array, " P"]
    score: Float[Array, " P"]


class Results(NamedTuple):
    """Verdicts of the rollouts just drawn, and of no others.

    Attributes:
        successes: [P] right ones.
        failures: [P] wrong ones.
    """

    successes: Int[Array, " P"]
    failures: Int[Array, " P"]


class Groups(NamedTuple):
    """What may be trained on.

    Every rollout is accounted for: over the rounds of an update, what was drawn = what is trained on + `dropped` - `replayed` + what the
    state still holds.

    Attributes:
        ready: [P] prompts whose group is to be trained on.
        successes: [P] right rollouts of the group to train on, after selection; 0 where not ready.
        failures: [P] wrong ones.
        complete: the batch is full: train now.
        pool_successes: [P] right rollouts that the group was selected from; a baseline may use them all.
        pool_failures: [P] wrong ones.
        dropped: [P] rollouts that this round gave up: abandoned groups, surplus groups, what selection left out.
        replayed: [P] stored rollouts in the group that were not drawn for it.
    """

    ready: Bool[Array, " P"]
    successes: Int[Array, " P"]
    failures: Int[Array, " P"]
    complete: Bool[Array, ""]
    pool_successes: Int[Array, " P"]
    pool_failures: Int[Array, " P"]
    dropped: Int[Array, " P"]
    replayed: Int[Array, " P"]


def served(
    wanted: Int[Array, " P"], budget: Int[Array, ""] | int, rank: Int[Array, " P"] | None = None
) -> Int[Array, " P"]:
    """Serve wishes one after another until the budget is spent; the last one served gets what is left.

    Args:
        wanted: [P] not negative.
        budget: most rollouts in all, not negative.
        rank: [P] a permutation: who is served first; by position where absent.

    Returns:
        [P] at most `wanted`, with sum min(budget, sum wanted).
    """
    if rank is None:
        before = jnp.cumsum(wanted, dtype=wanted.dtype) - wanted
    else:
        in_order = jnp.zeros_like(wanted).at[rank].set(wanted)
        before = (jnp.cumsum(in_order, dtype=wanted.dtype) - in_order)[rank]
    left = jnp.maximum(jnp.asarray(budget, wanted.dtype) - before, 0)
    return jnp.minimum(wanted, left)


def rank_by(score: Float[Array, " P"]) -> Int[Array, " P"]:
    """Places in descending order of score, ties by position.

    Args:
        score: [P] no NaN.

    Returns:
        [P] 0 for the highest.
    """
    order = jnp.argsort(-score, stable=True)
    return jnp.zeros_like(order).at[order].set(jnp.arange(order.size, dtype=order.dtype))


def filled(like: Int[Array, " P"], value: int) -> Int[Array, " P"]:
    """One number for every prompt, such as a `Reason`.

    Args:
        like: [P] gives shape and type.
        value: the number.

    Returns:
        [P].
    """
    return jnp.full_like(like, int(value))


def charged(ledger: Ledger, requests: Requests, groups: Groups) -> Ledger:
    """The ledger after a round.

    Args:
        ledger: before it.
        requests: all of them were drawn.
        groups: what `observe` returned.

    Returns:
        Each column `rollouts_*` with its requests, one verifier call a rollout, and the dropped ones.
    """
    counts = {
        f"rollouts_{reason.name.lower()}": jnp.sum(
            jnp.where(requests.reason == reason, requests.additional, 0)
        )
        for reason in (Reason.PILOT, Reason.COMMIT, Reason.PROBE, Reason.EXTEND, Reason.BRANCH)
    }
    return charge(
        ledger,
        **counts,
        rollouts_dropped=jnp.sum(groups.dropped),
        verifier_calls=jnp.sum(requests.additional),
    )


def check_whole(name: str, value: int, least: int) -> int:
    """An option that counts something.

    Args:
        name: of the option, for the message.
        value: what was given.
        least: smallest that makes sense.

    Returns:
        The value.

    Raises:
        InvalidInput: it is too small.
    """
    if value < least:
        raise InvalidInput(f"{name} {value}: must be at least {least}")
    return value


def check_share(name: str, value: float) -> float:
    """An option that is a probability or a share.

    Args:
        name: of the option, for the message.
        value: what was given.

    Returns:
        The value.

    Raises:
        InvalidInput: it is outside [0, 1], or no number.
    """
    if not 0 <= value <= 1:
        raise InvalidInput(f"{name} {value}: must be in [0, 1]")
    return value
