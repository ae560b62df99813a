"""Masses of right completions against products of conditionals, on a table of order two."""

import itertools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.constructors import order_k_markov_table
from models.tabular.context_model import ContextModel
from models.tasks.exact_masses import countdown_masses, sequence_log_probs
from models.tasks.registry import task
from models.tasks.task import Sequences
from models.tasks.text import parse_prompts, render

COUNTDOWN = task("countdown-3")
PROMPTS = ["2 7 5 1 9 =", "5 3 5 2 0 =", "4 4 4 1 2 ="]


def random_laws() -> Mapping[tuple[int, ...], np.ndarray]:
    """A law for every pair of tokens, and for fewer at the start."""
    generator = np.random.default_rng(0)
    vocabulary = range(len(COUNTDOWN.labels))
    contexts = [
        prefix
        for length in range(3)
        for prefix in itertools.product(vocabulary, repeat=length)
        if COUNTDOWN.eos not in prefix
    ]
    return {prefix: generator.dirichlet(np.ones(16)) for prefix in contexts}


LAWS = random_laws()
# The horizon of the table counts the prompt too.
MODEL = ContextModel.from_table(order_k_markov_table(LAWS, 2, 16, (COUNTDOWN.eos,), 12))


def probability(prompt: list[int], completion: list[int]) -> float:
    """Product of the conditionals."""
    whole = prompt + completion
    places = range(len(prompt), len(whole))
    return float(np.prod([LAWS[tuple(whole[i - 2 : i])][whole[i]] for i in places]))


def test_pass_at_1_is_the_sum_over_right_completions() -> None:
    prompts = parse_prompts(COUNTDOWN, PROMPTS)
    masses = jax.jit(countdown_masses, static_argnums=1)(MODEL, 3, prompts)
    for row, prompt in enumerate(np.asarray(prompts.tokens).tolist()):
        listed = np.unique(np.asarray(masses.tokens[row]), axis=0)
        completions = Sequences(
            jnp.asarray(listed), jnp.full(len(listed), listed.shape[1], jnp.int32)
        )
        same = Sequences(
            jnp.repeat(prompts.tokens[row : row + 1], len(listed), axis=0),
            jnp.repeat(prompts.lengths[row : row + 1], len(listed)),
        )
        each = np.array([probability(prompt, words) for words in listed.tolist()])
        right = np.asarray(COUNTDOWN.verify(same, completions))
        assert 0 < right.sum() < len(listed), render(COUNTDOWN, same)[0]
        np.testing.assert_allclose(masses.right[row], each[right].sum(), rtol=1e-5)
        np.testing.assert_allclose(masses.well_formed[row], each.sum(), rtol=1e-5)
        kept = np.asarray(masses.log_p[row])
        assert np.isfinite(kept).sum() == len(listed)
        np.testing.assert_allclose(np.exp(kept).sum(), each.sum(), rtol=1e-5)


def test_each_completion_follows_its_own_prompt() -> None:
    prompts = parse_prompts(COUNTDOWN, PROMPTS)
    rows = [[5, 11, 3, 15], [2, 15], [7, 7, 7, 7]]
    tokens = jnp.array([row + [0] * (4 - len(row)) for row in rows])
    lengths = jnp.array([len(row) for row in rows])
    # The law after a prompt shows two tokens of it, so prompts are told apart by their last digit.
    order = [2, 0, 1]
    log_p = sequence_log_probs(MODEL, prompts, Sequences(tokens, lengths), jnp.array(order))
    expected = [
        np.log(probability(prompts.tokens[row].tolist(), words))
        for row, words in zip(order, rows, strict=True)
    ]
    np.testing.assert_allclose(log_p, expected, rtol=1e-5)
