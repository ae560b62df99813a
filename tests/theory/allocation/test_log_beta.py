"""All digits of Beta moments at counts up to 10^6, in both precisions, against 40-digit decimals and fractions."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.allocation.exact_beta import log_moment, moment
from theory.allocation.log_beta import log_beta_likelihood, log_beta_moment, log_power_moment

PRECISIONS = [np.float32, np.float64]
NUM_CASES = 60


def cases(kind: type[np.floating[Any]]) -> list[np.ndarray]:
    """Parameters from .01 to 10^6, counts from 0 to 10^6, of numbers that the type holds exactly."""
    rng = np.random.default_rng(0)
    parameters = 10 ** rng.uniform(-2, 6, (2, NUM_CASES))
    counts = np.floor(10 ** rng.uniform(-1, 6, (2, NUM_CASES)))
    counts[0, :10] = 0
    counts[1, 5:15] = 0
    # Data that agree with a sharp prior: the terms of order n cancel.
    parameters[:, 15:20] = 10.0 ** np.arange(2, 7)
    counts[:, 15:20] = parameters[:, 15:20]
    return [column.astype(kind) for column in (*parameters, *counts)]


def errors(values: Any, exact: list[Decimal]) -> np.ndarray:
    """How far off, without rounding the difference away."""
    pairs = zip(np.asarray(values, np.float64), exact, strict=True)
    return np.array([float(abs(Decimal(value) - truth)) for value, truth in pairs])


@pytest.mark.parametrize("kind", PRECISIONS)
def test_moments_have_all_their_digits(kind: type[np.floating[Any]]) -> None:
    columns = cases(kind)
    exact = [log_moment(*row)[0] for row in zip(*columns, strict=True)]
    with jax.enable_x64(kind is np.float64):
        found = log_beta_moment(*(jnp.asarray(column) for column in columns))
        assert found.dtype == kind
    size = np.abs([float(log) for log in exact])
    assert np.all(errors(found, exact) <= 20 * np.finfo(kind).eps * size)


@pytest.mark.parametrize("kind", PRECISIONS)
def test_relative_likelihoods_have_all_their_digits(kind: type[np.floating[Any]]) -> None:
    columns = cases(kind)
    exact = [log_moment(*row)[1] for row in zip(*columns, strict=True)]
    with jax.enable_x64(kind is np.float64):
        found = log_beta_likelihood(*(jnp.asarray(column) for column in columns))
        assert found.dtype == kind
    size = 1 + np.abs([float(log) for log in exact])
    assert np.all(errors(found, exact) <= 100 * np.finfo(kind).eps * size)


@given(
    a=st.fractions(min_value=Fraction(1, 20), max_value=20, max_denominator=20),
    b=st.fractions(min_value=Fraction(1, 20), max_value=20, max_denominator=20),
    successes=st.integers(0, 30),
    failures=st.integers(0, 30),
)
def test_moments_are_rational_products(
    a: Fraction, b: Fraction, successes: int, failures: int
) -> None:
    with jax.enable_x64(True):
        arguments = [jnp.asarray(float(x)) for x in (a, b, successes, failures)]
        found = jnp.exp(log_beta_moment(*arguments))
    np.testing.assert_allclose(found, float(moment(a, b, successes, failures)), rtol=2e-13)


def test_power_moment_is_symmetric_and_an_atom_without_b() -> None:
    with jax.enable_x64(True):
        a, b, k = (jnp.asarray(x) for x in (0.3, 2.5, 17.0))
        np.testing.assert_allclose(log_power_moment(a, b, k), log_power_moment(a, k, b), rtol=1e-15)
        assert log_power_moment(a, 0 * b, k) == 0
        assert log_power_moment(a, b, 0 * k) == 0
