"""The graph of contexts of a homogeneous model, and the growth of sums over its sequences.

Where the contexts never run out (Markov, geometric), a sum over sequences of length T of a product of token weights grows like
rho^T, with rho the spectral radius of the matrix of weights between contexts.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable
from theory.exact.layers import ENDS
from theory.exact.semiring import log_sum_exp

# Any potentials are valid; better ones balance better. Enough steps for every dying context to die are always made.
_POTENTIAL_STEPS = 200


class ContextGraph(NamedTuple):
    """The contexts that some prefix stands in, whatever its length.

    Attributes:
        contexts: [n] ids in the table, ascending.
        log_probs: [n, V] next-token laws.
        successor: [n, V] row of the context a token leads to, or ENDS (eos, or probability 0).
        can_end: whether some context has an eos of positive probability.
    """

    contexts: Int64[np.ndarray, " n"]
    log_probs: Float64[np.ndarray, "n V"]
    successor: Int64[np.ndarray, "n V"]
    can_end: bool


class Balanced(NamedTuple):
    """Token weights between the m contexts that never die, after a diagonal similarity that keeps them in range.

    weight(i, j) = matrix(i, j) exp(log_scale + potentials(i) - potentials(j)).

    Attributes:
        rows: [m] of the graph.
        potentials: [m] natural log.
        matrix: [m, m] largest entry of order 1.
        log_scale: the factor taken out.
    """

    rows: Int64[np.ndarray, " m"]
    potentials: Float64[np.ndarray, " m"]
    matrix: Float64[np.ndarray, "m m"]
    log_scale: float


def context_graph(table: ContextTable) -> ContextGraph:
    """Close the initial context under the tokens that go on.

    Args:
        table: the model.

    Returns:
        The graph.

    Raises:
        InvalidInput: a reachable context has no law (a tree: its contexts run out, nothing grows).
    """
    goes_on = np.isfinite(table.log_probs)
    goes_on[:, list(table.eos)] = False
    reached = np.zeros(table.log_probs.shape[0], dtype=bool)
    frontier = np.array([table.initial])
    while frontier.size:
        reached[frontier] = True
        targets = table.next_context[frontier][goes_on[frontier]]
        frontier = np.unique(targets[~reached[targets]])
    contexts = np.flatnonzero(reached)
    log_probs = table.log_probs[contexts]
    with np.errstate(invalid="ignore"):
        lawful = np.abs(np.exp(log_probs).sum(axis=1) - 1) < 1e-9
    if not lawful.all():
        raise InvalidInput(
            f"context {contexts[~lawful][0]} has no law: growth with length needs a model whose contexts "
            "never run out (Markov, geometric), not a tree"
        )
    rank = np.cumsum(reached) - 1
    successor = np.where(goes_on[contexts], rank[table.next_context[contexts]], ENDS)
    can_end = bool(np.isfinite(log_probs[:, list(table.eos)]).any())
    return ContextGraph(contexts, log_probs, successor, can_end)


def balance(graph: ContextGraph, token_log_weights: Float64[np.ndarray, "n V"]) -> Balanced:
    """Weights between contexts after the similarity by their log-space Bellman potentials.

    The similarity leaves the spectral radius unchanged and keeps every entry in range: alpha = 100 is no special case.

    Args:
        graph: of the model.
        token_log_weights: [n, V] natural log; -inf where impossible.

    Returns:
        The matrix; of size 0 where every path ends.
    """
    potentials = _potentials(graph, token_log_weights)
    live = np.flatnonzero(np.isfinite(potentials))
    if not live.size:
        return Balanced(live, potentials[live], np.zeros((0, 0)), 0.0)
    following = np.append(potentials, -np.inf)[graph.successor[live]]
    logs = token_log_weights[live] + following - potentials[live][:, None]
    shift = float(logs.max())
    rank = np.full(graph.contexts.size + 1, -1)
    rank[live] = np.arange(live.size)
    columns = rank[graph.successor[live]]
    row, token = np.nonzero(columns >= 0)
    matrix = np.zeros((live.size, live.size))
    np.add.at(matrix, (row, columns[row, token]), np.exp(logs[row, token] - shift))
    return Balanced(live, potentials[live], matrix, shift)


def log_growth(graph: ContextGraph, token_log_weights: Float64[np.ndarray, "n V"]) -> float:
    """Growth per token of the sum over sequences of a product of token weights.

    Args:
        graph: of the model.
        token_log_weights: [n, V] natural log; -inf where impossible.

    Returns:
        Log spectral radius of the weights between live contexts, or 0 where that is larger and sequences can end (an ended
        sequence keeps its weight).
    """
    balanced = balance(graph, token_log_weights)
    floor = 0.0 if graph.can_end else -np.inf
    if not balanced.rows.size:
        return floor
    radius = np.abs(np.linalg.eigvals(balanced.matrix)).max()
    with np.errstate(divide="ignore"):
        return max(floor, float(np.log(radius)) + balanced.log_scale)


def _potentials(graph: ContextGraph, log_weights: np.ndarray) -> np.ndarray:
    """[n] log-space Bellman potentials; -inf for contexts from which every path ends."""
    potentials = np.zeros(graph.contexts.size)
    for _ in range(max(_POTENTIAL_STEPS, graph.contexts.size + 1)):
        following = np.append(potentials, -np.inf)[graph.successor]
        before, potentials = potentials, log_sum_exp(log_weights + following)
        if np.isneginf(potentials).all():
            break
        potentials -= potentials.max()
        # Once no further context has died in a step, none will.
        if np.allclose(potentials, before, rtol=0.0, atol=1e-14):
            break
    return potentials
