"""Runs of the samplers on toys, and the checks that certify them (and that reject their wrong twins)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from models.tabular.context_model import ContextModel
from models.tabular.files import read_model
from models.tabular.toys import toy_e
from tests.conftest import ROOT
from tests.stat_asserts import assert_counts, assert_mean
from theory.exact import ContextTable, Law, enumerate_sequences, power_law, unroll
from theory.generation import Trajectories
from theory.smc import Population, start_populations

TABLE = toy_e()
MODEL = ContextModel.from_table(TABLE)
LAYERS = unroll(TABLE)
ALPHA = 2.0
POWER = power_law(LAYERS, ALPHA)
NEVER: tuple[int, ...] = ()


def begin(
    model: ContextModel, num_populations: int, num_particles: int, first: int = 0
) -> Population:
    """Populations without prompts, with ids from `first` on."""
    return start_populations(
        model,
        jnp.zeros((num_populations, 0), jnp.int32),
        jnp.zeros(num_populations, jnp.int32),
        jnp.arange(first, first + num_populations),
        num_particles,
    )


def reference_table(number: int) -> ContextTable:
    """The model of a reference case."""
    return read_model(ROOT / "tests" / "data" / "reference" / f"case-{number}.json").table


def check_evidence(log_Z_hat: jax.Array, log_Z: float, *, smallest_bias: float) -> None:
    """E[Z_hat] = Z, from independent populations; the bias is relative to Z."""
    ratios = np.exp(np.asarray(log_Z_hat, np.float64) - log_Z)
    assert_mean(ratios, 1.0, smallest_bias=smallest_bias)


def check_variance(
    log_Z_hat: jax.Array, log_Z: float, relative_variance: float, *, smallest_bias: float
) -> None:
    """E[(Z_hat / Z - 1)^2] is the exact relative variance; the bias is relative to it."""
    ratios = np.exp(np.asarray(log_Z_hat, np.float64) - log_Z)
    squares = (ratios - 1) ** 2 / relative_variance
    assert_mean(squares, 1.0, smallest_bias=smallest_bias)


def check_draws(rows: Trajectories, law: dict[tuple[int, ...], float]) -> None:
    """Independent rows follow a finite law."""
    cell = {tokens: number for number, tokens in enumerate(law)}
    tokens, lengths = np.asarray(rows.tokens), np.asarray(rows.lengths)
    # A row that is no sequence of the law falls into a last cell, of probability 0.
    cells = [
        cell.get(tuple(row[:n].tolist()), len(cell)) for row, n in zip(tokens, lengths, strict=True)
    ]
    assert_counts(np.bincount(cells, minlength=len(cell) + 1), np.array([*law.values(), 0.0]))


def as_law(law: Law) -> dict[tuple[int, ...], float]:
    """Probabilities of all sequences."""
    listed = enumerate_sequences((law,))
    return dict(zip(listed.sequences, np.exp(listed.log_probs[0]).tolist(), strict=True))


def reference_law(named: dict[str, Any]) -> dict[tuple[int, ...], float]:
    """The same from a reference case; rounded to sum to 1."""
    total = sum(named.values())
    return {tuple(int(t) for t in name.split()): p / total for name, p in named.items()}


def check_records(model: ContextModel, population: Population) -> None:
    """Each row's records, and the law it would go on with, are those of its own tokens."""
    rows = population.generation.trajectories
    num_rows, width = rows.tokens.shape
    state, first = model.init(jnp.zeros((num_rows, 0), jnp.int32), jnp.zeros(num_rows, jnp.int32))
    laws, moved = [first], first
    for place in range(width):
        state, after = model.step(state, rows.tokens[:, place], place < rows.lengths)
        moved = jnp.where((place < rows.lengths)[:, None], after, moved)
        laws.append(moved)
    for place in range(width):
        inside = np.asarray(place < rows.lengths)
        at = np.asarray(rows.tokens[:, place])
        expected = np.asarray(laws[place])[np.arange(num_rows), at]
        np.testing.assert_array_equal(np.asarray(rows.log_p[:, place])[inside], expected[inside])
    goes_on = np.asarray(~rows.ended & (rows.lengths < model.horizon))
    np.testing.assert_array_equal(
        np.asarray(population.generation.log_probs)[goes_on], np.asarray(moved)[goes_on]
    )
    # One step further, from the state itself.
    token = jnp.zeros(num_rows, jnp.int32)
    _, ours = model.step(population.generation.model_state, token, jnp.asarray(goes_on))
    _, fresh = model.step(state, token, jnp.asarray(goes_on))
    np.testing.assert_array_equal(np.asarray(ours)[goes_on], np.asarray(fresh)[goes_on])
