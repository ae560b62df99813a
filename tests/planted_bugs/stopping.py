"""Stopping rules of this project with one mistake each; `theory.allocation.policies.optimal_stopping` and `predictive_stopping` have the right ones.

The first make the action table of a fresh stream from its population, the others the prospects of a pool from its histories; the forms of
the right ones are in `tests.planted_bugs.damage.stopping`.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from theory.allocation.beta_binomial import posterior_mean
from theory.allocation.equal_runs import Prospects, best_rates, equal_runs, prospects
from theory.allocation.policies.optimal_stopping import table
from theory.allocation.policies.predictive_stopping import foresee, supplying_price
from theory.allocation.priors import BetaMixture
from theory.allocation.sequential import ActionTable, lattice
from theory.allocation.stopping_program import (
    StoppingProblem,
    best_rate,
    drawing_values,
    effective_worth,
    rate_of_rule,
    stopping_problem,
    stopping_rule,
)


def _mixed_or(group_size: int, waits: Bool[Array, "M M"]) -> ActionTable:
    """The table of a rule that completes mixed groups, draws first, and otherwise draws where it waits."""
    s, f = lattice(group_size)
    draws = (waits | ((s > 0) & (f > 0))) & (s + f < group_size)
    return table(draws.at[0, 0].set(True))


def priced_as_if_nothing_were_given_up(prior: BetaMixture, group_size: int) -> ActionTable:
    """Dinkelbach's first step is taken for the last: rollouts cost what dynamic sampling earns."""
    problem = stopping_problem(prior, effective_worth(group_size))
    rate = rate_of_rule(problem, jnp.ones_like(problem.mean, bool))
    return _mixed_or(group_size, stopping_rule(problem, rate))


def failures_forgotten_by_the_posterior(prior: BetaMixture, group_size: int) -> ActionTable:
    """The next rollout is predicted from the successes alone."""
    s, f = lattice(group_size)
    mean = posterior_mean(prior, s, jnp.zeros_like(f))
    worth = effective_worth(group_size)
    problem = StoppingProblem(jnp.where(jnp.isnan(mean), 0, mean).astype(worth.dtype), worth)
    return _mixed_or(group_size, stopping_rule(problem, best_rate(problem)))


def given_up_one_outcome_late(prior: BetaMixture, group_size: int) -> ActionTable:
    """Looks at whether the last rollout was worth drawing, not the next."""
    problem = stopping_problem(prior, effective_worth(group_size))
    draws = stopping_rule(problem, best_rate(problem)).at[0, 0].set(True)
    return _mixed_or(group_size, draws | jnp.roll(draws, 1, axis=0) | jnp.roll(draws, 1, axis=1))


def completion_not_paid_for(prior: BetaMixture, group_size: int) -> ActionTable:
    """A mixed group counts as 1 at once, and the rollouts that complete it cost nothing."""
    problem = stopping_problem(prior, effective_worth(group_size))
    s, f = lattice(group_size)
    price = jnp.where((s > 0) & (f > 0), 0, best_rate(problem))
    drawing = drawing_values(problem, price)
    return _mixed_or(group_size, drawing > 1e-7)


def failures_forgotten_by_the_memory(
    population: BetaMixture,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    group_size: int,
    batch_size: int,
) -> tuple[Float[Array, ""], Prospects]:
    """Histories are read without their failures: what never succeeded looks like a stranger."""
    return foresee(population, successes, jnp.zeros_like(failures), group_size, batch_size)


def priced_like_a_stream(
    population: BetaMixture,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    group_size: int,
    batch_size: int,
) -> tuple[Float[Array, ""], Prospects]:
    """Rollouts cost what strangers earn, whoever else is in the pool."""
    runs = equal_runs(population, successes, failures, group_size)
    price = best_rate(stopping_problem(population, effective_worth(group_size)))
    shared = jnp.full(successes.shape, price)
    own = prospects(runs, jnp.minimum(shared, best_rates(runs)))
    return price, own._replace(value=prospects(runs, shared).value)


def patience_one_too_long(
    population: BetaMixture,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    group_size: int,
    batch_size: int,
) -> tuple[Float[Array, ""], Prospects]:
    """Every prompt is waited for one equal outcome longer."""
    price, found = foresee(population, successes, failures, group_size, batch_size)
    longer = jnp.minimum(found.patience + 1, np.int32(group_size))
    return price, found._replace(patience=longer)


def poor_prompts_at_the_shared_price(
    population: BetaMixture,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    group_size: int,
    batch_size: int,
) -> tuple[Float[Array, ""], Prospects]:
    """A prompt worth less than the price is given up at its first outcome: it is visited in vain."""
    runs = equal_runs(population, successes, failures, group_size)
    price = supplying_price(runs, batch_size)
    return price, prospects(runs, jnp.full(successes.shape, price))
