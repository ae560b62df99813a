"""A population as finitely many success rates, for programs that need to know a rate and not only moments."""

import numpy as np
from jaxtyping import Float64
from scipy.special import expit, roots_jacobi

from experiments.allocation.regimes import Population
from theory.exact.allocation.remembered import Rates

_NODES = 96
"""Of the Gauss rule of a Beta law, which is exact for polynomials of degree 191."""

_GRID = np.linspace(-8.0, 8.0, 641)
"""Standard normal places of the trapezoid rule for logit-normal laws."""


def rates(population: Population) -> Rates:
    """Its law by the quadrature of each part; atoms are themselves.

    Args:
        population: the law of p.

    Returns:
        Rates and weights.
    """
    right: list[Float64[np.ndarray, " Z"]] = []
    wrong: list[Float64[np.ndarray, " Z"]] = []
    weights: list[Float64[np.ndarray, " Z"]] = []

    def add(share: float, p: np.ndarray, q: np.ndarray, mass: np.ndarray) -> None:
        right.append(p)
        wrong.append(q)
        weights.append(share * mass / mass.sum())

    for share, a, b in population.betas:
        x, mass = roots_jacobi(_NODES, b - 1, a - 1)
        add(share, (1 + x) / 2, (1 - x) / 2, mass)
    for share, point in population.points:
        add(share, np.array([point]), np.array([1 - point]), np.ones(1))
    for share, mean, deviation in population.logit_normals:
        logits = mean + deviation * _GRID
        add(share, expit(logits), expit(-logits), np.exp(-(_GRID**2) / 2))
    return Rates(np.concatenate(right), np.concatenate(wrong), np.concatenate(weights))
