"""The stopping problem of a fresh stream on the lattice of one group, small enough to be solved again at every update.

At a price per rollout, with `mean` the probability that the next rollout succeeds and `worth` what a complete group is worth,

    V(s, f) = worth(s, f)                                                          where s + f = n
    Q(s, f) = -price + mean V(s + 1, f) + (1 - mean) V(s, f + 1),   V = max(0, Q)     before

The rule draws where Q > 0. Pricing rollouts at the rate that the last rule earns and solving again is Dinkelbach's iteration, whose fixed point is
the best rate of reward per rollout (`theory.exact.allocation.fresh_stream`, which shares no code with this). Arrays are squares [s, f] of side M = n + 1;
entries beyond s + f = n are never read.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.beta_binomial import posterior_mean
from theory.allocation.priors import BetaMixture
from theory.allocation.sequential import lattice


class StoppingProblem(NamedTuple):
    """One group of a stream.

    Attributes:
        mean: [M, M] P(the next rollout succeeds | s, f); 0 where the prior excludes s and f.
        worth: [M, M] of a complete group; 0 where s + f is not n.
    """

    mean: Float[Array, "M M"]
    worth: Float[Array, "M M"]


def effective_worth(group_size: int) -> Float[Array, "M M"]:
    """1 for a complete group that holds a success and a failure.

    Args:
        group_size: n.

    Returns:
        [n+1, n+1].
    """
    s, f = lattice(group_size)
    return ((s + f == group_size) & (s > 0) & (f > 0)).astype(jnp.zeros(()).dtype)


def push_worth(group_size: int) -> Float[Array, "M M"]:
    """sqrt(rbar (1 - rbar)) of a complete group: the size of its push under std-normalised advantages.

    Args:
        group_size: n.

    Returns:
        [n+1, n+1].
    """
    s, f = lattice(group_size)
    push = jnp.sqrt((s * f).astype(jnp.zeros(()).dtype)) / group_size
    return jnp.where(s + f == group_size, push, 0)


def stopping_problem(prior: BetaMixture, worth: Float[Array, "M M"]) -> StoppingProblem:
    """The problem under a prior.

    Args:
        prior: of the success rates of the stream.
        worth: [M, M] of complete groups.

    Returns:
        The problem.
    """
    mean = posterior_mean(prior, *lattice(worth.shape[0] - 1))
    return StoppingProblem(jnp.where(jnp.isnan(mean), 0, mean).astype(worth.dtype), worth)


def drawing_values(
    problem: StoppingProblem, price: Float[Array, "..."] | float
) -> Float[Array, "M M"]:
    """Q: what one more rollout is worth, net of its price and of the best that follows.

    Args:
        problem: the group.
        price: of a rollout, or [M, M] of one that is drawn there.

    Returns:
        [M, M]; -inf where the group is complete.
    """
    inside = _inside(problem)

    def sweep(_: Int[Array, ""], drawing: Float[Array, "M M"]) -> Float[Array, "M M"]:
        value = jnp.where(inside, jnp.maximum(drawing, 0), problem.worth)
        after_success, after_failure = _shifted(value)
        return problem.mean * after_success + (1 - problem.mean) * after_failure - price

    # Values are right from the end of the group backwards, one rollout a sweep.
    last = problem.mean.shape[0] - 1
    drawing = jax.lax.fori_loop(0, last, sweep, jnp.zeros_like(problem.mean))
    return jnp.where(inside, drawing, -jnp.inf)


def rate_of_rule(problem: StoppingProblem, draws: Bool[Array, "M M"]) -> Float[Array, ""]:
    """What a rule earns per rollout on the stream: E[worth] / E[rollouts] of one group.

    Args:
        problem: the group.
        draws: [M, M] where the rule draws; it always does at s = f = 0.

    Returns:
        The rate.
    """
    inside = _inside(problem)
    goes_on = (draws & inside).at[0, 0].set(True)

    def sweep(_: Int[Array, ""], totals: tuple[Array, Array]) -> tuple[Array, Array]:
        worth, rollouts = (_shifted(total) for total in totals)
        mean = problem.mean
        earned = mean * worth[0] + (1 - mean) * worth[1]
        paid = 1 + mean * rollouts[0] + (1 - mean) * rollouts[1]
        return (
            jnp.where(goes_on, earned, jnp.where(inside, 0, problem.worth)),
            jnp.where(goes_on, paid, 0),
        )

    zeros = jnp.zeros_like(problem.mean)
    last = problem.mean.shape[0] - 1
    worth, rollouts = jax.lax.fori_loop(0, last + 1, sweep, (zeros, zeros))
    return worth[0, 0] / rollouts[0, 0]


def best_rate(problem: StoppingProblem, steps: int = 30) -> Float[Array, ""]:
    """The best rate of all rules, by Dinkelbach's iteration from the rule that never stops.

    Args:
        problem: the group.
        steps: most iterations; each squares the error, and the rates repeat after a handful.

    Returns:
        Reward per rollout.
    """
    start = rate_of_rule(problem, jnp.ones_like(problem.mean, bool))

    def step(_: Int[Array, ""], rate: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.maximum(
            rate, rate_of_rule(problem, drawing_values(problem, rate) > _slack(rate))
        )

    return jax.lax.fori_loop(0, steps, step, start)


def stopping_rule(problem: StoppingProblem, price: Float[Array, ""]) -> Bool[Array, "M M"]:
    """Where the best rule at a price draws: where that gains more than rounding.

    Args:
        problem: the group.
        price: of a rollout.

    Returns:
        [M, M].
    """
    return drawing_values(problem, price) > _slack(price)


def _slack(price: Float[Array, ""]) -> Float[Array, ""]:
    """At the best rate some states are worth exactly nothing; what only rounding calls a gain is not drawn for."""
    return 64 * jnp.finfo(price.dtype).eps * jnp.maximum(price, jnp.finfo(price.dtype).tiny)


def _inside(problem: StoppingProblem) -> Bool[Array, "M M"]:
    s, f = lattice(problem.mean.shape[0] - 1)
    return s + f < problem.mean.shape[0] - 1


def _shifted(value: Float[Array, "M M"]) -> tuple[Float[Array, "M M"], Float[Array, "M M"]]:
    """Entries after a success and after a failure; 0 beyond the square, which is never read inside the lattice."""
    padded = jnp.pad(value, ((0, 1), (0, 1)))
    return padded[1:, :-1], padded[:-1, 1:]
