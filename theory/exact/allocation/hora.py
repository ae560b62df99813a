"""HORA: the allocation of extra rollouts that maximises expected hits, and what that buys and costs.

Prompt i has the posterior Beta(a_i, b_i). The hit utility H_i(m) is concave in m, its increments M_i(l) fall, so the R largest increments of all prompts are a best allocation
and form a beginning of every row: taking one largest increment after the other, which is greedy, finds them.

`large_pool` gives the same rule on infinitely many prompts exactly: after G0 probes only G0 + 1 posteriors exist, and extra rollouts go to every
prompt whose next increment is above one level. It shows the trade: more prompts with a first success, fewer mixed groups.

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
    hits = jnp.arange(probes + 1)
    law = jnp.exp(log_predictive(population, 0, 0, hits, probes - hits))
    marginals = hit_marginal(believed, hits[:, None], probes - hits[:, None], jnp.arange(largest))
    extra = jnp.asarray(_filled(np.asarray(law), np.asarray(marginals), float(budget)), law.dtype)

    def share(value: Array, at: Array) -> Array:
        """Mean over prompts of value[s, m] at a real m, which stands for a mixture of its two neighbours."""
        floor = jnp.floor(at).astype(int)
        ceiling = jnp.minimum(floor + 1, value.shape[1] - 1)
        part = at - floor.astype(at.dtype)
        rows = jnp.arange(probes + 1)
        return jnp.sum(law * ((1 - part) * value[rows, floor] + part * value[rows, ceiling]))

    sizes = jnp.arange(largest + 1)
    hit = jnp.where(
        hits[:, None] > 0,
        1.0,
        hit_utility(population, hits[:, None], probes - hits[:, None], sizes),
    )
    mixed = probability_effective(population, hits[:, None], probes - hits[:, None], probes + sizes)
    equal = jnp.full(probes + 1, float(budget), law.dtype)
    return LargePool(
        extra, share(hit, extra), share(mixed, extra), share(hit, equal), share(mixed, equal)
    )


def _filled(law: np.ndarray, marginals: np.ndarray, budget: float) -> np.ndarray:
    """Extra rollouts of each kind of prompt: increments from the largest down until the mean is spent."""
    kinds, largest = marginals.shape
    extra = np.zeros(kinds)
    left = budget
    for place in np.argsort(-marginals.ravel(), kind="stable"):
        kind, share = place // largest, float(law[place // largest])
        # A kind without prompts costs nothing.
        taken = 1.0 if share == 0 else min(1.0, left / share)
        extra[kind] += taken
        left -= taken * share
        if left <= 0:
            break
    return extra


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
    return hit, probability_effective(population, s, f, s + f + jnp.asarray(extra))
