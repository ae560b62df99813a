"""The bare particle filter, for any system of particles: mutate, weigh, resample.

    gamma_t(f) = E[f(X_t) G_0(X_0) ... G_t(X_t)],      Z = gamma_{T-1}(1),

for a Markov chain X_0 ~ M_0, X_t ~ M_t(X_{t-1}, .) and potentials G_t. Particles are kept one by one, as any pytree: nothing is known of
them but how they move and what they weigh. A potential that looks at two states in a row belongs to a particle that holds both. The weights
are never reset, as in `theory.smc.step`: what a resampler hands on carries the mean weight, so that at any time

    log Z_hat = log (1/N) sum_i w_i,      E[Z_hat] = Z at every N, for every unbiased resampler, adaptive or not.

Source: Del Moral, "Feynman-Kac formulae" (2004); Chopin & Papaspiliopoulos, "An Introduction to Sequential Monte Carlo" (2020),
algorithm 10.1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Int32, Key, PyTree

from theory.errors import InvalidInput
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.log_weights import clean, ess, log_mean_weight
from theory.protocols import Resampler

# (a key for each population) -> M N particles, the leaves of a pytree [M, N, ...].
Initial = Callable[[Key[Array, " M"]], PyTree]

# (a key for each population, particles of step t - 1, t >= 1) -> particles of step t.
Mutate = Callable[[Key[Array, " M"], PyTree, Int32[Array, ""]], PyTree]

# (particles of step t, t) -> log G_t of each; natural log, -inf kills.
LogPotential = Callable[[PyTree, Int32[Array, ""]], Float[Array, "M N"]]


class ParticleSystem(NamedTuple):
    """M populations of N particles.

    Attributes:
        particles: pytree, leaves [M, N, ...].
        log_weights: [M, N] the evidence so far included; natural log, unnormalised, -inf is dead.
    """

    particles: PyTree
    log_weights: Float[Array, "M N"]


class FilterInfo(NamedTuple):
    """What was to be seen at each step, weighed and not yet resampled.

    Attributes:
        ess: [T, M] effective sample size; 0 where all are dead.
        log_Z: [T, M] log of the mean weight: exp of it is unbiased for gamma_t(1).
    """

    ess: Float[Array, "T M"]
    log_Z: Float[Array, "T M"]


def feynman_kac(
    key: Key[Array, ""],
    initial: Initial,
    mutate: Mutate,
    log_potential: LogPotential,
    num_steps: int,
    resampler: Resampler,
    ids: Int[Array, " M"],
) -> tuple[ParticleSystem, FilterInfo]:
    """Run M populations for T steps, the resampler called between any two of them.

    Args:
        key: of the run; role keys are taken from it.
        initial: draws X_0; the numbers of a population come from its own key.
        mutate: draws X_t given X_{t-1}.
        log_potential: log G_t.
        num_steps: T, at least 1.
        resampler: `theory.resampling.adaptive.ess_adaptive` makes one that skips steps.
        ids: [M] global ids of the populations: a population is the same, bit for bit, in any batch.

    Returns:
        The weighted particles of the last step, with exp(log_Z[-1]) unbiased for Z, and what was seen at each step.

    Raises:
        InvalidInput: T < 1.
    """
    if num_steps < 1:
        raise InvalidInput(f"steps {num_steps}: must be at least 1")
    mutation_keys = row_keys(role_key(key, Role.MUTATION), ids)
    resample_keys = row_keys(role_key(key, Role.RESAMPLE), ids)
    first = initial(fold_rows(mutation_keys, 0))
    start = _weighed(first, log_potential(first, jnp.zeros((), jnp.int32)), 0.0)

    def step(
        now: ParticleSystem, t: Int32[Array, ""]
    ) -> tuple[ParticleSystem, tuple[Array, Array]]:
        seen = _seen(now.log_weights)
        ancestors, carried = resampler(fold_rows(resample_keys, t - 1), now.log_weights)
        parents = jax.tree.map(lambda leaf: gather(leaf, ancestors), now.particles)
        moved = mutate(fold_rows(mutation_keys, t), parents, t)
        return _weighed(moved, log_potential(moved, t), carried), seen

    steps = jnp.arange(1, num_steps, dtype=jnp.int32)
    last, seen = jax.lax.scan(step, start, steps)
    every = jax.tree.map(
        lambda before, end: jnp.concatenate([before, end[None]]), seen, _seen(last.log_weights)
    )
    return last, FilterInfo(*every)


def gather(leaf: Array, ancestors: Int[Array, "M N"]) -> Array:
    """Particles by their slots, population by population.

    Args:
        leaf: [M, N, ...].
        ancestors: [M, N] slots.

    Returns:
        [M, N, ...].
    """
    num_populations, num_particles = ancestors.shape
    rows = ancestors + num_particles * jnp.arange(num_populations, dtype=ancestors.dtype)[:, None]
    flat = leaf.reshape(num_populations * num_particles, *leaf.shape[2:])
    return flat[rows.reshape(-1)].reshape(leaf.shape)


def _weighed(
    particles: PyTree, log_gains: Array, log_weights: Float[Array, "M N"] | float
) -> ParticleSystem:
    return ParticleSystem(particles, clean(log_weights + log_gains)[0])


def _seen(log_weights: Float[Array, "M N"]) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    return ess(log_weights), log_mean_weight(log_weights)
