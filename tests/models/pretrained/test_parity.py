"""Published weights give the logits that `transformers` gives, and a cache changes nothing."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.pretrained.families import find_family
from models.pretrained.json_fields import Fields, read_json
from models.pretrained.parameters import parameter_name
from models.transformer import Llama3Scaling, Rotary, Transformer, full_log_probs
from models.transformer.model import from_decoder
from tests.models.pretrained.published import (
    HORIZON,
    NAMES,
    PUBLISHED,
    full_logits,
    largest_difference,
    loaded,
    rows_of,
)

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "pretrained.md"


@pytest.mark.parametrize("name", NAMES)
def test_logits_agree_with_transformers(name: str) -> None:
    rows = rows_of(name)
    assert rows.logits[-1].std() > 1, "the rows say little"
    difference = largest_difference(loaded(name).model, rows)
    assert difference < 1e-4
    # The document states what was measured; another machine may round a little differently.
    stated = re.search(rf"^\| {name} \|.*\| ([0-9.e-]+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert stated, f"docs/pretrained.md has no row for {name}"
    assert difference < 4 * float(stated[1])


def changed(model: Transformer, **choices: Any) -> Transformer:
    """The same weights under another configuration."""
    decoder = model.decoder()
    decoder.config = dataclasses.replace(model.config, **choices)
    for index, block in enumerate(decoder.blocks):
        block.attention.rotary = decoder.config.rotary
        block.attention.window = decoder.config.window(index)
        block.perceptron.activation = decoder.config.activation
        norms = [block.attention_norm, block.perceptron_norm, decoder.norm]
        for norm in (*norms, block.attention.query_norm, block.attention.key_norm):
            if norm is not None:
                norm.epsilon = decoder.config.norm_epsilon
    return from_decoder(decoder, HORIZON)


OTHER_CHOICES: list[tuple[str, dict[str, Any]]] = [
    ("gpt2", {"norm_epsilon": 0.01}),
    ("gpt2", {"activation": "gelu"}),
    ("llama2", {"norm_epsilon": 0.01}),
    ("llama3", {"rotary": Rotary(10_000.0)}),
    ("llama3_scaled", {"rotary": Rotary(1_000.0)}),
    ("llama3_scaled", {"rotary": Rotary(1_000.0, 8.0)}),
    ("llama3_scaled", {"rotary": Rotary(1_000.0, Llama3Scaling(8.0, 1.0, 2.0, 16))}),
    ("llama3_scaled", {"rotary": Rotary(1_000.0, Llama3Scaling(8.0, 0.5, 4.0, 16))}),
    ("llama3_scaled", {"rotary": Rotary(1_000.0, Llama3Scaling(8.0, 1.0, 4.0, 32))}),
    ("llama3_scaled", {"rotary": Rotary(1_000.0, Llama3Scaling(4.0, 1.0, 4.0, 16))}),
    ("qwen2", {"windows": (4, 4)}),
    ("qwen3", {"rotary": Rotary(10_000.0)}),
    ("mistral", {"windows": (4, 4)}),
    ("mistral", {"windows": (6, 6)}),
    ("mistral", {"windows": ()}),
    ("gemma", {"embedding_scale": 5.65}),
    ("gemma", {"activation": "gelu"}),
    ("gemma", {"norm_epsilon": 0.01}),
]


@pytest.mark.parametrize(("name", "choices"), OTHER_CHOICES)
def test_another_choice_would_be_seen(name: str, choices: dict[str, Any]) -> None:
    model = loaded(name).model
    assert all(getattr(model.config, field) != value for field, value in choices.items())
    assert largest_difference(changed(model, **choices), rows_of(name)) > 1e-3
    assert largest_difference(changed(model), rows_of(name)) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_matters(name: str) -> None:
    model, rows = loaded(name).model, rows_of(name)
    path = PUBLISHED / name / "config.json"
    family = find_family(Fields(str(path), read_json(path)))
    recipe = family.recipe(model.config, ["transformer.wte.weight"])
    leaves, structure = jax.tree_util.tree_flatten_with_path(model.params)
    assert {parameter_name(path) for path, _ in leaves} == set(recipe)
    tokens, lengths = jnp.asarray(rows.tokens), jnp.asarray(rows.lengths)
    logits = jax.jit(full_logits)
    before = logits(model, tokens, lengths)
    for index, (path, leaf) in enumerate(leaves):
        for piece in recipe[parameter_name(path)]:
            part = leaf[piece.place]
            mixed = leaf.at[piece.place].set(part.ravel()[::-1].reshape(part.shape))
            others = [mixed if i == index else other for i, (_, other) in enumerate(leaves)]
            params = jax.tree.unflatten(structure, others)
            after = logits(dataclasses.replace(model, params=params), tokens, lengths)
            assert jnp.abs(after - before).max() > 1e-2, piece.name


# With learned positions, and with rotary ones, shared heads and windows; tests/models/transformer has all kinds.
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("gpt2", "mistral") else pytest.param(name, marks=pytest.mark.slow)
        for name in NAMES
    ],
)
def test_cached_decoding_equals_one_pass(name: str) -> None:
    model, rows = loaded(name).model, rows_of(name)
    tokens, lengths = jnp.asarray(rows.tokens), jnp.asarray(rows.lengths)
    full = np.asarray(jax.jit(full_log_probs)(model, tokens, lengths))
    own = np.arange(len(rows.lengths))
    # A prompt, a block and one more token in each row; the first row is a prompt alone.
    ends = np.maximum(rows.lengths - 1, 1)
    starts = np.array([1, 1, 4, 13])
    width = int((ends - starts).max())
    block = np.stack(
        [np.resize(row[start:], width) for row, start in zip(rows.tokens, starts, strict=True)]
    )

    def token_log_prob(log_probs: Any, token: Any) -> Any:
        return jnp.take_along_axis(log_probs, token[..., None], axis=-1)[..., 0]

    @jax.jit
    def decode(model: Transformer) -> Any:
        state, first = model.init(tokens, jnp.asarray(starts))
        block_lengths = jnp.asarray(ends - starts)
        state, taken, after = model.extend(state, jnp.asarray(block), block_lengths, token_log_prob)
        active = jnp.asarray(rows.lengths > ends)
        _, last = model.step(state, jnp.asarray(rows.tokens[own, rows.lengths - 1]), active)
        return first, taken, after, last

    first, taken, after, last = (np.asarray(part) for part in decode(model))
    np.testing.assert_allclose(first, full[own, starts - 1], atol=1e-5, rtol=0)
    moved = ends > starts
    np.testing.assert_allclose(after[moved], full[own, ends - 1][moved], atol=1e-5, rtol=0)
    stepped = rows.lengths > ends
    np.testing.assert_allclose(
        last[stepped], full[own, rows.lengths - 1][stepped], atol=1e-5, rtol=0
    )
    for row in own:
        places = np.arange(starts[row], ends[row])
        expected = full[row, places - 1, rows.tokens[row, places]]
        np.testing.assert_allclose(taken[row, : len(places)], expected, atol=1e-5, rtol=0)
        assert np.all(taken[row, len(places) :] == 0)
