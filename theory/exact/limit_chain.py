"""The power law of an endless sequence: the Doob transform of its weight matrix.

With M = p^alpha summed over the tokens between two contexts and M h = lambda h,

    K(i, j) = M(i, j) h(j) / (lambda h(i))

is the chain that the power law's prefixes follow as the horizon grows; its stationary law is l(i) h(i), with l the left
eigenvector.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from scipy.sparse.csgraph import connected_components

from theory.errors import InvalidInput
from theory.exact.context_graph import ContextGraph, balance
from theory.exact.laws import check_alpha
from theory.exact.semiring import log_total, scaled

# 2**60 steps: enough for any spectral gap that double precision can tell from 0.
_MAX_SQUARINGS = 60


class LimitChain(NamedTuple):
    """The power law of a sequence without end, on its n recurrent contexts.

    Attributes:
        contexts: [n] ids in the table.
        log_growth: log lambda per token.
        right: [n] h, the right eigenvector, scaled so that left . right = 1.
        left: [n] the left eigenvector, summing to 1: the contexts of the prefix-power law.
        transition: [n, n] Doob transform of the weights between contexts.
        stationary: [n] its stationary law, left * right.
    """

    contexts: Int64[np.ndarray, " n"]
    log_growth: float
    right: Float64[np.ndarray, " n"]
    left: Float64[np.ndarray, " n"]
    transition: Float64[np.ndarray, "n n"]
    stationary: Float64[np.ndarray, " n"]


class _Perron(NamedTuple):
    radius: float
    right: np.ndarray
    left: np.ndarray


def limit_chain(graph: ContextGraph, alpha: float) -> LimitChain:
    """The Doob transform: the power law of an endless sequence.

    Args:
        graph: of a model whose sequences never end.
        alpha: exponent, above 0.

    Returns:
        The chain on the recurrent contexts.

    Raises:
        InvalidInput: sequences can end, or the contexts form more than one recurrent class.
    """
    check_alpha(alpha)
    if graph.can_end:
        raise InvalidInput("sequences of this model can end: there is no chain without end")
    recurrent = _recurrent_class(graph)
    balanced = balance(graph, scaled(alpha, graph.log_probs))
    inside = np.isin(balanced.rows, recurrent)
    matrix = balanced.matrix[np.ix_(inside, inside)]
    radius, right, left = _perron(matrix)
    # Undo the similarity: the balanced eigenvectors are h e^{-u} and l e^{u}.
    potentials = balanced.potentials[inside]
    transition = matrix * right[None, :] / (radius * right[:, None])
    stationary = left * right / (left @ right)
    with np.errstate(divide="ignore"):
        log_right = np.log(right) + potentials
        log_left = np.log(left) - potentials
    left_plain = np.exp(log_left - log_total(log_left))
    right_plain = np.exp(log_right - log_right.max())
    right_plain /= left_plain @ right_plain
    return LimitChain(
        graph.contexts[balanced.rows[inside]],
        float(np.log(radius)) + balanced.log_scale,
        right_plain,
        left_plain,
        transition,
        stationary,
    )


def _recurrent_class(graph: ContextGraph) -> np.ndarray:
    """Rows of the one strongly connected class with a cycle."""
    row, token = np.nonzero(graph.successor >= 0)
    adjacency = np.zeros((graph.contexts.size, graph.contexts.size), dtype=bool)
    adjacency[row, graph.successor[row, token]] = True
    num_classes, label = connected_components(adjacency, directed=True, connection="strong")
    has_cycle = [
        np.flatnonzero(label == k)
        for k in range(num_classes)
        if adjacency[np.ix_(label == k, label == k)].any()
    ]
    if len(has_cycle) != 1:
        raise InvalidInput(
            f"{len(has_cycle)} recurrent classes of contexts: the limit chain needs exactly one"
        )
    return has_cycle[0]


def _perron(matrix: np.ndarray) -> _Perron:
    """Radius, right and left eigenvector of an irreducible non-negative matrix, each entry to relative precision.

    Repeated squaring of matrix + c 1 (the shift makes it aperiodic) only adds and multiplies non-negative numbers, so small
    entries keep their digits, which an eigenvalue routine would lose. Stops when the Collatz-Wielandt bounds meet.
    """
    power = matrix + matrix.sum(axis=1).mean() * np.eye(matrix.shape[0])
    right, left = power.sum(axis=1), power.sum(axis=0)
    for _ in range(_MAX_SQUARINGS):
        if _is_eigenvector(matrix, right) and _is_eigenvector(matrix.T, left):
            break
        power = power @ power
        power /= power.max()
        right, left = power.sum(axis=1), power.sum(axis=0)
    return _Perron(float(left @ matrix @ right / (left @ right)), right, left)


def _is_eigenvector(matrix: np.ndarray, vector: np.ndarray) -> bool:
    """Whether the Collatz-Wielandt bounds on the radius meet; entries that underflowed are left out."""
    kept = vector > 0
    ratios = (matrix @ vector)[kept] / vector[kept]
    return bool(ratios.max() - ratios.min() <= 1e-13 * ratios.max())
