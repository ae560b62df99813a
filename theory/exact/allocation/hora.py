"""HORA: the allocation of extra rollouts that maximises expected hits, and what that buys and costs.

Prompt i has the posterior Beta(a_i, b_i). The hit utility H_i(m) is concave in m, its increments M_i(l) fall, so the R largest increments of all prompts are a best allocation
and form a beginning of every row: taking one largest increment after the other, which is greedy, finds them.

`fill` gives the same rule on infinitely many prompts of a few kinds exactly: extra rollouts go to every prompt whose next increment is above one level. In
`large_pool` the kinds are the G0 + 1 outcomes of the probes. It shows the trade: more prompts with a first success, fewer mixed groups.

Source: arXiv 2605.07114, abstract; two phases and greedy rule read at second hand; the proof and the large pool are derived here.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theory.allocation.beta_binomial import (
    hit_marginal,
    hit_utility,
    log_predictive,
    probability_effective,
)
from theory.allocation.priors import BetaMixture, Count
from theory.errors import InvalidInput


class LargePool(NamedTuple):
    """HORA after G0 probes on infinitely many prompts.

    Attributes:
        extra: [G0 + 1] extra rollouts of a prompt with s probe successes; at the level itself a share of the prompts gets one more.
        hit: share of prompts with at least one success.
        mixed: share of prompts whose group is mixed.
        uniform_hit: the same when all groups have equal size.
        uniform_mixed: the same.
    """

    extra: Float[Array, " S"]
    hit: Float[Array, ""]
    mixed: Float[Array, ""]
    uniform_hit: Float[Array, ""]
    uniform_mixed: Float[Array, ""]


class Kinds(NamedTuple):
    """Infinitely many prompts of K kinds, with up to M extra rollouts each.

    Attributes:
        share: [K] of prompts of each kind.
        hit: [K, M + 1] P(at least one success in the whole group) after m extra rollouts.
        mixed: [K, M + 1] P(the whole group is mixed).
    """

    share: Float[Array, " K"]
    hit: Float[Array, "K M1"]
    mixed: Float[Array, "K M1"]


def best_allocation(
    a: Float[Array, " P"], b: Float[Array, " P"], total: int, largest: int
) -> Int[Array, " P"]:
    """The R largest increments, by sorting all of them; ties go to the prompt that comes first.

    Args:
        a: [P] of each prompt's posterior.
        b: [P] the same.
        total: R.
        largest: most extra rollouts of one prompt.

    Returns:
        [P] extra rollouts, with sum R or P times `largest` if that is less.
    """
    rows, nothing = (a.shape[0], 1, 1), jnp.zeros((a.shape[0], 1, 0), a.dtype)
    weights = jnp.zeros(rows, a.dtype)
    laws = BetaMixture(weights, a.reshape(rows), b.reshape(rows), nothing, nothing)
    marginals = hit_marginal(laws, 0, 0, jnp.arange(largest)[None, :])
    order = jnp.argsort(-marginals.ravel(), stable=True)[:total]
    return jnp.bincount(order // largest, length=a.shape[0])


def large_pool(
    population: BetaMixture, believed: BetaMixture, probes: int, mean_size: int, largest: int
) -> LargePool:
    """HORA on infinitely many prompts at a mean group size, against equal groups.

    Args:
        population: law of the rates.
        believed: prior of the rule; HORA's own is Beta(1, 1).
        probes: G0.
        mean_size: mean rollouts of a prompt, probes included.
        largest: most extra rollouts of one prompt.

    Returns:
        See `LargePool`.

    Raises:
        InvalidInput: the budget does not lie between the probes and `largest` extra rollouts for each prompt.
    """
    budget = mean_size - probes
    if not 0 <= budget <= largest:
        raise InvalidInput(
            f"mean group size {mean_size}: must lie in {probes}..{probes + largest}, the probes and the largest group"
        )
    kinds = probe_kinds(population, probes, largest)
    hits = jnp.arange(probes + 1)
    marginals = hit_marginal(believed, hits[:, None], probes - hits[:, None], jnp.arange(largest))
    extra = fill(kinds.share, marginals, float(budget))
    equal = jnp.full_like(extra, float(budget))
    return LargePool(extra, *outcome(kinds, extra), *outcome(kinds, equal))


def probe_kinds(population: BetaMixture, probes: int, largest: int) -> Kinds:
    """Prompts by the successes of their probes.

    Args:
        population: law of the rates.
        probes: G0.
        largest: most extra rollouts of one prompt.

    Returns:
        K = G0 + 1, M = `largest`.
    """
    hits = jnp.arange(probes + 1)
    share = jnp.exp(log_predictive(population, 0, 0, hits, probes - hits))
    sizes = jnp.arange(largest + 1)
    return Kinds(share, *hit_shares(population, hits[:, None], probes - hits[:, None], sizes))


def fill(
    share: Float[Array, " K"], marginals: Float[Array, "K M"], budget: float
) -> Float[Array, " K"]:
    """The best use of a mean budget on infinitely many prompts: increments from the largest down until it is spent.

    Args:
        share: [K] of prompts of each kind.
        marginals: [K, M] what one more rollout is worth after l extra ones, falling in l.
        budget: mean extra rollouts of a prompt, in [0, M].

    Returns:
        [K] mean extra rollouts of a prompt of each kind: whole numbers but for the kind at the level where the budget ends.
    """
    law, values = np.asarray(share), np.asarray(marginals)
    extra = np.zeros(law.size)
    left = float(budget)
    for place in np.argsort(-values.ravel(), kind="stable"):
        kind = place // values.shape[1]
        cost = float(law[kind])
        # A kind without prompts costs nothing.
        taken = 1.0 if cost == 0 else min(1.0, left / cost)
        extra[kind] += taken
        left -= taken * cost
        if left <= 0:
            break
    return jnp.asarray(extra, share.dtype)


def outcome(kinds: Kinds, extra: Float[Array, " K"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What an allocation comes to.

    Args:
        kinds: of prompts.
        extra: [K] extra rollouts of a prompt; a real number stands for a mixture of its two neighbours.

    Returns:
        Share of prompts with at least one success, and of mixed groups.
    """
    floor = jnp.floor(extra).astype(int)
    ceiling = jnp.minimum(floor + 1, kinds.hit.shape[1] - 1)
    part = extra - floor.astype(extra.dtype)
    rows = jnp.arange(extra.size)

    def mean(value: Array) -> Array:
        between = (1 - part) * value[rows, floor] + part * value[rows, ceiling]
        return jnp.sum(kinds.share * between)

    return mean(kinds.hit), mean(kinds.mixed)


def hit_shares(
    population: BetaMixture, successes: Count, failures: Count, extra: Count
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """What an allocation comes to, given the probes: P(at least one success) and P(mixed) of each prompt's whole group.

    Args:
        population: law of the rates.
        successes: s of the probes.
        failures: f of the probes.
        extra: m.

    Returns:
        Both, in [0, 1].
    """
    s, f = jnp.asarray(successes), jnp.asarray(failures)
    hit = jnp.where(s > 0, 1.0, hit_utility(population, s, f, extra))
    seen, more = jnp.broadcast_arrays(s + f, jnp.asarray(extra))
    return hit, probability_effective(population, s, f, seen + more.astype(seen.dtype))
