"""Addition against Python's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tasks.registry import task
from models.tasks.task import ABSTAIN, Sequences
from models.tasks.text import parse, parse_prompts, render
from theory.errors import InvalidInput

ADDITION = task("addition")


def numbers(text: str) -> tuple[int, int]:
    """The two numbers of a prompt."""
    left, right = text.removesuffix(" =").replace(" ", "").split("+")
    assert str(int(left)) == left
    assert str(int(right)) == right
    return int(left), int(right)


def completions(*texts: str) -> Sequences:
    """Rows of tokens."""
    rows = [parse(ADDITION, text) for text in texts]
    tokens = jnp.array([row + [0] * (6 - len(row)) for row in rows])
    return Sequences(tokens, jnp.array([len(row) for row in rows]))


def test_the_right_completion_is_the_sum_backwards() -> None:
    texts = ["0 + 0 =", "9 9 9 + 9 9 9 =", "5 + 9 5 =", "1 0 0 + 7 =", "9 9 0 + 1 0 ="]
    streamed = ADDITION.prompts("train", 400, seed=0)
    texts += render(ADDITION, streamed)
    prompts = parse_prompts(ADDITION, texts)
    right = ADDITION.targets(jax.random.split(jax.random.key(0), len(texts)), prompts)
    for prompt, completion in zip(texts, render(ADDITION, right), strict=True):
        backwards = " ".join(str(sum(numbers(prompt)))[::-1])
        assert completion == backwards + " <eos>"
    sums = [sum(numbers(prompt)) for prompt in texts]
    np.testing.assert_array_equal(ADDITION.answers(prompts, right), sums)
    assert ADDITION.verify(prompts, right).all()


def test_a_wrong_digit_is_wrong_from_where_it_stands() -> None:
    prompts = parse_prompts(ADDITION, ["4 0 7 + 9 6 ="] * 6)
    rows = completions(
        "3 0 5 <eos>", "4 0 5 <eos>", "3 0 5 0 <eos>", "3 0 <eos>", "5 0 3 <eos>", "3 1 5 <eos>"
    )
    np.testing.assert_array_equal(ADDITION.verify(prompts, rows), [True, *[False] * 5])
    np.testing.assert_array_equal(ADDITION.answers(prompts, rows), [503, 504, 503, 3, 305, 513])
    first_wrong = np.array([9, 0, 3, 2, 0, 1])
    for length in range(5):
        prefixes = Sequences(rows.tokens, jnp.minimum(rows.lengths, length))
        got = ADDITION.correct_so_far(prompts, prefixes)
        np.testing.assert_array_equal(got, length <= first_wrong)


def test_what_is_no_number_has_no_answer() -> None:
    prompts = parse_prompts(ADDITION, ["4 0 7 + 9 6 ="] * 4)
    rows = completions("<eos>", "3 + 5 <eos>", "3 0 5", "3 0 5 0 0 <eos>")
    np.testing.assert_array_equal(ADDITION.answers(prompts, rows), [ABSTAIN] * 4)
    assert not ADDITION.verify(prompts, rows).any()


@pytest.mark.parametrize(
    "text",
    [
        "0 7 + 1 =",
        "7 + 0 1 =",
        "+ 1 =",
        "1 + =",
        "1 2 =",
        "1 2 3 4 + 1 =",
        "1 + 1 2 3 4 =",
        "1 + 2",
    ],
)
def test_leading_zeros_and_long_or_missing_numbers_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="give the digits of a number below 1000"):
        parse_prompts(ADDITION, [text])


def test_every_pair_is_one_problem() -> None:
    indices = np.arange(60 * 61 // 2, dtype=np.uint64)
    zeros = np.zeros(len(indices), np.int64)
    pairs: list[list[tuple[int, int]]] = []
    for variant in (0, 1):
        variants = np.full(len(indices), variant, np.uint64)
        tokens, lengths = ADDITION.problems.write(zeros, indices, variants)
        rows = Sequences(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))
        pairs.append([numbers(text) for text in render(ADDITION, rows)])
    assert set(pairs[0]) == {(a, b) for a in range(60) for b in range(a + 1)}
    assert [(b, a) for a, b in pairs[0]] == pairs[1]
    assert ADDITION.problems.sizes == (1000 * 1001 // 2,)
    last = np.array([500_499, 499_500, 499_499], np.uint64)
    tokens, lengths = ADDITION.problems.write(zeros[:3], last, last * np.uint64(0))
    rows = Sequences(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))
    ends = [numbers(text) for text in render(ADDITION, rows)]
    assert ends == [(999, 999), (999, 0), (998, 998)]
