"""What the catalogue says of one planted bug."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

TOTAL_VARIATION = "total variation"
"""Between the law that comes out and the one that should."""

RELATIVE_BIAS = "relative bias"
"""|expectation / truth - 1|."""

VARIANCE = "error of variance"
"""|variance / right variance - 1|."""

SHARE = "wrong share"
"""Of all outcomes that were looked at."""

UNITS = (TOTAL_VARIATION, RELATIVE_BIAS, VARIANCE, SHARE)
"""Each is 0 for right code; the first and the last are at most 1."""


class Defect(NamedTuple):
    """One planted bug on one toy.

    Attributes:
        kind: what is wrong, in a few words.
        twin: the wrong code, from a module of this package.
        right: the code in whose place it stands.
        measure: exact damage of an implementation, in the unit: the same function for the twin and the right code.
        damage: what it gives for the twin, to six digits; for the right code it gives 0.
        unit: one of `UNITS`.
        toy: on which, in words.
        test: the test that catches the twin, path::function.
        reports: public reports of the same mistake, repository#number.
    """

    kind: str
    twin: Callable[..., Any]
    right: Callable[..., Any]
    measure: Callable[[Any], float]
    damage: float
    unit: str
    toy: str
    test: str
    reports: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Module and name of the twin, within this package."""
        return f"{self.twin.__module__.removeprefix('tests.planted_bugs.')}.{self.twin.__name__}"


def total_variation(p: Any, q: Any) -> float:
    """Half the L1 distance of two laws on the same places."""
    return float(np.abs(np.asarray(p, np.float64) - np.asarray(q, np.float64)).sum() / 2)


def relative_error(value: float, truth: float) -> float:
    """|value / truth - 1|."""
    return abs(float(value) / float(truth) - 1.0)
