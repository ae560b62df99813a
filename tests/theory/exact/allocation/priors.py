"""Posterior means by rational arithmetic, and rules for pools of prompts: what the exact programs are held against."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Rational(NamedTuple):
    """A prior with whole parameters and atoms at 0 and 1, so that everything under it is a fraction."""

    a: int
    b: int
    at_zero: Fraction = Fraction(0)
    at_one: Fraction = Fraction(0)

    def moment(self, successes: int, failures: int) -> Fraction:
        """E[p^s (1 - p)^f]."""
        beta = Fraction(1)
        for i in range(successes):
            beta *= Fraction(self.a + i, self.a + self.b + i)
        for j in range(failures):
            beta *= Fraction(self.b + j, self.a + self.b + successes + j)
        return (
            (1 - self.at_zero - self.at_one) * beta
            + self.at_zero * (successes == 0)
            + self.at_one * (failures == 0)
        )

    def mean(self, successes: int, failures: int) -> Fraction:
        """P(the next rollout succeeds | successes, failures)."""
        return self.moment(successes + 1, failures) / self.moment(successes, failures)

    def means(self, successes: np.ndarray, failures: np.ndarray) -> np.ndarray:
        """`mean` of many pairs, as floats."""
        return np.array(
            [float(self.mean(int(s), int(f))) for s, f in zip(successes, failures, strict=True)]
        )


FLAT = Rational(1, 1)
U_SHAPED = Rational(2, 3, Fraction(3, 10), Fraction(1, 4))
"""A Beta between two atoms: hopeless and mastered prompts."""
