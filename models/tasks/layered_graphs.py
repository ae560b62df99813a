"""Layered graphs with dead ends, as problems of the path-finding task.

A graph has a source, three layers of three nodes and a goal. Every node of a layer has one to three parents in the layer
before (the first has the source), and the goal has one to three among all nine: every node can be reached and many lead
nowhere. A node's layer is its distance from the source, so that different problems are different graphs: 2.8 10^12 of them.
"""

import itertools
import math

import numpy as np
from jaxtyping import Int, UInt64

from models.tasks.problems import Problems, mix

NUM_NODES = 11  # node n is token 1 + n
FIRST_NODE = 1
BAR, EQUALS = 12, 13
WIDTH = 3
MOST_EDGES = 24
MAX_PROMPT_LENGTH = 2 * MOST_EDGES + 4


def layered_graphs() -> Problems:
    """All graphs; a problem's guises are the orders of its edges.

    Returns:
        Problems, written as the edges, a bar, source, goal and =.
    """
    # A problem's number in mixed radix: source, goal, layers, parents of six nodes, parents of the goal.
    partitions = _partitions()
    parents_of_goal = np.array(
        [
            [node in chosen for node in range(3 * WIDTH)]
            for size in (1, 2, 3)
            for chosen in itertools.combinations(range(3 * WIDTH), size)
        ]
    )
    radices = (NUM_NODES, NUM_NODES - 1, len(partitions), *[7] * 6, len(parents_of_goal))
    starts, ends = _possible_edges()

    def write(
        kinds: Int[np.ndarray, " B"],
        indices: UInt64[np.ndarray, " B"],
        variants: UInt64[np.ndarray, " B"],
    ) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]]:
        del kinds
        source, goal, partition, *parents, goal_parents = np.unravel_index(
            indices.astype(np.int64), radices
        )
        num_rows = len(source)
        # Places 0 source, 1 to 9 the layers, 10 goal; first the labels of what stands there.
        goal = (source + 1 + goal) % NUM_NODES
        is_free = np.ones((num_rows, NUM_NODES), bool)
        np.put_along_axis(is_free, np.stack([source, goal], axis=1), False, axis=1)
        free = np.nonzero(is_free)[1].reshape(num_rows, 3 * WIDTH)
        middle = np.take_along_axis(free, partitions[partition], axis=1)
        nodes = np.concatenate([source[:, None], middle, goal[:, None]], axis=1)
        # A node's parents are a subset of the layer before that is not empty: a number from 1 to 7 in binary.
        bits = (np.stack(parents, axis=1)[..., None] + 1) >> np.arange(WIDTH) & 1
        is_edge = np.concatenate(
            [
                np.ones((num_rows, WIDTH), bool),
                bits.reshape(num_rows, -1) == 1,
                parents_of_goal[goal_parents],
            ],
            axis=1,
        )
        noise = mix(variants[:, None] + np.arange(len(starts), dtype=np.uint64)[None])
        order = np.lexsort((noise, ~is_edge), axis=1)[:, :MOST_EDGES]
        pairs = np.stack([nodes[:, starts], nodes[:, ends]], axis=2) + FIRST_NODE
        pairs = np.take_along_axis(pairs, order[..., None], axis=1)
        num_edges = is_edge.sum(axis=1)
        rows = np.arange(num_rows)
        tokens = np.zeros((num_rows, MAX_PROMPT_LENGTH), np.int64)
        tokens[:, : 2 * MOST_EDGES] = pairs.reshape(num_rows, -1)
        tokens[np.arange(MAX_PROMPT_LENGTH) >= 2 * num_edges[:, None]] = 0
        for offset, token in enumerate((BAR, source + FIRST_NODE, goal + FIRST_NODE, EQUALS)):
            tokens[rows, 2 * num_edges + offset] = token
        return tokens, 2 * num_edges + 4

    return Problems((math.prod(radices),), write)


def _partitions() -> Int[np.ndarray, "1680 9"]:
    """Nine things in three layers of three, in all ways; within a layer in ascending order."""
    found: list[tuple[int, ...]] = []
    everything = set(range(3 * WIDTH))
    for first in itertools.combinations(sorted(everything), WIDTH):
        for second in itertools.combinations(sorted(everything - set(first)), WIDTH):
            found.append((*first, *second, *sorted(everything - set(first) - set(second))))
    return np.array(found)


def _possible_edges() -> tuple[Int[np.ndarray, " E"], Int[np.ndarray, " E"]]:
    """Places of both ends: source to the first layer, each layer to the next, all three to the goal."""
    pairs = [(0, 1 + node) for node in range(WIDTH)]
    for layer in (1, 2):
        for child in range(WIDTH):
            for parent in range(WIDTH):
                pairs.append((1 + WIDTH * (layer - 1) + parent, 1 + WIDTH * layer + child))
    pairs += [(1 + node, 1 + 3 * WIDTH) for node in range(3 * WIDTH)]
    return np.array([start for start, _ in pairs]), np.array([end for _, end in pairs])
