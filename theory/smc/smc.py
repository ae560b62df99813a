"""Sequential Monte Carlo for p(y)^alpha with a fixed proposal: the bootstrap form, on the power path gamma_t = p(x_<=t)^alpha.

The resampler and its schedule say when: a `Resampler` after every step (`every(horizon)`), in blocks, never (`()`: then this is
importance sampling), or where the effective sample size is low (`theory.resampling.adaptive.ess_adaptive`). Nothing of what is to come
enters the intermediate targets, and a prefix's power is a poor guess of the power of its continuations, so that resampling may raise
the variance of Z_hat above that of plain importance sampling: `theory.exact.smc_variance` has the limits. Report the two side by side.
"""

from jaxtyping import Array, Float32, Key

from theory.decoding.rule import TokenRule
from theory.protocols import Resampler, SequenceModel
from theory.smc.population import Population
from theory.smc.step import (
    StepInfo,
    no_score,
    propose_by,
    run_steps,
)


def smc(
    key: Key[Array, ""],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
) -> tuple[Population, StepInfo]:
    """Run M populations of N particles to the horizon.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        rules: the proposal (`theory.smc.proposals`); must not truncate (`theory.importance.check_full_support`).
        alpha: target exponent, above 0.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: called at the steps of the schedule.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1.

    Returns:
        The weighted population, with exp(`log_evidence`) unbiased for Z at every N, and what each resampling saw and did (`StepInfo`).

    Raises:
        InvalidInput: a schedule that is none.
    """
    return run_steps(
        key,
        model,
        alpha,
        population,
        resampler,
        resample_after,
        propose_by(model, rules, alpha),
        no_score,
    )
