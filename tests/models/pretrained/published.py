"""The folders of tests/data/pretrained, and what `transformers` says of their rows."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

from models.pretrained.load import Loaded, load_folder
from models.transformer import Transformer

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "pretrained"
NAMES = ("gpt2", "llama2", "llama3", "llama3_scaled", "qwen2", "qwen3", "mistral", "gemma")
HORIZON = 12


class Rows(NamedTuple):
    """Rows side by side.

    Attributes:
        tokens: [B, S] right-padded.
        lengths: [B].
        logits: [B, S, V] after each token, 0 past a row's length.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    logits: np.ndarray


@functools.cache
def rows_of(name: str) -> Rows:
    """The rows of a family, with the logits that `transformers` gave."""
    stored = load_file(PUBLISHED / "logits" / f"{name}.safetensors")
    lengths = stored["lengths"]
    within = np.arange(lengths.max())[None] < lengths[:, None]
    tokens = np.zeros(within.shape, np.int32)
    logits = np.zeros((*within.shape, stored["logits"].shape[1]), np.float32)
    tokens[within], logits[within] = stored["tokens"], stored["logits"]
    return Rows(tokens, lengths, logits)


@functools.cache
def loaded(name: str) -> Loaded:
    """A published folder in float32."""
    return load_folder(PUBLISHED / name, HORIZON, "float32")


def full_logits(model: Transformer, tokens: Any, lengths: Any) -> Any:
    """[B, S, V] logits of one forward pass, 0 past a row's length."""
    decoder = model.decoder()
    places = jnp.broadcast_to(jnp.arange(tokens.shape[1])[None], tokens.shape)
    within = places < lengths[:, None]
    hidden = decoder.whole(tokens, places, within.astype(jnp.int32))
    return jnp.where(within[..., None], decoder.logits(hidden), 0.0)


def largest_difference(model: Transformer, rows: Rows) -> float:
    """Between our logits of some rows and those of `transformers`."""
    ours = full_logits(model, jnp.asarray(rows.tokens), jnp.asarray(rows.lengths))
    return float(np.abs(np.asarray(ours) - rows.logits).max())
