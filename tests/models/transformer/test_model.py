"""A cached, chunked, rewound, gathered transformer gives the laws of one forward pass over the whole row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.transformer import full_log_probs
from tests.models.transformer.families import CONFIGS, tiny
from theory.conformance import check_sequence_model

# Rotary positions, shared heads and windows; the others take minutes.
CONFORMING = ("mistral",)
REST = tuple(family for family in CONFIGS if family not in CONFORMING)

PROMPTS = np.array([[4, 1, 7], [9, 0, 0], [0, 0, 0], [6, 8, 0]], np.int32)
PROMPT_LENGTHS = np.array([3, 1, 0, 2], np.int32)
# The first row ends by eos, the second reaches the horizon, the third has no tokens, the fourth goes on.
TOKENS = np.array([[1, 0, 2, 0, 0], [7, 3, 4, 1, 6], [0, 0, 0, 0, 0], [10, 6, 0, 0, 0]], np.int32)
LENGTHS = np.array([3, 5, 0, 2], np.int32)


@pytest.mark.parametrize(
    "family", [*CONFORMING, *(pytest.param(name, marks=pytest.mark.slow) for name in REST)]
)
def test_it_keeps_the_protocol(family: str) -> None:
    check_sequence_model(tiny(family), PROMPTS, PROMPT_LENGTHS, TOKENS, LENGTHS, 1e-5)


@pytest.mark.parametrize("family", CONFIGS)
def test_cached_laws_are_those_of_one_forward_pass(family: str) -> None:
    model = tiny(family)
    rows = [
        [*(PROMPTS[b, : PROMPT_LENGTHS[b]] if PROMPT_LENGTHS[b] else [3]), *TOKENS[b, : LENGTHS[b]]]
        for b in range(4)
    ]
    whole = np.zeros((4, 8), np.int32)
    for b, row in enumerate(rows):
        whole[b, : len(row)] = row
    lengths = np.array([len(row) for row in rows])
    laws = np.asarray(jax.jit(full_log_probs)(model, jnp.asarray(whole), jnp.asarray(lengths)))
    state, first = jax.jit(type(model).init)(model, PROMPTS, PROMPT_LENGTHS)
    read = np.maximum(PROMPT_LENGTHS, 1)
    np.testing.assert_allclose(first, laws[np.arange(4), read - 1], atol=1e-5)
    for j in range(5):
        active = j < LENGTHS
        state, law = jax.jit(type(model).step)(model, state, TOKENS[:, j], active)
        expected = laws[np.arange(4), np.minimum(read + j, 7)]
        np.testing.assert_allclose(law[active], expected[active], atol=1e-5)
