"""The law checks that certify the kernels of this room: on the exact matrix, and on draws of the jitted kernel."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.context_model import ContextModel
from tests.stat_asserts import assert_counts
from theory.exact.sequence_space import SequenceSpace
from theory.exact.transition import Transition
from theory.generation import take
from theory.mcmc.chains import Chains, Design, Prompts, start_chains_at


def assert_invariant(transition: Transition, law: np.ndarray) -> None:
    """pi K = pi, detailed balance, and K is a stochastic matrix."""
    flow = law[:, None] * transition.matrix
    assert np.all(transition.matrix >= -1e-15)
    np.testing.assert_allclose(transition.matrix.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(law @ transition.matrix, law, rtol=0, atol=1e-12)
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)


def empty_prompts(num: int, first: int = 0) -> Prompts:
    """Chains with the global ids first, first + 1, ..."""
    rows = jnp.arange(first, first + num)
    return Prompts(jnp.zeros((num, 0), jnp.int32), jnp.zeros(num, jnp.int32), rows)


class Outcome(NamedTuple):
    """What one jitted step did to chains that started anywhere."""

    before: np.ndarray
    after: np.ndarray
    info: Any


def cells_of(space: SequenceSpace, tokens: Any, lengths: Any) -> np.ndarray:
    """State of each row; M, a state of probability zero, for what is no sequence of the model."""
    index = {sequence: place for place, sequence in enumerate(space.sequences)}
    rows = zip(np.asarray(tokens).tolist(), np.asarray(lengths).tolist(), strict=True)
    return np.array([index.get(tuple(row[:length]), len(index)) for row, length in rows])


def chains_at(
    model: ContextModel,
    space: SequenceSpace,
    design: Design,
    num: int,
    seed: int,
    only: int | None = None,
) -> tuple[Chains, np.ndarray]:
    """Chains whose starts are drawn uniformly from all states, or are one of them, and the starts."""
    num_states = len(space.sequences)
    tokens, lengths = jnp.asarray(space.tokens), jnp.asarray(space.records.lengths)
    states = start_chains_at(model, empty_prompts(num_states), tokens, lengths, design)
    start = np.random.default_rng(seed).integers(num_states, size=num)
    start = start if only is None else np.full(num, only)
    where = jnp.asarray(start)
    return Chains(
        take(model, states.generation, where),
        states.entropies[where],
        states.log_rewards[where],
        jnp.arange(num),
        states.iteration,
    ), start


def one_step(
    step: Any, model: ContextModel, space: SequenceSpace, chains: Chains, start: np.ndarray
) -> Outcome:
    """What a jitted step does to the chains."""
    chains, info = step(jax.random.key(11), model, chains)
    now = chains.generation.trajectories
    return Outcome(start, cells_of(space, now.tokens, now.lengths), info)


def assert_steps_follow(outcome: Outcome, transition: Transition) -> None:
    """Pairs (start, end) have the law of a uniform start and one step of the matrix."""
    size = len(transition.matrix)
    probs = np.zeros((size, size + 1))
    probs[:, :size] = transition.matrix / size
    pairs = outcome.before * (size + 1) + outcome.after
    assert_counts(np.bincount(pairs, minlength=probs.size), probs.ravel())
