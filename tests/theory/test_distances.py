"""How far frequencies are from their own law, how far a law must be to be seen, and whether flows are symmetric."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from theory.goodness_of_fit import (
    counts_p_value,
    empirical_distance,
    minimum_detectable_distance,
    symmetry_p_value,
)


def test_the_expected_distance_is_the_sum_over_all_outcomes() -> None:
    law, n = np.array([0.55, 0.3, 0.15]), 5
    total = 0.0
    for counts in product(range(n + 1), repeat=3):
        if sum(counts) == n:
            mass = stats.multinomial.pmf(counts, n, law)
            total += mass * np.abs(np.array(counts) / n - law).sum() / 2
    assert empirical_distance(law, n).mean == pytest.approx(total, rel=1e-12)


def test_its_standard_deviation_is_that_of_draws() -> None:
    law, n = np.array([0.5, 0.2, 0.2, 0.06, 0.04]), 3_000
    draws = np.random.default_rng(0).multinomial(n, law, size=20_000)
    distances = np.abs(draws / n - law).sum(axis=1) / 2
    found = empirical_distance(law, n)
    assert found.standard_deviation == pytest.approx(distances.std(), rel=0.03)
    assert found.mean == pytest.approx(distances.mean(), rel=0.01)


def test_a_certain_law_has_no_distance() -> None:
    assert empirical_distance(np.array([1.0, 0.0]), 10) == (0.0, 0.0)


@pytest.mark.parametrize(("num_cells", "n"), [(5, 2_000), (31, 4_096), (200, 20_000)])
@pytest.mark.parametrize("kind", ["random", "half", "two cells"])
def test_a_law_at_the_stated_distance_is_seen(num_cells: int, n: int, kind: str) -> None:
    rng = np.random.default_rng(num_cells)
    law = np.sort(rng.dirichlet(np.full(num_cells, 0.7)))[::-1]
    level = 1e-6
    distance = minimum_detectable_distance(law, n, level)
    shift = {
        "random": rng.normal(size=num_cells) * law,
        "half": np.where(np.arange(num_cells) % 2, 1.0, -1.0) * law,
        "two cells": np.eye(num_cells)[1] - np.eye(num_cells)[0],
    }[kind]
    shift = shift - law * shift.sum()
    other = law + distance * shift / (np.abs(shift).sum() / 2)
    other = np.maximum(other, 0.0) / np.maximum(other, 0.0).sum()
    seen = [counts_p_value(rng.multinomial(n, other), law) < level for _ in range(100)]
    assert np.mean(seen) > 0.95


def test_a_tenth_of_the_distance_is_not_always_seen() -> None:
    """The distance is not idle: it is within a small factor of what the test needs."""
    law, n = np.full(10, 0.1), 5_000
    distance = minimum_detectable_distance(law, n, 1e-6)
    other = law + np.where(np.arange(10) % 2, 1, -1) * distance / 10 / 2
    rng = np.random.default_rng(1)
    assert np.mean([counts_p_value(rng.multinomial(n, other), law) < 1e-6 for _ in range(50)]) < 0.2


def test_one_cell_of_several_tests_nothing() -> None:
    assert minimum_detectable_distance(np.array([0.999, 0.001]), 20, 1e-6) == np.inf
    assert minimum_detectable_distance(np.array([1.0, 0.0]), 1_000, 1e-6) < 0.01


def test_flows_of_a_reversible_chain_pass_and_of_a_cycle_do_not() -> None:
    rng = np.random.default_rng(2)
    symmetric = np.array([[0.2, 0.1, 0.05], [0.1, 0.2, 0.1], [0.05, 0.1, 0.1]])
    counts = rng.multinomial(20_000, symmetric.ravel()).reshape(3, 3)
    assert symmetry_p_value(counts) > 1e-3
    cycle = symmetric + 0.02 * np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    counts = rng.multinomial(20_000, cycle.ravel()).reshape(3, 3)
    assert symmetry_p_value(counts) < 1e-6
    assert symmetry_p_value(np.eye(3, dtype=int)) == 1.0
