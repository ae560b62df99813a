"""Runs of equal outcomes: all that a rule for effective groups has to decide, in closed form and for many prompts at once.

A group with both outcomes is effective and is completed; so only the group whose k rollouts were all alike is in question. With mu_k the probability
that one more is alike too, at a price per rollout,

    M_t = 1 - price (n - t)                                                 a group that is mixed at size t, completed
    Q_k = -price + mu_k A_(k+1) + (1 - mu_k) M_(k+1),   A_k = max(0, Q_k),   A_n = 0      k equal successes; failures likewise
    Q_0 = -price + mu_0 A_1 (successes) + (1 - mu_0) A_1 (failures)

which is the program of `theory.allocation.stopping_program` on the two edges of its lattice: O(n) a prompt, each with a posterior of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.priors import BetaMixture, log_moments


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
        joined_weights(prior)[None, :] + log_likelihoods(prior, successes, failures), axis=-1
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
    return highest_price(runs, jnp.zeros_like(runs.successes[0]), lambda found: found.value > 0)


def highest_price(
    runs: Runs,
    lowest: Float[Array, "*batch"],
    holds: Callable[[Prospects], Bool[Array, "*batch"]],
) -> Float[Array, "*batch"]:
    """The highest price in [0, 1 / n] at which something holds that holds at every lower one, for all prompts together or for each.

    Args:
        runs: of the prompts.
        lowest: zeros: a scalar for one price, [P] for one of each.
        holds: prospects at a price -> whether it holds.

    Returns:
        Of the shape of `lowest`.
    """
    num_prompts = runs.successes.shape[1]

    def halve(
        _: Int[Array, ""], ends: tuple[Float[Array, "*batch"], Float[Array, "*batch"]]
    ) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
        low, high = ends
        middle = (low + high) / 2
        held = holds(prospects(runs, jnp.broadcast_to(middle, num_prompts)))
        return jnp.where(held, middle, low), jnp.where(held, high, middle)

    highest = jnp.full_like(lowest, 1 / runs.successes.shape[0])
    # To the last bit of the price's own type.
    return jax.lax.fori_loop(0, jnp.finfo(lowest.dtype).nmant, halve, (lowest, highest))[0]


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


def joined_weights(prior: BetaMixture) -> Float[Array, " K"]:
    """Log weights of all parts, Beta laws first.

    Args:
        prior: [J] and [L].

    Returns:
        [K], K = J + L.
    """
    return jnp.concatenate([prior.log_weights, prior.log_point_weights])


def log_likelihoods(
    prior: BetaMixture, successes: Float[Array, " P"], failures: Float[Array, " P"]
) -> Float[Array, "P K"]:
    """Log E[p^s (1 - p)^f] of every history under every part.

    Args:
        prior: [J] and [L].
        successes: [P] s, real.
        failures: [P] f, real.

    Returns:
        [P, K].
    """
    return jnp.concatenate(log_moments(prior, successes, failures), axis=-1)
