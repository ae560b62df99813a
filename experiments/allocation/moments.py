"""E[p^s (1 - p)^f] of every population, the held-out ones by quadrature, so that exact programs reach them too."""

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import betaln, logsumexp, xlog1py, xlogy

from experiments.allocation.regimes import Population
from theory.exact.allocation.arms import SuccessProbability

_GRID = np.linspace(-12.0, 12.0, 9601)
"""Standard normal quadrature: the trapezoid rule is exact to rounding for such smooth integrands at this step."""

_ROWS = 256
"""Pairs (s, f) at a time on the grid: 20 MB."""


def log_moment(
    population: Population, successes: Int64[np.ndarray, " K"], failures: Int64[np.ndarray, " K"]
) -> Float64[np.ndarray, " K"]:
    """Log E[p^s (1 - p)^f] over the prompts of a population.

    Args:
        population: the law of p.
        successes: [K] s.
        failures: [K] f.

    Returns:
        [K] natural logs; -inf where no prompt can give both.
    """
    s, f = successes[:, None].astype(np.float64), failures[:, None].astype(np.float64)
    parts: list[Float64[np.ndarray, " K"]] = []
    for weight, a, b in population.betas:
        parts.append(np.log(weight) + (betaln(a + s, b + f) - betaln(a, b))[:, 0])
    for weight, point in population.points:
        parts.append(np.log(weight) + (xlogy(s, point) + xlog1py(f, -point))[:, 0])
    log_density = -(_GRID**2) / 2
    log_density -= np.asarray(logsumexp(log_density))
    for weight, mean, deviation in population.logit_normals:
        logits = mean + deviation * _GRID
        log_right, log_wrong = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
        parts.append(np.log(weight) + _on_grid(log_density, log_right, log_wrong, s, f))
    return np.asarray(logsumexp(np.stack(parts), axis=0))


def _on_grid(
    log_density: Float64[np.ndarray, " Z"],
    log_right: Float64[np.ndarray, " Z"],
    log_wrong: Float64[np.ndarray, " Z"],
    successes: Float64[np.ndarray, "K 1"],
    failures: Float64[np.ndarray, "K 1"],
) -> Float64[np.ndarray, " K"]:
    """The sum over the grid, once for each different pair and some pairs at a time: the states of a pool's prompts at once would take gigabytes."""
    pairs, inverse = np.unique(
        np.concatenate([successes, failures], axis=1), axis=0, return_inverse=True
    )
    found = np.zeros(len(pairs))
    for at in range(0, len(pairs), _ROWS):
        s, f = (column[:, None] for column in pairs[at : at + _ROWS].T)
        found[at : at + _ROWS] = logsumexp(log_density + s * log_right + f * log_wrong, axis=1)
    return found[inverse.reshape(-1)]


def success_probability(population: Population) -> SuccessProbability:
    """P(the next rollout succeeds | s, f) for a prompt of the population.

    Args:
        population: the law of p, taken as the prior.

    Returns:
        the posterior mean as a function; 0 for what cannot be seen in the population.
    """

    def mean(
        successes: Int64[np.ndarray, " K"], failures: Int64[np.ndarray, " K"]
    ) -> Float64[np.ndarray, " K"]:
        here = log_moment(population, successes, failures)
        more = log_moment(population, successes + 1, failures)
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(here), 0.0, np.exp(more - here))

    return mean
