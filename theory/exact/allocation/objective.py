"""What an allocation rule really optimises: its expected update per visited prompt is phi(p) grad p, and phi says which prompts it stops learning.

Given the rewards the scores of a group are independent, with means E[g | right] = grad p / p and E[g | wrong] = -grad p / (1 - p). So an advantage
estimator that weighs a group of X successes in N by

    leave-one-out    sum_i (r_i - mean of the others) g_i / N        w = X (N - X) / (N (N - 1))
    mean-centred     sum_i (r_i - rbar) g_i / N                      w = X (N - X) / N^2
    standardised     sum_i (r_i - rbar) g_i / (N std)                w = sqrt(X (N - X)) / N

has the expected update  phi(p) grad p,  phi(p) = E[w; trained] / (p (1 - p)). With d(X) = share of the orders of X successes in N that the rule
trains on, this is the polynomial

    phi(p) = sum_X d(X) w(X) N (N - 1) / (X (N - X)) C(N - 2, X - 1) p^(X - 1) (1 - p)^(N - X - 1)

of degree N - 2 in Bernstein form. For leave-one-out its coefficients are d itself: dynamic sampling, d = 1, has phi = 1, the success rate as
objective, and every rule that drops groups before they are full has phi < 1 where it drops them.

Unit: the prompt that is visited; rewards in {0, 1}, rollouts independent, groups of one size N. Derived here; checked by enumerating gradients.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theory.allocation.priors import BetaMixture
from theory.exact.allocation.lattice import (
    SequentialRule,
    drawn_shares,
    no_rollouts,
    success_law,
    widened,
)


def trained_shares(
    rule: SequentialRule, group_size: int, like: Float[Array, "..."]
) -> Float[Array, "*K N"]:
    """d(X): share of the orders of X successes in n rollouts that the rule trains on, mixed or not.

    Args:
        rule: [..., T, S], T <= n + 1; wherever it trains it completes the group to n.
        group_size: n; groups of other sizes are left out.
        like: an array of the floating type wanted.

    Returns:
        [..., n + 1] in [0, 1].
    """
    full = widened(rule)
    return _final_shares(full, full.trains & (full.group_size == group_size), group_size, like)


def abandoned_shares(
    rule: SequentialRule, full_size: int, like: Float[Array, "..."]
) -> Float[Array, "*K N"]:
    """Share of the orders of X successes in n rollouts of which the rule would have drawn only a beginning and then abandoned.

    Args:
        rule: [..., T, S], T <= n + 1.
        full_size: n.
        like: an array of the floating type wanted.

    Returns:
        [..., n + 1] in [0, 1].
    """
    full = widened(rule)
    return _final_shares(full, ~full.trains, full_size, like)


def _final_shares(rule: SequentialRule, chosen: Array, size: int, like: Array) -> Array:
    """Orders of X in `size` whose beginning ends at a chosen stop: the lattice's recurrence, carried on after the stop."""
    batch, horizon = rule.goes_on.shape[:-2], rule.goes_on.shape[-1] - 1
    wide = [(0, 0)] * len(batch) + [(0, size - horizon), (0, size - horizon)]
    goes_on = jnp.pad(rule.goes_on.at[..., -1, :].set(False), wide)
    chosen = jnp.pad(chosen, wide)

    def draw(
        carry: tuple[Array, Array], step: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        (active, done), (going, stopping, length) = carry, step
        done = done + jnp.where(stopping & ~going, active, 0)
        active = jnp.where(going, active, 0)
        return (drawn_shares(active, length), drawn_shares(done, length)), done

    first = no_rollouts((*batch, size + 1), like)
    rows = (jnp.moveaxis(goes_on, -2, 0), jnp.moveaxis(chosen, -2, 0))
    lengths = jnp.arange(size + 1, dtype=like.dtype)
    _, done = jax.lax.scan(draw, (first, jnp.zeros_like(first)), (*rows, lengths))
    return done[-1]


def leave_one_out(group_size: int) -> Float[Array, " N"]:
    """w(X) of RLOO: X (n - X) / (n (n - 1)).

    Args:
        group_size: n, at least 2.

    Returns:
        [n + 1].
    """
    return mean_centred(group_size) * (group_size / (group_size - 1))


def mean_centred(group_size: int) -> Float[Array, " N"]:
    """w(X) of Dr.GRPO: X (n - X) / n^2.

    Args:
        group_size: n.

    Returns:
        [n + 1].
    """
    share = jnp.arange(group_size + 1) / group_size
    return share * (1 - share)


def standardised(group_size: int) -> Float[Array, " N"]:
    """w(X) of GRPO without its epsilon: sqrt(X (n - X)) / n; 0 for groups that are all alike.

    Args:
        group_size: n.

    Returns:
        [n + 1].
    """
    return jnp.sqrt(mean_centred(group_size))


def objective_weights(
    shares: Float[Array, "*K N"], group_weights: Float[Array, " N"]
) -> Float[Array, "*K M"]:
    """Bernstein coefficients of phi, of degree n - 2.

    Args:
        shares: [..., n + 1] d(X), as of `trained_shares`; n at least 2.
        group_weights: [n + 1] w(X), as of `leave_one_out`.

    Returns:
        [..., n - 1]; see `bernstein`.
    """
    size = group_weights.shape[0] - 1
    mixed = jnp.arange(1, size).astype(group_weights.dtype)
    scale = group_weights[1:-1] * (size / mixed) * ((size - 1) / (size - mixed))
    return shares[..., 1:-1] * jnp.broadcast_to(scale, shares[..., 1:-1].shape)


def objective(coefficients: Float[Array, "*K M"]) -> Float[Array, "*K N"]:
    """Bernstein coefficients of the integral of phi from 0: what the rule climbs, as a function of the success rate.

    With w of the standardised advantage and d = 1 it is GRPO's objective at finite group size, which tends to 2 arcsin(sqrt p) from below.

    Args:
        coefficients: [..., M] of phi.

    Returns:
        [..., M + 1], the first 0.
    """
    sums = jnp.cumsum(coefficients, axis=-1) / coefficients.shape[-1]
    return jnp.concatenate([jnp.zeros_like(sums[..., :1]), sums], axis=-1)


def bernstein(
    coefficients: Float[Array, "*K M"], rates: Float[Array, " R"]
) -> Float[Array, "*K R"]:
    """A polynomial in Bernstein form: sum_i b_i C(d, i) p^i (1 - p)^(d - i).

    Args:
        coefficients: [..., d + 1].
        rates: [R] p in [0, 1].

    Returns:
        [..., R].
    """
    degree = coefficients.shape[-1] - 1
    nothing = jnp.zeros((*rates.shape, 0), rates.dtype)
    points = BetaMixture(nothing, nothing, nothing, jnp.zeros_like(rates)[:, None], rates[:, None])
    return coefficients @ success_law(points, degree)[:, -1].T


def expected_square(
    shares: Float[Array, "*K N"],
    group_weights: Float[Array, " N"],
    prior: BetaMixture,
) -> Float[Array, "*K"]:
    """E[sum_i A_i^2] / n of a visit, where sum_i A_i^2 / n is one of the weights w(X) below.

    Mean-centred advantages: `mean_centred`, and with d = 1 the result is (n - 1) / n E[p (1 - p)]. Standardised ones: 1 where the group is mixed, and
    with d = 1 the result is exactly P(mixed). Leave-one-out: `leave_one_out` times n / (n - 1).

    Args:
        shares: [..., n + 1] d(X).
        group_weights: [n + 1] the mean squared advantage of a group with X successes.
        prior: of the population.

    Returns:
        [...].
    """
    law = success_law(prior, group_weights.shape[0] - 1)[-1]
    return shares @ (group_weights * law)


def signal_per_rollout(
    shares: Float[Array, "*K N"],
    group_weights: Float[Array, " N"],
    rollouts: Float[Array, "*K"],
    prior: BetaMixture,
) -> Float[Array, "*K"]:
    """Expected push of a visit for each rollout drawn: E[w; trained] / E[rollouts].

    Uniform sampling and dynamic sampling have the same, E[w] / n, whatever the population: groups that dynamic sampling drops push nothing and are
    paid for by both. With the standardised w this is E sqrt(rbar (1 - rbar)) / n, not its limit E sqrt(p (1 - p)) / n.

    Args:
        shares: [..., n + 1] d(X).
        group_weights: [n + 1] w(X).
        rollouts: [...] drawn in a visit.
        prior: of the population.

    Returns:
        [...].
    """
    return expected_square(shares, group_weights, prior) / rollouts
