"""How fast to forget, learnt on the way: several memories side by side, judged by how well each foretold what came.

A policy moves, so old rollouts of a prompt say less than new ones. A memory m weighs what was seen k updates ago by m^k, reads it with a population
learnt from the same histories, and so foretells the next outcomes of every prompt that is drawn:

    log P(s, f | history) = log sum_k w_k E_k[p^(S + s) (1 - p)^(F + f)] - log sum_k w_k E_k[p^S (1 - p)^F]

The memory with the largest discounted sum of these is used (prequential choice, Dawid 1984, Journal of the Royal Statistical Society A 147). Which prompts
were drawn, and for how long, was decided by what had been seen, so that leaves the comparison as it is. The rule is ours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.empirical_bayes import learn_weights
from theory.allocation.equal_runs import joined_weights, log_likelihoods
from theory.allocation.priors import BetaMixture

MEMORIES = (0.0, 0.5, 0.8, 0.95, 1.0)
"""From none to all."""

SCORE_DISCOUNT = 0.9
"""Weight of the scores of earlier updates, by update: the speed of a policy changes."""

EM_STEPS = 5
"""Of each population, an update; each goes on from the last."""


class Memories(NamedTuple):
    """Several memories of the same rollouts.

    Attributes:
        successes: [M, P] discounted right rollouts of each prompt.
        failures: [M, P] discounted wrong ones.
        log_weights: [M, K] of the parts of the population, Beta laws first.
        score: [M] discounted log probabilities of what came.
    """

    successes: Float[Array, "M P"]
    failures: Float[Array, "M P"]
    log_weights: Float[Array, "M K"]
    score: Float[Array, " M"]


class Memory(NamedTuple):
    """The one that is used.

    Attributes:
        population: that prompts come from.
        successes: [P] discounted right rollouts of each prompt.
        failures: [P] discounted wrong ones.
    """

    population: BetaMixture
    successes: Float[Array, " P"]
    failures: Float[Array, " P"]


def start_memories(grid: BetaMixture, num_prompts: int) -> Memories:
    """Nothing seen.

    Args:
        grid: its weights are the first guess.
        num_prompts: P.

    Returns:
        The memories.
    """
    number = len(MEMORIES)
    nothing = jnp.zeros((number, num_prompts))
    weights = joined_weights(grid)
    return Memories(
        nothing, nothing, jnp.tile(weights[None], (number, 1)), jnp.zeros(number, weights.dtype)
    )


def remember(
    grid: BetaMixture,
    memories: Memories,
    visited: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    em_steps: int = EM_STEPS,
) -> Memories:
    """Take in one update.

    Args:
        grid: Beta laws and atoms.
        memories: before it.
        visited: [P] prompts that were drawn.
        successes: [P] right rollouts.
        failures: [P] wrong ones.
        em_steps: 0 leaves the population as it is.

    Returns:
        The memories after it.
    """
    floats = memories.successes.dtype
    s, f = (jnp.where(visited, part, 0).astype(floats) for part in (successes, failures))

    def one(
        memory: Float[Array, ""],
        right: Float[Array, " P"],
        wrong: Float[Array, " P"],
        log_weights: Float[Array, " K"],
    ) -> tuple[Float[Array, " P"], Float[Array, " P"], Float[Array, " K"], Float[Array, ""]]:
        earlier = log_likelihoods(grid, right, wrong)
        right, wrong = right + s, wrong + f
        now = log_likelihoods(grid, right, wrong)
        before, after = (
            jax.nn.logsumexp(log_weights[None, :] + part, axis=-1) for part in (earlier, now)
        )
        foretold = jnp.sum(jnp.where(visited, after - before, 0))
        # The population is that of now; by the next update all this is one update old. A Dirichlet prior worth one prompt keeps every part alive.
        known = (right + wrong > 0).astype(floats)
        weights = learn_weights(log_weights, now, known, em_steps, pseudocount=1.0)
        return memory * right, memory * wrong, weights, foretold

    speeds = jnp.array(MEMORIES, floats)
    right, wrong, weights, foretold = jax.vmap(one)(
        speeds, memories.successes, memories.failures, memories.log_weights
    )
    return Memories(right, wrong, weights, SCORE_DISCOUNT * memories.score + foretold)


def best_memory(grid: BetaMixture, memories: Memories) -> Memory:
    """The memory that has foretold best; the longest of equal ones.

    Args:
        grid: of the memories.
        memories: all of them.

    Returns:
        What it knows.
    """
    last = memories.score.size - 1
    best = last - jnp.argmax(memories.score[::-1])
    weights, num_betas = memories.log_weights[best], grid.a.size
    population = grid._replace(
        log_weights=weights[:num_betas], log_point_weights=weights[num_betas:]
    )
    return Memory(population, memories.successes[best], memories.failures[best])
