"""Markov chains over whole sequences: the last state of each chain is one row, an approximate draw from its target.

Every chain starts from one draw of its proposal, so a row's law is exactly that of `theory.exact.transition` after the same number of moves.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from experiments.samplers.populations import CONDITIONAL, resampler_of, schedule
from experiments.samplers.rows import PromptBatch, Rows, Sampler, proposed_rows
from experiments.samplers.settings import Settings
from theory.errors import InvalidInput
from theory.generation import Generation
from theory.mcmc import (
    Chains,
    CutLaw,
    Prompts,
    blockwise,
    entropy_cut,
    multiple_try,
    num_stages,
    parallel_tempering,
    particle_gibbs,
    reward_tilted,
    suffix_regeneration,
    uniform_cut,
)
from theory.mcmc import independence as independence_kernel
from theory.mcmc.scoring import score_sequences
from theory.protocols import Kernel, SequenceModel

CUTS: dict[str, Callable[[], CutLaw]] = {"uniform": uniform_cut, "entropy": entropy_cut}


def _cut(settings: Settings) -> CutLaw:
    return CUTS[settings.cut]()


def _chain_sampler(kernel_of: Callable[[Settings], Kernel], what: str) -> Sampler:
    """The sampler of a kernel whose state is `Chains`."""

    @jax.jit
    def run(
        key: Key[Array, ""],
        model: SequenceModel,
        prompts: PromptBatch,
        ids: Int[Array, " B"],
        settings: Settings,
    ) -> Generation:
        kernel = kernel_of(settings)
        chains = kernel.init(key, model, Prompts(prompts.tokens, prompts.lengths, ids))
        return _at_target(model, _walk(key, model, kernel, chains, settings.steps), settings)

    def sampler(
        key: Key[Array, ""],
        model: SequenceModel,
        prompts: PromptBatch,
        ids: Int[Array, " B"],
        settings: Settings,
    ) -> Rows:
        return proposed_rows(run(key, model, prompts, ids, settings), settings.alpha)

    sampler.__doc__ = f"{what}; see `Sampler`."
    return sampler


independence = _chain_sampler(
    lambda settings: independence_kernel(settings.alpha, settings.proposal_alpha),
    "Independence Metropolis-Hastings; the cut is always the start",
)
suffix = _chain_sampler(
    lambda settings: suffix_regeneration(settings.alpha, settings.proposal_alpha, _cut(settings)),
    "Suffix regeneration",
)
multiple_tries = _chain_sampler(
    lambda settings: multiple_try(
        settings.alpha, settings.proposal_alpha, _cut(settings), settings.tries
    ),
    "Multiple-try suffix regeneration",
)


def stages(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Blockwise power sampling: `steps` moves after every block; see `Sampler`."""
    return proposed_rows(_stages(key, model, prompts, ids, settings), settings.alpha)


def tempering(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Parallel tempering: the last state of the last rung; see `Sampler`."""
    return proposed_rows(_tempering(key, model, prompts, ids, settings), settings.alpha)


def gibbs(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Particle Gibbs: `steps` sweeps of conditional SMC; see `Sampler`."""
    return proposed_rows(_gibbs(key, model, prompts, ids, settings), settings.alpha)


def tilted(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Suffix regeneration on p(y) exp(r(y) / b); see `Sampler`.

    A chain may start on a forbidden sequence and then takes the first allowed proposal. One that has found none by the end has no
    state to report, and the run is refused.
    """
    last, allowed = _tilted(key, model, prompts, ids, settings)
    allowed = np.asarray(allowed)
    if not allowed.all():
        chain = int(ids[int(np.argmin(allowed))])
        raise InvalidInput(
            f"chain {chain}: the reward forbids its first sequence and all {settings.steps} proposals, "
            f"take more --steps or allow more sequences"
        )
    return proposed_rows(last, settings.alpha)


@jax.jit
def _stages(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Generation:
    kernel = blockwise(
        settings.alpha, settings.proposal_alpha, _cut(settings), settings.block, settings.steps
    )
    begin = kernel.init(key, model, Prompts(prompts.tokens, prompts.lengths, ids))
    done = _walk(key, model, kernel, begin, num_stages(model.horizon, settings.block))
    return _at_target(model, done.chains, settings)


@jax.jit
def _tempering(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Generation:
    kernel = parallel_tempering(settings.ladder, _cut(settings))
    rungs = kernel.init(key, model, Prompts(prompts.tokens, prompts.lengths, ids))
    return _walk(key, model, kernel, rungs, settings.steps)[-1].generation


@jax.jit
def _gibbs(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Generation:
    kernel = particle_gibbs(
        settings.alpha,
        settings.proposal_alpha,
        settings.particles,
        schedule(settings, model.horizon),
        resampler_of(settings, CONDITIONAL),
    )
    begin = kernel.init(key, model, Prompts(prompts.tokens, prompts.lengths, ids))
    return _walk(key, model, kernel, begin, settings.steps).generation


@jax.jit
def _tilted(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> tuple[Generation, Bool[Array, " B"]]:
    assert settings.reward is not None
    kernel = reward_tilted(settings.reward, settings.beta, settings.proposal_alpha, _cut(settings))
    chains = kernel.init(key, model, Prompts(prompts.tokens, prompts.lengths, ids))
    chains = _walk(key, model, kernel, chains, settings.steps)
    return _at_target(model, chains, settings), chains.log_rewards > -jnp.inf


def _walk(
    key: Key[Array, ""], model: SequenceModel, kernel: Kernel, state: Any, num_steps: int
) -> Any:
    """The state after some steps."""

    def step(_: Array, now: Any) -> Any:
        return kernel.step(key, model, now)[0]

    return jax.lax.fori_loop(0, num_steps, step, state)


def _at_target(model: SequenceModel, chains: Chains, settings: Settings) -> Generation:
    """The rows with log z at the target's alpha; the kernels record it at the proposal's."""
    generation = chains.generation
    if settings.proposal_alpha == settings.alpha:
        return generation
    rows = generation.trajectories
    scored = score_sequences(model, generation, rows.tokens, rows.lengths, settings.alpha)
    return generation._replace(trajectories=rows._replace(log_z=scored.scores.log_z))
