"""Exact operating characteristics of any sequential allocation rule, under any law of success rates.

A rule looks at one prompt's rollouts one by one and knows how many succeeded: a place (t, s) of the lattice, t rollouts with s successes. At each
place it goes on, or it stops, and then trains on a group that it completes, or trains on nothing.

    c(t, s) = share of the C(t, s) orders of s successes in t rollouts in which the rule stops at (t, s)

is a property of the rule alone: given the successes all orders are equally likely, whatever p is. It obeys

    r(t + 1, s) = [(t + 1 - s) g(t, s) + s g(t, s - 1)] / (t + 1),   g = r where the rule goes on, c = r where it stops

All numbers lie in [0, 1] and nothing is subtracted. Then P(stop at (t, s)) = c(t, s) P(S_t = s), with the Beta-Binomial law of S_t under the
prior; under a point p this makes c the Bernstein coefficients of a polynomial in p.

rule = full_groups(8)
found = characteristics(rule, beta(1.0, 1.0), 8)
cost_per_effective_group(found)

Unit: the prompt that is visited. Axes: K rules side by side, T = S = horizon + 1 places. The floating type is that of the prior; jittable.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.beta_binomial import probability_effective
from theory.allocation.priors import BetaMixture


class SequentialRule(NamedTuple):
    """What to do at each place (t, s) of the lattice. Places with s > t are never reached; at the last t every rule stops.

    Attributes:
        goes_on: [..., T, S] draw one more rollout.
        trains: [..., T, S], or [T, S] for all: where it stops, complete the group and train on it if it is mixed; else the rollouts are lost.
        group_size: [..., T, S], or [T, S] for all: rollouts of the group where it trains, at least t.
    """

    goes_on: Bool[Array, "*K T S"]
    trains: Bool[Array, "*#K T S"]
    group_size: Int[Array, "*#K T S"]


class Places(NamedTuple):
    """The lattice.

    Attributes:
        successes: [T, S] s.
        failures: [T, S] t - s; 0 where there is no such place.
        exists: [T, S] s <= t.
    """

    successes: Int[Array, "T S"]
    failures: Int[Array, "T S"]
    exists: Bool[Array, "T S"]


class Characteristics(NamedTuple):
    """What one visit to a prompt comes to, averaged over prompts and rollouts.

    Attributes:
        rollouts: [...] drawn.
        effective: [...] probability that a mixed group is trained on.
        ineffective: [...] probability that the group was completed and is not mixed.
        abandoned: [...] probability that it stops without training.
        abandoned_effective: [...] probability of that, and that a full group would have been mixed.
        full_effective: [...] probability that a full group is mixed.
        trains_at: [..., T] probability that it stops to train after t rollouts.
        abandons_at: [..., T] probability that it abandons after t rollouts.
    """

    rollouts: Float[Array, "*K"]
    effective: Float[Array, "*K"]
    ineffective: Float[Array, "*K"]
    abandoned: Float[Array, "*K"]
    abandoned_effective: Float[Array, "*K"]
    full_effective: Float[Array, "*K"]
    trains_at: Float[Array, "*K T"]
    abandons_at: Float[Array, "*K T"]


def places(horizon: int) -> Places:
    """All places that a rule of at most `horizon` rollouts can reach.

    Args:
        horizon: most rollouts that are drawn one by one.

    Returns:
        T = S = horizon + 1.
    """
    steps = jnp.arange(horizon + 1)
    successes = jnp.broadcast_to(steps[None, :], (horizon + 1, horizon + 1))
    failures = steps[:, None] - steps[None, :]
    return Places(successes, jnp.maximum(failures, 0), failures >= 0)


def full_groups(group_size: int) -> SequentialRule:
    """Draws every group in full and keeps it if it is mixed: dynamic sampling, one prompt at a time.

    Args:
        group_size: n.

    Returns:
        T = n + 1.
    """
    exists = places(group_size).exists
    goes_on = exists.at[-1].set(False)
    return SequentialRule(goes_on, exists, jnp.full(exists.shape, group_size))


def widened(rule: SequentialRule) -> SequentialRule:
    """The same rules with every field in full.

    Args:
        rule: of any form.

    Returns:
        All fields of the shape of `goes_on`.
    """
    return SequentialRule(*(jnp.broadcast_to(field, rule.goes_on.shape) for field in rule))


def stopped_shares(rule: SequentialRule, like: Float[Array, "..."]) -> Float[Array, "*K T S"]:
    """Share of the orders of s successes in t rollouts in which the rule stops at (t, s): c(t, s).

    Args:
        rule: [..., T, S].
        like: an array of the floating type wanted.

    Returns:
        [..., T, S] in [0, 1].
    """
    num_places = rule.goes_on.shape[-1]

    def draw(reached: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        goes_on, length = step
        going = jnp.where(goes_on, reached, 0)
        return drawn_shares(going, length), reached - going

    first = no_rollouts((*rule.goes_on.shape[:-2], num_places), like)
    _, stopped = jax.lax.scan(draw, first, _steps(rule, like))
    return jnp.moveaxis(stopped, 0, -2)


def no_rollouts(shape: tuple[int, ...], like: Float[Array, "..."]) -> Float[Array, "..."]:
    """Before the first rollout: everything is at s = 0.

    Args:
        shape: [..., S].
        like: an array of the floating type wanted.

    Returns:
        [..., S].
    """
    return jnp.zeros(shape, like.dtype).at[..., 0].set(1)


def drawn_shares(going: Float[Array, "*K S"], length: Float[Array, ""]) -> Float[Array, "*K S"]:
    """One more rollout: shares of orders at t + 1 from those that go on at t.

        r(t + 1, s) = [(t + 1 - s) g(t, s) + s g(t, s - 1)] / (t + 1)

    Args:
        going: [..., S] g(t, s), 0 where s > t.
        length: t.

    Returns:
        [..., S].
    """
    # Of the orders of s successes in t + 1 rollouts, s / (t + 1) end with a success.
    share = jnp.arange(going.shape[-1], dtype=going.dtype) / (length + 1)
    share = jnp.broadcast_to(share, going.shape)
    before_success = jnp.concatenate([jnp.zeros_like(going[..., :1]), going[..., :-1]], axis=-1)
    return going * (1 - share) + before_success * share


def _steps(rule: SequentialRule, like: Array) -> tuple[Array, Array]:
    """What a scan over t reads: where each rule goes on, nowhere at the last t, and t."""
    num_places = rule.goes_on.shape[-1]
    goes_on = jnp.moveaxis(rule.goes_on, -2, 0).at[-1].set(False)
    return goes_on, jnp.arange(num_places, dtype=like.dtype)


def success_law(prior: BetaMixture, horizon: int) -> Float[Array, "*batch T S"]:
    """P(S_t = s) for every place: the Beta-Binomial law of the successes in t rollouts.

        sum_j w_j [(a_j)_s / s!] [(b_j)_f / f!] / [(a_j + b_j)_t / t!],   (x)_k = x (x + 1) .. (x + k - 1)

    Each factor is a running sum of logs. Those of the Betas are small; those of an atom are log factorials, whose rounding is n log n times that
    of one number: 1e-13 at n = 128 in float64, 1e-4 in float32.

    Args:
        prior: [..., J] and [..., L].
        horizon: n.

    Returns:
        [..., n + 1, n + 1]; 0 where s > t.
    """
    steps = jnp.arange(horizon, dtype=prior.a.dtype)

    def rising(x: Array) -> Array:
        """[..., J] -> [..., J, n + 1]: log (x)_k / k!."""
        order = jnp.broadcast_to(steps + 1, (*x.shape, horizon))
        sums = jnp.cumsum(jnp.log1p((x[..., None] - 1) / order), axis=-1)
        return jnp.concatenate([jnp.zeros_like(x)[..., None], sums], axis=-1)

    at = places(horizon)
    num = jnp.arange(horizon + 1)[:, None]

    def at_places(by_success: Array, by_failure: Array, by_number: Array) -> Array:
        """Sum of the three at every place: [..., J, T, S]."""
        of_success, of_failure = by_success[..., at.successes], by_failure[..., at.failures]
        return of_success + of_failure + jnp.broadcast_to(by_number[..., num], of_success.shape)

    betas = at_places(rising(prior.a), rising(prior.b), -rising(prior.a + prior.b))
    factorials = jnp.concatenate([jnp.zeros(1, steps.dtype), jnp.cumsum(jnp.log(steps + 1))])
    counts = jnp.arange(horizon + 1, dtype=steps.dtype)
    points = prior.points[..., None]
    shape = (*points.shape[:-1], horizon + 1)
    counts, factorials = jnp.broadcast_to(counts, shape), jnp.broadcast_to(factorials, shape)
    hits = jax.scipy.special.xlogy(counts, points) - factorials
    misses = jax.scipy.special.xlog1py(counts, -points) - factorials
    atoms = at_places(hits, misses, factorials)
    logs = jnp.concatenate(
        [
            betas + prior.log_weights[..., None, None],
            atoms + prior.log_point_weights[..., None, None],
        ],
        axis=-3,
    )
    law = jnp.sum(jnp.exp(logs), axis=-3)
    return jnp.where(jnp.broadcast_to(at.exists, law.shape), law, 0)


def characteristics(rule: SequentialRule, prior: BetaMixture, full_size: int) -> Characteristics:
    """Operating characteristics of rules under a law of success rates.

    Args:
        rule: [..., T, S]; several rules lie side by side in the leading axes.
        prior: of the population; one law, without leading axes. It need not be the one that the rule believes in.
        full_size: n of the full group that abandoned prompts are judged by, at least T - 1.

    Returns:
        See `Characteristics`.
    """
    horizon = rule.goes_on.shape[-1] - 1
    kind = prior.a.dtype
    law = success_law(prior, horizon)
    mixed = mixed_in_the_end(prior, rule.group_size)
    would_mix = mixed_in_the_end(prior, jnp.full(law.shape, full_size))
    shape = jnp.broadcast_shapes(rule.trains.shape, rule.group_size.shape)
    trains, law, mixed, would_mix, sizes = (
        jnp.broadcast_to(field, shape)
        for field in (rule.trains, law, mixed, would_mix, rule.group_size)
    )
    trained, lost = jnp.where(trains, law, 0), jnp.where(trains, 0, law)
    columns = [trained, trained * mixed, trained * sizes.astype(kind), lost, lost * would_mix]
    # What each place is worth to those that stop there, [..., T, S, 5]; it may be the same for all rules.
    worth = jnp.stack(columns, axis=-1)

    def draw(reached: Array, step: tuple[tuple[Array, Array], Array]) -> tuple[Array, Array]:
        (goes_on, length), values = step
        going = jnp.where(goes_on, reached, 0)
        totals = jnp.einsum("...s,...sv->...v", reached - going, values)
        return drawn_shares(going, length), totals

    first = no_rollouts((*rule.goes_on.shape[:-2], horizon + 1), prior.a)
    _, totals = jax.lax.scan(draw, first, (_steps(rule, prior.a), jnp.moveaxis(worth, -3, 0)))
    by_length = jnp.moveaxis(totals, 0, -2)
    trains_at, abandons_at = by_length[..., 0], by_length[..., 3]
    num_trained, effective, drawn, abandoned, abandoned_effective = jnp.moveaxis(
        by_length.sum(axis=-2), -1, 0
    )
    lengths = jnp.broadcast_to(jnp.arange(horizon + 1, dtype=kind), abandons_at.shape)
    full_effective = probability_effective(prior, 0, 0, full_size)
    return Characteristics(
        rollouts=drawn + (abandons_at * lengths).sum(axis=-1),
        effective=effective,
        ineffective=jnp.maximum(num_trained - effective, 0),
        abandoned=abandoned,
        abandoned_effective=abandoned_effective,
        full_effective=jnp.broadcast_to(full_effective, effective.shape),
        trains_at=trains_at,
        abandons_at=abandons_at,
    )


def mixed_in_the_end(
    prior: BetaMixture, group_size: Int[Array, "*K T S"]
) -> Float[Array, "*K T S"]:
    """Probability at each place that a group of the given size ends mixed: 1 but on the two edges of the lattice.

    Args:
        prior: one law, without leading axes.
        group_size: [..., T, S] at least t.

    Returns:
        [..., T, S]; 1 where there is no place.
    """
    num_places = group_size.shape[-1]
    steps = jnp.arange(num_places)
    all_fail = group_size[..., :, 0]
    all_succeed = jnp.diagonal(group_size, axis1=-2, axis2=-1)
    lengths = jnp.broadcast_to(steps, all_fail.shape)
    nothing = jnp.zeros_like(lengths)
    after_failures = probability_effective(prior, nothing, lengths, all_fail)
    after_successes = probability_effective(prior, lengths, nothing, all_succeed)
    first = jnp.broadcast_to(steps[None, :] == 0, group_size.shape)
    last = jnp.broadcast_to(steps[None, :] == steps[:, None], group_size.shape)
    shape = group_size.shape
    inside = jnp.where(last, jnp.broadcast_to(after_successes[..., None], shape), 1)
    return jnp.where(first, jnp.broadcast_to(after_failures[..., None], shape), inside)


def cost_per_effective_group(found: Characteristics) -> Float[Array, "*K"]:
    """Rollouts for each mixed group, over many prompts: E[rollouts] / P(effective), by Wald.

    Args:
        found: of a rule.

    Returns:
        [...] inf for a rule that trains on nothing.
    """
    return found.rollouts / found.effective


def false_abandonment(found: Characteristics) -> Float[Array, "*K"]:
    """P(a full group would have been mixed | abandoned).

    Args:
        found: of a rule.

    Returns:
        [...] in [0, 1]; NaN for a rule that abandons nothing.
    """
    return found.abandoned_effective / found.abandoned


def missed_share(found: Characteristics) -> Float[Array, "*K"]:
    """P(abandoned | a full group would have been mixed).

    Args:
        found: of a rule.

    Returns:
        [...] in [0, 1].
    """
    return found.abandoned_effective / found.full_effective
