"""Conditional SMC for p(y)^alpha: slot 0 of each population follows a given row, the others are drawn around it.

The law of the N - 1 others, and of the row that is then drawn from the population, is that of SMC *given* that one lineage is
the reference, if the resampler is conditional (`theory.resampling.conditional`). Drawing the next reference from the weights makes a
Markov kernel that leaves p^alpha / Z unchanged at every N >= 2: particle Gibbs.

Source: Andrieu, Doucet & Holenstein, "Particle Markov chain Monte Carlo methods", JRSS B 72 (2010), section 4.3.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from theory.decoding.rule import TokenRule
from theory.generation import Generation, cut, generate, select, take
from theory.protocols import Resampler, SequenceModel
from theory.smc.population import Population
from theory.smc.step import StepInfo, no_score, run_steps


def conditional_smc(
    key: Key[Array, ""],
    model: SequenceModel,
    rules: tuple[TokenRule, ...],
    alpha: float | Float32[Array, ""],
    reference: Generation,
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
) -> tuple[Population, StepInfo]:
    """Run M populations of N particles to the horizon, each around its reference.

    The reference is compared with the others at the same step, by the weight of its prefix and never by that of the whole row.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        rules: the proposal; must not truncate.
        alpha: target exponent, above 0.
        reference: M finished rows after the same prompts, with the log p and log q that *these* rules recorded.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: a conditional one: slot 0 keeps particle 0.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1.

    Returns:
        The weighted population, the reference in slot 0, and what each resampling saw and did (`StepInfo`).

    Raises:
        InvalidInput: a schedule that is none.
    """
    num_populations, num_particles = population.log_weights.shape
    slots = jnp.arange(num_populations * num_particles, dtype=jnp.int32)
    is_free = slots % num_particles != 0

    def propose(
        keys: Key[Array, " B"],
        generation: Generation,
        limits: Int32[Array, " B"],
        stage: Int32[Array, ""],
    ) -> Generation:
        # A limit of 0 keeps the reference's slot out of the generation.
        drawn = generate(keys, model, rules, alpha, generation, jnp.where(is_free, limits, 0))
        kept = jnp.minimum(reference.trajectories.lengths, limits[::num_particles])
        # The cut is entered in the record of the run, after what the others drew.
        spent = reference._replace(ledger=drawn.ledger)
        prefix = take(model, cut(model, spent, kept), slots // num_particles)
        return select(model, ~is_free, prefix, drawn)

    return run_steps(
        key,
        model,
        alpha,
        population,
        resampler,
        resample_after,
        propose,
        no_score,
    )
