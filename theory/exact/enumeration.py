"""Every sequence of a model with its probability under several laws, streamed in blocks.

The walk is depth first over blocks of prefixes, so memory is bounded by block size times depth whatever the number of
sequences. It is the independent check on the dynamic programs, and the only way to the total variation.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32, Int64

from theory.errors import InvalidInput
from theory.exact.laws import Law, check_same_layers
from theory.exact.layers import Layer, Layers, num_sequences

MAX_SEQUENCES = 10_000_000
_BLOCK = 1 << 16


class SequenceBlock(NamedTuple):
    """m whole sequences of one length.

    Attributes:
        tokens: [m, L] the tokens, eos included where emitted.
        log_probs: [K, m] log probability under each of the K laws.
    """

    tokens: Int32[np.ndarray, "m L"]
    log_probs: Float64[np.ndarray, "K m"]


class Enumeration(NamedTuple):
    """All sequences, in lexicographic order of their tokens.

    Attributes:
        sequences: the token tuples.
        log_probs: [K, M] log probability of each under each law.
    """

    sequences: list[tuple[int, ...]]
    log_probs: Float64[np.ndarray, "K M"]


class _Frontier(NamedTuple):
    depth: int
    rows: Int64[np.ndarray, " m"]
    tokens: Int32[np.ndarray, "m depth"]
    log_probs: Float64[np.ndarray, "K m"]


def check_enumerable(layers: Layers, limit: int = MAX_SEQUENCES) -> int:
    """Number of sequences, if it is within a limit.

    Args:
        layers: of the model.
        limit: most sequences.

    Returns:
        The count.

    Raises:
        InvalidInput: more than `limit`; names the count and the mend.
    """
    count = num_sequences(layers)
    if count > limit:
        raise InvalidInput(
            f"{count:.6g} sequences: more than the {limit} that are enumerated; lower the horizon "
            f"({len(layers)}) or use the dynamic programs, which need no enumeration"
        )
    return int(count)


def sequence_blocks(laws: Sequence[Law], limit: int = MAX_SEQUENCES) -> Iterator[SequenceBlock]:
    """All sequences that the base model can emit, block by block, in no particular order.

    Args:
        laws: K >= 1 laws over the same layers.
        limit: most sequences.

    Yields:
        Blocks of sequences of one length.

    Raises:
        InvalidInput: more than `limit` sequences.
    """
    layers = laws[0].layers
    for law in laws:
        check_same_layers(laws[0], law)
    check_enumerable(layers, limit)
    start = np.zeros((1, 0), dtype=np.int32)
    stack = [_Frontier(0, np.zeros(1, dtype=np.int64), start, np.zeros((len(laws), 1)))]
    while stack:
        frontier = stack.pop()
        ended, alive = _extend(layers[frontier.depth], laws, frontier)
        if ended.tokens.size:
            yield SequenceBlock(ended.tokens, ended.log_probs)
        stack.extend(_split(alive, max(1, _BLOCK // layers[0].log_probs.shape[1])))


def enumerate_sequences(laws: Sequence[Law], limit: int = MAX_SEQUENCES) -> Enumeration:
    """All sequences in one sorted list, with their log probabilities.

    Args:
        laws: K >= 1 laws over the same layers.
        limit: most sequences.

    Returns:
        The sequences.

    Raises:
        InvalidInput: more than `limit` sequences.
    """
    sequences: list[tuple[int, ...]] = []
    parts: list[np.ndarray] = []
    for block in sequence_blocks(laws, limit):
        sequences.extend(map(tuple, block.tokens.tolist()))
        parts.append(block.log_probs)
    log_probs = np.concatenate(parts, axis=1)
    order = sorted(range(len(sequences)), key=sequences.__getitem__)
    return Enumeration([sequences[i] for i in order], log_probs[:, order])


class LivePrefix(NamedTuple):
    """A prefix that some sequence continues, and where it stands.

    Attributes:
        tokens: the prefix, possibly empty.
        depth: its length.
        row: of the layer at that depth.
    """

    tokens: tuple[int, ...]
    depth: int
    row: int


def enumerate_prefixes(layers: Layers, limit: int = MAX_SEQUENCES) -> list[LivePrefix]:
    """All prefixes of positive probability that have not ended, shortest first, in lexicographic order.

    Args:
        layers: of the model.
        limit: most sequences.

    Returns:
        The prefixes, the empty one included.

    Raises:
        InvalidInput: more than `limit` sequences.
    """
    check_enumerable(layers, limit)
    level = [LivePrefix((), 0, 0)]
    prefixes: list[LivePrefix] = []
    for depth, layer in enumerate(layers):
        prefixes += level
        going_on = np.isfinite(layer.log_probs) & (layer.successor >= 0)
        level = [
            LivePrefix((*prefix.tokens, token), depth + 1, int(layer.successor[prefix.row, token]))
            for prefix in level
            for token in np.flatnonzero(going_on[prefix.row]).tolist()
        ]
    return prefixes


def total_variation(p: Law, q: Law, limit: int = MAX_SEQUENCES) -> float:
    """TV(p, q) = sum_y |p(y) - q(y)| / 2, by enumeration.

    Args:
        p: first law.
        q: second law, over the same layers.
        limit: most sequences.

    Returns:
        A number in [0, 1].

    Raises:
        InvalidInput: more than `limit` sequences (`total_variation_bounds` needs no enumeration).
    """
    total = 0.0
    for block in sequence_blocks((p, q), limit):
        first, second = np.exp(block.log_probs)
        total += float(np.abs(first - second).sum())
    return min(1.0, total / 2)


def _extend(layer: Layer, laws: Sequence[Law], frontier: _Frontier) -> tuple[_Frontier, _Frontier]:
    """Children of a frontier: those that end and those that go on."""
    parents, tokens = np.nonzero(np.isfinite(layer.log_probs[frontier.rows]))
    rows = frontier.rows[parents]
    log_probs = np.stack(
        [
            frontier.log_probs[k, parents] + law.log_conditional(frontier.depth)[rows, tokens]
            for k, law in enumerate(laws)
        ]
    )
    following = layer.successor[rows, tokens]
    children = np.concatenate([frontier.tokens[parents], tokens[:, None].astype(np.int32)], axis=1)

    def part(mask: np.ndarray) -> _Frontier:
        return _Frontier(frontier.depth + 1, following[mask], children[mask], log_probs[:, mask])

    return part(following < 0), part(following >= 0)


def _split(frontier: _Frontier, size: int) -> Iterator[_Frontier]:
    for start in range(0, frontier.rows.size, size):
        piece = slice(start, start + size)
        yield _Frontier(
            frontier.depth,
            frontier.rows[piece],
            frontier.tokens[piece],
            frontier.log_probs[:, piece],
        )
