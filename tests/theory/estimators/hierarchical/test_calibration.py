"""Where the truth ranks among posterior draws is uniform; with a wrong likelihood it is not.

This certifies the sampler, the likelihood and the closed forms together, and nothing about a population of another form: see docs/bayesian_coverage.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.planted_bugs.hierarchical import atoms_take_all_ties, ignores_the_atoms
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.estimators.hierarchical.ranks import NUM_RANKS, QUANTITIES, calibration_ranks
from theory.estimators.hierarchical.posterior import Effort, log_likelihood

EFFORT = Effort(num_chains=2, num_warmup=300, num_draws=500)


def assert_uniform(ranks: np.ndarray, num_cells: int) -> None:
    for quantity in range(len(QUANTITIES)):
        cells = ranks[:, quantity] * num_cells // NUM_RANKS
        assert_counts(np.bincount(cells, minlength=num_cells), np.full(num_cells, 1 / num_cells))


@pytest.mark.slow
def test_ranks_are_uniform() -> None:
    assert_uniform(calibration_ranks(log_likelihood, 400, EFFORT), NUM_RANKS)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [ignores_the_atoms, atoms_take_all_ties])
def test_ranks_with_a_wrong_likelihood_are_not(wrong: Callable[..., Any]) -> None:
    ranks = calibration_ranks(wrong, 100, EFFORT)
    assert_rejected(lambda: assert_uniform(ranks, NUM_RANKS))
