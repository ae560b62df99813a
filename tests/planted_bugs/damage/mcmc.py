"""Markov chains: damage is read off exact transition matrices, built by the code that the kernels run."""

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.toys import toy_b, toy_e, toy_f
from tests.planted_bugs.defect import total_variation
from theory.exact.context_table import ContextTable, with_horizon
from theory.exact.markov_chain import laws_after, stationary_law
from theory.exact.sequence_space import proposal_law, sequence_space, target_law
from theory.exact.transition import (
    Transition,
    multiple_try_transition,
    suffix_transition,
    tempering_matrix,
)
from theory.generation import Generation, Trajectories
from theory.keys import Role
from theory.ledger import spent
from theory.mcmc import chains as mcmc_chains
from theory.mcmc import density
from theory.mcmc.chains import Chains
from theory.mcmc.cuts import CutLaw, entropy_cut, start_cut, uniform_cut

NUM_ROWS = 8


class Setting(NamedTuple):
    """Where a bug is looked at."""

    table: ContextTable
    alpha: float
    proposal_alpha: float
    cut_law: CutLaw
    name: str


E4 = Setting(toy_e(), 4.0, 4.0, uniform_cut(), "E, alpha 4")
F2 = Setting(toy_f(), 2.0, 2.0, uniform_cut(), "F, alpha 2")
F4 = Setting(toy_f(), 4.0, 4.0, uniform_cut(), "F, alpha 4")
E4_BASE = Setting(toy_e(), 4.0, 1.0, uniform_cut(), "E, alpha 4, base proposal")
E4_ENTROPY = Setting(toy_e(), 4.0, 4.0, entropy_cut(), "E, alpha 4, cuts by entropy")
B4_START = Setting(toy_b(), 4.0, 4.0, start_cut(), "B, alpha 4, cut at the start")


def of_ratio(setting: Setting) -> Callable[[Any], float]:
    """Total variation between what a chain with this `log_ratio` leaves invariant and the target."""

    def measure(log_ratio: Any) -> float:
        space = sequence_space(setting.table, setting.proposal_alpha)
        with mock.patch.object(density, "log_ratio", log_ratio):
            transition = suffix_transition(space, setting.alpha, setting.cut_law)
        target = target_law(space, setting.alpha)
        return total_variation(stationary_law(transition.matrix), target)

    return measure


def of_tries(name: str) -> Callable[[Any], float]:
    """The same for two tries and a function of `theory.mcmc.density` replaced."""

    def measure(function: Any) -> float:
        space = sequence_space(E4.table, E4.alpha)
        with mock.patch.object(density, name, function):
            transition = multiple_try_transition(space, E4.alpha, E4.cut_law, 2)
        return total_variation(stationary_law(transition.matrix), target_law(space, E4.alpha))

    return measure


def of_limits(limits: Callable[[Chains], Any]) -> float:
    """Total variation to the target, from which ten moves start, under these limits of a proposal's length."""
    states, transition = limited_transition(E4, limits)
    target = on_states(states, E4, target_law)
    return total_variation(laws_after(transition.matrix, target, 10)[-1], target)


def of_move(setting: Setting) -> Callable[[Any], float]:
    """Total variation to the target after 2000 moves from the proposal, with these limits and this ratio."""

    def measure(parts: Callable[[], tuple[Any, Any]]) -> float:
        limits, log_ratio = parts()
        with mock.patch.object(density, "log_ratio", log_ratio):
            states, transition = limited_transition(setting, limits)
        start = on_states(states, setting, lambda space, _: proposal_law(space))
        return total_variation(
            laws_after(transition.matrix, start, 2000)[-1], on_states(states, setting, target_law)
        )

    return measure


def on_states(
    states: list[tuple[int, ...]], setting: Setting, law: Callable[[Any, float], np.ndarray]
) -> np.ndarray:
    """A law over finished sequences as one over all prefixes."""
    space = sequence_space(setting.table, setting.alpha)
    probs = np.zeros(len(states))
    probs[[states.index(sequence) for sequence in space.sequences]] = law(space, setting.alpha)
    return probs


def limited_transition(
    setting: Setting, limits: Callable[[Chains], Any]
) -> tuple[list[tuple[int, ...]], Transition]:
    """The exact matrix of suffix moves whose proposals may be as long as `limits` says of the current sequence.

    States are all prefixes: a proposal that is cut off leaves an unfinished one behind.
    """
    horizon = setting.table.horizon
    limit_of = np.append(0, np.asarray(limits(chains_of_length(np.arange(1, horizon + 1)))))
    spaces = [
        sequence_space(with_horizon(setting.table, limit), setting.alpha)
        for limit in range(1, horizon + 1)
    ]
    states = sorted({sequence for space in spaces for sequence in space.sequences})
    index = {sequence: place for place, sequence in enumerate(states)}
    matrix = np.eye(len(states))
    for limit, space in enumerate(spaces, start=1):
        step = suffix_transition(space, setting.alpha, setting.cut_law)
        places = [index[sequence] for sequence in space.sequences]
        for row in np.flatnonzero(limit_of[space.records.lengths] == limit):
            matrix[places[row]] = 0.0
            matrix[places[row], places] = step.matrix[row]
    return states, Transition(matrix, np.ones(len(states)))


def chains_of_length(lengths: np.ndarray) -> Chains:
    """Chains of which only ids, iteration and lengths matter."""
    size, horizon = lengths.size, E4.table.horizon
    numbers = jnp.zeros((size, horizon), jnp.float32)
    rows = Trajectories(
        jnp.zeros((size, horizon), jnp.int32),
        jnp.asarray(lengths, jnp.int32),
        jnp.ones(size, bool),
        numbers,
        numbers,
        numbers,
    )
    generation = Generation((), jnp.zeros((size, 3), jnp.float32), rows, spent())
    return Chains(generation, numbers, numbers[:, 0], jnp.arange(size), jnp.ones((), jnp.int32))


def whole_horizon(chains: Chains) -> jax.Array:
    """The right limits."""
    return jnp.full(chains.rows.shape, E4.table.horizon, jnp.int32)


def right_move() -> tuple[Any, Any]:
    """The right limits and the right ratio."""
    return whole_horizon, density.log_ratio


def unchanged(chains: Chains) -> Chains:
    """The right chains."""
    return chains


def repeated(keys: list[Any]) -> float:
    """Share of keys that repeat another."""
    words = {tuple(np.ravel(jax.random.key_data(key)).tolist()) for key in keys}
    return 1.0 - len(words) / len(keys)


def roles_that_repeat(keys_of: Any) -> float:
    """Share of the roles of a move whose noise is another role's."""
    chains, key = chains_of_length(np.array([3])), jax.random.key(0)
    roles = (Role.CUT, Role.TOKEN, Role.SELECT, Role.ACCEPT)
    return repeated([keys_of(key, role, chains) for role in roles])


def swaps_that_repeat(keys_of: Any) -> float:
    """Share of the two exchanges of a sweep over three rungs whose noise is the other's."""
    chains, key = chains_of_length(np.array([3])), jax.random.key(0)
    lows = [chains._replace(rows=jnp.array([rung])) for rung in range(2)]
    return repeated([keys_of(key, Role.SWAP, low) for low in lows])


def tries_that_repeat(fold_rows: Any) -> float:
    """Share of three tries whose noise is another's."""
    chains = chains_of_length(np.array([3]))
    keys = mcmc_chains.keys_of(jax.random.key(0), Role.TOKEN, chains)
    return repeated([fold_rows(keys, jnp.int32(index)) for index in range(3)])


def rows_that_repeat(change: Any) -> float:
    """Share of chains whose noise is another chain's."""
    chains = change(chains_of_length(np.full(NUM_ROWS, 3)))
    return repeated(list(mcmc_chains.keys_of(jax.random.key(0), Role.TOKEN, chains)))


def moves_that_repeat(change: Any) -> float:
    """Share of moves whose noise is another move's."""
    chains, keys = chains_of_length(np.array([3])), []
    for _ in range(NUM_ROWS):
        chains = change(chains)
        keys.append(mcmc_chains.keys_of(jax.random.key(0), Role.TOKEN, chains))
        chains = chains._replace(iteration=chains.iteration + 1)
    return repeated(keys)


def of_swap(swap_log_ratio: Any) -> float:
    """Total variation between the joint law of two rungs and the product of their targets."""
    table = with_horizon(toy_e(), 2)
    with mock.patch.object(density, "swap_log_ratio", swap_log_ratio):
        _, matrix, invariant = tempering_matrix(table, (1.0, 4.0), uniform_cut())
    return total_variation(np.linalg.matrix_power(matrix, 4000)[0], invariant)


def of_occupation(average: Any) -> float:
    """Total variation between the law that an endless chain's average is over and the target."""
    space = sequence_space(E4.table, E4.alpha)
    transition = suffix_transition(space, E4.alpha, E4.cut_law)
    target = target_law(space, E4.alpha)
    return total_variation(average(stationary_law(transition.matrix), transition), target)


def every_state(law: np.ndarray, transition: Transition) -> np.ndarray:
    """The right average: a state counts as often as the chain stands there."""
    return law
