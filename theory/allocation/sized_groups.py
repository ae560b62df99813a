"""Groups of any size: when to probe on, when to train on what there is, and when to give up, for many prompts with posteriors of their own.

A group of s successes and f failures is worth its energy sqrt(s f): its part of an update in which every rollout has the same weight (token mean), under
std-normalised advantages. For whole groups that is n times their push, so that both order rules alike; for groups of different sizes energy per rollout
pays neither for splitting a group nor for padding it. At a price per rollout, with `mean` the posterior mean of the prompt,

    stop(s, f) = sqrt(s f) where s + f >= least, else 0
    Q(s, f) = -price + mean V(s + 1, f) + (1 - mean) V(s, f + 1),   V = max(stop, Q),   V = stop where s + f = n

which is the exact program of `theory.exact.allocation.arms.sized_group`, with which it shares no code. It is kept by the number of rollouts d = s + f: an array
[N, P, M] has what holds after d = 0 .. n rollouts (or n - 1), for every prompt and s = 0 .. n successes; entries with s > d are never read. M = n + 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.equal_runs import joined_weights, log_likelihoods
from theory.allocation.priors import BetaMixture

PRICE_STEPS = 18
"""Halvings of a price: to four parts in a million of the best rate."""


class SizedGroups(NamedTuple):
    """The next group of every prompt.

    Attributes:
        mean: [n, P, M] P(the next rollout succeeds | history, s successes in d rollouts), d = 0 .. n - 1.
        worth: [M, M] of stopping after d = 0 .. n rollouts with s successes.
    """

    mean: Float[Array, "n P M"]
    worth: Float[Array, "M M"]


class SizedProspects(NamedTuple):
    """What the next group of each prompt comes to at a price.

    Attributes:
        value: [P] Q(0, 0).
        draws: [n, P, M] whether one more rollout pays.
        chance: [P] that the group is trained on, if its first rollout is drawn.
    """

    value: Float[Array, " P"]
    draws: Bool[Array, "n P M"]
    chance: Float[Array, " P"]


def energy_worth(group_size: int, least: int = 2) -> Float[Array, "M M"]:
    """sqrt(s f) of a group that may be trained on.

    Args:
        group_size: n, the largest.
        least: the smallest.

    Returns:
        [n+1, n+1] after d rollouts with s successes.
    """
    drawn = jnp.arange(group_size + 1)[:, None]
    s = jnp.arange(group_size + 1)[None, :]
    energy = jnp.sqrt((s * jnp.maximum(drawn - s, 0)).astype(jnp.zeros(()).dtype))
    return jnp.where(drawn >= least, energy, 0)


def sized_groups(
    prior: BetaMixture,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    worth: Float[Array, "M M"],
) -> SizedGroups:
    """The groups under the posterior of each prompt.

    Args:
        prior: [J] and [L] of the population.
        successes: [P] of each prompt's history; discounted, so real.
        failures: [P] of each prompt's history.
        worth: see `energy_worth`.

    Returns:
        The groups.
    """
    side = worth.shape[0]
    shares = jax.nn.log_softmax(
        joined_weights(prior)[None, :] + log_likelihoods(prior, successes, failures), axis=-1
    )
    a, b = prior.a[None, :] + successes[:, None], prior.b[None, :] + failures[:, None]
    # Log moments of the parts by rising factorials.
    rights, wrongs, totals = (_rising(part, side) for part in (a, b, a + b))
    right = jnp.arange(side)

    def moments(drawn: Int[Array, ""]) -> Float[Array, "P M"]:
        """E[p^s (1 - p)^(drawn - s)] of every prompt."""
        wrong = jnp.maximum(drawn - right, 0)
        logs = rights + wrongs[:, wrong] - totals[:, drawn][:, None]
        parts = jnp.exp(logs + shares[:, None, : prior.a.size]).sum(axis=-1)
        points = prior.points[:, None]
        s, f = (part.astype(points.dtype)[None, :] for part in (right, wrong))
        atoms = points**s * (1 - points) ** f
        return parts + jnp.exp(shares[:, prior.a.size :]) @ atoms

    moment = jax.lax.map(moments, jnp.arange(side))
    here, then = moment[:-1], jnp.pad(moment[1:, :, 1:], ((0, 0), (0, 0), (0, 1)))
    return SizedGroups(jnp.where(here > 0, then / jnp.where(here > 0, here, 1), 0), worth)


def _rising(first: Float[Array, "P J"], side: int) -> Float[Array, "P M J"]:
    """Log of first (first + 1) ... (first + k - 1), k = 0 .. side - 1."""
    factors = jnp.log(first[:, None, :] + jnp.arange(side - 1, dtype=first.dtype)[None, :, None])
    return jnp.pad(jnp.cumsum(factors, axis=1), ((0, 0), (1, 0), (0, 0)))


def sized_prospects(groups: SizedGroups, price: Float[Array, " P"]) -> SizedProspects:
    """The best rule of every prompt at a price.

    Args:
        groups: of the prompts.
        price: [P] of a rollout of each.

    Returns:
        Value, rule and chance.
    """
    worth, cost = groups.worth, price[:, None]
    # Rounding does not make an indifferent state worth drawing.
    slack = 64 * jnp.finfo(worth.dtype).eps
    trains = (worth > 0).astype(worth.dtype)

    def earlier(
        after: tuple[Float[Array, "P M"], Float[Array, "P M"]],
        step: tuple[Float[Array, "P M"], Float[Array, " M"], Float[Array, " M"]],
    ) -> tuple[tuple[Float[Array, "P M"], Float[Array, "P M"]], tuple[Array, Array, Array]]:
        mean, stop, trained = step
        drawing = _expected(mean, after[0]) - cost
        draws = drawing > stop[None] + slack
        reached = _expected(mean, after[1])
        now = jnp.where(draws, drawing, stop[None]), jnp.where(draws, reached, trained[None])
        return now, (draws, drawing[:, 0], reached[:, 0])

    shape = groups.mean.shape[1:]
    full = (jnp.broadcast_to(worth[-1], shape), jnp.broadcast_to(trains[-1], shape))
    steps = (groups.mean, worth[:-1], trains[:-1])
    _, (draws, value, chance) = jax.lax.scan(earlier, full, steps, reverse=True)
    return SizedProspects(value[0], draws, chance[0])


def drawn_to_the_end(draws: Bool[Array, "n P M"]) -> Bool[Array, "n P M"]:
    """Where a rule draws whatever comes until the group is full: what is missing may be drawn at once.

    Args:
        draws: of the rule.

    Returns:
        The same shape.
    """

    def earlier(
        after: Bool[Array, "P M"], here: Bool[Array, "P M"]
    ) -> tuple[Bool[Array, "P M"], Bool[Array, "P M"]]:
        both = here & after & jnp.pad(after[:, 1:], ((0, 0), (0, 1)), constant_values=True)
        return both, both

    return jax.lax.scan(earlier, jnp.ones(draws.shape[1:], bool), draws, reverse=True)[1]


def best_sized_rates(groups: SizedGroups) -> Float[Array, " P"]:
    """Energy per rollout under the best rule for each prompt alone.

    Args:
        groups: of the prompts.

    Returns:
        [P] in [0, 1/2].
    """

    def halve(
        _: Int[Array, ""], ends: tuple[Float[Array, " P"], Float[Array, " P"]]
    ) -> tuple[Float[Array, " P"], Float[Array, " P"]]:
        low, high = ends
        middle = (low + high) / 2
        pays = sized_prospects(groups, middle).value > 0
        return jnp.where(pays, middle, low), jnp.where(pays, high, middle)

    zeros = jnp.zeros_like(groups.mean[0, :, 0])
    return jax.lax.fori_loop(0, PRICE_STEPS, halve, (zeros, zeros + 0.5))[0]


def _expected(mean: Float[Array, "P M"], after: Float[Array, "P M"]) -> Float[Array, "P M"]:
    """Of what holds after one more rollout."""
    success = jnp.pad(after[:, 1:], ((0, 0), (0, 1)))
    return mean * success + (1 - mean) * after
