"""Path finding against a search in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np

from models.tasks.graph_path import num_continuations
from models.tasks.registry import task
from models.tasks.task import ABSTAIN, Sequences
from models.tasks.text import parse, parse_prompts, render
from tests.stat_asserts import assert_counts, assert_rejected

GRAPH = task("graph-path")


def read(text: str) -> tuple[set[tuple[str, str]], str, str]:
    """Edges, source and goal of a prompt."""
    edges, ends = text.removesuffix(" =").split(" | ")
    words = edges.split()
    source, goal = ends.split()
    return set(zip(words[::2], words[1::2], strict=True)), source, goal


def paths(text: str) -> list[str]:
    """All right completions of a prompt, by walking along every edge."""
    edges, source, goal = read(text)
    found: list[str] = []
    walks = [[source]]
    for _ in range(5):
        found += [" ".join([*walk[1:], "<eos>"]) for walk in walks if walk[-1] == goal]
        walks = [[*walk, end] for walk in walks for start, end in edges if start == walk[-1]]
    return found


def completions(texts: list[str]) -> Sequences:
    """Rows of tokens."""
    rows = [parse(GRAPH, text) for text in texts]
    tokens = np.zeros((len(rows), 7), np.int32)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
    return Sequences(jnp.asarray(tokens), jnp.array([len(row) for row in rows], jnp.int32))


def same_prompt(text: str, num: int) -> Sequences:
    """One prompt in several rows."""
    tokens, lengths = parse_prompts(GRAPH, [text])
    return Sequences(jnp.tile(tokens, (num, 1)), jnp.tile(lengths, num))


# With a cycle, an edge twice, a dead end, and a goal that paths may pass through.
CYCLIC = "a b b c c a b d d b a b c e d k | a d ="


def test_continuations_are_counted_as_a_search_finds_them() -> None:
    generator = np.random.default_rng(0)
    prompts, starts, expected, right = list[str](), list[str](), list[int](), list[bool]()
    for text in [CYCLIC, *render(GRAPH, GRAPH.prompts("test", 12, seed=0))]:
        found = paths(text)
        assert found
        words = [path.split() for path in found]
        begun = sorted({" ".join(path[:num]) for path in words for num in range(len(path) + 1)})
        # What searches try: a right beginning, and any node, a bar or eos behind it.
        tried = [f"{start} {word}" for start in begun for word in [*"abcdefghijk", "|", "<eos>"]]
        for start in [*begun, *(tried[i] for i in generator.integers(len(tried), size=80))]:
            prompts.append(text)
            starts.append(start)
            num = len(start.split())
            expected.append(sum(path[:num] == start.split() for path in words))
            right.append(start.strip() in found)
    rows, parsed = completions(starts), parse_prompts(GRAPH, prompts)
    np.testing.assert_array_equal(jax.jit(num_continuations)(parsed, rows), expected)
    np.testing.assert_array_equal(GRAPH.correct_so_far(parsed, rows), np.array(expected) > 0)
    np.testing.assert_array_equal(GRAPH.verify(parsed, rows), right)
    assert sum(right) > 20


def test_walks_may_turn_and_pass_the_goal_but_not_be_too_long() -> None:
    texts = ["b d <eos>", "b d b d <eos>", "b c a b d <eos>", "d <eos>", "b c <eos>", "b d b d"]
    prompts = same_prompt(CYCLIC, len(texts))
    right = [True, True, False, False, False, False]
    np.testing.assert_array_equal(GRAPH.verify(prompts, completions(texts)), right)
    assert sorted(paths(CYCLIC)) == ["b d <eos>", "b d b d <eos>"]


def test_answers_are_paths() -> None:
    texts = ["b d <eos>", "d b <eos>", "b <eos>", "k k k k <eos>", "<eos>", "b | <eos>", "b d"]
    answers = np.asarray(GRAPH.answers(same_prompt(CYCLIC, 7), completions(texts)))
    assert len(set(answers[:4].tolist())) == 4
    assert answers[0] == 2 + 16 * 4
    np.testing.assert_array_equal(answers[4:], ABSTAIN)


def test_graphs_are_layered_solvable_and_have_dead_ends() -> None:
    made = render(GRAPH, GRAPH.prompts("train", 300, seed=2))
    seen: set[tuple[object, ...]] = set()
    dead, num_paths = 0, list[int]()
    for text in made:
        edges, source, goal = read(text)
        seen.add((frozenset(edges), source, goal))
        assert len(text.split()) == 2 * len(edges) + 4
        layer, layers = {source}, list[set[str]]()
        for _ in range(3):
            layer = {end for start, end in edges if start in layer} - {goal}
            layers.append(layer)
        # The layers can be told from the graph: so a graph is one problem.
        assert [len(layer) for layer in layers] == [3, 3, 3]
        assert len(set.union(*layers, {source, goal})) == 11
        place = {node: number for number, layer in enumerate(layers) for node in layer}
        place[source] = -1
        for start, end in edges:
            assert end == goal or place[end] == place[start] + 1
            assert start != goal
        for node in "abcdefghijk":
            parents = sum(end == node for _, end in edges)
            assert parents <= 3
            assert (parents == 0) == (node == source)
        found = paths(text)
        num_paths.append(len(found))
        alive = {node for path in found for node in path.split()}
        dead += 9 - len(alive & set(place))
    assert len(seen) == 300
    assert min(num_paths) == 1
    assert max(num_paths) > 8
    # Between a third and two thirds of the nodes on the way lead nowhere.
    assert 0.2 < dead / (9 * 300) < 0.67


def test_neighbouring_numbers_are_different_graphs_in_shuffled_orders() -> None:
    size = GRAPH.problems.sizes[0]
    assert size == 11 * 10 * 1680 * 7**6 * 129
    strides = np.cumprod([1, 129, *[7] * 6, 1680, 10])
    indices = np.concatenate([np.arange(300), *[stride * np.arange(1, 7) for stride in strides]])
    indices = np.unique(np.append(indices, size - 1)).astype(np.uint64)
    zeros = np.zeros(len(indices), np.int64)
    shown: list[list[str]] = []
    for variant in (0, 1):
        tokens, lengths = GRAPH.problems.write(
            zeros, indices, np.full(len(indices), variant, np.uint64)
        )
        rows = Sequences(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))
        shown.append(render(GRAPH, rows))
    graphs = [[(frozenset(edges), s, t) for edges, s, t in map(read, texts)] for texts in shown]
    assert len(set(graphs[0])) == len(indices)
    assert graphs[0] == graphs[1]
    assert np.mean([a != b for a, b in zip(*shown, strict=True)]) > 0.95


def drawn_counts() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of each right path of one graph, the uniform law, and the law of choosing among live children evenly."""
    text, num = "a b a c b e c e c f c g e k f k g k b k | a k =", 6000
    found = paths(text)
    drawn = GRAPH.targets(jax.random.split(jax.random.key(1), num), same_prompt(text, num))
    shown = render(GRAPH, drawn)
    counts = np.array([shown.count(path) for path in found])
    assert counts.sum() == num
    walk = np.array([1 / 2 / 2 if path.startswith("b") else 1 / 2 / 3 for path in found])
    return counts, np.full(len(found), 1 / len(found)), walk


def test_right_paths_are_equally_likely_to_be_trained_on() -> None:
    counts, uniform, walk = drawn_counts()
    assert len(counts) == 5
    assert_counts(counts, uniform)
    assert_rejected(lambda: assert_counts(counts, walk))


def test_walks_that_pass_the_goal_are_trained_on_too() -> None:
    drawn = GRAPH.targets(jax.random.split(jax.random.key(4), 100), same_prompt(CYCLIC, 100))
    assert set(render(GRAPH, drawn)) == set(paths(CYCLIC))
