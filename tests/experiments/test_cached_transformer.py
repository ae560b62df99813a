"""The stand-in of the benchmarks keeps the protocol, and moves no more of its cache than it has to."""

import jax
import numpy as np

from experiments.benchmarks.cached_transformer import CachedTransformer, random_transformer
from theory.conformance import check_sequence_model

# Rows: reaches the horizon; ends with eos (0); does not move; goes on.
PROMPTS = np.array([[1, 2], [1, 0], [3, 0], [2, 1]])
PROMPT_LENGTHS = np.array([2, 0, 1, 2])
TOKENS = np.array([[1, 2, 3, 4, 1], [3, 0, 0, 0, 0], [0, 0, 0, 0, 0], [4, 3, 2, 0, 0]])
LENGTHS = np.array([5, 2, 0, 3])


def tiny(eos_logit: float | None = -1.0) -> CachedTransformer:
    return random_transformer(
        jax.random.key(0),
        horizon=5,
        eos_logit=eos_logit,
        longest_prompt=2,
        vocab_size=5,
        width=8,
        num_layers=2,
        num_heads=2,
    )


def test_it_conforms() -> None:
    check_sequence_model(tiny(), PROMPTS, PROMPT_LENGTHS, TOKENS, LENGTHS, 1e-5)


def test_without_eos_it_conforms_too() -> None:
    tokens = np.where(TOKENS == 0, 1, TOKENS)
    check_sequence_model(tiny(None), PROMPTS, PROMPT_LENGTHS, tokens, LENGTHS, 1e-5)
