"""The Markov chains that are compared: their kernels, the exact laws of their states, and one traced run for all numbers of moves.

A chain's estimates average the states after each move; the start is not counted, and nothing is thrown away as burn-in.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int, Key

from experiments.equal_cost_problem import Outcome, Problem, Sizes, indices
from experiments.estimator_draws import cell_key, cost_of
from models.tabular.context_model import ContextModel
from theory.exact.markov_chain import laws_after
from theory.exact.sequence_space import MAX_STATES, proposal_law, sequence_space
from theory.exact.transition import (
    blockwise_law,
    multiple_try_transition,
    suffix_transition,
    tempering_matrix,
)
from theory.ledger import Ledger, merge
from theory.mcmc import (
    Prompts,
    blockwise,
    independence,
    multiple_try,
    num_stages,
    parallel_tempering,
    particle_gibbs,
    suffix_regeneration,
    uniform_cut,
)
from theory.mcmc.cuts import CutLaw, start_cut
from theory.protocols import Kernel
from theory.resampling import conditional_multinomial
from theory.smc import every

TRIES = 3
"""Candidates of a multiple-try move."""

BLOCK = 2
"""Tokens of a block; one move follows each."""

GIBBS_PARTICLES = 8
"""Rows of a sweep of particle Gibbs, the current one included."""

MAX_TRIED = 40
"""Sequences whose multiple-try moves are enumerated, all tuples of candidates."""

Law = Float64[np.ndarray, " M"]


class ChainDesign(NamedTuple):
    """A kernel, and what is known of it.

    Attributes:
        kernel: of the chains.
        chains: from its state to its chains, the one for the target last.
        num_first_steps: steps before the one whose state is the first that counts.
        laws: from numbers of counted states to the law of the last of them, where known.
    """

    kernel: Kernel
    chains: Callable[[Any], tuple[Any, ...]]
    num_first_steps: int
    laws: Callable[[tuple[int, ...]], list[Law | None]]


def run_chain(
    name: str, design: Callable[[Problem], ChainDesign], problem: Problem, sizes: Sizes
) -> list[Outcome]:
    """All sizes of a chain from one run: the states of the first moves are those of a shorter run.

    Args:
        name: of the method.
        design: what it is on a problem.
        problem: with the truth.
        sizes: moves and replicates.

    Returns:
        One outcome a number of moves.
    """
    kernel, chains, num_first_steps, laws = design(problem)
    key = cell_key(sizes.seed, "cost", name, problem.name, problem.alpha)
    model = ContextModel.from_table(problem.table)
    ids = jnp.arange(sizes.replicates)
    zeros = jnp.zeros(sizes.replicates, jnp.int32)
    prompts = Prompts(jnp.zeros((sizes.replicates, 0), jnp.int32), zeros, ids)
    tokens, lengths, ledgers = jax.device_get(
        _trace(key, model, prompts, kernel, chains, num_first_steps, max(sizes.moves))
    )
    flat = indices(problem, tokens.reshape(-1, tokens.shape[-1]), lengths.reshape(-1))
    rows = flat.reshape(lengths.shape)
    counts = np.arange(1, rows.shape[0] + 1)[:, None]
    length = problem.lengths[rows].cumsum(axis=0) / counts
    first = problem.first[rows].cumsum(axis=0) / counts

    def outcome(size: int, law: Law | None) -> Outcome:
        ledger: Ledger = jax.tree.map(lambda leaf: leaf[size - 1], ledgers)
        cost = cost_of([ledger], sizes.replicates)
        return Outcome(size, cost, length[size - 1], first[size - 1], rows[size - 1], law)

    return [outcome(size, law) for size, law in zip(sizes.moves, laws(sizes.moves), strict=True)]


@functools.partial(jax.jit, static_argnames=("kernel", "chains", "num_first_steps", "num_moves"))
def _trace(
    key: Key[Array, ""],
    model: ContextModel,
    prompts: Prompts,
    kernel: Kernel,
    chains: Callable[[Any], tuple[Any, ...]],
    num_first_steps: int,
    num_moves: int,
) -> tuple[Int[Array, "n R T"], Int[Array, "n R"], Ledger]:
    """Every state of the chains for the target, and what had been spent by then on all chains."""

    def step(state: Any, _: None) -> tuple[Any, tuple[Array, Array, Ledger]]:
        state, _ = kernel.step(key, model, state)
        *others, wanted = chains(state)
        ledger = wanted.generation.ledger
        for other in others:
            ledger = merge(ledger, other.generation.ledger)
        rows = wanted.generation.trajectories
        return state, (rows.tokens, rows.lengths, ledger)

    state = kernel.init(key, model, prompts)
    state, _ = jax.lax.scan(step, state, None, length=num_first_steps)
    _, trace = jax.lax.scan(step, state, None, length=num_moves)
    return trace


def _alone(state: Any) -> tuple[Any, ...]:
    return (state,)


def suffix_design(cut_law: CutLaw, tempered: bool, problem: Problem) -> ChainDesign:
    """Suffix moves from temperature 1/alpha, or from the base model.

    Args:
        cut_law: of the moves.
        tempered: which proposal.
        problem: what is sampled.

    Returns:
        The design.
    """
    beta = problem.alpha if tempered else 1.0
    space = sequence_space(problem.table, beta)
    kernel = suffix_regeneration(problem.alpha, beta, cut_law)
    transition = suffix_transition(space, problem.alpha, cut_law)
    return ChainDesign(kernel, _alone, 0, _laws(transition.matrix, proposal_law(space), 0))


def independence_design(tempered: bool, problem: Problem) -> ChainDesign:
    """Whole sequences as proposals.

    Args:
        tempered: which proposal.
        problem: what is sampled.

    Returns:
        The design.
    """
    kernel = independence(problem.alpha, problem.alpha if tempered else 1.0)
    return suffix_design(start_cut(), tempered, problem)._replace(kernel=kernel)


def multiple_try_design(problem: Problem) -> ChainDesign:
    """TRIES candidates a move, from temperature 1/alpha.

    Args:
        problem: what is sampled.

    Returns:
        The design.
    """
    cut_law = uniform_cut()
    kernel = multiple_try(problem.alpha, problem.alpha, cut_law, TRIES)
    if len(problem.space.sequences) > MAX_TRIED:
        return ChainDesign(kernel, _alone, 0, _unknown)
    transition = multiple_try_transition(problem.space, problem.alpha, cut_law, TRIES)
    return ChainDesign(kernel, _alone, 0, _laws(transition.matrix, proposal_law(problem.space), 0))


def blockwise_design(problem: Problem) -> ChainDesign:
    """Blocks of BLOCK tokens with one suffix move after each, and then more moves.

    Args:
        problem: what is sampled.

    Returns:
        The design; the first state that counts is the one after the last block.
    """
    alpha, cut_law = problem.alpha, uniform_cut()
    kernel = blockwise(alpha, alpha, cut_law, BLOCK, 1)
    _, start = blockwise_law(problem.table, alpha, alpha, cut_law, BLOCK, 1)
    transition = suffix_transition(problem.space, alpha, cut_law)
    num_first_steps = num_stages(problem.table.horizon, BLOCK) - 1
    return ChainDesign(
        kernel, lambda state: (state.chains,), num_first_steps, _laws(transition.matrix, start, 1)
    )


def tempering_design(problem: Problem) -> ChainDesign:
    """Two rungs: the base model and the target.

    Args:
        problem: what is sampled.

    Returns:
        The design.
    """
    ladder, cut_law = (1.0, problem.alpha), uniform_cut()
    kernel = parallel_tempering(ladder, cut_law)
    num_sequences = len(problem.space.sequences)
    if num_sequences**2 > MAX_STATES:
        return ChainDesign(kernel, tuple, 0, _unknown)
    _, matrix, _ = tempering_matrix(problem.table, ladder, cut_law)
    starts = (proposal_law(sequence_space(problem.table, alpha)) for alpha in ladder)
    start = functools.reduce(np.kron, starts)
    joint = _laws(matrix, start, 0)

    def laws(sizes: tuple[int, ...]) -> list[Law | None]:
        found = joint(sizes)
        return [law.reshape(num_sequences, -1).sum(axis=0) for law in found if law is not None]

    return ChainDesign(kernel, tuple, 0, laws)


def particle_gibbs_design(problem: Problem) -> ChainDesign:
    """Sweeps of GIBBS_PARTICLES rows from the base model, resampled after every token.

    Args:
        problem: what is sampled.

    Returns:
        The design; the law of its states is not computed.
    """
    schedule = every(problem.table.horizon)
    kernel = particle_gibbs(problem.alpha, 1.0, GIBBS_PARTICLES, schedule, conditional_multinomial)
    return ChainDesign(kernel, _alone, 0, _unknown)


def _laws(
    matrix: Float64[np.ndarray, "M M"], start: Law, num_before: int
) -> Callable[[tuple[int, ...]], list[Law | None]]:
    """The law after as many steps as states are counted, less those that `start` has behind it."""

    def laws(sizes: tuple[int, ...]) -> list[Law | None]:
        found = laws_after(matrix, start, max(sizes) - num_before)
        return [found[size - num_before] for size in sizes]

    return laws


def _unknown(sizes: tuple[int, ...]) -> list[Law | None]:
    return [None for _ in sizes]
