"""Damage of wrong likelihoods: the law of c that they give, against fractions."""

from fractions import Fraction
from math import comb, factorial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.planted_bugs.defect import total_variation

# pi_0, pi_1, and whole a and b, so that every probability is a fraction.
WEIGHTS = (Fraction(3, 10), Fraction(1, 5))
A, B, NUM_SAMPLES = 1, 2, 4


def exact_law() -> list[Fraction]:
    """P(c) for c = 0..n, by factorials."""
    zero, one = WEIGHTS
    found = [
        (1 - zero - one) * comb(NUM_SAMPLES, c) * _beta_ratio(c) for c in range(NUM_SAMPLES + 1)
    ]
    found[0] += zero
    found[-1] += one
    return found


def law_by(likelihood: Any) -> np.ndarray:
    """P(c) as a likelihood of outcomes in their order gives it."""
    zero, one = map(float, WEIGHTS)
    with jax.enable_x64(True):
        log_weights = jnp.log(jnp.array([zero, one, 1 - zero - one]))
        a, b = jnp.asarray(float(A)), jnp.asarray(float(B))
        return np.array(
            [
                comb(NUM_SAMPLES, c)
                * np.exp(
                    likelihood(
                        log_weights,
                        a,
                        b,
                        *(jnp.array([float(x)]) for x in (NUM_SAMPLES, c, 1)),
                    )
                )
                for c in range(NUM_SAMPLES + 1)
            ]
        )


def of_law(likelihood: Any) -> float:
    """Half the L1 distance of the two."""
    return total_variation(law_by(likelihood), [float(p) for p in exact_law()])


def _beta_ratio(c: int) -> Fraction:
    """B(a + c, b + n - c) / B(a, b)."""
    return _beta(A + c, B + NUM_SAMPLES - c) / _beta(A, B)


def _beta(a: int, b: int) -> Fraction:
    return Fraction(factorial(a - 1) * factorial(b - 1), factorial(a + b - 1))
