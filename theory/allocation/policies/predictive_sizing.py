"""Predict, probe, stop and size: one program picks prompts, waits for their second outcome, and closes their groups where more rollouts earn more elsewhere.

The objective is energy per rollout: the sum over the groups trained on of sqrt(s f), over all rollouts drawn (`theory.allocation.sized_groups`). Every prompt has a
posterior of its own, the population that is learnt on the way times what is remembered of it; how long that is remembered is learnt too
(`theory.allocation.memories`). Prompts are picked by Q(0, 0), a group is drawn on while that pays, and is then trained on if it is mixed and large enough. The price
of a rollout is the highest at which the prompts with Q(0, 0) > 0 are expected to give as many groups as the batch needs, as in `predictive_stopping`; a prompt that
is worth less and still picked is priced at its own best rate.

Where nothing is remembered and a prompt must be probed before it can be trained on, sizing is worth next to nothing under this objective: the exact optimum of a fresh
stream gains at most half a per cent by it. The rule is ours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.assembly import assemble, top_up
from theory.allocation.memories import (
    EM_STEPS,
    Memories,
    Memory,
    best_memory,
    remember,
    start_memories,
)
from theory.allocation.population import flat_grid
from theory.allocation.priors import BetaMixture
from theory.allocation.records import Decision, Reason, Requests, check_whole
from theory.allocation.sized_groups import (
    PRICE_STEPS,
    SizedGroups,
    SizedProspects,
    best_sized_rates,
    drawn_to_the_end,
    energy_worth,
    sized_groups,
    sized_prospects,
)
from theory.allocation.sources import Source, best_first
from theory.errors import InvalidInput
from theory.protocols import Allocator


class SizingBelief(NamedTuple):
    """What has been learnt.

    Attributes:
        key: of the order of prompts with equal prospects.
        memories: of every prompt.
        price: of a rollout in this update.
        prospects: of every prompt in this update.
        to_the_end: [n, P, M] where a group is drawn to its end whatever comes.
        update: updates so far.
    """

    key: Key[Array, ""]
    memories: Memories
    price: Float[Array, ""]
    prospects: SizedProspects
    to_the_end: Bool[Array, "n P M"]
    update: Int[Array, ""]


def supplying_price(groups: SizedGroups, batch_size: int) -> Float[Array, ""]:
    """The highest price at which the pool supplies the batch.

        sup of the prices at which sum over prompts with Q(0, 0) > 0 of P(trained on) >= B

    Args:
        groups: of the prompts.
        batch_size: B.

    Returns:
        In [0, 1/2]; 0 for a pool that never supplies it.
    """
    zero = jnp.zeros_like(groups.mean[0, 0, 0])

    def halve(
        _: Int[Array, ""], ends: tuple[Float[Array, ""], Float[Array, ""]]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        low, high = ends
        middle = (low + high) / 2
        found = sized_prospects(groups, jnp.full(groups.mean.shape[1], middle))
        enough = jnp.sum(jnp.where(found.value > 0, found.chance, 0)) >= batch_size
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    return jax.lax.fori_loop(0, PRICE_STEPS, halve, (zero, zero + 0.5))[0]


def foresee(
    memory: Memory, worth: Float[Array, "M M"], batch_size: int
) -> tuple[Float[Array, ""], SizedProspects]:
    """What the next group of every prompt is worth, and the price that it is worth it at.

    Args:
        memory: of the pool.
        worth: see `energy_worth`.
        batch_size: B.

    Returns:
        The price, and prospects: value at that price, rule and chance at it or at the best rate of the prompt alone, whichever is lower.
    """
    groups = sized_groups(memory.population, memory.successes, memory.failures, worth)
    price = supplying_price(groups, batch_size)
    shared = jnp.full(memory.successes.shape, price)
    own = sized_prospects(groups, jnp.minimum(shared, best_sized_rates(groups)))
    return price, own._replace(value=sized_prospects(groups, shared).value)


def source(
    batch_size: int, group_size: int, least: int = 2, prior: BetaMixture | None = None
) -> Source:
    """Prompts by what their next group is worth, ties in random order.

    Args:
        batch_size: B, groups an update.
        group_size: n, the largest group.
        least: the smallest.
        prior: of the population, never changed; learnt on a grid by default.

    Returns:
        The source.

    Raises:
        InvalidInput: a batch below 1, a group below 2, or a smallest group outside 2..n.
    """
    check_whole("batch size", batch_size, 1)
    check_whole("group size", group_size, 2)
    if check_whole("least group size", least, 2) > group_size:
        raise InvalidInput(f"least group size {least}: must be at most the group size {group_size}")
    grid, em_steps = (flat_grid(), EM_STEPS) if prior is None else (prior, 0)
    worth = energy_worth(group_size, least)

    def believed(key: Key[Array, ""], memories: Memories, update: Int[Array, ""]) -> SizingBelief:
        price, found = foresee(best_memory(grid, memories), worth, batch_size)
        return SizingBelief(key, memories, price, found, drawn_to_the_end(found.draws), update)

    def init(key: Key[Array, ""], num_prompts: int) -> SizingBelief:
        return believed(key, start_memories(grid, num_prompts), jnp.zeros((), jnp.int32))

    def pick(
        belief: SizingBelief,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[SizingBelief, Int[Array, " P"]]:
        noise = jax.random.uniform(jax.random.fold_in(belief.key, belief.update), eligible.shape)
        # Equal prospects are common while little is known; the noise is far below what tells prompts apart.
        ranked = belief.prospects.value + 1e-6 * noise
        return belief, best_first(ranked, count, eligible, jnp.ones_like(eligible), visited)

    def learn(
        belief: SizingBelief,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> SizingBelief:
        memories = remember(grid, belief.memories, visited, successes, failures, em_steps)
        return believed(belief.key, memories, belief.update + 1)

    return Source(init, pick, learn, lambda belief: belief.prospects.value)


def allocator(
    batch_size: int, group_size: int, least: int = 2, prior: BetaMixture | None = None
) -> Allocator:
    """Predictive sizing in a training loop; groups have from `least` to n rollouts, all of them both outcomes.

    Args:
        batch_size: see `source`.
        group_size: see `source`.
        least: see `source`.
        prior: see `source`.

    Returns:
        The allocator.

    Raises:
        InvalidInput: see `source`.
    """
    worth = energy_worth(group_size, least)

    def rule(
        belief: SizingBelief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        drawn, places = successes + failures, jnp.arange(successes.size)
        missing = jnp.maximum(group_size - drawn, 0)
        at = (jnp.minimum(drawn, group_size - 1), places, jnp.minimum(successes, group_size))
        # The first rollout is always drawn: a prompt that was picked is looked at.
        draws = (missing > 0) & (belief.prospects.draws[at] | (drawn == 0))
        more = jnp.where(draws, jnp.where(belief.to_the_end[at], missing, 1), 0)
        trained = ~draws & (worth[jnp.minimum(drawn, group_size), at[2]] > 0)
        decision = jnp.where(draws, int(Decision.CONTINUE), int(Decision.ABANDON))
        decision = jnp.where(trained, int(Decision.COMMIT), decision)
        mixed = (successes > 0) & (failures > 0)
        reason = jnp.where(mixed, int(Reason.COMMIT), int(Reason.PILOT))
        return Requests(more, decision, reason, belief.prospects.value)

    prompts = source(batch_size, group_size, least, prior)
    return assemble(prompts, rule, top_up(batch_size), batch_size)
