"""The sequential Monte Carlo samplers that are validated, each with what is known of its finite runs."""

from collections.abc import Callable
from typing import Any

import jax

from experiments.validation.cases import ALPHA, Case
from experiments.validation.populations import FEW, Sampler, Sequential
from theory import resampling, smc
from theory.exact import offspring
from theory.exact.laws import PowerLaw, temperature_law
from theory.exact.smc_finite_variance import (
    adapted_relative_variance,
    every_step_relative_variance,
    twisted_relative_variance,
)
from theory.exact.smc_population import FiniteRun, adapted_filter, plain_filter
from theory.smc.exact_twist import ExactTwist

EPSILON = 0.2  # of the defensive proposal
RAMP = 2  # tokens
ROLLOUTS = 2
"""Of each particle, behind a look-ahead."""


def _plain(
    proposal: Callable[[], Any], resampler: Callable[[], Any], resamples: bool = True
) -> Callable[[], Sampler]:
    def lookup() -> Sampler:
        sampler, rules, scheme = smc.smc, proposal(), resampler()

        def run(
            key: jax.Array, model: Any, population: smc.Population, twist: ExactTwist
        ) -> smc.Population:
            schedule = smc.every(model.horizon) if resamples else ()
            return sampler(key, model, rules, ALPHA, population, scheme, schedule)[0]

        return run

    return lookup


def _few(
    offspring_law: offspring.OffspringLaw, proposal_alpha: float = ALPHA, resamples: bool = True
) -> Callable[[Case], FiniteRun]:
    def law(case: Case) -> FiniteRun:
        proposal = temperature_law(case.layers, proposal_alpha)
        steps = range(1, case.table.horizon) if resamples else ()
        return plain_filter(ALPHA, proposal, FEW, steps, offspring_law)

    return law


def _adapted() -> Sampler:
    sampler, scheme = smc.adapted_smc, resampling.multinomial

    def run(
        key: jax.Array, model: Any, population: smc.Population, twist: ExactTwist
    ) -> smc.Population:
        return sampler(key, model, ALPHA, population, scheme)[0]

    return run


def _bridged() -> Sampler:
    sampler, scheme = smc.bridged_smc, resampling.multinomial

    def run(
        key: jax.Array, model: Any, population: smc.Population, twist: ExactTwist
    ) -> smc.Population:
        schedule = smc.every(model.horizon)
        exponents = smc.linear_ramp(ALPHA, RAMP, schedule, model.horizon)
        return sampler(key, model, exponents, ALPHA, population, scheme, schedule)[0]

    return run


def _twisted() -> Sampler:
    sampler, scheme = smc.twisted_smc, resampling.multinomial

    def run(
        key: jax.Array, model: Any, population: smc.Population, twist: ExactTwist
    ) -> smc.Population:
        schedule = smc.every(model.horizon)
        return sampler(key, model, twist, ALPHA, population, scheme, schedule)[0]

    return run


def _twisted_targets() -> Sampler:
    sampler, scheme = smc.twisted_targets_smc, resampling.multinomial
    rules = smc.temperature_proposal(ALPHA)

    def run(
        key: jax.Array, model: Any, population: smc.Population, twist: ExactTwist
    ) -> smc.Population:
        schedule = smc.every(model.horizon)
        return sampler(key, model, rules, twist, ALPHA, population, scheme, schedule)[0]

    return run


def _lookahead() -> Sampler:
    sampler, scheme = smc.lookahead_smc, resampling.multinomial
    rules = smc.temperature_proposal(ALPHA)

    def run(
        key: jax.Array, model: Any, population: smc.Population, twist: ExactTwist
    ) -> smc.Population:
        schedule = smc.every(model.horizon)
        return sampler(
            key, model, rules, ALPHA, population, scheme, schedule, ROLLOUTS, model.horizon
        )[0]

    return run


def _every_step(case: Case, power: PowerLaw, num_particles: int) -> float:
    proposal = temperature_law(case.layers, ALPHA)
    return every_step_relative_variance(power, proposal, num_particles)


def _twisted_variance(case: Case, power: PowerLaw, num_particles: int) -> float:
    proposal = temperature_law(case.layers, ALPHA)
    return twisted_relative_variance(
        power, proposal, lambda t: power.log_lookahead[t], num_particles
    )


def _base() -> Any:
    return smc.temperature_proposal(1.0)


def _temperature() -> Any:
    return smc.temperature_proposal(ALPHA)


SAMPLERS: dict[str, Sequential] = {
    "smc": Sequential(
        _plain(_temperature, lambda: resampling.multinomial),
        _few(offspring.multinomial_offspring),
        _every_step,
    ),
    "smc-base-proposal": Sequential(
        _plain(_base, lambda: resampling.multinomial), _few(offspring.multinomial_offspring, 1.0)
    ),
    "smc-never": Sequential(
        _plain(_temperature, lambda: resampling.multinomial, resamples=False),
        _few(offspring.multinomial_offspring, resamples=False),
    ),
    "smc-systematic": Sequential(
        _plain(_temperature, lambda: resampling.systematic), _few(offspring.systematic_offspring)
    ),
    "smc-killing": Sequential(
        _plain(_temperature, lambda: resampling.killing), _few(offspring.killing_offspring)
    ),
    "smc-ess-adaptive": Sequential(
        _plain(_temperature, lambda: resampling.ess_adaptive(resampling.systematic, 0.95)),
        _few(offspring.when_ess_below(0.95, offspring.systematic_offspring)),
    ),
    "smc-defensive": Sequential(
        _plain(lambda: smc.defensive_proposal(ALPHA, EPSILON), lambda: resampling.multinomial)
    ),
    "adapted-smc": Sequential(
        lambda: _adapted(),
        lambda case: adapted_filter(case.layers, ALPHA, FEW),
        lambda case, power, num: adapted_relative_variance(case.layers, ALPHA, num),
    ),
    "bridged-smc": Sequential(lambda: _bridged()),
    "lookahead-smc": Sequential(lambda: _lookahead()),
    "twisted-smc": Sequential(lambda: _twisted(), is_exact=True),
    "twisted-targets-smc": Sequential(lambda: _twisted_targets(), None, _twisted_variance),
}
