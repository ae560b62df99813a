"""The small-alpha law from draws: sums over all sequences, in float64, and draws of the model."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_b
from tests.planted_bugs.defect import relative_error
from tests.theory.exact.tables import plain_sequences
from theory import generation
from theory.estimators.small_alpha import StepMoments, record_step_moments, step_moments
from theory.exact.context_table import ContextTable
from theory.exact.layers import Layer, Layers
from theory.exact.semiring import PerDepth, by_layer
from theory.exact.small_alpha import SmallAlphaLaw
from theory.keys import Role, role_key, row_keys


def all_tokens(table: ContextTable) -> tuple[np.ndarray, np.ndarray]:
    """Every sequence, right-padded, and its length."""
    sequences = [row.tokens for row in plain_sequences(table, 2.0)]
    lengths = np.array([len(tokens) for tokens in sequences], np.int32)
    tokens = np.zeros((len(sequences), table.horizon), np.int32)
    for place, sequence in enumerate(sequences):
        tokens[place, : len(sequence)] = sequence
    return tokens, lengths


def all_sums(table: ContextTable) -> tuple[np.ndarray, StepMoments]:
    """Probability and float64 sums of every sequence, by the code that records them."""
    tokens, lengths = all_tokens(table)
    context = np.full(len(tokens), table.initial)
    sums = np.zeros((4, len(tokens)))
    for place in range(table.horizon):
        goes_on = place < lengths
        with jax.enable_x64(True):
            laws = jnp.asarray(np.where(goes_on[:, None], table.log_probs[context], 0.0))
            found = step_moments(laws, jnp.asarray(tokens[:, place]))
        sums += np.where(goes_on, np.stack([np.asarray(part) for part in found]), 0.0)
        context = np.where(goes_on, table.next_context[context, tokens[:, place]], context)
    return np.exp(sums[0]), StepMoments(*sums)


def central_powers(layers: Layers, power: int) -> PerDepth:
    """[n, V] (log p(v) - its mean)^power of each token."""

    def gaps(layer: Layer) -> np.ndarray:
        probs = np.exp(layer.log_probs)
        logs = np.where(probs > 0, layer.log_probs, 0.0)
        return (logs - (probs * logs).sum(axis=1, keepdims=True)) ** power

    return by_layer(layers, gaps)


def law_of(probs: np.ndarray, sums: StepMoments) -> SmallAlphaLaw:
    """The coefficients as cumulants of a finite law, written out."""
    log_p, entropy, variance = (np.asarray(x) - probs @ np.asarray(x) for x in sums[:3])
    third = (probs @ np.asarray(sums.third) - probs @ log_p**3) / 6
    third += probs @ (variance * log_p) / 2 - probs @ (entropy * log_p**2) / 2
    return SmallAlphaLaw(
        float(probs @ entropy**2),
        float(probs @ log_p**2),
        float(third),
        float(probs @ log_p**3) / 3,
    )


def drawn(table: ContextTable, num_draws: int) -> StepMoments:
    """Sums of draws of the model."""

    @jax.jit
    def draw(model: ContextModel) -> StepMoments:
        rows = jnp.arange(num_draws)
        prompts, prompt_lengths = jnp.zeros((num_draws, 0), jnp.int32), 0 * rows
        keys = row_keys(role_key(jax.random.key(3), Role.TOKEN), rows)
        begin = generation.start(model, prompts, prompt_lengths)
        limits = jnp.full(num_draws, model.horizon, jnp.int32)
        done = generation.generate(keys, model, (), 1.0, begin, limits).trajectories
        return record_step_moments(model, prompts, prompt_lengths, done.tokens, done.lengths)

    found = draw(ContextModel.from_table(table))
    return StepMoments(*(np.asarray(part, np.float64).sum(axis=1) for part in found))


def of_variance(estimate: Callable[[StepMoments], Any]) -> float:
    """Relative bias of Var(S) from three draws of toy B, over all triples."""
    probs, sums = all_sums(toy_b())
    truth = law_of(probs, sums).variance_entropy_sum
    expected = 0.0
    for triple in itertools.product(range(probs.size), repeat=3):
        picked = list(triple)
        law = estimate(StepMoments(*(x[picked] for x in sums)))
        expected += float(probs[picked].prod()) * law.variance_entropy_sum
    return relative_error(expected, truth)
