"""Stopping rules: their exact cost per effective group on a U-shaped population."""

from collections.abc import Callable

import numpy as np

from tests.planted_bugs.defect import relative_error
from tests.theory.allocation.truth import visit
from theory.allocation.policies.sara import table
from theory.allocation.priors import beta
from theory.allocation.sequential import ActionTable

GROUP = 8
RATES = np.concatenate([np.zeros(8), np.ones(8), np.linspace(0.04, 0.9, 16)])
TOY = "half of the prompts at 0 or 1, half between, n = 8"


def sara(group_size: int) -> ActionTable:
    """The right rule, in the form of its twins."""
    return table(beta(1.0, 1.0), group_size)


def of_cost(build: Callable[[int], ActionTable]) -> float:
    """Relative error of the rollouts spent for a mixed group."""

    def cost(rule: Callable[[int], ActionTable]) -> float:
        found = visit(rule(GROUP), RATES, GROUP)
        return found.rollouts / found.trained

    return relative_error(cost(build), cost(sara))
