"""The law of success rates of a stream, learnt on the way: weights on a fixed grid of Beta laws and atoms, by EM on what was seen.

What has been seen is a table of how often a group stopped at s successes and f failures. Groups that a rule gave up count like complete ones:
a rule that looks at the rollouts alone multiplies the likelihood by a constant. Older visits are discounted, because a policy moves.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theory.allocation.empirical_bayes import learn_weights
from theory.allocation.priors import BetaMixture, log_moments, mixture
from theory.allocation.sequential import lattice

GRID_MEANS = 19
GRID_CONCENTRATION = 30.0
GRID_END = 6.2
"""The Beta laws have means sigmoid(-6.2) = .002 to sigmoid(6.2) = .998, equally far apart in logits, and a + b = 30 (rl-prototype.md 2)."""


class PopulationFit(NamedTuple):
    """What is known of the stream.

    Attributes:
        counts: [M, M] discounted number of visits that ended at s successes and f failures.
        log_weights: [J] of the Beta laws of the grid.
        log_point_weights: [L] of its atoms.
    """

    counts: Float[Array, "M M"]
    log_weights: Float[Array, " J"]
    log_point_weights: Float[Array, " L"]


def flat_grid() -> BetaMixture:
    """The grid with equal weights, and atoms at 0 and 1.

    Returns:
        J = 19, L = 2.
    """
    means = 1 / (1 + np.exp(-np.linspace(-GRID_END, GRID_END, GRID_MEANS)))
    betas = [
        (1.0, GRID_CONCENTRATION * mean, GRID_CONCENTRATION * (1 - mean)) for mean in means.tolist()
    ]
    return mixture(betas, ((1.0, 0.0), (1.0, 1.0)))


def start_fit(grid: BetaMixture, group_size: int) -> PopulationFit:
    """Nothing seen.

    Args:
        grid: its weights are the first guess.
        group_size: n, most rollouts of a visit.

    Returns:
        The fit.
    """
    side = group_size + 1
    counts = jnp.zeros((side, side), grid.a.dtype)
    return PopulationFit(counts, grid.log_weights, grid.log_point_weights)


def fitted(grid: BetaMixture, fit: PopulationFit) -> BetaMixture:
    """The estimated law.

    Args:
        grid: of the fit.
        fit: its weights.

    Returns:
        The grid with those weights.
    """
    return grid._replace(log_weights=fit.log_weights, log_point_weights=fit.log_point_weights)


def learn_visits(
    grid: BetaMixture,
    fit: PopulationFit,
    visited: Bool[Array, " P"],
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    discount: float,
    steps: int = 20,
) -> PopulationFit:
    """Take in the visits of one update and go on with EM from the last weights.

        w_j <- (1 / K + sum over visits of P(j | s, f)) / (1 + number of visits),   P(j | s, f) proportional to w_j E_j[p^s (1 - p)^f]

    with K parts; the 1 / K is a Dirichlet prior worth one visit, so that no weight dies.

    Args:
        grid: Beta laws and atoms.
        fit: before.
        visited: [P] prompts with a visit.
        successes: [P] of the visit.
        failures: [P] of the visit.
        discount: weight of all earlier visits; 1 forgets nothing.
        steps: of EM.

    Returns:
        The fit after.
    """
    seen = (
        jnp.zeros_like(fit.counts)
        .at[successes, failures]
        .add(visited.astype(fit.counts.dtype), mode="drop")
    )
    counts = discount * fit.counts + seen
    s, f = lattice(counts.shape[0] - 1)
    log_likelihoods = jnp.concatenate(log_moments(grid, s.ravel(), f.ravel()), axis=-1)
    start = jnp.concatenate([fit.log_weights, fit.log_point_weights])
    log_weights = learn_weights(start, log_likelihoods, counts.ravel(), steps, pseudocount=1.0)
    num_betas = fit.log_weights.size
    return PopulationFit(counts, log_weights[:num_betas], log_weights[num_betas:])
