"""Particle Gibbs: damage is read off exact matrices of a sweep."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from tests.planted_bugs.defect import total_variation
from theory.exact import (
    OffspringLaw,
    conditional_multinomial_offspring,
    multinomial_offspring,
    particle_gibbs_transition,
    sequence_space,
    stationary_law,
    target_law,
    unroll,
    with_horizon,
)
from theory.exact import particle_gibbs as sweeps
from theory.generation import start
from theory.mcmc import References
from theory.smc import every

ALPHA = 2.0
E3 = with_horizon(toy_e(), 3)
NUM_ROWS = 8


def of_gain(reference_gain: Any) -> float:
    """Total variation between the law that sweeps leave invariant and the target: two particles, multinomial."""
    with mock.patch.object(sweeps, "reference_gain", reference_gain):
        return of_sweep(sweep)


def sweep(
    layers: Any, alpha: float, resample_after: tuple[int, ...], offspring: OffspringLaw
) -> np.ndarray:
    """The right matrix, in the form of its twin; what is resampled is resampled given the reference."""
    space = sequence_space(toy_e(), alpha)
    assert offspring is multinomial_offspring
    return particle_gibbs_transition(
        space, alpha, 2, resample_after, conditional_multinomial_offspring
    )


def of_sweep(make: Callable[..., np.ndarray]) -> float:
    """The same for a function that makes the matrix."""
    target = target_law(sequence_space(toy_e(), ALPHA), ALPHA)
    matrix = make(unroll(toy_e()), ALPHA, every(4), multinomial_offspring)
    return total_variation(stationary_law(matrix), target)


def of_offspring(offspring: OffspringLaw) -> float:
    """The same for a conditional offspring law, with three particles."""
    space = sequence_space(E3, ALPHA)
    matrix = particle_gibbs_transition(space, ALPHA, 3, every(3), offspring)
    return total_variation(stationary_law(matrix), target_law(space, ALPHA))


def chains_of_two_tokens() -> References:
    """Chains whose references have two tokens of unequal weight."""
    model = ContextModel.from_table(E3)
    begun = start(model, jnp.zeros((NUM_ROWS, 0), jnp.int32), jnp.zeros(NUM_ROWS, jnp.int32))
    log_p = jnp.tile(jnp.array([[-0.5, -1.5, 0.0]]), (NUM_ROWS, 1))
    rows = begun.trajectories._replace(
        lengths=jnp.full(NUM_ROWS, 2, jnp.int32), log_p=log_p, log_q=log_p / 2
    )
    begun = begun._replace(trajectories=rows)
    return References(begun, jnp.arange(NUM_ROWS), jnp.ones((), jnp.int32))


def wrong_gains(weigh: Callable[[References, float], References]) -> float:
    """Share of tokens whose recorded weight is not what the token contributes."""
    given = chains_of_two_tokens()
    right, found = (each.generation.trajectories for each in (given, weigh(given, ALPHA)))
    gains = [np.asarray(ALPHA * rows.log_p - rows.log_q)[:, :2] for rows in (right, found)]
    return float((np.abs(gains[0] - gains[1]) > 1e-5).mean())


def as_recorded(references: References, alpha: float) -> References:
    """The right references."""
    return references


def sweeps_that_repeat(change: Callable[[References], References]) -> float:
    """Share of sweeps whose numbers are another sweep's."""
    references, iterations = chains_of_two_tokens(), set[int]()
    for _ in range(NUM_ROWS):
        references = change(references)
        iterations.add(int(references.iteration))
        references = references._replace(iteration=references.iteration + 1)
    return 1.0 - len(iterations) / NUM_ROWS


def unchanged(references: References) -> References:
    """The right chains."""
    return references
