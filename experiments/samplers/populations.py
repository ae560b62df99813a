"""Weighted populations: sequential Monte Carlo for p(y)^alpha with every proposal, twist, bridge and resampler of `theory.smc`.

An id is a population of N particles: N weighted rows, or one row drawn from them by weight, which is an approximate draw.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float32, Int, Key

from experiments.samplers.rows import PromptBatch, Rows, Sampler, proposed_rows
from experiments.samplers.settings import Settings
from theory import resampling
from theory.errors import InvalidInput
from theory.generation import Generation
from theory.protocols import Resampler, SequenceModel
from theory.resampling import ess_adaptive
from theory.smc import (
    Population,
    adapted_smc,
    bridged_smc,
    draw_one,
    every,
    linear_ramp,
    log_evidence,
    lookahead_smc,
    smc,
    start_populations,
    temperature_proposal,
    twisted_smc,
    twisted_targets_smc,
)

RESAMPLERS: dict[str, Resampler] = {
    "systematic": resampling.systematic,
    "stratified": resampling.stratified,
    "multinomial": resampling.multinomial,
    "residual": resampling.residual,
    "ssp": resampling.ssp,
    "killing": resampling.killing,
    "chopthin": resampling.chopthin,
}

CONDITIONAL: dict[str, Resampler] = {
    "systematic": resampling.conditional_systematic,
    "stratified": resampling.conditional_stratified,
    "multinomial": resampling.conditional_multinomial,
    "killing": resampling.conditional_killing,
}


class Particles(NamedTuple):
    """What a run of M populations hands to the host.

    Attributes:
        generation: of M N rows, or of the M that were drawn.
        log_weights: [M, N]; None where one row was drawn.
        log_Z_hat: [M].
    """

    generation: Generation
    log_weights: Float32[Array, "M N"] | None
    log_Z_hat: Float32[Array, " M"]


Run = Callable[[Key[Array, ""], SequenceModel, Population, Settings], Population]


def _population_sampler(run: Run, what: str) -> Sampler:
    """The sampler of a run of populations."""

    @jax.jit
    def particles(
        key: Key[Array, ""],
        model: SequenceModel,
        prompts: PromptBatch,
        ids: Int[Array, " B"],
        settings: Settings,
    ) -> Particles:
        begin = start_populations(model, prompts.tokens, prompts.lengths, ids, settings.particles)
        after = run(key, model, begin, settings)
        if not settings.draw_one:
            return Particles(after.generation, after.log_weights, log_evidence(after))
        drawn, log_Z_hat = draw_one(key, model, after)
        return Particles(drawn, None, log_Z_hat)

    def sampler(
        key: Key[Array, ""],
        model: SequenceModel,
        prompts: PromptBatch,
        ids: Int[Array, " B"],
        settings: Settings,
    ) -> Rows:
        return _population_rows(particles(key, model, prompts, ids, settings), ids, settings)

    sampler.__doc__ = f"{what}; see `Sampler`."
    return sampler


def _population_rows(done: Particles, ids: Int[Array, " B"], settings: Settings) -> Rows:
    log_Z_hat = np.asarray(done.log_Z_hat, np.float64)
    dead = np.isneginf(log_Z_hat)
    if dead.any():
        raise InvalidInput(
            f"population {int(ids[int(np.argmax(dead))])}: all {settings.particles} weights are 0 "
            f"(log Z = -inf), nothing can be drawn; take more --particles or another proposal"
        )
    rows = proposed_rows(done.generation, settings.alpha)
    if done.log_weights is None:
        return rows._replace(log_Z_hat=log_Z_hat)
    return rows._replace(
        log_weight=np.asarray(done.log_weights, np.float64).reshape(-1),
        log_Z_hat=np.repeat(log_Z_hat, settings.particles),
    )


def schedule(settings: Settings, horizon: int) -> tuple[int, ...]:
    """Numbers of generated tokens after which populations may be resampled.

    Args:
        settings: resample and block.
        horizon: of the model.

    Returns:
        None for "never", else after every block but the last.
    """
    return () if settings.resample == "never" else every(horizon, settings.block)


def resampler_of(settings: Settings, schemes: Mapping[str, Resampler] = RESAMPLERS) -> Resampler:
    """The scheme, adaptive where it is asked for.

    Args:
        settings: resampler, resample and ess_threshold.
        schemes: by name; conditional ones for particle Gibbs.

    Returns:
        The resampler.
    """
    scheme = schemes[settings.resampler]
    return ess_adaptive(scheme, settings.ess_threshold) if settings.resample == "ess" else scheme


def _plain(
    key: Key[Array, ""], model: SequenceModel, begin: Population, settings: Settings
) -> Population:
    steps, resampler = schedule(settings, model.horizon), resampler_of(settings)
    if settings.bridge == "none":
        rules = temperature_proposal(settings.proposal_alpha)
        return smc(key, model, rules, settings.alpha, begin, resampler, steps)[0]
    ramp = settings.ramp if settings.ramp is not None else max(1, model.horizon // 2)
    exponents = linear_ramp(settings.alpha, ramp, steps, model.horizon)
    return bridged_smc(key, model, exponents, settings.alpha, begin, resampler, steps)[0]


def _adapted(
    key: Key[Array, ""], model: SequenceModel, begin: Population, settings: Settings
) -> Population:
    # A block as long as a row has no second block to resample before.
    block = model.horizon if settings.resample == "never" else settings.block
    resampler = resampler_of(settings)
    return adapted_smc(key, model, settings.alpha, begin, resampler, block)[0]


def _lookahead(
    key: Key[Array, ""], model: SequenceModel, begin: Population, settings: Settings
) -> Population:
    horizon = model.horizon
    return lookahead_smc(
        key,
        model,
        temperature_proposal(settings.proposal_alpha),
        settings.alpha,
        begin,
        resampler_of(settings),
        schedule(settings, horizon),
        settings.rollouts,
        horizon if settings.rollout_tokens is None else min(settings.rollout_tokens, horizon),
    )[0]


def _twisted(
    key: Key[Array, ""], model: SequenceModel, begin: Population, settings: Settings
) -> Population:
    if settings.twist is None:  # estimated by rollouts
        return _lookahead(key, model, begin, settings)
    steps, resampler = schedule(settings, model.horizon), resampler_of(settings)
    twist, alpha = settings.twist, settings.alpha
    if settings.induced:
        return twisted_smc(key, model, twist, alpha, begin, resampler, steps)[0]
    rules = temperature_proposal(settings.proposal_alpha)
    return twisted_targets_smc(key, model, rules, twist, alpha, begin, resampler, steps)[0]


plain = _population_sampler(_plain, "Sequential Monte Carlo, bridged if asked for")
adapted = _population_sampler(_adapted, "The fully adapted filter")
lookahead = _population_sampler(_lookahead, "A twist that is estimated from rollouts")
twisted = _population_sampler(
    _twisted, "Twisted targets, with the proposal that the twist induces or a token temperature"
)
