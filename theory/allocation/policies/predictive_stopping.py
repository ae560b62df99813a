"""Predict, probe, stop: prompts are picked by what their next group is worth, and given up by the same measure.

A composition of the two classes of rules: like DPS it remembers every prompt and picks the promising ones, like optimal stopping it gives a prompt
up where the next rollouts earn less than elsewhere. Both read one posterior: the population that is learnt on the way, times the prompt's own
discounted history. That is what a stopping rule in front of a ranking by another model lacks: ranked prompts are not drawn from the
population, and a prompt given up after three rollouts has not shown a whole group (rl-prototype.md 4, where that composition lost to SARA on DPS).

Prompts are picked by Q_0 and given up at the first run of k equal outcomes with Q_k <= 0 (`theory.allocation.equal_runs`); one that is worth less than the price, and still picked because the others did
not do, is priced at its own best rate, since at a higher price it would be given up before it can become mixed. The price is the one at which the pool supplies the batch: the prompts with
Q_0 > 0, under this rule, are expected to give as many effective groups as the batch needs. That is complementary slackness of
the relaxation that bounds all rules of this class (`theory.exact.allocation.relaxation`). The rule is ours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.assembly import assemble, top_up
from theory.allocation.empirical_bayes import learn_weights
from theory.allocation.equal_runs import (
    Prospects,
    Runs,
    best_rates,
    equal_runs,
    highest_price,
    joined_weights,
    log_likelihoods,
    prospects,
)
from theory.allocation.memories import EM_STEPS
from theory.allocation.population import flat_grid
from theory.allocation.priors import BetaMixture
from theory.allocation.records import Decision, Reason, Requests, check_share, check_whole
from theory.allocation.sources import Source, best_first
from theory.protocols import Allocator

MEMORY = 0.9
"""Weight of a prompt's own earlier rollouts, by update: a policy moves."""


class PredictiveBelief(NamedTuple):
    """What has been learnt.

    Attributes:
        key: of the order of prompts with equal prospects.
        successes: [P] discounted right rollouts of each prompt.
        failures: [P] discounted wrong ones.
        log_weights: [K] of the parts of the population, Beta laws first.
        price: of a rollout in this update.
        prospects: of every prompt in this update.
        update: updates so far.
    """

    key: Key[Array, ""]
    successes: Float[Array, " P"]
    failures: Float[Array, " P"]
    log_weights: Float[Array, " K"]
    price: Float[Array, ""]
    prospects: Prospects
    update: Int[Array, ""]


def supplying_price(runs: Runs, batch_size: int) -> Float[Array, ""]:
    """The highest price at which the pool supplies the batch.

        sup of the prices at which sum over prompts with Q_0 > 0 of P(effective under the rule) >= B

    Args:
        runs: of the prompts.
        batch_size: B.

    Returns:
        In [0, 1 / n]; 0 for a pool that never supplies it, at which nothing is given up that may still become effective.
    """

    def supplies(found: Prospects) -> Bool[Array, ""]:
        return jnp.sum(jnp.where(found.value > 0, found.chance, 0)) >= batch_size

    return highest_price(runs, jnp.zeros_like(runs.successes[0, 0]), supplies)


def foresee(
    population: BetaMixture,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    group_size: int,
    batch_size: int,
) -> tuple[Float[Array, ""], Prospects]:
    """What the next group of every prompt is worth, and the price that it is worth it at.

    Args:
        population: that prompts come from.
        successes: [P] of each prompt's history; discounted, so real.
        failures: [P] of each prompt's history.
        group_size: n.
        batch_size: B.

    Returns:
        The price of `supplying_price`, and prospects: value at that price, patience and chance at it or at the best rate of the prompt
        alone, whichever is lower.
    """
    runs = equal_runs(population, successes, failures, group_size)
    price = supplying_price(runs, batch_size)
    shared = jnp.full(successes.shape, price)
    own = prospects(runs, jnp.minimum(shared, best_rates(runs)))
    return price, own._replace(value=prospects(runs, shared).value)


def source(batch_size: int, group_size: int, memory: float = MEMORY) -> Source:
    """Prompts by what their next group is worth, ties in random order.

    Args:
        batch_size: B, mixed groups an update.
        group_size: n.
        memory: weight of a prompt's own earlier rollouts, by update; 1 forgets nothing.

    Returns:
        The source.

    Raises:
        InvalidInput: a memory outside [0, 1], a group below 2 or a batch below 1.
    """
    check_whole("batch size", batch_size, 1)
    check_whole("group size", group_size, 2)
    check_share("memory", memory)
    grid = flat_grid()

    def seen(
        log_weights: Float[Array, " K"], successes: Float[Array, " P"], failures: Float[Array, " P"]
    ) -> tuple[Float[Array, ""], Prospects]:
        num_betas = grid.a.size
        population = grid._replace(
            log_weights=log_weights[:num_betas], log_point_weights=log_weights[num_betas:]
        )
        return foresee(population, successes, failures, group_size, batch_size)

    def init(key: Key[Array, ""], num_prompts: int) -> PredictiveBelief:
        nothing, zero = jnp.zeros(num_prompts), jnp.zeros((), jnp.int32)
        weights = joined_weights(grid)
        return PredictiveBelief(
            key, nothing, nothing, weights, *seen(weights, nothing, nothing), zero
        )

    def pick(
        belief: PredictiveBelief,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[PredictiveBelief, Int[Array, " P"]]:
        noise = jax.random.uniform(jax.random.fold_in(belief.key, belief.update), eligible.shape)
        # Equal prospects are common while little is known; the noise is far below what tells prompts apart.
        ranked = belief.prospects.value + 1e-6 * noise
        return belief, best_first(ranked, count, eligible, jnp.ones_like(eligible), visited)

    def learn(
        belief: PredictiveBelief,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> PredictiveBelief:
        right, wrong = (
            memory * before + jnp.where(visited, new, 0).astype(before.dtype)
            for before, new in ((belief.successes, successes), (belief.failures, failures))
        )
        likelihoods = log_likelihoods(grid, right, wrong)
        # Who was drawn, and for how long, was decided by these histories alone. A Dirichlet prior worth one prompt keeps every part alive.
        known = (right + wrong > 0).astype(likelihoods.dtype)
        weights = learn_weights(belief.log_weights, likelihoods, known, EM_STEPS, pseudocount=1.0)
        return PredictiveBelief(
            belief.key, right, wrong, weights, *seen(weights, right, wrong), belief.update + 1
        )

    return Source(init, pick, learn, lambda belief: belief.prospects.value)


def allocator(batch_size: int, group_size: int, memory: float = MEMORY) -> Allocator:
    """Predictive stopping in a training loop.

    Args:
        batch_size: B, mixed groups an update.
        group_size: n.
        memory: see `source`.

    Returns:
        The allocator.

    Raises:
        InvalidInput: see `source`; or a batch below 1.
    """

    def rule(
        belief: PredictiveBelief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        missing = jnp.maximum(group_size - successes - failures, 0)
        mixed = (successes > 0) & (failures > 0)
        wrong, right = belief.prospects.patience
        waits = (failures < wrong) & (successes < right) & ~mixed
        more = jnp.where(mixed, missing, jnp.where(waits, 1, 0))
        decision = jnp.where(waits, int(Decision.CONTINUE), int(Decision.ABANDON))
        decision = jnp.where(mixed, int(Decision.COMMIT), decision)
        reason = jnp.where(mixed, int(Reason.COMMIT), int(Reason.PILOT))
        return Requests(more, decision, reason, belief.prospects.value)

    return assemble(source(batch_size, group_size, memory), rule, top_up(batch_size), batch_size)
