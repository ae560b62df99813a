"""The law behind a noisy chain's data, by writing down every way in which its steps can go wrong."""

import itertools

import numpy as np

from experiments.pretraining.evaluation import chain_truth
from models.tasks.arithmetic_tokens import MINUS, PLUS
from models.tasks.noisy_chain import BIASED_NOISE
from models.tasks.registry import task

TASK = task("noisy-chain-biased")


def answer(tokens: list[int], errors: tuple[int, ...]) -> int:
    """What a prompt comes to when each step adds its error."""
    value = tokens[0] - 1
    for operator, digit, error in zip(tokens[1:-1:2], tokens[2:-1:2], errors, strict=True):
        right = digit - 1
        if operator == PLUS:
            value += right
        elif operator == MINUS:
            value -= right
        else:
            value *= right
        value = (value + error) % 10
    return value


def test_law_of_the_data_is_a_sum_over_all_errors() -> None:
    prompts = TASK.prompts("test", 40, 0)
    right, votes = chain_truth(BIASED_NOISE, prompts)
    for row, tokens in enumerate(np.asarray(prompts.tokens).tolist()):
        law = np.zeros(10)
        for errors in itertools.product((0, 1), repeat=5):
            law[answer(tokens, errors)] += np.prod([BIASED_NOISE[error] for error in errors])
        correct = answer(tokens, (0,) * 5)
        top = np.isclose(law, law.max(), rtol=0, atol=1e-10)
        np.testing.assert_allclose(right[row], law[correct], atol=1e-12)
        np.testing.assert_allclose(votes[row], top[correct] / top.sum(), atol=1e-12)
    assert 0 < votes.mean() < right.mean() < 0.3


def test_without_noise_it_is_always_right() -> None:
    right, votes = chain_truth((1.0, *[0.0] * 9), TASK.prompts("test", 16, 0))
    np.testing.assert_array_equal(right, 1)
    np.testing.assert_array_equal(votes, 1)
