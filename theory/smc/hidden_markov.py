"""The bootstrap filter of a finite hidden Markov model: `feynman_kac` where the truth is a forward recursion.

States are not summed out: each of the N particles is a state of its own, moved by the chain and weighed by the observation, as it would be
where nothing can be summed. Source: Gordon, Salmond & Smith, IEE Proc. F 140 (1993).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Float64, Int, Int32, Key, PyTree

from theory.protocols import Resampler
from theory.smc.alias import alias_table, draw
from theory.smc.feynman_kac import FilterInfo, ParticleSystem, feynman_kac


class HiddenMarkovModel(NamedTuple):
    """A chain over S states, seen through O symbols.

    Attributes:
        initial: [S] law of X_0.
        transition: [S, S] row i is the law of X_t where X_{t-1} = i.
        emission: [S, O] row i is the law of the symbol seen in state i.
    """

    initial: Float64[np.ndarray, " S"]
    transition: Float64[np.ndarray, "S S"]
    emission: Float64[np.ndarray, "S O"]


def forward_log_evidence(model: HiddenMarkovModel, symbols: Int[np.ndarray, " T"]) -> float:
    """Log probability of the symbols, exactly, by the forward recursion in float64.

    Args:
        model: of the symbols.
        symbols: [T] what was seen.

    Returns:
        Natural log; -inf where the model cannot give them.
    """
    log_evidence, law = 0.0, model.initial
    for symbol in symbols.tolist():
        joint = law * model.emission[:, symbol]
        total = joint.sum()
        if total == 0:
            return -np.inf
        log_evidence += float(np.log(total))
        law = joint / total @ model.transition
    return log_evidence


def bootstrap_filter(
    key: Key[Array, ""],
    model: HiddenMarkovModel,
    symbols: Int[Array, " T"],
    num_particles: int,
    resampler: Resampler,
    ids: Int[Array, " M"],
) -> tuple[ParticleSystem, FilterInfo]:
    """Move particles by the chain and weigh them by what is seen.

    Args:
        key: of the run; role keys are taken from it.
        model: concrete; its alias tables are made on the host.
        symbols: [T] what was seen.
        num_particles: N, at least 1.
        resampler: called between any two steps.
        ids: [M] global ids of the populations.

    Returns:
        The weighted states at the last step, and what was seen at each: exp(log_Z[t]) is unbiased for the probability of the first
        t + 1 symbols.
    """
    first, following = alias_table(model.initial[None]), alias_table(model.transition)
    with np.errstate(divide="ignore"):
        log_emission = jnp.asarray(np.log(model.emission.T), jnp.float32)

    def initial(keys: Key[Array, " M"]) -> PyTree:
        words = _words(keys, num_particles)
        return draw(first, jnp.zeros(words.shape, jnp.int32), words)

    def mutate(keys: Key[Array, " M"], states: PyTree, t: Int32[Array, ""]) -> PyTree:
        return draw(following, states, _words(keys, num_particles))

    def log_potential(states: PyTree, t: Int32[Array, ""]) -> Float32[Array, "M N"]:
        return log_emission[symbols[t]][states]

    return feynman_kac(key, initial, mutate, log_potential, symbols.shape[0], resampler, ids)


def _words(keys: Key[Array, " M"], num_particles: int) -> Array:
    # One population after the other: on a CPU a third of the time that vmap takes where N is large.
    return jax.lax.map(lambda key: jax.random.bits(key, (num_particles,), jnp.uint32), keys)
