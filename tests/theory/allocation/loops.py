"""Training loops without a trainer: allocators against prompts of known success rates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from theory.allocation.records import Groups, Requests, Results
from theory.protocols import Allocator

PLENTY = 2**30


class Round(NamedTuple):
    """One round, on the host."""

    requests: Requests
    results: Results
    groups: Groups
    state: Any


def draw(key: Any, rates: Any, additional: Any, most: int = 128) -> Results:
    """Verdicts of some more rollouts of each prompt."""
    uniforms = jax.random.uniform(key, (rates.shape[0], most))
    wanted = jnp.arange(most)[None, :] < additional[:, None]
    right = jnp.sum(wanted & (uniforms < rates[:, None]), axis=1).astype(jnp.int32)
    return Results(right, additional.astype(jnp.int32) - right)


def step_of(allocator: Allocator, rates: Any, budget: int) -> Callable[[Any, Any], Any]:
    """One compiled round."""

    @jax.jit
    def step(state: Any, key: Any) -> Any:
        requests = allocator.propose(state, budget)
        results = draw(key, rates, requests.additional)
        after, groups = allocator.observe(state, results)
        return after, requests, results, groups

    return step


def play(
    allocator: Allocator, rates: Any, num_rounds: int, seed: int = 0, budget: int = PLENTY
) -> list[Round]:
    """Run an allocator for some rounds."""
    rates = jnp.asarray(rates, jnp.float32)
    state = allocator.init(jax.random.key(seed), rates.size)
    step = step_of(allocator, rates, budget)
    rounds: list[Round] = []
    for number in range(num_rounds):
        key = jax.random.fold_in(jax.random.key(seed + 1000), number)
        state, requests, results, groups = step(state, key)
        fetched = jax.tree.map(np.asarray, (requests, results, groups))
        rounds.append(Round(fetched[0], fetched[1], fetched[2], state))
    return rounds


def updates(rounds: list[Round]) -> list[list[Round]]:
    """The rounds of each complete update."""
    found: list[list[Round]] = [[]]
    for each in rounds:
        found[-1].append(each)
        if each.groups.complete:
            found.append([])
    return found[:-1]
