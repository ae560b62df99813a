"""Pilot-Commit: what its screening costs, whom it misfiles and whom it evicts for good.

k pilots of a prompt; if their success rate lies in [lower, 1 - upper] m more are drawn and the group of k + m is trained on. Above the band the
prompt is skipped for this epoch, or evicted at `evict` and above; below, deferred. With kappa = P(the pilots fall in the band):

    idealised    k / kappa + m                rollouts for each trained prompt
    as coded     k max(3, 1 / kappa) + m      every round pilots 3 prompts for each one that is trained

Source: arXiv 2605.26606 and its code (databricks/pilot-commit at 6def20ea): band, eviction and rounds are as coded. kappa, both costs and the
eviction audit are derived here.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theory.allocation.beta_binomial import log_predictive, probability_effective
from theory.allocation.priors import BetaMixture, Count, log_moment, one_minus_moment, posterior
from theory.exact.allocation.claims import dynamic_sampling_cost
from theory.exact.allocation.lattice import SequentialRule, places

# Candidates of a round for each prompt of a batch: 384 and 128 in the released scripts.
CANDIDATES_PER_TRAINED = 3.0


class Screening(NamedTuple):
    """The rule's options; defaults are those of the released 1.5B and 4B scripts.

    Attributes:
        pilots: k, at least 1.
        commits: m, at least 0.
        lower: least pilot success rate that is committed.
        upper: 1 - upper is the largest.
        evict: pilot success rate from which a prompt is left out for good.
    """

    pilots: int
    commits: int
    lower: float = 0.125
    upper: float = 0.25
    evict: float = 1.0


class Filing(NamedTuple):
    """Where the pilots file a prompt, by their successes s = 0 .. k; each s is in exactly one, and eviction is part of `too_easy`.

    Attributes:
        commit: [k + 1] inside the band.
        too_hard: [k + 1] below it: deferred.
        too_easy: [k + 1] above it: skipped, or evicted.
        evict: [k + 1] left out for good.
    """

    commit: Bool[Array, " S"]
    too_hard: Bool[Array, " S"]
    too_easy: Bool[Array, " S"]
    evict: Bool[Array, " S"]


class EvictionAudit(NamedTuple):
    """What is known of the prompts that were evicted.

    Attributes:
        probability: that a prompt's pilots evict it.
        mean_rate: E[p | evicted].
        not_solved: P(a fresh group of n is not all right | evicted).
        mixed: P(a fresh group of n is mixed | evicted).
    """

    probability: Float[Array, "*batch"]
    mean_rate: Float[Array, "*batch"]
    not_solved: Float[Array, "*batch"]
    mixed: Float[Array, "*batch"]


def filing(screening: Screening) -> Filing:
    """Where each number of pilot successes is filed.

    Args:
        screening: the rule's options.

    Returns:
        [k + 1] each.
    """
    rate = jnp.arange(screening.pilots + 1) / screening.pilots
    # By the share of wrong ones, since 1 - upper is rounded: the end belongs to the band.
    too_hard, too_easy = rate < screening.lower, rate[::-1] < screening.upper
    commit = ~too_hard & ~too_easy
    # Where the ends of the band have crossed, above it comes before below it. As coded the check for eviction is made of every pilot, the band's included.
    return Filing(commit, too_hard & ~too_easy, too_easy, rate >= screening.evict)


def filed(
    screening: Screening, kinds: Bool[Array, " S"], prior: BetaMixture
) -> Float[Array, "*batch"]:
    """Probability that the pilots file a prompt under given numbers of successes.

        sum_s [s is one of them] P(S_k = s)

    With an atom as the prior this is a misfile curve: P(screened out | p) = 1 - sum over the band of C(k, s) p^s (1 - p)^(k - s).

    Args:
        screening: the rule's options.
        kinds: [k + 1] as of `filing`; its `commit` gives kappa.
        prior: of the population, or of many in leading axes.

    Returns:
        [...] in [0, 1].
    """
    return jnp.sum(jnp.where(kinds, _pilot_law(screening, prior), 0.0), axis=-1)


def idealised_cost(screening: Screening, prior: BetaMixture) -> Float[Array, "*batch"]:
    """Rollouts for each trained prompt when prompts are piloted one by one until enough pass: k / kappa + m.

    Args:
        screening: the rule's options.
        prior: of the population.

    Returns:
        [...] inf where none passes.
    """
    passing = filed(screening, filing(screening).commit, prior)
    return screening.pilots / passing + screening.commits


def coded_cost(screening: Screening, prior: BetaMixture) -> Float[Array, "*batch"]:
    """Rollouts for each trained prompt as coded: rounds of 3 candidates for each prompt of the batch, and one round at least for each update.

        3 k + m while kappa >= 1/3;  k / kappa + m below, as rounds repeat until enough have passed

    In the long run of one epoch; what is lost to a partial batch at its end, to stale pilots and to a limit on rounds comes on top.

    Args:
        screening: the rule's options.
        prior: of the population.

    Returns:
        [...] inf where none passes.
    """
    passing = filed(screening, filing(screening).commit, prior)
    piloted = jnp.maximum(CANDIDATES_PER_TRAINED, 1 / passing)
    return screening.pilots * piloted + screening.commits


def batched_dynamic_sampling_cost(prior: BetaMixture, group_size: Count) -> Float[Array, "..."]:
    """Rollouts for each trained group of dynamic sampling in candidate batches of 3 B, surplus groups thrown away: n max(3, 1 / P).

    Args:
        prior: of the population.
        group_size: n.

    Returns:
        [...].
    """
    size = jnp.asarray(group_size).astype(prior.a.dtype)
    return jnp.maximum(CANDIDATES_PER_TRAINED * size, dynamic_sampling_cost(prior, group_size))


def eviction_audit(screening: Screening, prior: BetaMixture, group_size: Count) -> EvictionAudit:
    """What evicted prompts are like.

    When only pilots that are all right evict, P(evict | p) = p^k, and under the flat prior E[p | evicted] = (k + 1) / (k + 2) and
    P(a fresh group of n is not all right | evicted) = 1 - (k + 1) / (k + n + 1).

    Args:
        screening: the rule's options.
        prior: of the population, without leading axes.
        group_size: n of the fresh group.

    Returns:
        NaN for what is asked of evicted prompts where none is.
    """
    evict = filing(screening).evict
    law = jnp.where(evict, _pilot_law(screening, prior), 0.0)
    probability = law.sum(axis=-1)
    hits = jnp.arange(screening.pilots + 1)
    misses = screening.pilots - hits
    after = posterior(prior, hits, misses)

    def mean(values: Array) -> Array:
        return jnp.sum(jnp.where(law > 0, law * values, 0.0), axis=-1) / probability

    return EvictionAudit(
        probability,
        mean(jnp.exp(log_moment(after, 1, 0))),
        mean(one_minus_moment(after, group_size, 0)),
        mean(probability_effective(after, 0, 0, group_size)),
    )


def screening_rule(screening: Screening) -> SequentialRule:
    """The rule on the lattice: k pilots, then a group of k + m or nothing.

    Args:
        screening: the rule's options.

    Returns:
        T = k + 1.
    """
    at = places(screening.pilots)
    last = jnp.arange(screening.pilots + 1)[:, None] == screening.pilots
    commit = jnp.broadcast_to(filing(screening).commit[None, :], at.exists.shape)
    sizes = jnp.full(at.exists.shape, screening.pilots + screening.commits)
    return SequentialRule(at.exists & ~last, at.exists & commit & last, sizes)


def _pilot_law(screening: Screening, prior: BetaMixture) -> Array:
    """[..., k + 1] probability of each number of pilot successes."""
    hits = jnp.arange(screening.pilots + 1)
    side_by_side = BetaMixture(*(field[..., None, :] for field in prior))
    return jnp.exp(log_predictive(side_by_side, 0, 0, hits, screening.pilots - hits))
