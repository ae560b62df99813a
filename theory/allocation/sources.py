"""Which prompts come next: a source is a belief about the pool and how it picks, learns and ranks.

A source knows nothing of stopping rules and a stopping rule nothing of sources, so that any of the one runs on any of the other
(`theory.allocation.assembly`): SARA on the ranking of DPS is a composition, not a program of its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.stream import Stream, start_stream, take

Belief = Any
"""What a source remembers: a pytree of arrays of fixed shapes."""


class Source(NamedTuple):
    """Which prompts come next.

    Attributes:
        init: (key, number of prompts) -> belief.
        pick: (belief, count, eligible [P], visited [P]) -> (belief, places [P]): 1 for the first prompt taken, 0 for those that were not.
            Fewer than `count` are taken only where fewer are eligible. `visited` are the prompts that this update has opened before.
        learn: (belief, visited [P], successes [P], failures [P]) -> belief: called once an update, with all that was drawn of the prompts that it opened.
        score: belief -> [P] what the source ranks by, larger first; 0 for one that does not rank.
    """

    init: Callable[[Key[Array, ""], int], Belief]
    pick: Callable[
        [Belief, Int[Array, ""], Bool[Array, " P"], Bool[Array, " P"]],
        tuple[Belief, Int[Array, " P"]],
    ]
    learn: Callable[[Belief, Bool[Array, " P"], Int[Array, " P"], Int[Array, " P"]], Belief]
    score: Callable[[Belief], Float[Array, " P"]]


def epochs() -> Source:
    """Every prompt once an epoch, in a random order; learns nothing.

    Returns:
        The source.
    """

    def pick(
        belief: Stream,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[Stream, Int[Array, " P"]]:
        return take(belief, count, eligible)

    def learn(
        belief: Stream,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> Stream:
        return belief

    def score(belief: Stream) -> Float[Array, " P"]:
        return jnp.zeros(belief.order.shape)

    return Source(start_stream, pick, learn, score)


def best_first(
    score: Float[Array, " P"],
    count: Int[Array, ""],
    eligible: Bool[Array, " P"],
    preferred: Bool[Array, " P"],
    visited: Bool[Array, " P"],
) -> Int[Array, " P"]:
    """Take the eligible prompts with the highest scores.

    Those that this update has opened before come last, since their score is older than what was just seen of them; before them come those
    outside the candidates.

    Args:
        score: [P] larger first, ties by position.
        count: how many are wanted.
        eligible: [P] which may be taken.
        preferred: [P] the candidates.
        visited: [P] opened before in this update.

    Returns:
        [P] places: 1 for the first taken, 0 for those that were not.
    """

    def first() -> Int[Array, " P"]:
        order = jnp.lexsort((-score, ~preferred, visited, ~eligible))
        place = jnp.arange(1, order.size + 1, dtype=jnp.int32)
        places = jnp.zeros(order.shape, jnp.int32).at[order].set(place)
        return jnp.where(eligible & (places <= wanted), places, 0)

    wanted = jnp.asarray(count, jnp.int32)
    # The order is the dear part, and in most rounds nothing is opened.
    return jax.lax.cond(wanted > 0, first, lambda: jnp.zeros(score.shape, jnp.int32))
