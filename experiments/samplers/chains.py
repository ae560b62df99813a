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


# (key of the run, model, prompts, settings) -> the last state of each chain.
Draw = Callable[[Key[Array, ""], SequenceModel, Prompts, Settings], Generation]


def _chain_sampler(draw: Draw, what: str) -> Sampler:
    """The sampler of chains, compiled."""

    @jax.jit
    def run(
        key: Key[Array, ""],
        model: SequenceModel,
        prompts: PromptBatch,
        ids: Int[Array, " B"],
        settings: Settings,
    ) -> Generation:
        return draw(key, model, Prompts(prompts.tokens, prompts.lengths, ids), settings)

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


def _moves(kernel_of: Callable[[Settings], Kernel]) -> Draw:
    """`steps` moves of a kernel whose state is `Chains`."""

    def draw(
        key: Key[Array, ""], model: SequenceModel, prompts: Prompts, settings: Settings
    ) -> Generation:
        chains = _walk(key, model, kernel_of(settings), prompts, settings.steps)
        return _at_target(model, chains, settings)

    return draw


def _stages(
    key: Key[Array, ""], model: SequenceModel, prompts: Prompts, settings: Settings
) -> Generation:
    kernel = blockwise(
        settings.alpha, settings.proposal_alpha, _cut(settings), settings.block, settings.steps
    )
    done = _walk(key, model, kernel, prompts, num_stages(model.horizon, settings.block))
    return _at_target(model, done.chains, settings)


def _rungs(
    key: Key[Array, ""], model: SequenceModel, prompts: Prompts, settings: Settings
) -> Generation:
    kernel = parallel_tempering(settings.ladder, _cut(settings))
    return _walk(key, model, kernel, prompts, settings.steps)[-1].generation


def _sweeps(
    key: Key[Array, ""], model: SequenceModel, prompts: Prompts, settings: Settings
) -> Generation:
    kernel = particle_gibbs(
        settings.alpha,
        settings.proposal_alpha,
        settings.particles,
        schedule(settings, model.horizon),
        resampler_of(settings, CONDITIONAL),
    )
    return _walk(key, model, kernel, prompts, settings.steps).generation


independence = _chain_sampler(
    _moves(lambda settings: independence_kernel(settings.alpha, settings.proposal_alpha)),
    "Independence Metropolis-Hastings; the cut is always the start",
)
suffix = _chain_sampler(
    _moves(
        lambda settings: suffix_regeneration(
            settings.alpha, settings.proposal_alpha, _cut(settings)
        )
    ),
    "Suffix regeneration",
)
multiple_tries = _chain_sampler(
    _moves(
        lambda settings: multiple_try(
            settings.alpha, settings.proposal_alpha, _cut(settings), settings.tries
        )
    ),
    "Multiple-try suffix regeneration",
)
stages = _chain_sampler(_stages, "Blockwise power sampling: `steps` moves after every block")
tempering = _chain_sampler(_rungs, "Parallel tempering: the last state of the last rung")
gibbs = _chain_sampler(_sweeps, "Particle Gibbs: `steps` sweeps of conditional SMC")


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
    last, allowed = _tilted(key, model, Prompts(prompts.tokens, prompts.lengths, ids), settings)
    allowed = np.asarray(allowed)
    if not allowed.all():
        chain = int(ids[int(np.argmin(allowed))])
        raise InvalidInput(
            f"chain {chain}: the reward forbids its first sequence and all {settings.steps} proposals, "
            f"take more --steps or allow more sequences"
        )
    return proposed_rows(last, settings.alpha)


@jax.jit
def _tilted(
    key: Key[Array, ""], model: SequenceModel, prompts: Prompts, settings: Settings
) -> tuple[Generation, Bool[Array, " B"]]:
    assert settings.reward is not None
    kernel = reward_tilted(settings.reward, settings.beta, settings.proposal_alpha, _cut(settings))
    chains = _walk(key, model, kernel, prompts, settings.steps)
    return _at_target(model, chains, settings), chains.log_rewards > -jnp.inf


def _walk(
    key: Key[Array, ""], model: SequenceModel, kernel: Kernel, prompts: Prompts, num_steps: int
) -> Any:
    """The state some steps after the start."""

    def step(_: Array, now: Any) -> Any:
        return kernel.step(key, model, now)[0]

    return jax.lax.fori_loop(0, num_steps, step, kernel.init(key, model, prompts))


def _at_target(model: SequenceModel, chains: Chains, settings: Settings) -> Generation:
    """The rows with log z at the target's alpha; the kernels record it at the proposal's."""
    generation = chains.generation
    if settings.proposal_alpha == settings.alpha:
        return generation
    rows = generation.trajectories
    scored = score_sequences(model, generation, rows.tokens, rows.lengths, settings.alpha)
    return generation._replace(trajectories=rows._replace(log_z=scored.scores.log_z))
