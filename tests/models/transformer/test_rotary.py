"""Rotations: what a query sees of a key depends on how far apart they stand, and scaling is what the formulas say."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from models.transformer import Llama3Scaling, Rotary
from models.transformer.rotary import frequencies, rotate

DIM = 8
RNG = np.random.default_rng(0)
QUERY, KEY = (RNG.normal(size=(1, 1, 2, DIM)).astype(np.float32) for _ in range(2))


def at(x: np.ndarray, position: int, rotary: Rotary) -> np.ndarray:
    turned = rotate(jnp.asarray(x), jnp.array([[position]]), frequencies(rotary, DIM))
    return np.asarray(turned, np.float64)


def test_scores_depend_on_the_distance_alone() -> None:
    rotary = Rotary(100.0)
    for distance in (0, 1, 5):
        near, far = (
            (at(QUERY, start + distance, rotary) * at(KEY, start, rotary)).sum()
            for start in (0, 40)
        )
        assert near == pytest.approx(far, abs=1e-4)
    forward, back = ((at(QUERY, i, rotary) * at(KEY, j, rotary)).sum() for i, j in ((3, 0), (0, 3)))
    assert abs(forward - back) > 0.1


def test_pairs_turn_as_complex_numbers() -> None:
    """Coordinate i with i + D/2; position p turns by p theta^(-2 i / D)."""
    angles = 7 * 50.0 ** (-2 * np.arange(DIM // 2) / DIM)
    got = at(QUERY, 7, Rotary(50.0))
    pairs = (QUERY[..., : DIM // 2] + 1j * QUERY[..., DIM // 2 :]) * np.exp(1j * angles)
    np.testing.assert_allclose(got, np.concatenate([pairs.real, pairs.imag], -1), atol=1e-5)


def test_a_linear_factor_divides_positions() -> None:
    np.testing.assert_allclose(
        at(QUERY, 12, Rotary(100.0, 4.0)), at(QUERY, 3, Rotary(100.0)), atol=1e-6
    )


def test_llama3_keeps_fast_frequencies_and_divides_slow_ones() -> None:
    scaling = Llama3Scaling(8.0, 1.0, 4.0, 64)
    plain, scaled = (frequencies(Rotary(1e4, s), 16) for s in (None, scaling))
    kinds: set[str] = set()
    for f, got in zip(plain.astype(float), scaled.astype(float), strict=True):
        wavelength = 2 * math.pi / f
        if wavelength < 64 / 4:
            kinds.add("kept")
            expected = f
        elif wavelength > 64:
            kinds.add("divided")
            expected = f / 8
        else:
            kinds.add("between")
            share = (64 / wavelength - 1) / (4 - 1)
            expected = (1 - share) * f / 8 + share * f
        assert got == pytest.approx(expected, rel=1e-6)
    assert kinds == {"kept", "between", "divided"}


def test_the_precision_of_the_input_is_kept_and_angles_are_not_rounded() -> None:
    x = jnp.asarray(QUERY, jnp.bfloat16)
    turned = rotate(x, jnp.array([[501]]), frequencies(Rotary(1e4), DIM))
    assert turned.dtype == jnp.bfloat16
    exact = at(np.asarray(x, np.float32), 501, Rotary(1e4))
    np.testing.assert_allclose(np.asarray(turned, np.float64), exact, rtol=1e-2, atol=1e-2)
