"""Stopping rules: their exact cost per effective group on a U-shaped population. The recurrence of hit utility: the utility that it sums to."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tests.planted_bugs.defect import relative_error
from theory.allocation.beta_binomial import next_hit_marginal
from theory.allocation.policies.sara import table
from theory.allocation.priors import BetaMixture, beta, mixture
from theory.allocation.sequential import ActionTable
from theory.exact.allocation.action_table import rule_of_table
from theory.exact.allocation.lattice import characteristics, cost_per_effective_group

GROUP = 8
RATES = np.concatenate([np.zeros(8), np.ones(8), np.linspace(0.04, 0.9, 16)])
TOY = "half of the prompts at 0 or 1, half between, n = 8"


def population() -> BetaMixture:
    """All rates, equally likely."""
    return mixture((), [(1 / RATES.size, float(rate)) for rate in RATES])


def sara(group_size: int) -> ActionTable:
    """The right rule, in the form of its twins."""
    return table(beta(1.0, 1.0), group_size)


@cache
def cost(rule: Callable[[int], ActionTable]) -> float:
    """Rollouts spent for a mixed group."""
    with jax.enable_x64(True):
        found = characteristics(rule_of_table(rule(GROUP)), population(), GROUP)
        return float(cost_per_effective_group(found))


def of_cost(build: Callable[[int], ActionTable]) -> float:
    """Relative error of that cost."""
    return relative_error(cost(build), cost(sara))


HIT_A, HIT_B, HITS = 2.7, 4.6, 12
HIT_TOY = "p of Beta(2.7, 4.6), 12 rollouts"


def first_hit_law(following: Callable[..., Array]) -> np.ndarray:
    """[HITS + 1] probability that the first success is rollout 1, 2, ..., and that there is none, from a recurrence of marginals."""
    with jax.enable_x64(True):
        a, b = jnp.asarray(HIT_A), jnp.asarray(HIT_B)
        marginals = [a / (a + b)]
        for extra in range(HITS - 1):
            marginals.append(following(marginals[-1], a, b, jnp.asarray(float(extra))))
        hits = np.asarray(jnp.stack(marginals), np.float64)
    return np.append(hits, 1 - hits.sum())


def of_utility(following: Callable[..., Array]) -> float:
    """Relative error of the probability of a success."""
    return relative_error(
        first_hit_law(following)[-1] - 1, first_hit_law(next_hit_marginal)[-1] - 1
    )
