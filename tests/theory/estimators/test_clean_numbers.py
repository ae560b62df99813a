"""Means over subsets that are whole numbers or short fractions come out as such, to the last digit."""

from fractions import Fraction
from math import comb

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from theory.estimators.best_of_n import best_of_n_at_k
from theory.estimators.coverage import pass_at_k, pass_at_k_exact, pass_hat_k, pass_hat_k_exact
from theory.estimators.diversity import distinct_at_k
from theory.estimators.subsets import on_grid
from theory.estimators.votes import majority_at_k

VALUES = st.sampled_from([0.0, 0.5, 1.0, 0.1, -2.0])


def _one(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_coverage_is_the_nearest_double_to_its_fraction() -> None:
    for n in range(1, 15):
        for c in range(n + 1):
            for k in range(1, n + 1):
                assert pass_at_k(_one(n), _one(c), k)[0] == float(pass_at_k_exact(n, c, k))
                assert pass_hat_k(_one(n), _one(c), k)[0] == float(pass_hat_k_exact(n, c, k))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 3), st.data())
def test_distinct_answers_are_the_nearest_double_to_their_fraction(
    counts: list[int], silent: int, data: st.DataObject
) -> None:
    n = sum(counts) + silent
    k = data.draw(st.integers(1, n))
    exact = sum((1 - Fraction(comb(n - c, k), comb(n, k)) for c in counts), Fraction())
    found = distinct_at_k(_one(*counts), _one(0, len(counts)), _one(n), k)
    assert found[0] == float(exact)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), VALUES, st.data())
def test_answers_of_one_value_give_that_value(
    counts: list[int], worth: float, data: st.DataObject
) -> None:
    n = sum(counts)
    k = data.draw(st.integers(1, n))
    values = np.full(len(counts), worth)
    assert majority_at_k(_one(*counts), values, _one(0, len(counts)), _one(n), k)[0] == worth
    scores = np.array([data.draw(st.integers(0, 5)) for _ in range(n)], np.float64)
    found = best_of_n_at_k(scores, np.full(n, worth), _one(0, n), k)
    assert abs(found[0] - worth) <= (0 if worth in (0.0, 0.5, 1.0, -2.0) else 1e-16)


@given(st.integers(1, 3), st.integers(0, 2), st.integers(1, 9))
def test_a_vote_that_can_have_one_winner_only_is_exact(
    right: int, wrong_less: int, silent: int
) -> None:
    """All samples are drawn: the answer with more votes wins for sure, right or wrong."""
    most, least = right + 1, max(right - wrong_less, 1)
    counts, n = _one(most, least), most + least + silent
    for values, wanted in (([1.0, 0.0], 1.0), ([0.0, 1.0], 0.0)):
        found = majority_at_k(counts, np.array(values), _one(0, 2), _one(n), n)
        assert found[0] == wanted


def test_the_grid_is_left_where_it_is_too_fine() -> None:
    numbers = np.array([0.3000000001, 0.3000000001, 0.25])
    found = on_grid(numbers, _one(4, 100, 4), 2)
    assert found.tolist() == [2 / 6, 1485 / 4950, 2 / 6]
    assert on_grid(numbers, _one(60, 60, 60), 30).tolist() == numbers.tolist()
    assert on_grid(numbers, _one(2000, 2000, 2000), 1000).tolist() == numbers.tolist()
