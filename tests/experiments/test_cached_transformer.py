"""The stand-in of the benchmarks keeps the protocol, and says what the benchmarks rely on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmarks.cached_transformer import (
    CachedTransformer,
    copy_rows,
    random_transformer,
)
from theory.conformance import check_sequence_model

# Rows: reaches the horizon; ends with eos (0); does not move; goes on.
PROMPTS = np.array([[1, 2], [1, 0], [3, 0], [2, 1]])
PROMPT_LENGTHS = np.array([2, 0, 1, 2])
TOKENS = np.array([[1, 2, 3, 1], [3, 0, 0, 0], [0, 0, 0, 0], [2, 3, 1, 0]])
LENGTHS = np.array([4, 2, 0, 3])


def tiny(eos_logit: float | None) -> CachedTransformer:
    return random_transformer(
        jax.random.key(0),
        horizon=4,
        eos_logit=eos_logit,
        longest_prompt=2,
        vocab_size=4,
        width=8,
        num_layers=2,
        num_heads=2,
    )


@pytest.mark.slow
def test_it_conforms() -> None:
    check_sequence_model(tiny(-1.0), PROMPTS, PROMPT_LENGTHS, TOKENS, LENGTHS, 1e-5)


def test_the_log_odds_of_eos_are_what_is_asked_for() -> None:
    _, law = tiny(-1.0).init(jnp.asarray(PROMPTS), jnp.asarray(PROMPT_LENGTHS))
    np.testing.assert_allclose(np.exp(law[:, 0]), 1 / (1 + np.e), rtol=1e-5)
    assert tiny(None).eos == ()


@pytest.mark.parametrize("in_place", [True, False])
def test_only_rows_that_change_are_written(in_place: bool) -> None:
    """The filled part of their source arrives; all other rows stay as they were."""
    places = 40
    source = jnp.arange(4 * places, dtype=jnp.float32).reshape(4, 1, places, 1)
    to = source if in_place else -source
    mask, rows = jnp.array([False, True, False, True]), jnp.array([0, 2, 2, 0])
    filled = jnp.array([40, 0, 17, 0])

    @jax.jit
    def copy(to: jax.Array, source: jax.Array) -> jax.Array:
        target = (to,)
        return copy_rows(target, target if in_place else (source,), mask, rows, filled)[0]

    got = copy(to, source)
    got, to, source = (np.asarray(each)[:, 0, :, 0] for each in (got, to, source))
    np.testing.assert_array_equal(got[[0, 2]], to[[0, 2]])
    np.testing.assert_array_equal(got[1, :17], source[2, :17])
    np.testing.assert_array_equal(got[1, 32:], to[1, 32:])
    np.testing.assert_array_equal(got[3], source[0])
