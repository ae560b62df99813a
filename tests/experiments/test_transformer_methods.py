"""What methods hand out: laws over rows whose weights are exact, for the tokens that were allowed.

On a table, where everything is known; that transformers give the rows of their tables is tested beside this.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.language_model import load_language_model
from experiments.prompts import PromptSource
from experiments.transformer_methods import METHODS, Budget, Handed
from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from theory.exact import (
    enumerate_sequences,
    expected_length,
    power_law,
    temperature_law,
    unroll,
)
from theory.exact.context_table import after_prompt

MODEL = ContextModel.from_table(toy_e())
PROMPTS = ((0, 1, 1), (0,))
ALPHA = 2.0
POPULATIONS = ("temperature", "importance", "smc", "smc_bridged", "smc_lookahead")
CHAINS = ("suffix", "suffix_entropy", "blockwise")
FAST = ("temperature", "importance", "smc", "suffix")


@cache
def laws() -> tuple[dict[tuple[int, ...], tuple[float, float]], ...]:
    """For each prompt, log p and log q under temperature 1/alpha of every sequence."""
    found: list[dict[tuple[int, ...], tuple[float, float]]] = []
    for prompt in PROMPTS:
        layers = unroll(after_prompt(toy_e(), prompt))
        base = power_law(layers, 1.0).law
        listed = enumerate_sequences((base, temperature_law(layers, ALPHA)))
        found.append(
            {
                tuple(s): (float(p), float(q))
                for s, p, q in zip(listed.sequences, *listed.log_probs, strict=True)
            }
        )
    return tuple(found)


def mean_length() -> float:
    lengths = [
        expected_length(temperature_law(unroll(after_prompt(toy_e(), p)), ALPHA)) for p in PROMPTS
    ]
    return float(np.mean(lengths))


@cache
def handed(name: str) -> Handed:
    return METHODS[name](MODEL, PROMPTS, ALPHA, Budget(120, mean_length(), 4, seed=1))


def rows(found: Handed, prompt: int) -> list[tuple[int, ...]]:
    tokens = found.tokens[prompt].reshape(-1, found.tokens.shape[-1]).tolist()
    lengths = found.lengths[prompt].reshape(-1).tolist()
    return [tuple(row[:n]) for row, n in zip(tokens, lengths, strict=True)]


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in METHODS],
)
def test_every_method_hands_out_rows_of_the_model(name: str) -> None:
    found = handed(name)
    assert found.tokens.shape[:2] == found.weights.shape[:2] == (2, 4)
    assert found.weights.shape[2] == found.size
    np.testing.assert_allclose(found.weights.sum(axis=2), 1.0, atol=1e-12)
    assert (found.weights >= 0).all()
    for prompt in range(2):
        log_p = [laws()[prompt][row][0] for row in rows(found, prompt)]
        np.testing.assert_allclose(found.log_p[prompt].ravel(), log_p, atol=1e-4)
        # Past a row's end there are zeros, so that equal rows are equal arrays.
        past = np.arange(found.tokens.shape[-1]) >= found.lengths[prompt][..., None]
        assert (found.tokens[prompt][past] == 0).all()
    spent = found.cost["generated_tokens"]
    assert 0.6 * 120 < spent < 1.4 * 120  # of the few rows here; see the trained model below
    assert found.cost["model_calls"] >= 4
    assert np.isnan(found.ess_fraction).all() == (name == "temperature" or name in CHAINS)
    if name in CHAINS:
        assert ((0 < found.accept_rate) & (found.accept_rate <= 1)).all()
    else:
        assert np.isnan(found.accept_rate).all()


def test_weights_are_power_over_temperature() -> None:
    """Of the same draws, the one method weighs each row by p^alpha / q, the other all alike."""
    weighted, plain = handed("importance"), handed("temperature")
    np.testing.assert_array_equal(weighted.tokens, plain.tokens)
    assert weighted.cost == plain.cost
    np.testing.assert_array_equal(plain.weights, 1 / plain.size)
    for prompt in range(2):
        log_p, log_q = np.array([laws()[prompt][row] for row in rows(weighted, prompt)]).T
        expected = np.exp(ALPHA * log_p - log_q).reshape(4, -1)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(weighted.weights[prompt], expected, rtol=1e-3)
        ess = 1 / (expected**2).sum(axis=1) / weighted.size
        np.testing.assert_allclose(weighted.ess_fraction[prompt], ess, rtol=1e-3)
    assert np.ptp(weighted.weights) > 0.01


def test_replicates_are_different_draws_and_seeds_are_used() -> None:
    found = handed("temperature")
    parts = found.tokens.reshape(8, -1)
    assert len({tuple(part) for part in parts.tolist()}) == 8
    other = METHODS["temperature"](MODEL, PROMPTS, ALPHA, Budget(120, mean_length(), 4, seed=2))
    assert (other.tokens != found.tokens).any()


def test_a_replicate_is_as_many_rows_as_fit() -> None:
    assert handed("importance").size == handed("smc").size == round(120 / mean_length())


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_budgets_are_equal_on_a_trained_model(name: str) -> None:
    loaded = load_language_model("builtin:countdown-3", PromptSource(num=16), None)
    reads = tuple(prompt.read for prompt in loaded.prompts)
    found = METHODS[name](loaded.model, reads, 2.0, Budget(256, 6.0, 4, seed=0))
    assert found.cost["generated_tokens"] == pytest.approx(256, rel=0.15)
    np.testing.assert_allclose(found.weights.sum(axis=2), 1.0, atol=1e-12)
    assert jnp.asarray(found.tokens).shape[:2] == (16, 4)
