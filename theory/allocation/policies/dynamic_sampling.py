"""Dynamic sampling: whole groups, of which only the mixed ones are kept, until the batch is full.

Source: DAPO (Yu et al. 2025, arXiv 2503.14476). `allocator` draws exactly what is needed, n / P(mixed) a kept group, the "DS oracle" of the DPS and SARA
papers; `batched_allocator` is verl's program, read as code: candidate batches of 3 B prompts, at most 10 of them, cut to B groups, the surplus
thrown away.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from theory.allocation.assembly import Refill, Rule, assemble, scores, top_up
from theory.allocation.records import (
    Decision,
    Reason,
    Requests,
    check_whole,
    filled,
    served,
)
from theory.allocation.sources import Belief, Source, epochs
from theory.protocols import Allocator


def allocate(
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int,
) -> Requests:
    """Complete the unfinished groups in order; of the finished ones the mixed are kept.

        s + f < n     n - s - f more in order, the last one served what is left (CONTINUE; NONE where nothing is left)
        s + f >= n    COMMIT if mixed, else ABANDON

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        group_size: n.

    Returns:
        What to draw; the score is 1 for a mixed group.
    """
    wish = _decided(successes, failures, group_size)
    additional = served(wish.additional, budget)
    unserved = (wish.decision == Decision.CONTINUE) & (additional == 0)
    decision = jnp.where(unserved, int(Decision.NONE), wish.decision)
    return wish._replace(additional=additional, decision=decision)


def _decided(successes: Int[Array, " P"], failures: Int[Array, " P"], group_size: int) -> Requests:
    missing = jnp.maximum(group_size - successes - failures, 0)
    mixed = (successes > 0) & (failures > 0)
    finished = jnp.where(mixed, int(Decision.COMMIT), int(Decision.ABANDON))
    return Requests(
        missing,
        jnp.where(missing > 0, int(Decision.CONTINUE), finished),
        filled(successes, Reason.COMMIT),
        mixed.astype(scores(successes).dtype),
    )


def mixed_groups(group_size: int) -> Rule:
    """Complete every open group, and accept it if it is mixed.

    Args:
        group_size: n.

    Returns:
        The rule.
    """

    def rule(
        belief: Belief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        return _decided(successes, failures, group_size)

    return rule


def candidate_batches(batch_size: int, num_candidates: int, most_batches: int) -> Refill:
    """A whole candidate batch whenever nothing is open and groups are missing.

    Args:
        batch_size: groups of a batch.
        num_candidates: prompts of a candidate batch.
        most_batches: candidate batches of an update; after them it ends with what it has.

    Returns:
        The refill.
    """

    def refill(
        belief: Belief,
        num_ready: Int[Array, ""],
        num_open: Int[Array, ""],
        refills: Int[Array, ""],
    ) -> Int[Array, ""]:
        due = (num_open == 0) & (num_ready < batch_size) & (refills < most_batches)
        return jnp.where(due, jnp.int32(num_candidates), 0)

    return refill


def allocator(batch_size: int, group_size: int, source: Source | None = None) -> Allocator:
    """Exact dynamic sampling: as many groups in flight as are still needed.

    Args:
        batch_size: B, mixed groups an update.
        group_size: n.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator. On a pool that has no mixed group to give it asks without end: the caller's budget ends it.

    Raises:
        InvalidInput: a size below 1.
    """
    check_whole("group size", group_size, 1)
    return assemble(
        epochs() if source is None else source,
        mixed_groups(group_size),
        top_up(batch_size),
        batch_size,
    )


def batched_allocator(
    batch_size: int,
    group_size: int,
    num_candidates: int | None = None,
    most_batches: int = 10,
    source: Source | None = None,
) -> Allocator:
    """Dynamic sampling as verl runs it: candidate batches, surplus groups dropped (and counted).

    Args:
        batch_size: B, mixed groups an update.
        group_size: n.
        num_candidates: prompts of a candidate batch, 3 B by default; a pool with fewer that are not yet accepted gives all of those.
        most_batches: candidate batches of an update. verl stops with an error after 10; here the update ends with the groups it has.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1.
    """
    check_whole("group size", group_size, 1)
    check_whole("most batches", most_batches, 1)
    candidates = 3 * batch_size if num_candidates is None else num_candidates
    check_whole("number of candidates", candidates, 1)
    return assemble(
        epochs() if source is None else source,
        mixed_groups(group_size),
        candidate_batches(batch_size, candidates, most_batches),
        batch_size,
    )
