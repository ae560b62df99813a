"""A context table unrolled over depth: which contexts a prefix of each length can stand in.

Every exact computation runs over these layers. In a tree each context lives at one depth, so the layers together are
the table and nothing is computed twice; in a Markov model the layers soon repeat, and repeated layers are one object, so
that what depends on a layer alone is computed once.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable

ENDS = -1  # successor of a token that ends the sequence or cannot occur


class Layer(NamedTuple):
    """The n contexts that prefixes of one length can stand in.

    Attributes:
        contexts: [n] ids in the table, ascending.
        log_probs: [n, V] next-token law of each.
        successor: [n, V] row of the next layer that a token leads to, or ENDS.
        column_successor: [V] the same where it does not depend on the row (a Markov model of order 1), else None.
    """

    contexts: Int64[np.ndarray, " n"]
    log_probs: Float64[np.ndarray, "n V"]
    successor: Int64[np.ndarray, "n V"]
    column_successor: Int64[np.ndarray, " V"] | None


Layers = tuple[Layer, ...]


def unroll(table: ContextTable) -> Layers:
    """Layers of a table, one per generated token.

    The empty prefix is row 0 of layer 0. Stops early when every sequence has ended, so there may be fewer
    layers than the horizon.

    Args:
        table: the model.

    Returns:
        At most `horizon` layers; all tokens of the last one end the sequence.

    Raises:
        InvalidInput: a prefix reaches a context whose law is not normalised (a tree that runs out before the horizon).
    """
    contexts = np.array([table.initial], dtype=np.int64)
    layers: list[Layer] = []
    known: dict[bytes, tuple[Layer, np.ndarray]] = {}
    for depth in range(table.horizon):
        last = depth == table.horizon - 1
        key = contexts.tobytes()
        if last or key not in known:
            layer, following = _layer(table, contexts, depth, last)
            known[key] = layer, following
        layer, following = known[key]
        layers.append(layer)
        if following.size == 0:
            break
        contexts = following
    return tuple(layers)


def num_sequences(layers: Layers) -> float:
    """Number of sequences of positive probability.

    Args:
        layers: of a model.

    Returns:
        The count; exact below 2**53, inf above the double range.
    """
    counts: np.ndarray | None = None
    with np.errstate(over="ignore"):
        for layer in reversed(layers):
            possible = np.isfinite(layer.log_probs)
            counts = np.where(possible, continuation(layer, counts, 1.0), 0.0).sum(axis=1)
    assert counts is not None
    return float(counts[0])


def continuation(layer: Layer, following: np.ndarray | None, ended: float) -> np.ndarray:
    """What stands after each token: a value of the next layer, or the value of an ended sequence.

    Args:
        layer: of n contexts.
        following: [m] values of the next layer's rows; None after the last layer.
        ended: value of a sequence that has ended.

    Returns:
        [n, V].
    """
    if following is None:
        return np.full(layer.successor.shape, ended)
    padded = np.empty(following.size + 1)
    padded[:-1] = following
    padded[ENDS] = ended  # ENDS is the last place
    return padded[layer.successor]


def _layer(
    table: ContextTable, contexts: np.ndarray, depth: int, last: bool
) -> tuple[Layer, np.ndarray]:
    """One layer, and the contexts of the next."""
    log_probs = table.log_probs[contexts]
    with np.errstate(over="ignore", invalid="ignore"):
        bad = ~(np.abs(np.exp(log_probs).sum(axis=1) - 1.0) < 1e-9)
    if bad.any():
        raise InvalidInput(
            f"context {contexts[bad][0]} has no normalised law, but a prefix of {depth} tokens reaches it: "
            f"lower the horizon ({table.horizon}) or give its probabilities"
        )
    goes_on = np.isfinite(log_probs)
    goes_on[:, list(table.eos)] = False
    if last:
        goes_on[:] = False
    targets = table.next_context[contexts]
    following = np.unique(targets[goes_on])
    successor = np.where(goes_on, np.searchsorted(following, targets), ENDS)
    return Layer(contexts, log_probs, successor, _column_successor(successor)), following


def _column_successor(successor: np.ndarray) -> np.ndarray | None:
    """The common successor of each column, if rows agree wherever they go on."""
    column = successor.max(axis=0)
    agrees = (successor == column) | (successor == ENDS)
    return column if agrees.all() else None
