"""Weighted votes against every subset, and their random subsets against all of them."""

import itertools
import math
from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from theory.errors import InvalidInput
from theory.estimators.best_of_n import best_of_n_at_k, best_of_n_at_ks
from theory.estimators.weighted_votes import WeightedMajority, weighted_majority_at_ks

# Answer (None abstains), verdict, score in eighths: sums are exact.
Sample = tuple[int | None, int, int]
SAMPLES = st.lists(
    st.tuples(st.sampled_from([None, 0, 1, 2]), st.integers(0, 1), st.integers(0, 8)),
    min_size=1,
    max_size=6,
)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def weighed(
    log: Sequence[Sequence[Sample]],
    ks: Sequence[int],
    num_subsets: int = 500,
    seed: int = 0,
    power: int = 0,
) -> WeightedMajority:
    """Tasks are named by their places; answers count from another number in each; scores are times two to the power."""
    answers = [-1 if a is None else a + 7 * i for i, task in enumerate(log) for a, _, _ in task]
    correct = [float(v) for task in log for _, v, _ in task]
    scores = [s / 8 for task in log for _, _, s in task]
    offsets = np.cumsum([0, *map(len, log)])
    return weighted_majority_at_ks(
        ints(*answers),
        np.ldexp(scores, power),
        np.array(correct),
        offsets.astype(np.int64),
        ks,
        num_subsets,
        seed,
        np.arange(len(log), dtype=np.int64),
    )


def vote(task: Sequence[Sample], subset: Sequence[Sample]) -> float:
    sums: dict[int, int] = {}
    for answer, _, score in subset:
        if answer is not None:
            sums[answer] = sums.get(answer, 0) + score
    top = [answer for answer, total in sums.items() if total == max(sums.values())]
    worth = [np.mean([v for a, v, _ in task if a == answer]) for answer in top]
    return float(np.mean(worth)) if top else 0.0


def all_votes(task: Sequence[Sample], k: int) -> list[float]:
    return [vote(task, subset) for subset in itertools.combinations(task, k)]


@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_where_subsets_are_few_the_vote_is_their_mean(log: list[list[Sample]]) -> None:
    ks = [1, 2, 3, 4, 6]
    found = weighed(log, ks)
    for task, values, errors in zip(log, found.value, found.monte_carlo_error, strict=True):
        for k, value, error in zip(ks, values, errors, strict=True):
            if k > len(task):
                assert math.isnan(value) and math.isnan(error)
            else:
                assert error == 0
                assert value == pytest.approx(np.mean(all_votes(task, k)), abs=1e-13)


TASK: list[Sample] = [(0, 1, 2), (0, 0, 7), (1, 0, 8), (1, 0, 2), (2, 1, 9), (None, 1, 8), (2, 1, 1), (3, 0, 6), (0, 1, 1)]  # fmt: skip


def test_one_and_two_samples_need_no_subsets() -> None:
    """36 pairs, more than the two that may be drawn."""
    found = weighed([TASK], [1, 2], num_subsets=2)
    truth = [np.mean(all_votes(TASK, k)) for k in (1, 2)]
    np.testing.assert_allclose(found.value[0], truth, atol=1e-13)
    np.testing.assert_array_equal(found.monte_carlo_error, 0.0)


def test_limit_of_what_is_looked_at_whole() -> None:
    assert weighed([TASK], [4], num_subsets=126).monte_carlo_error[0, 0] == 0  # C(9, 4)
    assert weighed([TASK], [4], num_subsets=125).monte_carlo_error[0, 0] > 0
    assert weighed([TASK], [8], num_subsets=9).monte_carlo_error[0, 0] == 0  # C(9, 8)


def test_random_subsets_are_uniform_and_their_error_is_told() -> None:
    """1,500 tasks of the same samples: means within 5 standard errors (P < 1e-6 of normal numbers), errors within 3 % of the truth."""
    num_tasks, num_subsets = 1500, 40
    found = weighed([TASK] * num_tasks, [3, 5], num_subsets)
    for place, k in enumerate((3, 5)):
        votes = all_votes(TASK, k)
        error = np.std(votes) / math.sqrt(num_subsets)
        mean = found.value[:, place].mean()
        assert abs(mean - np.mean(votes)) < 5 * error / math.sqrt(num_tasks)
        told = math.sqrt(np.mean(found.monte_carlo_error[:, place] ** 2))
        assert told == pytest.approx(error, rel=0.03)
        assert np.std(found.value[:, place]) == pytest.approx(error, rel=0.1)


def test_subsets_are_those_of_the_task_whatever_stands_beside_it() -> None:
    others: list[list[Sample]] = [TASK[:5], TASK, TASK[:8], TASK]
    whole = weighed(others, [3, 4], num_subsets=4)
    assert whole.value[1, 0] != whole.value[3, 0] or whole.value[1, 1] != whole.value[3, 1]
    names = ints(3)
    alone = weighted_majority_at_ks(
        ints(*(-1 if a is None else a for a, _, _ in TASK)),
        np.array([s / 8 for _, _, s in TASK]),
        np.array([float(v) for _, v, _ in TASK]),
        ints(0, len(TASK)),
        [4],
        4,
        0,
        names,
    )
    assert alone.value[0, 0] == whole.value[3, 1]
    again = weighed(others, [3, 4], num_subsets=4, seed=1)
    assert not np.array_equal(again.value, whole.value)


def test_sums_of_scores_that_differ_in_the_last_bits_are_tied() -> None:
    scores, correct = np.array([0.1, 0.2, 0.3]), np.array([1.0, 1.0, 0.0])
    found = weighted_majority_at_ks(ints(0, 0, 1), scores, correct, ints(0, 3), [3], 2, 0, ints(0))
    assert 0.1 + 0.2 != 0.3 and found.value[0, 0] == 0.5


@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_best_of_n_of_several_values_is_that_of_each(log: list[list[Sample]]) -> None:
    scores = np.array([float(s) for task in log for _, _, s in task])
    values = np.array([[float(v), s - v] for task in log for _, v, s in task])
    offsets = np.cumsum([0, *map(len, log)]).astype(np.int64)
    least = min(map(len, log))
    found = best_of_n_at_ks(scores, values, offsets, [1, least, 7])
    assert np.isnan(found[:, 2]).all()
    for place, k in enumerate((1, least)):
        for which in (0, 1):
            one = best_of_n_at_k(scores, values[:, which], offsets, k)
            np.testing.assert_array_equal(found[:, place, which], one)


@pytest.mark.parametrize(
    ("score", "ks", "num_subsets", "line"),
    [
        (-1.0, [1], 2, "scores: must be finite and at least 0"),
        (math.nan, [1], 2, "scores: must be finite and at least 0"),
        (1.0, [1], 1, "1 subsets: give at least 2"),
        (1.0, [1, 0], 2, "k = 0: must be at least 1"),
    ],
)
def test_what_has_no_answer_is_refused(
    score: float, ks: list[int], num_subsets: int, line: str
) -> None:
    with pytest.raises(InvalidInput, match=line):
        weighted_majority_at_ks(
            ints(0), np.array([score]), np.ones(1), ints(0, 1), ks, num_subsets, 0, ints(0)
        )


@example([[(0, 1, 8), (0, 1, 8), (1, 0, 8)]], 1023)
@given(st.lists(SAMPLES, min_size=1, max_size=3), st.sampled_from([-900, -60, 1, 700, 1023]))
def test_scores_of_another_scale_give_the_same_votes(log: list[list[Sample]], power: int) -> None:
    """Up to the end of the range of doubles, where a sum of two scores is beyond it."""
    ks = [1, 2, 3, 4, 5]
    found, scaled = weighed(log, ks, 4), weighed(log, ks, 4, power=power)
    np.testing.assert_array_equal(scaled.value, found.value)
    np.testing.assert_array_equal(scaled.monte_carlo_error, found.monte_carlo_error)


@example([[(0, 0, 8), (0, 1, 7)]], 1023)
@example([[(0, 1, 8), (0, 1, 8)]], 1023)
@given(st.lists(SAMPLES, min_size=1, max_size=3), st.sampled_from([-900, 700, 1023]))
def test_values_of_another_scale_give_the_same_choices(log: list[list[Sample]], power: int) -> None:
    scores = np.array([s / 8 for task in log for _, _, s in task])
    values = np.array([(2 * v - 1) * (s + 1) / 8 for task in log for _, v, s in task])
    offsets = ints(*np.cumsum([0, *map(len, log)]))
    ks = [1, 2, 3]
    found = best_of_n_at_ks(scores, values[:, None], offsets, ks)
    scaled = best_of_n_at_ks(np.ldexp(scores, power), np.ldexp(values, power)[:, None], offsets, ks)
    np.testing.assert_allclose(scaled, np.ldexp(found, power), rtol=1e-13, atol=0)


def _vote(answers: list[int], scores: list[float], correct: list[int]) -> float:
    """Of all samples of one task."""
    size = len(answers)
    found = weighted_majority_at_ks(
        np.array(answers), np.array(scores, np.float64), np.array(correct, np.float64), np.array([0, size]), (size,), 2, 0, np.array([0]),
    )  # fmt: skip
    assert found.monte_carlo_error[0, 0] == 0
    return float(found.value[0, 0])


def test_sums_that_are_near_are_no_tie_and_sums_that_round_apart_are_one() -> None:
    assert _vote([0, 0, 1], [0.5, 0.5, 1 + 1e-9], [0, 0, 1]) == 1.0
    assert _vote([0, 0, 1], [0.5, 0.5, 1 - 1e-9], [0, 0, 1]) == 0.0
    assert _vote([0, 0, 0, 1], [0.1, 0.2, 0.3, 0.6], [0, 0, 0, 1]) == 0.5


def test_sums_beyond_the_range_are_told_apart() -> None:
    assert _vote([0] * 4 + [1] * 3, [1.7e308] * 7, [1] * 4 + [0] * 3) == 1.0
    assert _vote([0] * 9 + [1] * 8, [1.7e308] * 17, [0] * 9 + [1] * 8) == 0.0


def test_the_error_of_two_subsets_is_half_their_difference() -> None:
    tasks = 40
    answers, correct = np.tile([0, 0, 1, 1], tasks), np.tile([1.0, 1, 0, 0], tasks)
    found = weighted_majority_at_ks(
        answers, np.ones(4 * tasks), correct, np.arange(0, 4 * tasks + 1, 4), (3,), 2, 0, np.arange(tasks),
    )  # fmt: skip
    value, error = found.value[:, 0], found.monte_carlo_error[:, 0]
    assert {0.0, 0.5, 1.0} == set(value.tolist())
    np.testing.assert_allclose(error, np.where(value == 0.5, 0.5, 0.0), atol=1e-15)
