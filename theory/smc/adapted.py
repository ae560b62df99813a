"""The fully adapted filter for p(y)^alpha: weigh by the next token's normaliser before the token is drawn.

From temperature 1/alpha the weight of a token is z(x_<t), known before the token is. So weigh first, resample, and then propose: the
children of one particle get different tokens, and the noise of the proposal does not enter the weights that are resampled. In the terms of
`theory.smc.step` log z of the next token is a score one step ahead. Source: Pitt & Shephard, JASA 94 (1999).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from theory.decoding.sample import log_normaliser
from theory.decoding.temperature import Temperature
from theory.generation import Generation, goes_on
from theory.ledger import Ledger
from theory.protocols import Resampler, SequenceModel
from theory.smc.population import Population
from theory.smc.schedule import every
from theory.smc.step import (
    StepInfo,
    propose_by,
    run_steps,
)


def adapted_smc(
    key: Key[Array, ""],
    model: SequenceModel,
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    block: int = 1,
) -> tuple[Population, StepInfo]:
    """Run M populations of N particles to the horizon, the resampler called before every block of tokens but the first.

    Before the first step all particles are alike and there is nothing to resample. With a block of one token the filter is fully
    adapted; with a longer one it looks ahead by the first token of each block.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        alpha: target exponent, above 0.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: `theory.resampling.adaptive.ess_adaptive` makes one that skips steps.
        block: tokens between resamplings, at least 1.

    Returns:
        The weighted population, with exp(`log_evidence`) unbiased for Z at every N, and what each resampling saw and did (`StepInfo`).

    Raises:
        InvalidInput: block < 1.
    """
    rules = (Temperature(1.0 / jnp.asarray(alpha, jnp.float32)),)

    def log_next_weight(
        keys: Key[Array, " B"], generation: Generation, stage: Int32[Array, ""]
    ) -> tuple[Float32[Array, " B"], Ledger]:
        rows = generation.trajectories
        log_z = log_normaliser(generation.log_probs, alpha)
        return jnp.where(goes_on(rows, model.horizon), log_z, 0.0), generation.ledger

    return run_steps(
        key,
        model,
        alpha,
        population,
        resampler,
        every(model.horizon, block),
        propose_by(model, rules, alpha),
        log_next_weight,
    )
