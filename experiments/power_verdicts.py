"""The demonstration's own verdicts: every way we have to a law of a model, against the others.

A verdict compares a number with its limit. Draws are judged by an exact p-value, so a verdict on draws can fail by chance with
the probability that its limit states.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import tables
from experiments.model_argument import LoadedModel
from models.tabular.context_model import ContextModel
from theory.exact.enumeration import enumerate_sequences
from theory.exact.laws import Law, base_law, power_law, temperature_law
from theory.exact.layers import Layers, num_sequences, unroll
from theory.exact.sampling import draw_sequences
from theory.goodness_of_fit import counts_p_value
from theory.reductions import at_token

ERROR = "error"
P_VALUE = "p-value"
"""What a verdict compares with its limit: an error is bad when large, a p-value when small."""

SCHEMA = tables.schema(
    model=str, alpha=float, check=str, kind=str, value=float, limit=float, ok=bool
)

MAX_CHECKED = 20_000  # sequences that are enumerated for a verdict
LARGEST_ERROR = 1e-10  # of the dynamic programs, relative to 1 + |log Z|
LARGEST_FLOAT32_ERROR = 1e-5  # of log p(y) in the jitted model, relative
SMALLEST_P_VALUE = 1e-6


def verdict_rows(
    model: LoadedModel, alpha: float, num_draws: int, seed: int
) -> list[dict[str, Any]]:
    """Check one model.

    Args:
        model: what MODEL named.
        alpha: exponent above 0.
        num_draws: draws that the sampling verdicts rest on.
        seed: of the draws.

    Returns:
        Rows of SCHEMA; the checks that need enumeration are left out above MAX_CHECKED sequences.
    """
    layers = unroll(model.table)
    float32_key, *draw_keys = jax.random.split(jax.random.key(seed), 3)
    error = float32_error(model, layers, float32_key)
    found = [("float32 model = float64 law", ERROR, error, LARGEST_FLOAT32_ERROR)]
    if num_sequences(layers) <= MAX_CHECKED:
        error = _enumeration_error(layers, alpha)
        found.append(("dynamic program = enumeration", ERROR, error, LARGEST_ERROR))
        laws = power_law(layers, alpha).law, temperature_law(layers, alpha)
        for name, law, key in zip(("power", "temperature"), laws, draw_keys, strict=True):
            p_value = _draws_p_value(law, num_draws, key)
            if p_value is not None:
                found.append((f"draws follow the {name} law", P_VALUE, p_value, SMALLEST_P_VALUE))
    return [
        {
            "model": model.name,
            "alpha": alpha,
            "check": check,
            "kind": kind,
            "value": value,
            "limit": limit,
            "ok": value <= limit if kind == ERROR else value >= limit,
        }
        for check, kind, value, limit in found
    ]


def float32_error(model: LoadedModel, layers: Layers, key: jax.Array) -> float:
    """Largest relative error of log p(y) in the batched float32 model, over draws from the base law.

    Args:
        model: what MODEL named.
        layers: its layers.
        key: of the draws.

    Returns:
        max |log p_32 - log p_64| / max(1, |log p_64|).
    """
    draws = draw_sequences(key, base_law(layers), 256)
    log_probs = jax.jit(_log_probs)(
        ContextModel.from_table(model.table), jnp.asarray(draws.tokens), jnp.asarray(draws.lengths)
    )
    scale = np.maximum(1.0, np.abs(draws.log_probs))
    return float((np.abs(np.asarray(log_probs, np.float64) - draws.log_probs) / scale).max())


def _log_probs(model: ContextModel, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """[B] log p(y) by one teacher-forced pass from the empty prompt."""
    empty = jnp.zeros((tokens.shape[0], 0), jnp.int32)
    state, _ = model.init(empty, jnp.zeros(tokens.shape[0], jnp.int32))
    _, chosen, _ = model.extend(state, tokens, lengths, at_token)
    return chosen.sum(axis=1)


def _enumeration_error(layers: Layers, alpha: float) -> float:
    """Largest gap between the laws by dynamic program and p(y)^alpha normalised over the list of all sequences."""
    power = power_law(layers, alpha)
    listed = enumerate_sequences((base_law(layers), power.law))
    weights = alpha * listed.log_probs[0]
    log_Z = weights.max() + math.log(math.fsum(np.exp(weights - weights.max())))
    gap = np.abs(weights - log_Z - listed.log_probs[1]).max()
    return float(max(gap, abs(log_Z - power.log_Z)) / (1 + abs(log_Z)))


def _draws_p_value(law: Law, num_draws: int, key: jax.Array) -> float | None:
    """P-value of exact draws against the law; None where the law has a single likely cell, so that nothing is tested."""
    listed = enumerate_sequences((law,))
    probs = np.exp(listed.log_probs[0])
    if num_draws * (1 - probs.max()) < 10:
        return None
    cell = {tokens: index for index, tokens in enumerate(listed.sequences)}
    draws = draw_sequences(key, law, num_draws)
    found = [
        cell[tuple(row[:length])]
        for row, length in zip(draws.tokens.tolist(), draws.lengths.tolist(), strict=True)
    ]
    return counts_p_value(np.bincount(found, minlength=len(cell)), probs / probs.sum())
