"""Countdown against a reading of its rules in plain Python."""

import itertools
from collections import Counter
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tasks.countdown import Expressions, expressions
from models.tasks.registry import task
from models.tasks.task import ABSTAIN, Sequences, tokens_at_width
from models.tasks.text import parse, parse_prompts, render
from tests.stat_asserts import assert_counts, assert_rejected

COUNTDOWN = task("countdown-3")


def amount(words: Sequence[str]) -> int | None:
    """What an expression amounts to, worked out word by word; None if it is none."""
    if len(words) % 2 or words[-1] != "<eos>" or not all(w in "123456789" for w in words[:-1:2]):
        return None
    value = int(words[0])
    for operator, number in zip(words[1:-1:2], words[2::2], strict=True):
        if operator not in ("+", "-", "*"):
            return None
        value = {"+": value + int(number), "-": value - int(number), "*": value * int(number)}[
            operator
        ]
    return value


def is_right(prompt: str, completion: str, num_numbers: int) -> bool:
    """The rules of the game."""
    given, words = prompt.split(), completion.split()
    target = 10 * int(given[num_numbers]) + int(given[num_numbers + 1])
    value = amount(words) if len(words) == 2 * num_numbers else None
    return value == target and Counter(words[::2]) == Counter(given[:num_numbers])


def same_prompt(text: str, num: int) -> Sequences:
    """One prompt in several rows."""
    tokens, lengths = parse_prompts(COUNTDOWN, [text])
    return Sequences(jnp.repeat(tokens, num, axis=0), jnp.repeat(lengths, num))


def all_expressions(text: str) -> Expressions:
    """Every well-formed completion of a prompt of three numbers."""
    return jax.jit(expressions, static_argnums=0)(3, parse_prompts(COUNTDOWN, [text]))


@pytest.mark.parametrize("name", ["countdown-3", "countdown-4"])
def test_verdicts_are_the_rules_of_the_game(name: str) -> None:
    made, num_numbers = task(name), int(name[-1])
    prompts = made.prompts("test", 150, seed=0)
    completions = made.targets(jax.random.split(jax.random.key(0), 150), prompts)
    generator = np.random.default_rng(0)
    tokens = np.asarray(completions.tokens).copy()
    # A third stays right, a third has a token replaced, a third has two tokens exchanged.
    for row in range(50, 100):
        tokens[row, generator.integers(tokens.shape[1])] = generator.integers(1, 16)
    for row in range(100, 150):
        a, b = 2 * generator.integers(num_numbers, size=2)
        tokens[row, [a, b]] = tokens[row, [b, a]]
    completions = Sequences(jnp.asarray(tokens), completions.lengths)
    texts = list(zip(render(made, prompts), render(made, completions), strict=True))
    right = [is_right(prompt, completion, num_numbers) for prompt, completion in texts]
    assert 50 < sum(right) < 140
    np.testing.assert_array_equal(made.verify(prompts, completions), right)
    values = [amount(completion.split()) for _, completion in texts]
    np.testing.assert_array_equal(
        made.answers(prompts, completions), [ABSTAIN if v is None else v for v in values]
    )


@pytest.mark.parametrize("text", ["2 3 4 2 4 =", "3 3 1 0 7 ="])
def test_other_numbers_that_amount_to_the_target_are_wrong(text: str) -> None:
    # All 6561 expressions of three digits.
    parts = itertools.product("123456789", "+-*", "123456789", "+-*", "123456789")
    texts = [" ".join([*words, "<eos>"]) for words in parts]
    tokens = jnp.array([parse(COUNTDOWN, words) for words in texts])
    completions = Sequences(tokens, jnp.full(len(texts), 6, jnp.int32))
    prompts = same_prompt(text, len(texts))
    target = int(text.split()[3] + text.split()[4])
    reached = np.asarray(COUNTDOWN.answers(prompts, completions)) == target
    right = np.array([is_right(text, words, 3) for words in texts])
    assert 0 < right.sum() < reached.sum() / 2
    np.testing.assert_array_equal(COUNTDOWN.verify(prompts, completions), right)
    np.testing.assert_array_equal(COUNTDOWN.correct_so_far(prompts, completions), right)


def test_operations_go_from_left_to_right() -> None:
    prompts = same_prompt("2 3 4 2 0 =", 3)
    texts = ["2 + 3 * 4 <eos>", "3 * 4 + 2 <eos>", "4 * 2 + 3 <eos>"]
    completions = Sequences(
        jnp.array([parse(COUNTDOWN, text) for text in texts]), jnp.full(3, 6, jnp.int32)
    )
    np.testing.assert_array_equal(COUNTDOWN.answers(prompts, completions), [20, 14, 11])
    np.testing.assert_array_equal(COUNTDOWN.verify(prompts, completions), [True, False, False])


@pytest.mark.parametrize(
    ("text", "num_different"), [("2 7 5 1 9 =", 54), ("5 3 5 2 0 =", 27), ("4 4 4 1 2 =", 9)]
)
def test_every_well_formed_completion_is_listed(text: str, num_different: int) -> None:
    found = all_expressions(text)
    assert found.tokens.shape == (1, 54, 6)
    listed = Counter(render(COUNTDOWN, Sequences(found.tokens[0], jnp.full(54, 6, jnp.int32))))
    numbers = text.split()[:3]
    expected = {
        f"{a} {o} {b} {p} {c} <eos>"
        for a, b, c in itertools.permutations(numbers)
        for o in "+-*"
        for p in "+-*"
    }
    assert set(listed) == expected
    assert len(expected) == num_different == int(found.is_first.sum())
    assert set(listed.values()) == {54 // num_different}
    first = Sequences(found.tokens[0][found.is_first[0]], jnp.full(num_different, 6, jnp.int32))
    assert set(render(COUNTDOWN, first)) == expected
    for words, value, right in zip(
        np.asarray(found.tokens[0]), found.values[0].tolist(), found.is_right[0], strict=True
    ):
        completion = " ".join(COUNTDOWN.labels[token] for token in words)
        assert value == amount(completion.split())
        assert bool(right) == is_right(text, completion, 3)


def test_four_numbers_have_648_completions() -> None:
    prompts = parse_prompts(task("countdown-4"), ["1 2 3 4 2 4 ="])
    found = jax.jit(expressions, static_argnums=0)(4, prompts)
    assert found.tokens.shape == (1, 648, 8)
    assert int(found.is_first.sum()) == 648


def test_a_prefix_is_correct_while_a_right_expression_begins_with_it() -> None:
    text = "2 3 4 2 0 ="
    found = all_expressions(text)
    right = np.asarray(found.tokens[0][found.is_right[0]])
    generator = np.random.default_rng(1)
    rows = np.concatenate([np.asarray(found.tokens[0]), generator.integers(1, 16, (54, 6))])
    for length in range(7):
        expected = (rows[:, None, :length] == right[None, :, :length]).all(axis=-1).any(axis=-1)
        prefixes = Sequences(jnp.asarray(rows, jnp.int32), jnp.full(len(rows), length, jnp.int32))
        got = COUNTDOWN.correct_so_far(same_prompt(text, len(rows)), prefixes)
        np.testing.assert_array_equal(got, expected)


def test_problems_are_what_can_be_reached_and_no_order_of_numbers_crosses_sides() -> None:
    reachable = {
        (*numbers, value)
        for numbers in itertools.combinations_with_replacement(range(1, 10), 3)
        for order in itertools.permutations(map(str, numbers))
        for operators in itertools.product("+-*", repeat=2)
        if (value := amount([order[0], operators[0], order[1], operators[1], order[2], "<eos>"]))
        is not None
        and 0 <= value < 100
    }
    sides: list[set[tuple[int, ...]]] = []
    for prompts in (
        COUNTDOWN.prompts("train", 3000, seed=7),
        COUNTDOWN.prompts("test", 600, seed=7),
    ):
        tokens = np.asarray(prompts.tokens) - 1
        # Two passes and more: orders of the numbers vary, the problems do not.
        sides.append({(*sorted(row[:3]), 10 * row[3] + row[4]) for row in tokens.tolist()})
        assert (np.diff(tokens[:, :3]) < 0).any(axis=1).mean() > 0.5
    assert not sides[0] & sides[1]
    assert sides[0] | sides[1] == reachable


def chosen_counts(biased: bool) -> tuple[np.ndarray, int]:
    """How often each right expression of one prompt is drawn; biased: the next right one after a uniform place."""
    text, num = "1 2 3 0 6 =", 4000
    found = all_expressions(text)
    right = np.flatnonzero(np.asarray(found.is_right[0]))
    if biased:
        places = np.random.default_rng(0).integers(0, 54, num)
        return np.bincount(np.searchsorted(right, places) % len(right)), len(right)
    drawn = COUNTDOWN.targets(jax.random.split(jax.random.key(3), num), same_prompt(text, num))
    matches = (drawn.tokens[:, None] == found.tokens[0][right][None]).all(axis=-1)
    assert (matches.sum(axis=1) == 1).all()
    return np.asarray(matches.sum(axis=0)), len(right)


def test_right_expressions_are_equally_likely_to_be_trained_on() -> None:
    counts, num_right = chosen_counts(biased=False)
    assert num_right > 3
    law = np.full(num_right, 1 / num_right)
    assert_counts(counts, law)
    assert_rejected(lambda: assert_counts(chosen_counts(biased=True)[0], law))


def test_tokens_at_a_width_are_cut_and_padded() -> None:
    rows = Sequences(jnp.array([[1, 2, 3], [4, 5, 6]]), jnp.array([3, 1]))
    np.testing.assert_array_equal(tokens_at_width(rows, 2), [[1, 2], [4, 0]])
    np.testing.assert_array_equal(tokens_at_width(rows, 4), [[1, 2, 3, 0], [4, 0, 0, 0]])
