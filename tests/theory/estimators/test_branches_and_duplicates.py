"""Samples that are not independent: beams of a tree, and copies."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from theory.errors import InvalidInput
from theory.estimators.branches import (
    correlation_in_branches,
    distinct_prefixes,
    effective_branches,
    effective_samples,
)
from theory.estimators.duplicates import duplicates


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# Five beams, no beam, one beam.
PATHS = np.array([[1, 1], [1, 1], [1, 2], [2, 2], [3, 1], [1, 1]], np.int64)
PLACES = ints(0, 5, 5, 6)


def test_branches_by_hand() -> None:
    assert distinct_prefixes(PATHS, PLACES, 1).tolist() == [3, 0, 1]
    assert distinct_prefixes(PATHS, PLACES, 2).tolist() == [4, 0, 1]
    np.testing.assert_allclose(effective_branches(PATHS, PLACES, 1), [25 / 11, 0, 1])
    np.testing.assert_allclose(effective_branches(PATHS, PLACES, 2), [25 / 7, 0, 1])
    np.testing.assert_allclose(effective_samples(PATHS, PLACES, 1, 0.0), [5, 0, 1])
    np.testing.assert_allclose(effective_samples(PATHS, PLACES, 1, 0.5), [25 / 8, 0, 1])
    np.testing.assert_allclose(
        effective_samples(PATHS, PLACES, 1, 1.0), effective_branches(PATHS, PLACES, 1)
    )


def test_branches_do_not_depend_on_the_order_of_beams() -> None:
    order = ints(3, 1, 4, 0, 2, 5)
    for count in (distinct_prefixes, effective_branches):
        np.testing.assert_array_equal(count(PATHS, PLACES, 2), count(PATHS[order], PLACES, 2))


def test_effective_samples_are_those_of_the_variance_of_the_mean() -> None:
    covariance = np.where((PATHS[:5, None, 0] == PATHS[None, :5, 0]), 0.3, 0.0)
    np.fill_diagonal(covariance, 1.0)
    found = effective_samples(PATHS, PLACES, 1, 0.3)[0]
    assert found == pytest.approx(25 / covariance.sum())


def test_correlation_in_branches() -> None:
    values = np.array([1.0, 1, 1, 0, 0, 1])
    assert correlation_in_branches(values, PATHS, PLACES, 1) == 1.0
    assert np.isnan(correlation_in_branches(np.ones(6), PATHS, PLACES, 1))
    # Over every order of the values, the mean over pairs of one branch is that over all.
    shares = [
        1 - correlation_in_branches(np.array([*order, 1.0]), PATHS, PLACES, 1)
        for order in itertools.permutations([3.0, 1, 1, 0, 7])
    ]
    assert np.mean(shares) == pytest.approx(1)


def test_published_beams(shared_data_dir: Path) -> None:
    path = next(shared_data_dir.glob("princeton-nlp*")) / "game24_tot_bfs_b5.rollouts.jsonl"
    codes: dict[str, int] = {}
    tasks: dict[str, list[list[int]]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        steps = [codes.setdefault(step, len(codes)) for step in row["branch_path"][:2]]
        tasks.setdefault(row["prompt_id"], []).append(steps)
    paths = np.array(list(itertools.chain(*tasks.values())), np.int64)
    places = ints(*itertools.accumulate(map(len, tasks.values()), initial=0))
    assert distinct_prefixes(paths, places, 1).mean() == pytest.approx(2.0, abs=5e-3)
    assert distinct_prefixes(paths, places, 2).mean() == pytest.approx(2.62, abs=5e-3)


def test_duplicates_by_hand() -> None:
    codes, places = ints(7, 7, 8, 7, 7, 9), ints(0, 3, 3, 6)
    log_probs = np.log(np.array([0.1, 0.1, 0.3, 0.01, 0.01, 0.2]))
    found = duplicates(codes, log_probs, places)
    assert found.pairs == 2
    assert found.expected == pytest.approx((0.5 + 0.22) * 2 / 2)
    assert found.p_value == pytest.approx(6 * 0.01)
    # One code in two tasks is no pair.
    none = duplicates(ints(1, 2, 1, 2), np.full(4, -1.0), ints(0, 2, 4))
    assert (none.pairs, none.p_value) == (0, 1.0)


LAW = np.array([0.5, 0.3, 0.15, 0.05])


def test_pairs_have_the_mean_that_is_expected_and_p_values_are_valid() -> None:
    """Over every draw of three from four sequences."""
    difference, levels = 0.0, []
    for drawn in itertools.product(range(4), repeat=3):
        at = ints(*drawn)
        found = duplicates(at, np.log(LAW[at]), ints(0, 3))
        prob = LAW[at].prod()
        difference += prob * (found.pairs - found.expected)
        levels.append((found.p_value, prob))
    assert difference == pytest.approx(0, abs=1e-12)
    for level in (0.05, 0.15, 0.45, 0.9, 0.999):
        assert sum(prob for p_value, prob in levels if p_value <= level + 1e-12) <= level
    copied = duplicates(ints(3, 3), np.full(2, -200.0), ints(0, 2))
    assert copied.p_value < 1e-80


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: distinct_prefixes(PATHS, PLACES, 3), "depth 3"),
        (lambda: distinct_prefixes(PATHS, PLACES, 0), "depth 0"),
        (lambda: distinct_prefixes(PATHS, ints(0, 5), 1), "offsets"),
        (lambda: effective_samples(PATHS, PLACES, 1, 1.5), "correlation"),
        (lambda: correlation_in_branches(np.full(6, np.nan), PATHS, PLACES, 1), "finite"),
        (lambda: duplicates(ints(1), np.array([0.1]), ints(0, 1)), "at most 0"),
        (lambda: duplicates(ints(1), np.array([np.nan]), ints(0, 1)), "at most 0"),
    ],
)
def test_what_is_refused(call: object, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        call()  # pyright: ignore[reportCallIssue]
