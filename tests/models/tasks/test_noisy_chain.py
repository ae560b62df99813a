"""The noisy chain: its law in closed form against sums over every error."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tasks.noisy_chain import BIASED_NOISE, UNIFORM_NOISE, right_completions
from models.tasks.noisy_chain_laws import (
    answer_law,
    error_laws,
    majority_at_infinity,
    pass_at_k,
)
from models.tasks.registry import task
from models.tasks.task import ABSTAIN, Sequences
from models.tasks.text import parse, parse_prompts, render
from tests.stat_asserts import assert_counts, assert_rejected

CHAIN = task("noisy-chain")
OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
EMPTY = Sequences(jnp.zeros((1, 0), jnp.int32), jnp.zeros(1, jnp.int32))
# Asymmetric and different at every value.
NOISE = tuple((np.array([30, 1, 2, 3, 4, 5, 6, 7, 8, 9]) / 75).tolist())


def results(words: Sequence[str], errors: tuple[int, ...]) -> list[int]:
    """Running results of a prompt with an error added to each."""
    value, written = int(words[0]), list[int]()
    for step, error in enumerate(errors):
        value = (OPERATIONS[words[1 + 2 * step]](value, int(words[2 + 2 * step])) + error) % 10
        written.append(value)
    return written


def test_the_right_completion_is_the_arithmetic() -> None:
    prompts = CHAIN.prompts("test", 100, seed=0)
    shown = render(CHAIN, right_completions(prompts))
    for prompt, completion in zip(render(CHAIN, prompts), shown, strict=True):
        written = results(prompt.split(), (0,) * 5)
        assert completion == " ".join(map(str, [*written, written[-1]])) + " <eos>"
    completions = right_completions(prompts)
    assert CHAIN.verify(prompts, completions).all()
    assert CHAIN.correct_so_far(prompts, completions).all()


def test_only_the_answer_is_verified_and_every_step_is_checked() -> None:
    prompts = parse_prompts(CHAIN, ["3 + 4 * 2 - 1 * 0 + 7 ="] * 6)
    texts = [
        "7 4 3 0 7 7 <eos>",
        "8 6 5 0 7 7 <eos>",
        "7 4 3 0 7 8 <eos>",
        "7 4 3 0 8 7 <eos>",
        "7 + 3 0 7 7 <eos>",
        "7 4 3 0 7 7 7",
    ]
    completions = Sequences(
        jnp.array([parse(CHAIN, text) for text in texts]), jnp.full(6, 7, jnp.int32)
    )
    right = [True, True, False, True, False, False]
    np.testing.assert_array_equal(CHAIN.verify(prompts, completions), right)
    np.testing.assert_array_equal(
        CHAIN.answers(prompts, completions), [7, 7, 8, 7, ABSTAIN, ABSTAIN]
    )
    correct = [True, False, False, False, False, False]
    np.testing.assert_array_equal(CHAIN.correct_so_far(prompts, completions), correct)


@pytest.mark.parametrize("prefix", ["", "8", "7 4 3 0 9"])
def test_the_law_of_the_answer_is_the_sum_over_all_errors(prefix: str) -> None:
    text = "3 + 4 * 2 - 1 * 4 + 7 ="
    given = [int(word) for word in prefix.split()]
    expected = np.zeros(10)
    for errors in itertools.product(range(10), repeat=5):
        written = results(text.split(), errors)
        if written[: len(given)] == given:
            expected[written[-1]] += np.prod([NOISE[error] for error in errors[len(given) :]])
    tokens = jnp.array([parse(CHAIN, prefix)], jnp.int32).reshape(1, -1)
    prefixes = Sequences(tokens, jnp.array([len(given)]))
    law = answer_law(NOISE, parse_prompts(CHAIN, [text]), prefixes)
    np.testing.assert_allclose(law[0], expected, rtol=1e-12)


def test_the_law_of_the_error_depends_on_the_multipliers_alone() -> None:
    laws = error_laws(NOISE)
    assert laws.probabilities.sum() == pytest.approx(1, abs=1e-12)
    prompts = CHAIN.prompts("train", 300, seed=2)
    lengths = jnp.zeros(300, jnp.int32)
    law = answer_law(NOISE, prompts, Sequences(jnp.zeros((300, 0), jnp.int32), lengths))
    truth = np.asarray(CHAIN.answers(prompts, right_completions(prompts)))
    for row, text in enumerate(render(CHAIN, prompts)):
        words = text.split()
        kind = 0
        for operator, number in zip(words[1:-1:2], words[2:-1:2], strict=True):
            kind = 10 * kind + (int(number) if operator == "*" else 1)
        shifted = np.roll(law[row], -truth[row])
        np.testing.assert_allclose(laws.errors[kind], shifted, rtol=1e-12)


def test_every_kind_of_prompt_has_its_share() -> None:
    # One step by hand: 9 of 30 choices of operator and digit multiply by something other than 1.
    laws = error_laws(NOISE)
    shares = laws.probabilities.reshape((10,) * 5)
    step = shares.sum(axis=(1, 2, 3, 4))
    expected = np.full(10, 1 / 30)
    expected[1] = 21 / 30
    np.testing.assert_allclose(step, expected, rtol=1e-12)
    np.testing.assert_allclose(
        shares,
        np.multiply.outer(
            np.multiply.outer(
                np.multiply.outer(expected, expected), np.multiply.outer(expected, expected)
            ),
            expected,
        ),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("noise", "pass_at_1", "majority", "pass_at_32"),
    [(UNIFORM_NOISE, 0.516, 1.0, 1.0), (BIASED_NOISE, 0.088, 0.051, 0.660)],
)
def test_votes_mend_uniform_errors_and_not_biased_ones(
    noise: tuple[float, ...], pass_at_1: float, majority: float, pass_at_32: float
) -> None:
    laws = error_laws(noise)
    assert pass_at_k(laws, 1) == pytest.approx(pass_at_1, abs=5e-4)
    assert majority_at_infinity(laws) == pytest.approx(majority, abs=5e-4)
    assert pass_at_k(laws, 32) == pytest.approx(pass_at_32, abs=5e-4)
    # pass@1 is linear in the law: the chain of the average step gives it too.
    step = np.zeros((10, 10))
    for digit, error, drawn in itertools.product(range(10), range(10), range(10)):
        share = 21 / 30 if digit == 1 else 1 / 30
        step[error, (digit * error + drawn) % 10] += share * noise[drawn]
    linear = np.linalg.matrix_power(step, 5)[0, 0]
    assert pass_at_k(laws, 1) == pytest.approx(linear, rel=1e-12)


def test_ties_share_a_vote_evenly() -> None:
    even = error_laws((0.5, 0.5, *[0.0] * 8))
    kinds = even.errors[:, [0]] >= even.errors - 1e-12
    first = kinds.all(axis=1)
    winners = (even.errors > even.errors.max(axis=1, keepdims=True) - 1e-12).sum(axis=1)
    expected = (even.probabilities[first] / winners[first]).sum()
    assert majority_at_infinity(even) == pytest.approx(expected, rel=1e-12)
    assert (winners[first] > 1).any()


def error_counts(name: str) -> np.ndarray:
    """How often each error is drawn, at the first and the last step of one prompt that only adds."""
    num = 30_000
    prompts = parse_prompts(CHAIN, ["3 + 4 + 2 - 1 - 4 + 7 ="])
    prompts = Sequences(jnp.tile(prompts.tokens, (num, 1)), jnp.tile(prompts.lengths, num))
    drawn = task(name).targets(jax.random.split(jax.random.key(0), num), prompts)
    digits = np.asarray(drawn.tokens) - 1
    np.testing.assert_array_equal(digits[:, 4], digits[:, 5])
    errors = np.concatenate([digits[:, 0] - 7, digits[:, 4] - digits[:, 3] - 7]) % 10
    # Errors of different steps are independent.
    assert abs(np.corrcoef(*errors.reshape(2, num) > 0)[0, 1]) < 0.05
    return np.bincount(errors, minlength=10)


@pytest.mark.parametrize(
    ("name", "noise"), [("noisy-chain", UNIFORM_NOISE), ("noisy-chain-biased", BIASED_NOISE)]
)
def test_errors_are_drawn_from_their_law(name: str, noise: tuple[float, ...]) -> None:
    counts = error_counts(name)
    assert_counts(counts, np.array(noise))
    # The twin draws the wrong result from all ten digits, the right one among them.
    diluted = 0.9 * np.array(noise) + 0.1 * (np.arange(10) == 0)
    assert_rejected(lambda: assert_counts(counts, diluted))
