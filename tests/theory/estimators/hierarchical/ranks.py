"""Simulation-based calibration: where the truth ranks among draws of its posterior.

With theta from the prior and data from theta, the rank of f(theta) among L independent posterior draws of f is uniform on 0..L for every f (Talts
et al. 2018, arXiv 1804.06788; that f must look at the data too: Modrak et al. 2023, arXiv 2211.02383; both cited from memory). Tasks have
unequal numbers of samples.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from theory.estimators.hierarchical.closed_forms import Hyperparameters, failure
from theory.estimators.hierarchical.posterior import WEAK_PRIOR, Effort, fit_with
from theory.estimators.hierarchical.simulate import draw_hyperparameters, draw_num_correct
from theory.estimators.hierarchical.task_counts import TaskCounts, compress

QUANTITIES = ("weight_zero", "weight_one", "a", "b", "pass@64", "log likelihood")
NUM_SAMPLES = np.tile([3, 8], 15)
NUM_RANKS = 20


def calibration_ranks(
    likelihood: Callable[..., Any], num_simulations: int, effort: Effort
) -> np.ndarray:
    """[num_simulations, quantities] ranks in 0..19; draws are thinned to 19, far apart."""
    rng = np.random.default_rng(0)
    truths = draw_hyperparameters(rng, WEAK_PRIOR, num_simulations)
    found: list[np.ndarray] = []
    for simulation in range(num_simulations):
        truth = Hyperparameters(*(part[simulation] for part in truths))
        counts = compress(NUM_SAMPLES, draw_num_correct(rng, truth, NUM_SAMPLES))
        draws = fit_with(likelihood, simulation, counts, WEAK_PRIOR, effort).hyperparameters
        places = np.linspace(0, draws.a.size - 1, NUM_RANKS - 1).astype(int)
        thinned = Hyperparameters(*(part[places] for part in draws))
        found.append(
            (quantities(thinned, counts) < quantities(truth, counts)[..., None]).sum(axis=1)
        )
    return np.array(found)


def quantities(law: Hyperparameters, counts: TaskCounts) -> np.ndarray:
    """[quantities, ...], the last one by a likelihood written anew."""
    return np.stack([*law, 1 - failure(law, 64), log_likelihood(law, counts)])


def log_likelihood(law: Hyperparameters, counts: TaskCounts) -> np.ndarray:
    """Sum over tasks of log P(c | n), by SciPy."""
    total = np.zeros(np.shape(law.a))
    for n, c, num_tasks in zip(*(part.tolist() for part in counts), strict=True):
        beta = np.exp(special.betaln(law.a + c, law.b + n - c) - special.betaln(law.a, law.b))
        likelihood = (1 - law.weight_zero - law.weight_one) * beta
        likelihood = likelihood + law.weight_zero * (c == 0) + law.weight_one * (c == n)
        total = total + num_tasks * np.log(likelihood)
    return total
