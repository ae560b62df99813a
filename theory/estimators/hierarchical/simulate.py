"""The model run forwards: hyperparameters from their prior, tasks from hyperparameters. What simulation-based calibration needs."""

import numpy as np
from jaxtyping import Int, Int64

from theory.estimators.hierarchical.closed_forms import Hyperparameters
from theory.estimators.hierarchical.posterior import Prior


def draw_hyperparameters(rng: np.random.Generator, prior: Prior, num_draws: int) -> Hyperparameters:
    """Independent draws of the prior.

    Args:
        rng: advanced.
        prior: of the hyperparameters.
        num_draws: how many.

    Returns:
        [num_draws] each.
    """
    weights = rng.dirichlet(prior.weights, num_draws)
    a = np.exp(rng.normal(*prior.log_a, num_draws))
    b = np.exp(rng.normal(*prior.log_b, num_draws))
    return Hyperparameters(weights[:, 0], weights[:, 1], a, b)


def draw_num_correct(
    rng: np.random.Generator, law: Hyperparameters, num_samples: Int[np.ndarray, " tasks"]
) -> Int64[np.ndarray, " tasks"]:
    """Outcomes of tasks whose rates are drawn from the law.

    Args:
        rng: advanced.
        law: one law, of shape [].
        num_samples: n of each task.

    Returns:
        c of each task.
    """
    num_tasks = num_samples.size
    place = rng.random(num_tasks)
    rates = rng.beta(law.a, law.b, num_tasks)
    rates = np.where(place < law.weight_zero, 0.0, rates)
    rates = np.where(place >= 1 - law.weight_one, 1.0, rates)
    return rng.binomial(num_samples, rates).astype(np.int64)
