"""Laws of success rates as priors of a few shapes, so that the exact programs compile once and serve all of them."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.allocation.regimes import POPULATIONS, Population
from theory.allocation.priors import BetaMixture, mixture

LAWS = {population.name: population for population in POPULATIONS}

PUBLISHED = LAWS["published"]
"""The mixture on which two published figures come out together: allocation.md 4.6."""

FLAT = LAWS["flat"]
HARD = LAWS["all-hard"]
EVEN = Population("all-even", points=((1.0, 0.5),))
SYMMETRIC = Population("beta-.5-.5", betas=((1.0, 0.5, 0.5),))
SKEWED = Population("beta-.3-.6", betas=((1.0, 0.3, 0.6),))
MASTERED_APART = Population("beta-2.5-2.5", betas=((1.0, 2.5, 2.5),))
"""The part of the published mixture whose groups can become mixed."""

MIXTURES = tuple(population for population in POPULATIONS if not population.logit_normals)
"""The populations that are mixtures of Betas and atoms, whose every moment is a closed form."""

_ATOMS = 3
_NODES = 721
_REACH = 9.0


def prior(population: Population) -> BetaMixture:
    """The law as a mixture of one Beta law and atoms, of one shape for all mixtures and another for the logit-normal laws.

    A logit-normal law becomes atoms: the trapezoid rule over 9 standard deviations either side, 721 of them. Against 9,601 points, at a
    standard deviation of 8, probabilities of s of 64 rollouts agree to a relative 3e-12, and of 128 to 7e-7.

    Args:
        population: at most one Beta law, and atoms or logit-normal laws.

    Returns:
        Of JAX's default floating type.
    """
    betas = [*population.betas, *[(0.0, 1.0, 1.0)] * (1 - len(population.betas))]
    if population.logit_normals:
        return mixture(betas, _nodes(population))
    points = [*population.points, *[(0.0, 0.5)] * (_ATOMS - len(population.points))]
    return mixture(betas, points)


def side_by_side(populations: Sequence[Population]) -> BetaMixture:
    """Mixtures in a leading axis.

    Args:
        populations: without logit-normal laws.

    Returns:
        [populations, 1] and [populations, 3].
    """
    return BetaMixture(*(jnp.stack(field) for field in zip(*map(prior, populations), strict=True)))


def known_rates(rates: Sequence[float]) -> BetaMixture:
    """Populations in each of which all prompts have one rate.

    Args:
        rates: p of each.

    Returns:
        [rates, 1] and [rates, 3], of the shape of `side_by_side`.
    """
    return side_by_side([Population("known", points=((1.0, rate),)) for rate in rates])


def on_host(found: Any) -> Any:
    """What a program in float64 found, before its mode ends: outside of it the next operation would be in float32.

    Args:
        found: any pytree of arrays.

    Returns:
        The same of NumPy arrays.
    """
    return jax.tree.map(np.asarray, found)


def _nodes(population: Population) -> list[tuple[float, float]]:
    grid = np.linspace(-_REACH, _REACH, _NODES)
    density = np.exp(-(grid**2) / 2)
    density /= density.sum()
    found: list[tuple[float, float]] = []
    for weight, mean, deviation in population.logit_normals:
        rates = 1 / (1 + np.exp(-(mean + deviation * grid)))
        found += zip((weight * density).tolist(), rates.tolist(), strict=True)
    return found
