"""What rules that choose among known prompts share: whole groups by score, and candidates from a stream."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.records import Decision, Reason, Requests, filled, rank_by
from theory.allocation.stream import Stream, take


def whole_first(
    score: Float[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int,
    wanted: Bool[Array, " P"] | None = None,
) -> Requests:
    """Complete groups in the order of their scores, whole groups only.

    Args:
        score: [P] larger first, ties by position.
        successes: [P] right rollouts of the group under way.
        failures: [P] wrong ones.
        budget: most rollouts in all.
        group_size: n.
        wanted: [P] prompts that may be drawn; all by default. The others are SKIPped.

    Returns:
        COMMIT with n - s - f while that fits whole, then DEFER; NONE for a finished group.
    """
    missing = jnp.maximum(group_size - successes - failures, 0)
    may = jnp.ones(missing.shape, bool) if wanted is None else wanted
    asks = may & (missing > 0)
    rank = rank_by(jnp.where(asks, score, -jnp.inf))
    in_order = jnp.zeros_like(missing).at[rank].set(jnp.where(asks, missing, 0))
    spent = jnp.cumsum(in_order, dtype=missing.dtype)[rank]
    fits = asks & (spent <= jnp.asarray(budget, missing.dtype))
    decision = jnp.where(fits, int(Decision.COMMIT), int(Decision.DEFER))
    decision = jnp.where(may, decision, int(Decision.SKIP))
    decision = jnp.where(missing > 0, decision, int(Decision.NONE))
    return Requests(jnp.where(fits, missing, 0), decision, filled(missing, Reason.COMMIT), score)


def pool_of(stream: Stream, size: int) -> tuple[Stream, Bool[Array, " P"]]:
    """The next candidates of a pool.

    Args:
        stream: where the epoch stands.
        size: how many; a smaller pool is taken whole.

    Returns:
        The stream after them and [P] which they are.
    """
    num_prompts = stream.order.size
    after, places = take(stream, min(size, num_prompts), jnp.ones(num_prompts, bool))
    return after, places > 0
