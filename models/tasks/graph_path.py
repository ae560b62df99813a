"""Find a path from a source to a goal in a directed graph with dead ends.

Prompt `a b c d .. | s t =`: the edges a -> b, c -> d, .. in any order, then source and goal. Completion: the nodes after the source,
up to the goal, and eos, in at most four steps. Any path is right. The number of right completions that begin with a prefix is exact,
by dynamic programming over nodes and steps left.

The graphs of the stream are layered (`models.tasks.layered_graphs`); a prompt may describe any graph of eleven nodes, cycles
included, and paths are then walks. The law to train on is uniform over the right paths.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key

from models.tasks.layered_graphs import (
    BAR,
    EQUALS,
    FIRST_NODE,
    MAX_PROMPT_LENGTH,
    MOST_EDGES,
    NUM_NODES,
    layered_graphs,
)
from models.tasks.task import ABSTAIN, PAD, Sequences, Task, tokens_at_width

EOS = 14
LABELS = ("<pad>", *"abcdefghijk", "|", "=", "<eos>")
MOST_STEPS = 4
HORIZON = MOST_STEPS + 1


class Graphs(NamedTuple):
    """What B prompts say.

    Attributes:
        edges: [B, n, n] whether there is an edge from one node to another.
        sources: [B].
        goals: [B].
    """

    edges: Bool[Array, "B n n"]
    sources: Int32[Array, " B"]
    goals: Int32[Array, " B"]


def graph_path() -> Task:
    """Make the task.

    Returns:
        The task.
    """
    return Task(
        name="graph-path",
        labels=LABELS,
        eos=EOS,
        max_prompt_length=MAX_PROMPT_LENGTH,
        horizon=HORIZON,
        prompt_form=f"1 to {MOST_EDGES} edges of two nodes each, |, source, another node as goal, =",
        problems=layered_graphs(),
        is_prompt=jax.jit(is_prompt),
        targets=jax.jit(targets),
        verify=jax.jit(verify),
        correct_so_far=jax.jit(correct_so_far),
        answers=jax.jit(answers),
    )


def is_prompt(prompts: Sequences) -> Bool[Array, " B"]:
    """Whether each prompt is edges, |, a source, another node as goal, and =; the goal need not be reachable.

    Args:
        prompts: of B rows.

    Returns:
        [B].
    """
    tokens = tokens_at_width(prompts, MAX_PROMPT_LENGTH)
    position, left = jnp.arange(MAX_PROMPT_LENGTH)[None], prompts.lengths[:, None]
    left = left - position  # tokens from here to the end
    fits = jnp.where(
        left == 4, tokens == BAR, jnp.where(left == 1, tokens == EQUALS, _is_node(tokens))
    )
    graphs = read_graphs(prompts)
    return (
        (fits | (left <= 0)).all(axis=-1)
        & (prompts.lengths >= 6)
        & (prompts.lengths <= MAX_PROMPT_LENGTH)
        & (prompts.lengths % 2 == 0)
        & (graphs.sources != graphs.goals)
    )


def read_graphs(prompts: Sequences) -> Graphs:
    """The graphs that prompts describe.

    Args:
        prompts: of B rows.

    Returns:
        B graphs.
    """
    tokens = tokens_at_width(prompts, MAX_PROMPT_LENGTH)
    pairs = tokens[:, : 2 * MOST_EDGES].reshape(-1, MOST_EDGES, 2) - FIRST_NODE
    is_edge = 2 * jnp.arange(MOST_EDGES)[None] + 4 < prompts.lengths[:, None]
    ends = jax.nn.one_hot(jnp.where(is_edge[..., None], pairs, -1), NUM_NODES, dtype=jnp.int32)
    edges = jnp.einsum("beu,bev->buv", ends[:, :, 0], ends[:, :, 1]) > 0
    place = jnp.maximum(prompts.lengths[:, None] - jnp.array([[3, 2]]), 0)
    named = jnp.take_along_axis(tokens, place, axis=-1) - FIRST_NODE
    return Graphs(edges, named[:, 0], named[:, 1])


def num_paths(graphs: Graphs) -> Int32[Array, "S B n"]:
    """How many paths lead from each node to the goal.

    Args:
        graphs: of B rows.

    Returns:
        [5, B, n] paths of at most 0, 1, .., 4 steps; the path of no steps, from the goal to itself, is one.
    """
    is_goal = jax.nn.one_hot(graphs.goals, NUM_NODES, dtype=jnp.int32)
    edges = graphs.edges.astype(jnp.int32)
    counts = [is_goal]
    for _ in range(MOST_STEPS):
        counts.append(is_goal + jnp.einsum("buv,bv->bu", edges, counts[-1]))
    return jnp.stack(counts)


def num_continuations(prompts: Sequences, prefixes: Sequences) -> Int32[Array, " B"]:
    """How many right completions begin with each prefix.

    Args:
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B] exact; 0 after a wrong step, in a dead end, and where too few steps are left.
    """
    graphs = read_graphs(prompts)
    tokens = tokens_at_width(prefixes, HORIZON)
    counts = num_paths(graphs)
    node, lives = graphs.sources, prefixes.lengths <= HORIZON
    ended = jnp.zeros_like(lives)
    steps = jnp.zeros_like(node)
    for position in range(HORIZON):
        is_there = position < prefixes.lengths
        token = tokens[:, position]
        follows = _is_node(token) & _edge(graphs, node, token - FIRST_NODE)
        stops = (token == EOS) & (node == graphs.goals)
        lives = lives & (~is_there | (~ended & (follows | stops)))
        ended = ended | (is_there & stops)
        moves = is_there & follows
        node = jnp.where(moves, token - FIRST_NODE, node)
        steps = steps + moves.astype(jnp.int32)
    rows = jnp.arange(len(node))
    # The source is never the goal, and only a fifth step, which no path has, would leave none.
    paths = counts[jnp.maximum(MOST_STEPS - steps, 0), rows, node]
    return jnp.where(lives & (steps <= MOST_STEPS), jnp.where(ended, 1, paths), 0)


def targets(keys: Key[Array, " B"], prompts: Sequences) -> Sequences:
    """Draw a right path for each prompt, all of them equally likely.

    A path has a rank among the right ones, and the counts of what each step leaves find it.

    Args:
        keys: [B] consumed.
        prompts: of B rows, with goals that can be reached.

    Returns:
        [B, 5] completions.
    """
    graphs = read_graphs(prompts)
    counts = num_paths(graphs)
    rows = jnp.arange(len(graphs.goals))
    node, ended = graphs.sources, jnp.zeros(len(rows), bool)
    rank = jax.vmap(lambda key, num: jax.random.randint(key, (), 0, num))(
        keys, counts[MOST_STEPS, rows, node]
    )
    written: list[Array] = []
    for steps_left in range(MOST_STEPS, -1, -1):
        at_goal = node == graphs.goals
        # Rank 0 at the goal is to stop there.
        stops = at_goal & (rank == 0) & ~ended
        rank = jnp.where(at_goal, rank - 1, rank)
        after = jnp.where(graphs.edges[rows, node], counts[max(steps_left - 1, 0)], 0)
        up_to = jnp.cumsum(after, axis=-1)
        child = jnp.argmax(up_to > rank[:, None], axis=-1).astype(jnp.int32)
        rank = rank - (up_to[rows, child] - after[rows, child])
        token = jnp.where(stops, EOS, FIRST_NODE + child)
        written.append(jnp.where(ended, PAD, token))
        node, ended = child, ended | stops
    tokens = jnp.stack(written, axis=-1)
    return Sequences(tokens, (tokens != PAD).sum(axis=-1, dtype=jnp.int32))


def verify(prompts: Sequences, completions: Sequences) -> Bool[Array, " B"]:
    """Whether each completion follows edges from the source to the goal and ends.

    Args:
        prompts: of B rows.
        completions: of the same rows.

    Returns:
        [B].
    """
    last = jnp.clip(completions.lengths[:, None] - 1, 0, HORIZON - 1)
    ends = jnp.take_along_axis(tokens_at_width(completions, HORIZON), last, axis=-1)[:, 0] == EOS
    return ends & correct_so_far(prompts, completions)


def correct_so_far(prompts: Sequences, prefixes: Sequences) -> Bool[Array, " B"]:
    """Whether each prefix follows edges and can still reach the goal in time: false in a dead end.

    Args:
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B].
    """
    return num_continuations(prompts, prefixes) > 0


def answers(prompts: Sequences, completions: Sequences) -> Int32[Array, " B"]:
    """The path that each completion gives, existing or not, as one number: base 16, a digit a node.

    Args:
        prompts: not looked at.
        completions: of B rows.

    Returns:
        [B] a number; ABSTAIN unless there are one to four nodes and eos.
    """
    del prompts
    tokens = tokens_at_width(completions, HORIZON)
    position, last = jnp.arange(HORIZON)[None], completions.lengths[:, None] - 1
    fits = jnp.where(position < last, _is_node(tokens), (tokens == EOS) | (position > last))
    code = jnp.where(position < last, tokens * 16 ** jnp.arange(HORIZON)[None], 0).sum(axis=-1)
    has_room = (completions.lengths >= 2) & (completions.lengths <= HORIZON)
    return jnp.where(fits.all(axis=-1) & has_room, code, ABSTAIN)


def _is_node(tokens: Int32[Array, "*batch"]) -> Bool[Array, "*batch"]:
    return (tokens >= FIRST_NODE) & (tokens < FIRST_NODE + NUM_NODES)


def _edge(graphs: Graphs, start: Int32[Array, " B"], end: Int32[Array, " B"]) -> Bool[Array, " B"]:
    return graphs.edges[jnp.arange(len(start)), start, jnp.clip(end, 0, NUM_NODES - 1)]
