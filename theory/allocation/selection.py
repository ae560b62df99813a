"""What rules that choose among known prompts share: whole groups by score, candidates from a stream, and a source that ranks them."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.records import Decision, Reason, Requests, filled, rank_by
from theory.allocation.sources import Belief, Source, best_first
from theory.allocation.stream import Stream, start_stream, take


class Ranked(NamedTuple):
    """Of a source that ranks.

    Attributes:
        belief: of every prompt.
        stream: the order from which candidates are taken.
        candidates: [P] of this update.
    """

    belief: Belief
    stream: Stream
    candidates: Bool[Array, " P"]


def ranked(
    first: Callable[[Key[Array, ""], int], Belief],
    updated: Callable[[Belief, Bool[Array, " P"], Int[Array, " P"], Int[Array, " P"]], Belief],
    score: Callable[[Belief], Float[Array, " P"]],
    num_candidates: int,
) -> Source:
    """Each update the next candidates of the epoch, by score, and the rest of the pool after them.

    Args:
        first: (key, number of prompts) -> what is believed before anything was seen.
        updated: (belief, visited [P], successes [P], failures [P]) -> the belief after an update.
        score: belief -> [P] larger first, ties by position.
        num_candidates: of an update.

    Returns:
        The source.
    """

    def init(key: Key[Array, ""], prompts: int) -> Ranked:
        stream, candidates = pool_of(start_stream(key, prompts), num_candidates)
        return Ranked(first(key, prompts), stream, candidates)

    def pick(
        state: Ranked,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[Ranked, Int[Array, " P"]]:
        return state, best_first(score(state.belief), count, eligible, state.candidates, visited)

    def learn(
        state: Ranked,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> Ranked:
        belief = updated(state.belief, visited, successes, failures)
        return Ranked(belief, *pool_of(state.stream, num_candidates))

    return Source(init, pick, learn, lambda state: score(state.belief))


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
