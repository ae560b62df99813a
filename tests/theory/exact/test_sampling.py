"""Backward-forward draws: their law, and what they do not depend on."""

import jax
import numpy as np
import pytest

from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.exact.tables import markov
from theory.exact import (
    ContextTable,
    Law,
    base_law,
    draw_sequences,
    enumerate_sequences,
    power_law,
    temperature_law,
    unroll,
)
from theory.exact.sampling import invert, uniforms_of
from theory.keys import Role

LAYERS = unroll(markov(np.random.default_rng(17), 3, 4, eos=(1,), zeros=0.2))
POWER = power_law(LAYERS, 2.0).law
NUM = 20_000


def counts(law: Law, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws from `law` counted in the cells of the power law, and the power law."""
    listed = enumerate_sequences((POWER,))
    cell = {tokens: index for index, tokens in enumerate(listed.sequences)}
    draws = draw_sequences(jax.random.key(seed), law, NUM)
    found = [
        cell[tuple(row[:length].tolist())]
        for row, length in zip(draws.tokens, draws.lengths, strict=True)
    ]
    return np.bincount(found, minlength=len(cell)), np.exp(listed.log_probs[0])


def test_draws_follow_the_power_law() -> None:
    assert_counts(*counts(POWER, seed=0))


def test_draws_at_token_temperature_do_not() -> None:
    assert_rejected(lambda: assert_counts(*counts(temperature_law(LAYERS, 2.0), seed=0)))


def test_log_probs_are_those_of_the_law_and_padding_is_zero() -> None:
    listed = enumerate_sequences((POWER,))
    truth = dict(zip(listed.sequences, listed.log_probs[0], strict=True))
    draws = draw_sequences(jax.random.key(1), POWER, 200)
    for row, length, log_prob in zip(*draws, strict=True):
        assert log_prob == pytest.approx(truth[tuple(row[:length].tolist())], abs=1e-12)
        assert not row[length:].any()


def test_rows_do_not_depend_on_the_batch() -> None:
    key = jax.random.key(5)
    whole = draw_sequences(key, POWER, 64)
    parts = [draw_sequences(key, POWER, 16, first_row=start) for start in range(0, 64, 16)]
    for field, value in enumerate(whole):
        np.testing.assert_array_equal(value, np.concatenate([part[field] for part in parts]))
    other = draw_sequences(jax.random.key(6), POWER, 64)
    assert not np.array_equal(whole.tokens, other.tokens)


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    rows = np.log([[0.5, 1e-300, 0.5]])
    rows[0, 1] = -np.inf
    layers = unroll(ContextTable(rows, np.zeros((1, 3), dtype=np.int64), 0, (), 50))
    draws = draw_sequences(jax.random.key(2), power_law(layers, 0.5).law, 500)
    assert not (draws.tokens == 1).any()
    assert np.isfinite(draws.log_probs).all()


def test_inversion_at_the_ends() -> None:
    laws = np.array([[0.0, 0.5, 0.5, 0.0], [0.3, 0.3, 0.4 - 1e-12, 0.0]])
    just_below_one = np.nextafter(1.0, 0.0)
    rows = np.array([0, 0, 0, 1, 1])
    uniforms = np.array([0.0, 0.5, just_below_one, just_below_one, 0.0])
    assert invert(laws, rows, uniforms).tolist() == [1, 2, 2, 2, 0]


def test_numbers_are_addressed_by_role_row_iteration_and_step() -> None:
    coin = ContextTable(np.log([[0.5, 0.5]]), np.zeros((1, 2), dtype=np.int64), 0, (), 3)
    law = base_law(unroll(coin))
    draws = draw_sequences(jax.random.key(3), law, 4, first_row=10)
    for row in range(4):
        for step in range(3):
            key = jax.random.key(3)
            for address in (int(Role.TOKEN), 10 + row, 0, step):
                key = jax.random.fold_in(key, address)
            assert draws.tokens[row, step] == int(uniforms_of(key[None])[0] >= 0.5)
