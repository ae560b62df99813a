"""What a sequential rule does on every outcome sequence, in fractions."""

from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from tests.theory.allocation.exact_beta import moment

# Laws of the success rate: Betas (weight, a, b) and atoms (weight, point).
Betas = list[tuple[Fraction, Fraction, Fraction]]
Atoms = list[tuple[Fraction, Fraction]]


class Visit(NamedTuple):
    """How a visit to a prompt ended on one outcome sequence."""

    stopped_after: int
    trains: bool
    rollouts: int
    successes: int

    @property
    def mixed(self) -> bool:
        return 0 < self.successes < self.rollouts


def probability(betas: Betas, atoms: Atoms, successes: int, failures: int) -> Fraction:
    """Of one outcome sequence."""
    total = sum((w * moment(a, b, successes, failures) for w, a, b in betas), Fraction(0))
    return total + sum((w * x**successes * (1 - x) ** failures for w, x in atoms), Fraction(0))


def visit(
    goes_on: np.ndarray, trains: np.ndarray, group_size: np.ndarray, outcomes: tuple[int, ...]
) -> Visit:
    """Follow the rule along one sequence of 0 and 1, long enough for every group."""
    t = s = 0
    while goes_on[t, s] and t < len(goes_on) - 1:
        s += outcomes[t]
        t += 1
    rollouts = int(group_size[t, s]) if trains[t, s] else t
    return Visit(t, bool(trains[t, s]), rollouts, sum(outcomes[:rollouts]))


def all_visits(
    goes_on: np.ndarray,
    trains: np.ndarray,
    group_size: np.ndarray,
    betas: Betas,
    atoms: Atoms,
    length: int,
) -> list[tuple[Fraction, bool, Visit]]:
    """Probability, whether the full group of `length` is mixed, and how the visit ended, for each sequence."""
    rows: list[tuple[Fraction, bool, Visit]] = []
    for outcomes in product((0, 1), repeat=length):
        hits = sum(outcomes)
        mass = probability(betas, atoms, hits, length - hits)
        rows.append((mass, 0 < hits < length, visit(goes_on, trains, group_size, outcomes)))
    return rows
