"""SARA's four claims as statements that can be checked, each with the condition under which it holds.

The rule: draw one rollout at a time; once the group is mixed complete it to n; after m equal outcomes abandon. With q_k the probability that k
rollouts are mixed and P = q_n,

    rollouts for each effective group   n + m (1 - q_m) / q_m,   against n / P of dynamic sampling
    false abandonment                   (P - q_m) / (1 - q_m)
    missed share                        (P - q_m) / P

1. *Abandonment is reliable*: P(effective | abandoned) <= the threshold. Only if the rule believes in the law that rates really have:
   `abandonment`.
2. *Rollouts are saved*: (n - m) (1 - q_m) for each visited prompt, at least (n - m) (1 - P): `saved_rollouts`.
3. *More effective groups from the same budget*: if and only if odds(q_m) / odds(P) > m / n, which fails on populations with few hopeless or mastered
   prompts: `dominance_margin`.
4. *Effective groups measure the gradient*: with std-normalised advantages E[sum A^2] / n is exactly the probability that the group is mixed
   (`theory.exact.allocation.objective.expected_square`); the expected update is another number (`objective_weights`), which that share does
   not determine.

Source: the names of the claims and the threshold are of arXiv 2607.26253 (abstract and notes, read at second hand); statements, conditions
and proofs are reconstructions, so the paper's theorems may differ. `flat_stop` assumes the flat prior that the notes report.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.beta_binomial import probability_effective
from theory.allocation.priors import BetaMixture, Count
from theory.exact.allocation.lattice import (
    SequentialRule,
    mixed_in_the_end,
    places,
    stopped_shares,
    success_law,
    widened,
)


class Abandonment(NamedTuple):
    """How often an abandoned prompt would have given an effective group.

    Attributes:
        predicted: [...] mean of the rule's own prediction, at most its threshold whatever rates there are.
        actual: [...] in the population.
        abandoned: [...] probability that a visit is abandoned.
    """

    predicted: Float[Array, "*K"]
    actual: Float[Array, "*K"]
    abandoned: Float[Array, "*K"]


def mixed_probability(prior: BetaMixture, num_rollouts: Count) -> Float[Array, "..."]:
    """q_k, the probability that k rollouts of a fresh prompt are mixed.

        1 - E[p^k] - E[(1 - p)^k]

    Args:
        prior: of the population.
        num_rollouts: k.

    Returns:
        In [0, 1].
    """
    return probability_effective(prior, 0, 0, num_rollouts)


def flat_stop(threshold: float, group_size: int) -> int:
    """m*: after how many equal outcomes a rule with a flat prior abandons.

    The smallest m >= 1 with 1 - (m + 1) / (n + 1) <= tau; 0 where the threshold is so high that no prompt is begun.

    Args:
        threshold: tau in [0, 1].
        group_size: n.

    Returns:
        In 0..n.
    """
    # (n - m) / (n + 1) is rounded once, as a threshold given as a fraction is: no tie is lost to rounding.
    steps = [
        m for m in range(1, group_size + 1) if (group_size - m) / (group_size + 1) <= threshold
    ]
    return 0 if (group_size - 1) / (group_size + 1) <= threshold else steps[0]


def threshold_rules(
    believed: BetaMixture, group_size: int, thresholds: Float[Array, " K"]
) -> SequentialRule:
    """SARA: complete a mixed group, abandon one whose P(effective | s, f) is at most a threshold, else draw one more.

    Args:
        believed: prior of the rule.
        group_size: n.
        thresholds: [K] tau, one rule each.

    Returns:
        K rules, T = n + 1.
    """
    at = places(group_size)
    sizes = jnp.full(at.exists.shape, group_size)
    predicted = mixed_in_the_end(believed, sizes)
    shape = (*thresholds.shape, *at.exists.shape)
    undecided = at.exists & ((at.successes == 0) | (at.failures == 0))
    # A prediction that is the threshold but for rounding has reached it.
    rounding = 16 * float(jnp.finfo(predicted.dtype).eps)
    above = jnp.broadcast_to(predicted, shape) > thresholds[:, None, None] + rounding
    return SequentialRule(jnp.broadcast_to(undecided, shape) & above, at.exists & ~undecided, sizes)


def run_length_rules(
    group_size: int, after_successes: Int[Array, " K"], after_failures: Int[Array, " K"]
) -> SequentialRule:
    """Complete a mixed group, abandon after so many successes and no failure, or so many failures and no success.

    Args:
        group_size: n.
        after_successes: [K] in 1..n.
        after_failures: [K] in 1..n.

    Returns:
        K rules, T = n + 1.
    """
    at = places(group_size)
    shape = (*after_successes.shape, *at.exists.shape)
    s, f = jnp.broadcast_to(at.successes, shape), jnp.broadcast_to(at.failures, shape)
    longest_s, longest_f = (
        stop.astype(s.dtype)[:, None, None] for stop in (after_successes, after_failures)
    )
    short = (s < longest_s) & (f < longest_f)
    mixed = at.exists & (at.successes > 0) & (at.failures > 0)
    undecided = jnp.broadcast_to(at.exists & ~mixed, shape)
    return SequentialRule(undecided & short, mixed, jnp.full(mixed.shape, group_size))


def dynamic_sampling_cost(prior: BetaMixture, group_size: Count) -> Float[Array, "..."]:
    """Rollouts for each effective group when every group is drawn in full: n / P.

    Args:
        prior: of the population.
        group_size: n.

    Returns:
        inf for a population without mixed groups.
    """
    size = jnp.asarray(group_size).astype(prior.a.dtype)
    return size / mixed_probability(prior, group_size)


def sara_cost(prior: BetaMixture, group_size: Count, stop: Count) -> Float[Array, "..."]:
    """Rollouts for each effective group of the rule: n + m (1 - q_m) / q_m.

    Args:
        prior: of the population.
        group_size: n.
        stop: m.

    Returns:
        inf for a population without mixed groups, or m = 1.
    """
    kind = prior.a.dtype
    size, length = (jnp.asarray(count).astype(kind) for count in (group_size, stop))
    mixed = mixed_probability(prior, stop)
    return size + length * (1 - mixed) / mixed


def sara_false_abandonment(
    prior: BetaMixture, group_size: Count, stop: Count
) -> Float[Array, "..."]:
    """P(a full group would have been mixed | m equal outcomes): (P - q_m) / (1 - q_m).

    Args:
        prior: of the population.
        group_size: n.
        stop: m.

    Returns:
        In [0, 1].
    """
    mixed, full = mixed_probability(prior, stop), mixed_probability(prior, group_size)
    return (full - mixed) / (1 - mixed)


def sara_missed_share(prior: BetaMixture, group_size: Count, stop: Count) -> Float[Array, "..."]:
    """P(m equal outcomes first | a full group is mixed): (P - q_m) / P.

    Args:
        prior: of the population.
        group_size: n.
        stop: m.

    Returns:
        In [0, 1].
    """
    full = mixed_probability(prior, group_size)
    return (full - mixed_probability(prior, stop)) / full


def saved_rollouts(prior: BetaMixture, group_size: Count, stop: Count) -> Float[Array, "..."]:
    """Claim 2: rollouts saved on a visited prompt against a full group, (n - m) (1 - q_m).

    At least (n - m) (1 - P), as q_m <= P.

    Args:
        prior: of the population.
        group_size: n.
        stop: m.

    Returns:
        Rollouts.
    """
    left = (jnp.asarray(group_size) - jnp.asarray(stop)).astype(prior.a.dtype)
    return left * (1 - mixed_probability(prior, stop))


def dominance_margin(prior: BetaMixture, group_size: Count, stop: Count) -> Float[Array, "..."]:
    """Claim 3: odds(q_m) / odds(P) - m / n. SARA yields more effective groups than dynamic sampling if and only if it is above 0.

    Args:
        prior: of the population.
        group_size: n.
        stop: m.

    Returns:
        Above 0 where `sara_cost` < `dynamic_sampling_cost`.
    """
    kind = prior.a.dtype
    size, length = (jnp.asarray(count).astype(kind) for count in (group_size, stop))
    mixed, full = mixed_probability(prior, stop), mixed_probability(prior, group_size)
    return mixed / (1 - mixed) * ((1 - full) / full) - length / size


def dominates(prior: BetaMixture, group_size: Count, stop: Count) -> Bool[Array, "..."]:
    """Whether claim 3 holds on a population.

    Args:
        prior: of the population.
        group_size: n.
        stop: m.

    Returns:
        True where `dominance_margin` is above 0.
    """
    return dominance_margin(prior, group_size, stop) > 0


def abandonment(
    rule: SequentialRule, believed: BetaMixture, population: BetaMixture, full_size: int
) -> Abandonment:
    """Claim 1: what a rule predicts of the prompts that it abandons, and what is so.

    Under the law that the rule believes in the two agree, by the tower property, for any rule; and as every abandoned prompt was predicted at most at
    the threshold, so is the rate. Under another law only `predicted` is bounded.

    Args:
        rule: [..., T, S].
        believed: prior that the rule predicts with.
        population: law of the rates.
        full_size: n.

    Returns:
        NaN for a rule that abandons nothing.
    """
    horizon = rule.goes_on.shape[-1] - 1
    shares = stopped_shares(rule, population.a)
    lost = jnp.where(widened(rule).trains, 0, shares) * jnp.broadcast_to(
        success_law(population, horizon), shares.shape
    )
    sizes = jnp.full((horizon + 1, horizon + 1), full_size)
    abandoned = lost.sum(axis=(-2, -1))

    def mean(prior: BetaMixture) -> Array:
        predicted = jnp.broadcast_to(mixed_in_the_end(prior, sizes), lost.shape)
        return (lost * predicted).sum(axis=(-2, -1)) / abandoned

    return Abandonment(mean(believed), mean(population), abandoned)
