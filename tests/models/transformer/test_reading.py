"""What is read in chunks, padded, empty, in bfloat16 or under another horizon gives the same laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.transformer import Transformer, full_log_probs, random_transformer
from models.transformer import laws as laws_module
from models.transformer import model as module
from models.transformer.full_pass import full_token_log_probs
from models.transformer.model import from_decoder, with_horizon
from tests.models.transformer.families import CONFIGS, tiny
from theory.errors import InvalidInput
from theory.reductions import at_token

MODEL = tiny("mistral")
PROMPTS = np.array([[4, 1, 7, 3, 6, 1], [9, 8, 0, 0, 0, 0], [0] * 6], np.int32)
PROMPT_LENGTHS = np.array([6, 2, 0], np.int32)
TOKENS = np.array([[1, 0, 2, 0, 0], [7, 3, 4, 1, 6], [10, 0, 0, 0, 0]], np.int32)
LENGTHS = np.array([3, 5, 1], np.int32)


def read_all(model: Transformer) -> tuple[jax.Array, ...]:
    """All that reading a prompt and a block gives."""

    @jax.jit
    def read(model: Transformer) -> tuple[jax.Array, ...]:
        state, law = model.init(jnp.asarray(PROMPTS), jnp.asarray(PROMPT_LENGTHS))
        state, log_p, last = model.extend(
            state, jnp.asarray(TOKENS), jnp.asarray(LENGTHS), at_token
        )
        filled = jnp.arange(state.cache.layers[0].shape[2])[None] < state.cache.lengths[:, None]
        keys = jnp.where(filled[:, None, :, None], state.cache.layers[-1], 0.0)
        return law, log_p, last, state.cache.lengths, keys

    return read(model)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_all(MODEL)
    # Two chunks of the prompts, the second short; three of the block; laws one position after the other.
    monkeypatch.setattr(module, "_SCORES", 2 * 3 * 4 * 11)
    monkeypatch.setattr(laws_module, "_LAWS", 1)
    for got, expected in zip(read_all(MODEL), whole, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_the_law_after_a_block_is_that_after_its_last_token() -> None:
    """By one forward pass over prompt and block."""
    _, _, last, lengths, _ = read_all(MODEL)
    whole = np.zeros((3, 11), np.int32)
    for row in range(3):
        prompt = PROMPTS[row, : PROMPT_LENGTHS[row]] if PROMPT_LENGTHS[row] else [3]
        read = [*prompt, *TOKENS[row, : LENGTHS[row]]]
        assert lengths[row] == len(read)
        whole[row, : len(read)] = read
    laws = np.asarray(jax.jit(full_log_probs)(MODEL, jnp.asarray(whole), lengths))
    expected = laws[np.arange(3), np.asarray(lengths) - 1]
    np.testing.assert_allclose(last, expected, atol=1e-5)


def test_scores_of_tokens_are_gathered_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = jnp.asarray(np.concatenate([PROMPTS[:2, :4], TOKENS[:2]], axis=1))
    lengths = jnp.array([7, 3])
    laws = np.asarray(jax.jit(full_log_probs)(MODEL, tokens, lengths))
    expected = np.zeros((2, 9))
    for row, length in enumerate((7, 3)):
        for place in range(1, length):
            expected[row, place] = laws[row, place - 1, tokens[row, place]]
    got = jax.jit(full_token_log_probs)(MODEL, tokens, lengths)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    monkeypatch.setattr(laws_module, "_LAWS", 1)
    again = jax.jit(lambda *args: full_token_log_probs(*args))(MODEL, tokens, lengths)
    np.testing.assert_allclose(again, expected, atol=1e-6)


def test_padding_is_not_read_and_an_empty_prompt_is_the_start_token() -> None:
    init = jax.jit(Transformer.init)
    _, laws = init(MODEL, PROMPTS, PROMPT_LENGTHS)
    junk = np.where(np.arange(6) < PROMPT_LENGTHS[:, None], PROMPTS, 10).astype(np.int32)
    _, with_junk = init(MODEL, junk, PROMPT_LENGTHS)
    np.testing.assert_array_equal(laws, with_junk)
    _, narrow = init(MODEL, np.zeros((1, 0), np.int32), np.zeros(1, np.int32))
    _, start = init(MODEL, np.full((1, 1), 3, np.int32), np.ones(1, np.int32))
    np.testing.assert_array_equal(narrow, start)
    np.testing.assert_allclose(laws[2:], start, atol=1e-6)
    assert np.abs(laws[0] - laws[2]).max() > 0.1


def test_a_step_leaves_rows_that_are_not_active_as_they_were() -> None:
    """What is read next follows what was read last, not the step that did not count."""

    @jax.jit
    def read(model: Transformer) -> tuple[jax.Array, jax.Array]:
        state, _ = model.init(jnp.asarray(PROMPTS), jnp.asarray(PROMPT_LENGTHS))
        state, _ = model.step(state, jnp.array([8, 8, 8]), jnp.array([True, False, False]))
        _, log_p, law = model.extend(state, jnp.asarray(TOKENS), jnp.asarray(LENGTHS), at_token)
        return log_p, law

    for after, untouched in zip(read(MODEL), read_all(MODEL)[1:3], strict=True):
        np.testing.assert_allclose(after[1:], untouched[1:], atol=1e-5)
        assert np.abs(after[0] - untouched[0]).max() > 0.1


def test_bfloat16_weights_give_normalised_float32_laws() -> None:
    model = random_transformer(jax.random.key(0), CONFIGS["mistral"], 3, jnp.bfloat16)
    state, law = jax.jit(Transformer.init)(model, PROMPTS, PROMPT_LENGTHS)
    _, following = jax.jit(Transformer.step)(model, state, TOKENS[:, 0], np.ones(3, bool))
    assert state.cache.layers[0].dtype == jnp.bfloat16
    for each in (law, following):
        assert each.dtype == jnp.float32
        np.testing.assert_allclose(np.exp(np.asarray(each, float)).sum(axis=1), 1.0, atol=1e-6)


def test_the_horizon_is_room_and_nothing_else() -> None:
    longer = with_horizon(MODEL, 9)
    assert (MODEL.horizon, longer.horizon) == (5, 9)
    assert longer.params is MODEL.params
    (state, law), (_, expected) = (
        jax.jit(Transformer.init)(model, PROMPTS, PROMPT_LENGTHS) for model in (longer, MODEL)
    )
    np.testing.assert_array_equal(law, expected)
    assert state.cache.layers[0].shape[2] == 6 + 9
    with pytest.raises(InvalidInput, match="horizon 0: must be at least 1"):
        with_horizon(MODEL, 0)
    with pytest.raises(InvalidInput, match="horizon 0: must be at least 1"):
        from_decoder(MODEL.decoder(), 0)


def test_float32_products_are_not_rounded_to_less_on_any_device() -> None:
    """What an accelerator is asked for; by default it may round the factors to fewer bits."""
    state, _ = jax.eval_shape(Transformer.init, MODEL, PROMPTS, PROMPT_LENGTHS)
    programs = (
        jax.jit(Transformer.init).lower(MODEL, PROMPTS, PROMPT_LENGTHS),
        jax.jit(Transformer.step).lower(MODEL, state, TOKENS[:, 0], np.ones(3, bool)),
        jax.jit(full_log_probs).lower(MODEL, PROMPTS, PROMPT_LENGTHS),
    )
    for program in programs:
        products = [line for line in program.as_text().splitlines() if "dot_general" in line]
        # Of each layer queries and keys, scores, mixing, merging and the perceptron's two; and the head.
        assert len(products) == 6 * MODEL.config.num_layers + 1
        assert [line for line in products if "[HIGHEST, HIGHEST]" not in line] == []


def test_scores_softmax_and_logits_of_bfloat16_weights_are_float32() -> None:
    model = random_transformer(jax.random.key(0), CONFIGS["mistral"], 3, jnp.bfloat16)
    state, _ = jax.eval_shape(Transformer.init, model, PROMPTS, PROMPT_LENGTHS)
    step = jax.jit(Transformer.step).lower(model, state, TOKENS[:, 0], np.ones(3, bool))
    lines = step.as_text().splitlines()
    products = [line for line in lines if "dot_general" in line]
    # Scores of each layer, and the head.
    widened = [line for line in products if line.endswith("xf32>")]
    assert len(widened) == model.config.num_layers + 1
    # A softmax over the 6 + 3 places of each layer.
    softmax = [line for line in lines if "stablehlo.exponential" in line and "x9x" in line]
    assert len(softmax) == model.config.num_layers
    assert all(line.endswith("x9xf32>") for line in softmax)
