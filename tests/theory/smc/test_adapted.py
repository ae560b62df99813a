"""The fully adapted filter: the exact law of two particles, and weights that are known before the token is drawn."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from tests.theory.smc.runs import (
    ALPHA,
    begin,
    check_draws,
    check_evidence,
    check_records,
    check_variance,
    reference_law,
    reference_table,
)
from theory.generation import Generation
from theory.importance import trajectory_log_weights
from theory.protocols import Resampler
from theory.resampling.adaptive import ess_adaptive
from theory.resampling.multinomial import multinomial
from theory.smc import Population, StepInfo, adapted_smc, draw_one


@functools.partial(jax.jit, static_argnames=("resampler",))
def run(
    key: jax.Array, model: ContextModel, population: Population, resampler: Resampler
) -> tuple[Population, StepInfo, Generation, jax.Array]:
    after, info = adapted_smc(key, model, ALPHA, population, resampler)
    return after, info, *draw_one(key, model, after)


@pytest.mark.parametrize("number", [1, 3])
def test_two_particles_follow_the_reference(
    reference_cases: list[dict[str, Any]], number: int
) -> None:
    truth = next(item for item in reference_cases[number]["smc"] if item["kind"] == "adapted")
    assert truth["alpha"] == ALPHA
    model = ContextModel.from_table(reference_table(number))
    after, info, drawn, log_Z = run(jax.random.key(1), model, begin(model, 64_000, 2), multinomial)
    log_exact = float(np.log(truth["z_mean"]))
    check_evidence(log_Z, log_exact, smallest_bias=0.05)
    if number == 3:
        relative = truth["z_variance"] / truth["z_mean"] ** 2
        check_variance(log_Z, log_exact, relative, smallest_bias=0.2)
    check_draws(drawn.trajectories, reference_law(truth["final_draw_law"]))
    check_records(model, after)
    # One step ahead, the first two particles are still alike: nothing was seen but the first step's normaliser.
    assert info.ess.shape == (model.horizon, 64_000)


def test_without_resampling_the_weights_are_those_of_the_rows() -> None:
    """Log z is taken before a token and out again, whether or not a resampling comes between."""
    model = ContextModel.from_table(reference_table(1))
    population = begin(model, 64_000, 2)
    after, info, _, _ = run(jax.random.key(2), model, population, ess_adaptive(multinomial, 0.0))
    rows = after.generation.trajectories
    alone = np.asarray(trajectory_log_weights(rows, ALPHA))
    np.testing.assert_allclose(np.asarray(after.log_weights).reshape(-1), alone, atol=1e-5)
    np.testing.assert_allclose(alone, np.asarray(rows.log_z).sum(axis=1), atol=1e-5)
    assert (np.asarray(info.ancestors) == np.arange(2)).all()
