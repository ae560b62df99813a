"""The case for online estimates, from the other side: difficulties estimated once, at the start, and never again.

In the first epoch every prompt gets a group of n in a random order. From then on prompts are picked as DPS picks them, from candidates by the
probability that the next group is mixed, but this probability stays that of the first group. So the comparison with DPS is about keeping estimates up to
date and nothing else. Offline filters by difficulty do this.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.policies.uniform import allocator as uniform_allocator
from theory.allocation.priors import beta, log_moment_ratio
from theory.allocation.selection import pool_of
from theory.allocation.sources import Source, best_first
from theory.allocation.stream import Stream, start_stream, take
from theory.protocols import Allocator

OVERSAMPLING = 8
"""Candidates of an update, in batches, as in DPS."""


class FrozenState(NamedTuple):
    """Of the source.

    Attributes:
        stream: the order of prompts.
        candidates: [P] of this update.
        score: [P] P(the next group is mixed) by the first group; 0 before it.
        measured: [P] prompts that have had their first group.
    """

    stream: Stream
    candidates: Bool[Array, " P"]
    score: Float[Array, " P"]
    measured: Bool[Array, " P"]


def mixed_chance(
    successes: Int[Array, " P"], failures: Int[Array, " P"], group_size: int
) -> Float[Array, " P"]:
    """P(another group is mixed) under a flat prior and one group.

        1 - E[p^n | s, f] - E[(1 - p)^n | s, f]

    Args:
        successes: [P] s.
        failures: [P] f.
        group_size: n.

    Returns:
        [P].
    """
    flat, zero = beta(1.0, 1.0), jnp.zeros_like(successes)
    whole = zero + group_size
    alike = jnp.exp(log_moment_ratio(flat, successes, failures, whole, zero))
    return 1 - alike - jnp.exp(log_moment_ratio(flat, successes, failures, zero, whole))


def source(batch_size: int, group_size: int) -> Source:
    """Prompts by their first group.

    Args:
        batch_size: B.
        group_size: n.

    Returns:
        The source.
    """
    size = OVERSAMPLING * batch_size

    def init(key: Key[Array, ""], prompts: int) -> FrozenState:
        no = jnp.zeros(prompts, bool)
        return FrozenState(start_stream(key, prompts), no, jnp.zeros(prompts), no)

    def pick(
        state: FrozenState,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[FrozenState, Int[Array, " P"]]:
        def measuring() -> tuple[Stream, Int[Array, " P"]]:
            return take(state.stream, count, eligible)

        def ranking() -> tuple[Stream, Int[Array, " P"]]:
            places = best_first(state.score, count, eligible, state.candidates, visited)
            return state.stream, places

        stream, places = jax.lax.cond(state.measured.all(), ranking, measuring)
        return state._replace(stream=stream), places

    def learn(
        state: FrozenState,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> FrozenState:
        first = visited & ~state.measured & (successes + failures > 0)
        found = mixed_chance(successes, failures, group_size)
        score = jnp.where(first, found, state.score)
        measured = state.measured | first

        def chosen() -> tuple[Stream, Bool[Array, " P"]]:
            return pool_of(state.stream, size)

        stream, candidates = jax.lax.cond(
            measured.all(), chosen, lambda: (state.stream, state.candidates)
        )
        return FrozenState(stream, candidates, score, measured)

    return Source(init, pick, learn, lambda state: state.score)


def allocator(batch_size: int, group_size: int) -> Allocator:
    """Whole groups for the prompts that the first group says are mixed.

    Args:
        batch_size: B.
        group_size: n.

    Returns:
        The allocator.
    """
    return uniform_allocator(batch_size, group_size, source(batch_size, group_size))
