"""Uniform allocation: every prompt of the batch gets the same number of rollouts, and every group is trained on.

This is GRPO as published (Shao et al. 2024, arXiv 2402.03300); a group of equal rewards has advantage 0 and its rollouts are spent for nothing.
"""

import jax.numpy as jnp
from jaxtyping import Array, Int

from theory.allocation.assembly import Rule, assemble, filled_groups, once, scores
from theory.allocation.records import (
    Decision,
    Reason,
    Requests,
    check_whole,
    filled,
)
from theory.allocation.sources import Source, epochs
from theory.protocols import Allocator


def allocate(
    successes: Int[Array, " P"], failures: Int[Array, " P"], budget: Int[Array, ""] | int
) -> Requests:
    """Share a budget evenly, whatever has been seen.

        floor(R / P) each, one more to each of the first R mod P

    Args:
        successes: [P] right rollouts so far; gives the shape.
        failures: [P] wrong ones.
        budget: R, not negative.

    Returns:
        What to draw: COMMIT where something is drawn, NONE elsewhere.
    """
    total = jnp.asarray(budget, successes.dtype)
    share, extra = jnp.divmod(total, max(successes.size, 1))
    position = jnp.arange(successes.size, dtype=successes.dtype)
    additional = share + (position < extra).astype(successes.dtype)
    decision = jnp.where(additional > 0, int(Decision.COMMIT), int(Decision.NONE))
    return Requests(additional, decision, filled(successes, Reason.COMMIT), scores(successes))


def whole_group(group_size: int) -> Rule:
    """Complete every open group, and accept it whatever its rewards.

    Args:
        group_size: n.

    Returns:
        The rule.
    """
    return filled_groups(lambda belief, opened: jnp.int32(group_size))


def allocator(batch_size: int, group_size: int, source: Source | None = None) -> Allocator:
    """GRPO's plain batches: B prompts, n rollouts each, one call an update.

    Args:
        batch_size: B, prompts an update.
        group_size: n, rollouts of a prompt.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a size below 1.
    """
    check_whole("group size", group_size, 1)
    return assemble(
        epochs() if source is None else source,
        whole_group(group_size),
        once(batch_size),
        batch_size,
    )
