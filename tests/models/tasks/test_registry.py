"""Laws that every task obeys, and how tasks are named and shown."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from models.tasks.registry import TASKS, task
from models.tasks.task import ABSTAIN, PAD, Sequences, Task
from models.tasks.text import parse, parse_prompts, render
from theory.errors import InvalidInput

NUM = 64
every_task = pytest.mark.parametrize("name", TASKS)


def examples(name: str) -> tuple[Task, Sequences, Sequences]:
    """Prompts of a task and completions to train on."""
    made = task(name)
    prompts = made.prompts("train", NUM, seed=1)
    return made, prompts, made.targets(jax.random.split(jax.random.key(2), NUM), prompts)


class Verdicts(NamedTuple):
    """What a task says of completions."""

    right: Array
    correct_so_far: Array
    answers: Array


@cache
def judge_of(name: str) -> Callable[[Sequences, Sequences], Verdicts]:
    """All verdicts at once, compiled together."""
    made = task(name)

    def judge(prompts: Sequences, completions: Sequences) -> Verdicts:
        return Verdicts(
            made.verify(prompts, completions),
            made.correct_so_far(prompts, completions),
            made.answers(prompts, completions),
        )

    return jax.jit(judge)


def take(sequences: Sequences, rows: slice) -> Sequences:
    """Some of the rows."""
    return Sequences(sequences.tokens[rows], sequences.lengths[rows])


def assert_equal(actual: Sequences, expected: Sequences) -> None:
    """Equal tokens and lengths."""
    np.testing.assert_array_equal(actual.tokens, expected.tokens)
    np.testing.assert_array_equal(actual.lengths, expected.lengths)


@every_task
def test_sequences_are_padded_and_within_bounds(name: str) -> None:
    made, prompts, completions = examples(name)
    assert made.name == name
    assert made.labels[PAD] == "<pad>"
    assert made.labels[made.eos] == "<eos>"
    assert len(set(made.labels)) == len(made.labels)
    assert prompts.tokens.shape == (NUM, made.max_prompt_length)
    assert completions.tokens.shape[1] <= made.horizon
    for sequences in (prompts, completions):
        tokens, lengths = np.asarray(sequences.tokens), np.asarray(sequences.lengths)
        inside = np.arange(tokens.shape[1]) < lengths[:, None]
        np.testing.assert_array_equal(tokens != PAD, inside)
        assert tokens.max() < len(made.labels)
    ends = np.asarray(completions.tokens)[np.arange(NUM), np.asarray(completions.lengths) - 1]
    np.testing.assert_array_equal(ends, made.eos)
    assert (np.asarray(completions.tokens) == made.eos).sum() == NUM
    assert not (np.asarray(prompts.tokens) == made.eos).any()
    assert made.is_prompt(prompts).all()


@every_task
def test_no_prompt_is_on_both_sides_or_twice_in_a_pass(name: str) -> None:
    made = task(name)
    rows = [
        {tuple(row) for row in np.asarray(made.prompts(split, 200, seed=4).tokens).tolist()}
        for split in ("train", "test")
    ]
    assert len(rows[0]) == len(rows[1]) == 200
    assert not rows[0] & rows[1]


@every_task
def test_streams_and_targets_do_not_depend_on_the_batch(name: str) -> None:
    made, prompts, completions = examples(name)
    assert_equal(made.prompts("train", 5, seed=1, first=40), take(prompts, slice(40, 45)))
    keys = jax.random.split(jax.random.key(2), NUM)
    alone = made.targets(keys[40:45], take(prompts, slice(40, 45)))
    assert_equal(alone, take(completions, slice(40, 45)))


@every_task
def test_verdicts_agree_with_each_other(name: str) -> None:
    made, prompts, completions = examples(name)
    judge = judge_of(name)
    right = np.asarray(judge(prompts, completions).right)
    before = np.ones(NUM, bool)
    for length in range(made.horizon + 1):
        prefixes = Sequences(completions.tokens, jnp.minimum(completions.lengths, length))
        verdicts = judge(prompts, prefixes)
        now = np.asarray(verdicts.correct_so_far)
        # A wrong step is never mended, and nothing is wrong before the first token.
        assert not (now & ~before).any()
        assert length > 0 or now.all()
        if length < int(completions.lengths.min()):
            assert not verdicts.right.any()
            np.testing.assert_array_equal(verdicts.answers, ABSTAIN)
        before = now
    # Whole completions without a wrong step are right.
    assert not (before & ~right).any()
    assert before.any()
    assert (np.asarray(judge(prompts, completions).answers) != ABSTAIN).all()


@every_task
def test_nothing_past_a_length_is_read(name: str) -> None:
    made, prompts, completions = examples(name)
    judge = judge_of(name)
    padded_prompts = Sequences(
        jnp.pad(prompts.tokens, ((0, 0), (0, 2)), constant_values=made.eos), prompts.lengths
    )
    width = made.horizon + 3
    noise = jax.random.randint(jax.random.key(5), (NUM, width), 0, len(made.labels), jnp.int32)
    wide = jnp.pad(completions.tokens, ((0, 0), (0, width - completions.tokens.shape[1])))
    for lengths in (completions.lengths, completions.lengths - 1):
        sequences = Sequences(completions.tokens, lengths)
        kept = jnp.arange(width)[None] < lengths[:, None]
        dirty = Sequences(jnp.where(kept, wide, noise), lengths)
        expected = judge(prompts, sequences)
        jax.tree.map(np.testing.assert_array_equal, judge(padded_prompts, dirty), expected)
    cut = Sequences(completions.tokens[:, : int(lengths.max())], lengths)
    jax.tree.map(np.testing.assert_array_equal, judge(prompts, cut), expected)


@every_task
def test_nonsense_is_wrong_and_has_no_answer(name: str) -> None:
    made, prompts, completions = examples(name)
    long = jnp.pad(completions.tokens, ((0, 0), (0, 9)), constant_values=made.eos)
    judge = judge_of(name)
    with_pad = long.at[:, 0].set(PAD)
    nonsense = [
        Sequences(with_pad, completions.lengths),
        Sequences(long, completions.lengths + 1),
        Sequences(long, jnp.full(NUM, long.shape[1], jnp.int32)),
        Sequences(jnp.full_like(long, made.eos), jnp.ones(NUM, jnp.int32)),
        Sequences(long, jnp.zeros(NUM, jnp.int32)),
        Sequences(jnp.zeros((NUM, 0), jnp.int32), jnp.zeros(NUM, jnp.int32)),
    ]
    for sequences in nonsense:
        verdicts = judge(prompts, sequences)
        assert not verdicts.right.any()
        np.testing.assert_array_equal(verdicts.answers, ABSTAIN)
        # Only nothing at all is without a wrong step.
        np.testing.assert_array_equal(verdicts.correct_so_far, sequences.lengths == 0)


@every_task
def test_text_and_tokens_are_the_same(name: str) -> None:
    made, prompts, completions = examples(name)
    assert_equal(parse_prompts(made, render(made, prompts)), prompts)
    for row, text in enumerate(render(made, completions)):
        length = int(completions.lengths[row])
        assert parse(made, text) == completions.tokens[row, :length].tolist()


@every_task
def test_what_is_no_prompt_is_refused(name: str) -> None:
    made, prompts, _ = examples(name)
    text = render(made, prompts)[0]
    for wrong in ("", text + " " + text.split()[-1], text.rsplit(" ", 1)[0], text + " <eos>"):
        with pytest.raises(InvalidInput, match=f"{name}, prompt 1 .* give "):
            parse_prompts(made, [text, wrong])
    with pytest.raises(InvalidInput, match=f"{name}, token 1 .* there is no '<pad>'"):
        parse(made, text.split()[0] + " <pad>")


NO_PROMPTS = {
    "countdown-3": ["0 2 3 1 1 =", "1 + 3 1 1 =", "1 2 3 + 1 =", "1 2 3 1 1 +"],
    "countdown-4": ["1 2 3 0 1 1 =", "1 2 3 4 = 1 ="],
    "noisy-chain": [
        "3 + 4 * 2 - 1 * 0 + = =",
        "3 3 4 * 2 - 1 * 0 + 7 =",
        "3 + 4 * 2 - 1 * 0 + 7 +",
    ],
    "skill-chain": [
        "s1 s2 s3 =",
        "3 s1 =",
        "3 s1 4 =",
        "3 s1 s2 s3 s4 s5 =",
        "3 s1 s2 4",
        "3 s1 = =",
    ],
    "graph-path": [
        "a b | a a =",
        "a b a | a b =",
        "| a b =",
        "a b a | b =",
        "a b | a | =",
        "a b | a b b",
        "a | | a b =",
    ],
    "sudoku-4": [
        " ".join("123_" * 4 + "_"),
        " ".join("123=" * 4 + "="),
        " ".join("123_" * 3 + "123="),
    ],
}


@pytest.mark.parametrize("name", NO_PROMPTS)
def test_prompts_that_are_nearly_right_are_refused(name: str) -> None:
    for text in NO_PROMPTS[name]:
        with pytest.raises(InvalidInput, match="is no prompt of it"):
            parse_prompts(task(name), [text])


def test_tasks_are_found_by_name() -> None:
    assert task("countdown-3") is task("countdown-3")
    with pytest.raises(InvalidInput, match="no task 'countdwn-3', there is countdown-3"):
        task("countdwn-3")
    with pytest.raises(InvalidInput, match=r"there is .*noisy-chain, noisy-chain-biased"):
        task("zzzzzz")
