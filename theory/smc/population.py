"""Weighted populations of rows: how they start, what they say of Z, and one row drawn from each."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int, Key

from theory.decoding.noise import gumbels
from theory.errors import InvalidInput
from theory.generation import Generation, start, take
from theory.keys import Role, role_key, row_keys
from theory.ledger import charge
from theory.log_weights import all_dead, log_mean_weight
from theory.protocols import SequenceModel


class Population(NamedTuple):
    """M populations of N particles.

    Attributes:
        ids: [M] global ids of the populations: a population is the same, bit for bit, in any batch.
        generation: of M N rows, population after population.
        log_weights: [M, N] of each prefix for p^alpha, the evidence so far included; natural log, unnormalised, -inf is dead.
    """

    ids: Int[Array, " M"]
    generation: Generation
    log_weights: Float32[Array, "M N"]


def start_populations(
    model: SequenceModel,
    prompts: Int[Array, "M P"],
    prompt_lengths: Int[Array, " M"],
    ids: Int[Array, " M"],
    num_particles: int,
) -> Population:
    """Read one prompt a population; its particles share it.

    Args:
        model: of the tokens.
        prompts: [M, P] right-padded.
        prompt_lengths: [M].
        ids: [M] global ids.
        num_particles: N, at least 1.

    Returns:
        Particles of length 0 and weight 1.

    Raises:
        InvalidInput: N < 1.
    """
    if num_particles < 1:
        raise InvalidInput(f"particles {num_particles}: must be at least 1")
    num_populations = prompts.shape[0]
    read = start(model, prompts, prompt_lengths)
    rows = jnp.repeat(jnp.arange(num_populations), num_particles)
    log_weights = jnp.zeros((num_populations, num_particles), jnp.float32)
    ledger = charge(read.ledger, rollouts_commit=num_populations * num_particles)
    return Population(ids, take(model, read._replace(ledger=ledger), rows), log_weights)


def particle_keys(key: Key[Array, ""], population: Population) -> Key[Array, " B"]:
    """Keys of the particles, by the population's id and the particle's slot.

    By slot and not by ancestor: children of one particle go different ways.

    Args:
        key: of one role.
        population: M populations of N particles.

    Returns:
        [M N] keys.
    """
    keys = row_keys(key, population.ids)
    fold = jax.vmap(jax.vmap(jax.random.fold_in, in_axes=(None, 0)), in_axes=(0, None))
    return fold(keys, jnp.arange(population.log_weights.shape[1])).reshape(-1)


def log_evidence(population: Population) -> Float32[Array, " M"]:
    """Log Z_hat of each population. Z_hat is unbiased for Z, log Z_hat is biased downwards.

    Args:
        population: at the end of a run, or of a stage (then for the normaliser of p^alpha over prefixes).

    Returns:
        [M] natural log; -inf where all particles are dead.
    """
    return log_mean_weight(population.log_weights)


def draw_one(
    key: Key[Array, ""], model: SequenceModel, population: Population
) -> tuple[Generation, Float32[Array, " M"]]:
    """One row of each population, in proportion to the weights: an approximate draw from the target, biased by O(1/N).

    Args:
        key: of the run.
        model: of the tokens.
        population: at the end of a run.

    Returns:
        M rows, and [M] log Z_hat; where that is -inf all particles are dead, and the row has no tokens.
    """
    num_populations, num_particles = population.log_weights.shape
    keys = row_keys(role_key(key, Role.SELECT), population.ids)
    race = population.log_weights + gumbels(keys, num_particles)
    slots = jnp.argmax(race, axis=1) + num_particles * jnp.arange(num_populations)
    drawn = take(model, population.generation, slots)
    dead = all_dead(population.log_weights)

    def unless_dead(row: Array) -> Array:
        mask = dead.reshape(dead.shape + (1,) * (row.ndim - 1))
        return jnp.where(mask, jnp.zeros_like(row), row)

    trajectories = jax.tree.map(unless_dead, drawn.trajectories)
    return drawn._replace(trajectories=trajectories), log_evidence(population)
