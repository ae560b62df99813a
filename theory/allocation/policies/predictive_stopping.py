"""Predict, probe, stop: prompts are picked by what their next group is worth, and given up by the same measure.

A composition of the two classes of rules: like DPS it remembers every prompt and picks the promising ones, like optimal stopping it gives a prompt
up where the next rollouts earn less than elsewhere. Both read one posterior: the population that is learnt on the way, times the prompt's own
discounted history. That is what a stopping rule in front of a ranking by another model lacks: ranked prompts are not drawn from the
population, and a prompt given up after three rollouts has not shown a whole group (rl-prototype.md 4, where that composition lost to SARA on DPS).

For a prompt with posterior mean mu_k after its history and k equal outcomes in the group under way, at a price per rollout,

    M_t = 1 - price (n - t)                                                 a group that is mixed at size t, completed
    Q_k = -price + mu_k A_(k+1) + (1 - mu_k) M_(k+1),   A_k = max(0, Q_k),   A_n = 0      k equal successes; failures likewise
    Q_0 = -price + mu_0 A_1 (successes) + (1 - mu_0) A_1 (failures)

Prompts are picked by Q_0 and given up at the first k with Q_k <= 0; one that is worth less than the price, and still picked because the others did
not do, is priced at its own best rate, since at a higher price it would be given up before it can become mixed. The price is the one at which the pool supplies the batch: the prompts with
Q_0 > 0, under this rule, are expected to give as many effective groups as the batch needs. That is complementary slackness of
the relaxation that bounds all rules of this class (`theory.exact.allocation.relaxation`). The rule is ours.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.assembly import assemble, top_up
from theory.allocation.population import flat_grid
from theory.allocation.priors import BetaMixture, log_moments
from theory.allocation.records import Decision, Reason, Requests, check_share, check_whole
from theory.allocation.sources import Source, best_first
from theory.protocols import Allocator

MEMORY = 0.9
"""Weight of a prompt's own earlier rollouts, by update: a policy moves."""

EM_STEPS = 5
"""Of the population, an update; each goes on from the last."""

BISECTIONS = 24
"""Of the price in [0, 1 / n]: to 6e-8 of it."""


class Runs(NamedTuple):
    """Chances of equal outcomes, of every prompt.

    Attributes:
        successes: [n, P] P(one more success after k successes and nothing else), k = 0 .. n - 1.
        failures: [n, P] the same for failures.
    """

    successes: Float[Array, "n P"]
    failures: Float[Array, "n P"]


class Prospects(NamedTuple):
    """What the next group of each prompt is worth at a price.

    Attributes:
        value: [P] Q_0 at the price of the update.
        patience: [2, P] equal outcomes (failures, successes) at which the prompt is given up; n for one that never is.
        chance: [P] that the group becomes effective under this rule.
    """

    value: Float[Array, " P"]
    patience: Int[Array, "2 P"]
    chance: Float[Array, " P"]


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


def equal_runs(
    prior: BetaMixture,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    group_size: int,
) -> Runs:
    """Chances of runs of equal outcomes under the posterior of each prompt.

    Args:
        prior: [J] and [L] of the population.
        successes: [P] of each prompt's history; discounted, so real.
        failures: [P] of each prompt's history.
        group_size: n.

    Returns:
        The chances.
    """
    weights = jax.nn.softmax(
        _weights(prior)[None, :] + _log_likelihoods(prior, successes, failures), axis=-1
    )
    a, b = prior.a[None, :] + successes[:, None], prior.b[None, :] + failures[:, None]
    points = jnp.broadcast_to(prior.points, (a.shape[0], prior.points.size))
    return Runs(
        _equal_run(weights, a, b, points, group_size),
        _equal_run(weights, b, a, 1 - points, group_size),
    )


def prospects(runs: Runs, price: Float[Array, " P"]) -> Prospects:
    """Worth of a fresh group of every prompt, and how long to wait for its second outcome.

    Args:
        runs: of the prompts.
        price: [P] of a rollout of each prompt, at most 1 / n.

    Returns:
        Value, patience and chance.
    """
    right, right_patience = _after_first(runs.successes, price)
    wrong, wrong_patience = _after_first(runs.failures, price)
    mean = runs.successes[0]
    unmixed = _run_chance(runs.successes, right_patience) + _run_chance(
        runs.failures, wrong_patience
    )
    return Prospects(
        mean * right + (1 - mean) * wrong - price,
        jnp.stack([wrong_patience, right_patience]),
        1 - unmixed,
    )


def best_rates(runs: Runs) -> Float[Array, " P"]:
    """Effective groups per rollout under the best rule for each prompt alone: the price at which Q_0 = 0.

    Args:
        runs: of the prompts.

    Returns:
        [P] in [0, 1 / n].
    """
    return _highest(runs, jnp.zeros_like(runs.successes[0]), lambda found: found.value > 0)


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

    return _highest(runs, jnp.zeros_like(runs.successes[0, 0]), supplies)


def _highest(
    runs: Runs,
    lowest: Float[Array, "*batch"],
    holds: Callable[[Prospects], Bool[Array, "*batch"]],
) -> Float[Array, "*batch"]:
    """The highest price in [0, 1 / n] at which something holds that holds below it, one for all prompts or one for each."""
    num_prompts = runs.successes.shape[1]

    def halve(
        _: Int[Array, ""], ends: tuple[Float[Array, "*batch"], Float[Array, "*batch"]]
    ) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
        low, high = ends
        middle = (low + high) / 2
        held = holds(prospects(runs, jnp.broadcast_to(middle, num_prompts)))
        return jnp.where(held, middle, low), jnp.where(held, high, middle)

    highest = jnp.full_like(lowest, 1 / runs.successes.shape[0])
    return jax.lax.fori_loop(0, BISECTIONS, halve, (lowest, highest))[0]


def _equal_run(
    weights: Float[Array, "P K"],
    same: Float[Array, "P J"],
    other: Float[Array, "P J"],
    same_points: Float[Array, "P L"],
    group_size: int,
) -> Float[Array, "n P"]:
    """P(one more equal outcome after k of them), k = 0 .. n - 1, reweighting the parts as they go on."""

    def one_more(
        weights: Float[Array, "P K"], k: Float[Array, ""]
    ) -> tuple[Float[Array, "P K"], Float[Array, " P"]]:
        joint = weights * jnp.concatenate([(same + k) / (same + other + k), same_points], axis=-1)
        mean = joint.sum(axis=-1)
        return joint / jnp.where(mean > 0, mean, 1)[:, None], mean

    _, means = jax.lax.scan(one_more, weights, jnp.arange(group_size, dtype=weights.dtype))
    return means


def _after_first(
    means: Float[Array, "n P"], price: Float[Array, " P"]
) -> tuple[Float[Array, " P"], Int[Array, " P"]]:
    """A_1, and the run at which the prompt is given up."""
    group_size = means.shape[0]
    # Rounding does not make an indifferent state worth drawing.
    slack = 64 * jnp.finfo(means.dtype).eps * price

    def backward(
        carry: tuple[Float[Array, " P"], Int[Array, " P"]],
        step: tuple[Float[Array, " P"], Int[Array, ""]],
    ) -> tuple[tuple[Float[Array, " P"], Int[Array, " P"]], None]:
        value, patience = carry
        mean, k = step
        mixed = 1 - price * (group_size - k - 1).astype(mean.dtype)
        drawing = mean * value + (1 - mean) * mixed - price
        goes_on = drawing > slack
        return (jnp.where(goes_on, drawing, 0), jnp.where(goes_on, patience, k)), None

    start = (jnp.zeros_like(means[0]), jnp.full(means.shape[1], group_size, jnp.int32))
    runs = (means[1:], jnp.arange(1, group_size, dtype=jnp.int32))
    (value, patience), _ = jax.lax.scan(backward, start, runs, reverse=True)
    return value, patience


def _run_chance(means: Float[Array, "n P"], length: Int[Array, " P"]) -> Float[Array, " P"]:
    """P(the first `length` outcomes are all equal to this one)."""
    return jnp.take_along_axis(jnp.cumprod(means, axis=0), length[None, :] - 1, axis=0)[0]


def _weights(prior: BetaMixture) -> Float[Array, " K"]:
    return jnp.concatenate([prior.log_weights, prior.log_point_weights])


def _log_likelihoods(
    prior: BetaMixture, successes: Float[Array, " P"], failures: Float[Array, " P"]
) -> Float[Array, "P K"]:
    return jnp.concatenate(log_moments(prior, successes, failures), axis=-1)


def _population(
    grid: BetaMixture,
    log_weights: Float[Array, " K"],
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
) -> Float[Array, " K"]:
    """EM on the histories of all prompts that have one.

    Which prompts were drawn, and for how long, was decided by these histories alone, so that leaves the likelihood as it is. A Dirichlet prior
    worth one prompt keeps every part alive.
    """
    likelihoods = _log_likelihoods(grid, successes, failures)
    known = (successes + failures > 0)[:, None]

    def step(_: Int[Array, ""], log_weights: Float[Array, " K"]) -> Float[Array, " K"]:
        shares = jax.nn.softmax(log_weights[None, :] + likelihoods, axis=-1)
        number = jnp.sum(jnp.where(known, shares, 0), axis=0) + 1 / log_weights.size
        return jnp.log(number / number.sum())

    return jax.lax.fori_loop(0, EM_STEPS, step, log_weights)


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

    def foresee(
        log_weights: Float[Array, " K"], successes: Float[Array, " P"], failures: Float[Array, " P"]
    ) -> tuple[Float[Array, ""], Prospects]:
        num_betas = grid.a.size
        population = grid._replace(
            log_weights=log_weights[:num_betas], log_point_weights=log_weights[num_betas:]
        )
        runs = equal_runs(population, successes, failures, group_size)
        price = supplying_price(runs, batch_size)
        shared = jnp.full(successes.shape, price)
        own = prospects(runs, jnp.minimum(shared, best_rates(runs)))
        return price, own._replace(value=prospects(runs, shared).value)

    def init(key: Key[Array, ""], num_prompts: int) -> PredictiveBelief:
        nothing, zero = jnp.zeros(num_prompts), jnp.zeros((), jnp.int32)
        weights = _weights(grid)
        return PredictiveBelief(
            key, nothing, nothing, weights, *foresee(weights, nothing, nothing), zero
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
        weights = _population(grid, belief.log_weights, right, wrong)
        return PredictiveBelief(
            belief.key, right, wrong, weights, *foresee(weights, right, wrong), belief.update + 1
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
