"""Exponent bridging for p(y)^alpha: short prefixes are resampled under a milder exponent, which rises with their length.

Stage k proposes at token temperature 1/a_k and is resampled under p(x_<=t)^a_k, with 1 = a_0 <= a_1 <= ... <= alpha. In the usual
notation each change of stage reweights by (a_{k+1} - a_k) log p(x_<=t), and the exponent must have reached alpha at the end, by a last
reweighting even if every row has ended within the ramp. In the terms of `theory.smc.step` the weights are those of p^alpha throughout and

    (a_k - alpha) log p(x_<=t)

is a score: each change of stage and the last one follow from its definition, and nothing is left to be caught up with.

Source: Azizi et al., "Power-SMC", arXiv 2602.10273.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from theory.decoding.temperature import Temperature
from theory.errors import InvalidInput
from theory.exact.laws import check_alpha
from theory.generation import Generation, generate
from theory.ledger import Ledger
from theory.protocols import Resampler, SequenceModel
from theory.smc.population import Population
from theory.smc.schedule import check_schedule
from theory.smc.step import StepInfo, run_steps


def bridged_smc(
    key: Key[Array, ""],
    model: SequenceModel,
    exponents: Float32[Array, " K1"],
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
) -> tuple[Population, StepInfo]:
    """Run M populations of N particles to the horizon.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        exponents: [K + 1] a_k of each stage, above 0 (`linear_ramp`); the last need not be alpha.
        alpha: target exponent, above 0.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: called at the steps of the schedule.
        resample_after: K numbers of generated tokens at which stages end, ascending in 1..horizon-1.

    Returns:
        The population weighted for p^alpha, with exp(`log_evidence`) unbiased for Z at every N, and what each resampling saw and
        did (its log Z is that of p^a_k over prefixes).

    Raises:
        InvalidInput: a schedule that is none, or not one exponent a stage.
    """
    if exponents.shape[0] != len(resample_after) + 1:
        raise InvalidInput(
            f"bridging: {exponents.shape[0]} exponents for {len(resample_after) + 1} stages, give one a stage"
        )

    def propose(
        keys: Key[Array, " B"],
        generation: Generation,
        limits: Int32[Array, " B"],
        stage: Int32[Array, ""],
    ) -> Generation:
        rules = (Temperature(1.0 / exponents[stage]),)
        return generate(keys, model, rules, alpha, generation, limits)

    def log_score(
        keys: Key[Array, " B"], generation: Generation, stage: Int32[Array, ""]
    ) -> tuple[Float32[Array, " B"], Ledger]:
        log_p = jnp.sum(generation.trajectories.log_p, axis=1)
        # A dead row (log p = -inf) stays dead, whichever way the exponent moves.
        step_back = jnp.where(jnp.isneginf(log_p), -jnp.inf, (exponents[stage] - alpha) * log_p)
        return step_back, generation.ledger

    return run_steps(
        key,
        model,
        alpha,
        population,
        resampler,
        resample_after,
        propose,
        log_score,
    )


def linear_ramp(
    alpha: float, num_ramp_tokens: int, resample_after: tuple[int, ...], horizon: int
) -> Float32[Array, " K1"]:
    """Exponents that rise from 1 to alpha, linearly in the tokens generated at the start of a stage.

        a_k = 1 + (alpha - 1) min(1, t_k / num_ramp_tokens)

    Args:
        alpha: target exponent, above 0.
        num_ramp_tokens: at which alpha is reached, at least 1.
        resample_after: K numbers of generated tokens at which stages end.
        horizon: most tokens of a row.

    Returns:
        [K + 1] one exponent a stage, the first 1.

    Raises:
        InvalidInput: alpha, the ramp or the schedule is outside its domain.
    """
    check_alpha(alpha)
    check_schedule(resample_after, horizon)
    if num_ramp_tokens < 1:
        raise InvalidInput(f"ramp of {num_ramp_tokens} tokens: must be at least 1")
    starts = jnp.asarray((0, *resample_after), jnp.float32)
    return 1.0 + (alpha - 1.0) * jnp.minimum(1.0, starts / num_ramp_tokens)
