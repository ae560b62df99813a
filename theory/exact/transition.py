"""Exact transition matrices of the Markov kernels on every sequence of a small model, in float64.

The matrices are built from the functions of `theory.mcmc.density` that the kernels themselves run: what is certified here is the ratio
that the sampler uses. States are all sequences of the model, in lexicographic order.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable, with_horizon
from theory.exact.markov_chain import laws_after
from theory.exact.sequence_space import (
    MAX_STATES,
    Sequence,
    SequenceSpace,
    sequence_space,
    target_law,
)
from theory.mcmc import density
from theory.mcmc.cuts import CutLaw
from theory.mcmc.density import Records

# Outcomes of a multiple-try move from one state at one cut.
MAX_OUTCOMES = 10_000_000


class Transition(NamedTuple):
    """One step of a Markov kernel.

    Attributes:
        matrix: [M, M] from row to column.
        acceptance: [M] probability that a move from the state is accepted; a proposal equal to the state counts.
    """

    matrix: Float64[np.ndarray, "M M"]
    acceptance: Float64[np.ndarray, " M"]


def suffix_transition(space: SequenceSpace, alpha: float, cut_law: CutLaw) -> Transition:
    """One suffix move; independence Metropolis-Hastings where the cut is always the start.

        K(x, y) = sum_m c(m | x) q(y_>=m | x_<m) min(1, r_m(x, y)),   y != x

    Args:
        space: the states; with a reward the target is tilted by it.
        alpha: exponent of the target.
        cut_law: of the kernel.

    Returns:
        The transition.
    """
    flow = np.zeros((len(space.sequences), len(space.sequences)))
    for cut, members in _shared_prefixes(space):
        rows = _rows(space.records, members)
        able = density.log_cut(cut_law, rows, np.full(members.size, cut)) > -np.inf
        current, proposal = (np.ravel(each) for each in np.meshgrid(members[able], members))
        before, after = _rows(space.records, current), _rows(space.records, proposal)
        cuts = np.full(current.size, cut)
        log_ratio = density.log_ratio(alpha, cut_law, before, after, cuts)
        log_proposal = density.log_cut(cut_law, before, cuts) + density.suffix_log_q(after, cuts)
        flow[current, proposal] += np.exp(log_proposal + np.minimum(log_ratio, 0.0))
    return _with_rejections(flow)


def multiple_try_transition(
    space: SequenceSpace, alpha: float, cut_law: CutLaw, tries: int
) -> Transition:
    """One multiple-try suffix move, by enumeration of every tuple of candidates.

    Args:
        space: the states.
        alpha: exponent of the target.
        cut_law: of the kernel.
        tries: candidates in a move, at least 1.

    Returns:
        The transition.

    Raises:
        InvalidInput: more than MAX_OUTCOMES outcomes of one move.
    """
    num_outcomes = tries * len(space.sequences) ** tries
    if num_outcomes > MAX_OUTCOMES:
        raise InvalidInput(
            f"{tries} tries on {len(space.sequences)} sequences: {num_outcomes:.3g} outcomes of a move, "
            f"at most {MAX_OUTCOMES:.3g} are enumerated; take fewer tries or a smaller model"
        )
    flow = np.zeros((len(space.sequences), len(space.sequences)))
    for cut, members in _shared_prefixes(space):
        rows, cuts = _rows(space.records, members), np.full(members.size, cut)
        log_cut = density.log_cut(cut_law, rows, cuts)
        log_weights = np.asarray(density.log_move_weight(alpha, cut_law, rows, cuts))
        log_q = density.suffix_log_q(rows, cuts)
        # Columns: which of the members each try has drawn, and which try is chosen.
        outcomes = np.array(list(itertools.product(range(members.size), repeat=tries)))
        tuples = np.repeat(outcomes, tries, axis=0)
        chosen = np.tile(np.arange(tries), len(outcomes))
        candidates = log_weights[tuples]
        drawn = tuples[np.arange(chosen.size), chosen]
        log_draw = log_q[tuples].sum(axis=1) + _log_choice(candidates, chosen)
        for place, state in enumerate(members):
            current = np.full(chosen.size, log_weights[place])
            log_ratio = density.multiple_try_log_ratio(candidates, chosen, current)
            moved = np.exp(log_cut[place] + log_draw + np.minimum(log_ratio, 0.0))
            flow[state, members] += np.bincount(drawn, moved, members.size)
    return _with_rejections(flow)


def blockwise_law(
    table: ContextTable,
    alpha: float,
    proposal_alpha: float,
    cut_law: CutLaw,
    block: int,
    moves_per_block: int,
) -> tuple[list[Sequence], Float64[np.ndarray, " M"]]:
    """Output law of the blockwise kernel after its last stage.

    Stage k has horizon h_k = min(k S, T): unfinished sequences are extended up to it by the proposal, then all take part in suffix moves on the
    target p(y)^alpha over the sequences of that horizon.

    Args:
        table: the model.
        alpha: exponent of the target.
        proposal_alpha: exponent of the proposal.
        cut_law: of the moves.
        block: S, tokens in a block.
        moves_per_block: moves in each stage.

    Returns:
        The sequences of the model and their M probabilities.
    """
    sequences, law = [()], np.ones(1)
    for previous in range(0, table.horizon, block):
        horizon = min(previous + block, table.horizon)
        space = sequence_space(with_horizon(table, horizon), proposal_alpha)
        mass = dict(zip(sequences, law, strict=True))
        kept = np.minimum(space.records.lengths, previous)
        # A row that had ended before keeps all of its tokens: nothing is drawn, and the probability of that is 1.
        extension = np.exp(density.suffix_log_q(space.records, kept))
        sequences = space.sequences
        law = extension * np.array([mass[each[:previous]] for each in sequences])
        move = suffix_transition(space, alpha, cut_law)
        law = laws_after(move.matrix, law, moves_per_block)[-1]
    return sequences, law


def tempering_matrix(
    table: ContextTable, ladder: tuple[float, ...], cut_law: CutLaw
) -> tuple[list[Sequence], Float64[np.ndarray, "J J"], Float64[np.ndarray, " J"]]:
    """One step of parallel tempering over its joint states, and the law that it leaves invariant.

    A joint state is one sequence a rung; with M sequences and R rungs there are J = M^R, the first rung's index varying slowest.

    Args:
        table: the model.
        ladder: the exponents.
        cut_law: of the suffix moves.

    Returns:
        The M sequences, the matrix, and the product of the rungs' targets.

    Raises:
        InvalidInput: more than MAX_STATES joint states.
    """
    spaces = [sequence_space(table, alpha) for alpha in ladder]
    size = len(spaces[0].sequences)
    if size ** len(ladder) > MAX_STATES:
        raise InvalidInput(
            f"{len(ladder)} rungs on {size} sequences: {size ** len(ladder)} joint states, "
            f"at most {MAX_STATES} are enumerated; take fewer rungs or a smaller model"
        )
    matrix, invariant = np.ones((1, 1)), np.ones(1)
    for space, alpha in zip(spaces, ladder, strict=True):
        matrix = np.kron(matrix, suffix_transition(space, alpha, cut_law).matrix)
        invariant = np.kron(invariant, target_law(space, alpha))
    states = np.indices((size,) * len(ladder)).reshape(len(ladder), -1)
    for low, pair in enumerate(itertools.pairwise(ladder)):
        records = spaces[0].records
        ratio = density.swap_log_ratio(
            *pair, _rows(records, states[low]), _rows(records, states[low + 1])
        )
        accept = np.exp(np.minimum(ratio, 0.0))
        exchanged = states.copy()
        exchanged[[low, low + 1]] = states[[low + 1, low]]
        places = np.ravel_multi_index(tuple(exchanged), (size,) * len(ladder))
        swap = np.diag(1 - accept)
        swap[np.arange(len(accept)), places] += accept
        matrix = matrix @ swap
    return spaces[0].sequences, matrix, invariant


def _shared_prefixes(space: SequenceSpace) -> Iterator[tuple[int, Int64[np.ndarray, " G"]]]:
    """Each cut with each set of sequences that can propose each other there."""
    for cut in range(space.tokens.shape[1]):
        longer = np.flatnonzero(space.records.lengths > cut)
        if longer.size == 0:
            return
        _, group = np.unique(space.tokens[longer, :cut], axis=0, return_inverse=True)
        for label in range(group.max() + 1):
            yield cut, longer[group.ravel() == label]


def _rows(records: Records, rows: Int64[np.ndarray, " K"]) -> Records:
    return Records(*(np.asarray(field)[rows] for field in records))


def _with_rejections(flow: Float64[np.ndarray, "M M"]) -> Transition:
    """Put what was not accepted on the diagonal."""
    acceptance = flow.sum(axis=1)
    # Where every move is accepted the sum may round to a little above 1.
    matrix = flow + np.diag(np.maximum(1 - acceptance, 0))
    return Transition(matrix, acceptance)


def _log_choice(
    log_weights: Float64[np.ndarray, "N K"], chosen: Int64[np.ndarray, " N"]
) -> Float64[np.ndarray, " N"]:
    """Log probability of choosing a candidate in proportion to the weights; the first where all are zero."""
    dead = ~(log_weights > -np.inf).any(axis=1, keepdims=True)
    first = np.where(np.arange(log_weights.shape[1]) == 0, 0.0, -np.inf)
    alive = np.where(dead, first, log_weights)
    return alive[np.arange(chosen.size), chosen] - np.logaddexp.reduce(alive, axis=1)
