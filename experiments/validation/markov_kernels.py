"""The Markov kernels that are validated, each with its exact transition matrix."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.validation.cases import ALPHA
from experiments.validation.markov import BLOCK, TRIES, Suffix
from theory import mcmc, resampling, smc
from theory.exact import transition
from theory.exact.conditional_offspring import conditional_multinomial_offspring
from theory.exact.particle_gibbs import particle_gibbs_transition
from theory.exact.sequence_space import SequenceSpace
from theory.exact.transition import Transition
from theory.mcmc.chains import Prompts
from theory.mcmc.cuts import CutLaw, start_cut
from theory.protocols import Kernel

MOVES = 2
"""Of every chain in a step of the asynchronous kernel."""

FEWEST_ROWS = 2048
"""Batches below twice as many rows are not halved: each halving is a loop of its own to compile."""


def _plain(proposal_alpha: float, cut: Callable[[], CutLaw]) -> Callable[[], Suffix]:
    def spec() -> Suffix:
        law = cut()
        return Suffix(
            lambda: mcmc.suffix_regeneration(ALPHA, proposal_alpha, law),
            lambda: mcmc.make_design(ALPHA, proposal_alpha, law),
            lambda space: transition.suffix_transition(space, ALPHA, law),
        )

    return spec


def _asynchronous() -> Suffix:
    """Several moves a step: the matrix is a power of that of one move, and the acceptance of a chain a mean over its moves."""
    law = mcmc.uniform_cut()

    def matrix(space: SequenceSpace) -> Transition:
        move = transition.suffix_transition(space, ALPHA, law)
        before = [np.linalg.matrix_power(move.matrix, count) for count in range(MOVES + 1)]
        acceptance = np.mean([each @ move.acceptance for each in before[:MOVES]], axis=0)
        return Transition(before[MOVES], acceptance)

    return Suffix(
        lambda: mcmc.asynchronous_suffix(ALPHA, ALPHA, law, MOVES, FEWEST_ROWS),
        lambda: mcmc.make_design(ALPHA, ALPHA, law),
        matrix,
    )


def _independence() -> Suffix:
    return Suffix(
        lambda: mcmc.independence(ALPHA, 1.0),
        lambda: mcmc.make_design(ALPHA, 1.0, start_cut()),
        lambda space: transition.suffix_transition(space, ALPHA, start_cut()),
    )


def _multiple_try() -> Suffix:
    law = mcmc.uniform_cut()
    return Suffix(
        lambda: mcmc.multiple_try(ALPHA, ALPHA, law, TRIES),
        lambda: mcmc.make_design(ALPHA, ALPHA, law),
        lambda space: transition.multiple_try_transition(space, ALPHA, law, TRIES),
    )


def _tilted() -> Suffix:
    """The reward is the number of tokens 0, at scale 2."""
    law = mcmc.uniform_cut()

    def reward(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        inside = jnp.arange(tokens.shape[1])[None, :] < lengths[:, None]
        return ((tokens == 0) & inside).sum(axis=1).astype(jnp.float32)

    def log_reward(sequence: tuple[int, ...]) -> float:
        return sequence.count(0) / 2

    def scaled(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        return reward(tokens, lengths) / 2

    return Suffix(
        lambda: mcmc.reward_tilted(reward, 2.0, 1.0, law),
        lambda: mcmc.make_design(1.0, 1.0, law, scaled),
        lambda space: transition.suffix_transition(space, 1.0, law),
        log_reward,
    )


def _particle_gibbs() -> Suffix:
    """Two particles, the reference and one other; the acceptance is that the sequence changes."""
    resampler, law = resampling.conditional_multinomial, conditional_multinomial_offspring

    def of(model: Any) -> Kernel:
        return mcmc.particle_gibbs(ALPHA, ALPHA, 2, smc.every(model.horizon), resampler)

    def init(key: jax.Array, model: Any, prompts: Prompts) -> Any:
        return of(model).init(key, model, prompts)

    def step(key: jax.Array, model: Any, references: Any) -> tuple[Any, Any]:
        return of(model).step(key, model, references)

    def matrix(space: SequenceSpace) -> Transition:
        schedule = smc.every(space.tokens.shape[1])
        sweep = particle_gibbs_transition(space, ALPHA, 2, schedule, law)
        return Transition(sweep, 1 - np.diag(sweep))

    return Suffix(
        lambda: Kernel(init, step),
        lambda: mcmc.make_design(ALPHA, ALPHA, mcmc.uniform_cut()),
        matrix,
        state=lambda chains: mcmc.References(chains.generation, chains.rows, chains.iteration),
        verdict="moved",
    )


SUFFIX_KERNELS: dict[str, Callable[[], Suffix]] = {
    "independence-mh": _independence,
    "suffix-mh": _plain(ALPHA, lambda: mcmc.uniform_cut()),
    "suffix-mh-base-proposal": _plain(1.0, lambda: mcmc.uniform_cut()),
    "suffix-mh-block-cut": _plain(ALPHA, lambda: mcmc.block_cut(BLOCK)),
    "suffix-mh-entropy-cut": _plain(ALPHA, lambda: mcmc.entropy_cut()),
    "asynchronous-suffix-mh": _asynchronous,
    "multiple-try-mh": _multiple_try,
    "tilted-mh": _tilted,
    "particle-gibbs": _particle_gibbs,
}
