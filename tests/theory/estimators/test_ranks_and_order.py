"""Ranks, calibration, clusters and the order of samples."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidInput
from theory.estimators.calibration import (
    equal_mass_bins,
    equal_width_bins,
    expected_calibration_error,
    squared_errors,
)
from theory.estimators.clustering import clustered_error
from theory.estimators.order import OrderSums, order_sums, order_test
from theory.estimators.ranks import auroc_by_task, mid_ranks, spearman_by_task

SCORES = np.array([0.9, 0.8, 0.7, 0.6, 0.2, 0.1])
CORRECT = np.array([1.0, 1, 0, 1, 0, 0])


def offsets(*places: int) -> np.ndarray:
    return np.array(places, np.int64)


def test_golden_numbers_of_calibration() -> None:
    assert squared_errors(SCORES, CORRECT).mean() == pytest.approx(0.125)
    assert auroc_by_task(SCORES, CORRECT, offsets(0, 6))[0] == pytest.approx(8 / 9)
    assert expected_calibration_error(equal_width_bins(SCORES, CORRECT, 5)) == pytest.approx(0.15)
    mass = expected_calibration_error(equal_mass_bins(SCORES, CORRECT, 5))
    assert mass == pytest.approx(0.283, abs=5e-4)


def test_bins_of_equal_width_are_closed_on_the_left() -> None:
    scores = np.arange(101) / 100
    bins = equal_width_bins(scores, np.zeros(101), 100)
    np.testing.assert_array_equal(bins.low, scores[:100])
    np.testing.assert_array_equal(bins.counts, [*np.ones(99), 2])


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=1, max_size=20
    ),
    st.integers(1, 6),
    st.randoms(),
)
def test_bins_hold_every_row_once_in_any_order(
    rows: list[tuple[float, bool]], num: int, random: object
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # pyright: ignore[reportAttributeAccessIssue]
    found = [
        equal_mass_bins(np.array([s for s, _ in r]), np.array([float(c) for _, c in r]), num)
        for r in (rows, shuffled)
    ]
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-15)
    bins = found[0]
    assert bins.counts.sum() == len(rows) and bins.counts.size <= num
    assert (bins.low[1:] > bins.high[:-1]).all()
    assert (bins.counts * bins.accuracy).sum() == pytest.approx(sum(c for _, c in rows))
    assert (bins.counts * bins.mean_score).sum() == pytest.approx(sum(s for s, _ in rows))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_auroc_counts_pairs(log: list[list[tuple[int, int]]]) -> None:
    rows = list(itertools.chain(*log))
    places = offsets(*itertools.accumulate(map(len, log), initial=0))
    scores, correct = np.array([float(s) for s, _ in rows]), np.array([float(c) for _, c in rows])
    found = auroc_by_task(scores, correct, places)
    for task, got in zip(log, found, strict=True):
        pairs = [(a > b) + 0.5 * (a == b) for a, x in task for b, y in task if x > y]
        assert got == pytest.approx(float(np.mean(pairs)), nan_ok=True) if pairs else np.isnan(got)
    ranks = mid_ranks(scores, places)
    for begin, end in itertools.pairwise(places):
        part = scores[begin:end]
        own = [(part < s).sum() + ((part == s).sum() + 1) / 2 for s in part]
        np.testing.assert_array_equal(ranks[begin:end], own)


def test_edges_of_bins() -> None:
    """A run of two goes with its first row, and the last bin holds 1."""
    runs = equal_mass_bins(np.array([0.1, 0.2, 0.2, 0.3]), np.ones(4), 2)
    assert runs.counts.tolist() == [3, 1]
    assert equal_width_bins(np.array([0.95, 1.0]), np.ones(2), 2).counts.tolist() == [2]


def test_clusters_of_unequal_sizes_and_without_variance() -> None:
    rows = [[1.0, 1, 1], [0.0], [1.0, 0]]
    error = clustered_error(
        *(np.array([f(r) for r in rows]) for f in (lambda r: float(len(r)), sum, sum))
    )
    overall = 4 / 6
    between = sum(len(r) * (np.mean(r) - overall) ** 2 for r in rows) / 2
    within, size = 0.5 / 3, (6 - (9 + 1 + 4) / 6) / 2
    expected = (between - within) / (between + (size - 1) * within)
    assert error.intraclass_correlation == pytest.approx(float(expected))
    constant = clustered_error(np.full(2, 3.0), np.full(2, 3.0), np.full(2, 3.0))
    assert np.isnan(constant.intraclass_correlation) and np.isnan(constant.design_effect)


def test_rank_correlation() -> None:
    x, y = np.array([1.0, 2, 3, 4, 1, 1]), np.array([1.0, 3, 2, 4, 5, 6])
    found = spearman_by_task(x, y, offsets(0, 4, 6))
    assert found[0] == pytest.approx(0.8) and np.isnan(found[1])


def test_clusters() -> None:
    """Three tasks of four rows; two tasks of one value each in every run."""
    rows = np.array([[1.0, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]])
    sums = rows.sum(axis=1)
    error = clustered_error(np.full(3, 4.0), sums, sums)
    assert error.clustered == pytest.approx(0.288675, abs=5e-7)
    assert error.naive == pytest.approx(0.150756, abs=5e-7)
    assert error.design_effect == pytest.approx((0.288675 / 0.150756) ** 2, rel=1e-5)
    between = 4 * np.var(sums / 4, ddof=1)
    within = (rows.var(axis=1) * 4).sum() / 9
    assert error.intraclass_correlation == pytest.approx(
        (between - within) / (between + 3 * within)
    )
    split = clustered_error(np.full(2, 4.0), np.array([4.0, 0]), np.array([4.0, 0]))
    assert split.clustered == pytest.approx(0.5) and split.intraclass_correlation == 1.0
    assert np.isnan(clustered_error(np.ones(3), np.ones(3), np.ones(3)).intraclass_correlation)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=6))
def test_moments_of_the_order_are_those_of_all_orders(outcome: list[int]) -> None:
    size = len(outcome)
    here = offsets(0, size)
    orders = [order_sums(np.array(o, float), here) for o in itertools.permutations(outcome)]
    trends, alike = (np.array([o[i][0] for o in orders]) for i in (0, 2))
    assert trends.mean() == pytest.approx(0, abs=1e-12)
    assert orders[0].trend_variance[0] == pytest.approx(trends.var(), abs=1e-12)
    assert orders[0].alike_mean[0] == pytest.approx(alike.mean(), abs=1e-12)
    assert orders[0].alike_variance[0] == pytest.approx(alike.var(), abs=1e-12)


def test_tasks_add_up_and_empty_ones_add_nothing() -> None:
    outcome = np.array([1.0, 0, 1, 1, 0, 0, 1])
    whole = order_sums(outcome, offsets(0, 4, 4, 7))
    parts = [order_sums(outcome[:4], offsets(0, 4)), order_sums(outcome[4:], offsets(0, 3))]
    for both, first, second in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(both, [first[0], 0.0, second[0]])


def test_a_trend_and_alike_neighbours_are_found() -> None:
    """Two hundred tasks: later samples worse, sorted blocks, and shuffled ones."""
    rng = np.random.default_rng(0)
    places = np.arange(0, 2001, 10).astype(np.int64)
    late = (rng.random((200, 10)) < np.linspace(0.7, 0.3, 10)).astype(float).ravel()
    test = order_test(order_sums(late, places))
    assert test.trend_z < -5 and test.p_value < 1e-6
    blocks = np.tile(np.array([1.0, 1, 0, 0, 1, 1, 0, 0, 1, 1]), 200)
    test = order_test(order_sums(blocks, places))
    assert test.neighbour_z > 5 and abs(test.trend_z) < 1e-9 and test.alike == 1000
    same = order_test(order_sums(np.ones(2000), places))
    assert same.p_value == 1.0 and same.alike == same.alike_by_chance == 1800


def test_two_looks_at_one_order_are_paid_for() -> None:
    """z of 2 and -1 in sums over two tasks: twice the two-sided p value of the first, at most 1."""
    sums = OrderSums(*np.array([[1.5, 0.5], [0.25, 0.75], [2.0, 1], [4.0, 1], [1.0, 3]]))
    test = order_test(sums)
    assert (test.trend_z, test.neighbour_z) == (2.0, -1.0)
    assert test.p_value == pytest.approx(2 * 0.0455002639)
    assert (test.alike, test.alike_by_chance) == (3.0, 5.0)
    small = sums._replace(trend=np.zeros(2), alike=np.array([4.5, 1]))
    assert order_test(small).p_value == 1.0


def test_published_orders(shared_data_dir: object) -> None:
    """CruxEval's samples come in an order: first ones are better, neighbours alike."""
    import json
    from pathlib import Path

    path = Path(str(shared_data_dir)) / "facebookresearch+cruxeval/cruxeval_input.rollouts.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    tasks: dict[str, list[float]] = {}
    for row in rows:
        tasks.setdefault(str(row["prompt_id"]), []).append(float(row["correct"]))
    outcome = np.array(list(itertools.chain(*tasks.values())))
    places = offsets(*itertools.accumulate(map(len, tasks.values()), initial=0))
    test = order_test(order_sums(outcome, places))
    assert test.p_value < 1e-4 and test.trend_z < -3 and test.neighbour_z > 4


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: squared_errors(np.array([1.5]), np.ones(1)), "scores: must be in"),
        (lambda: squared_errors(np.array([0.5]), np.array([np.nan])), "correct"),
        (lambda: squared_errors(np.array([0.5]), np.array([1.5])), "correct"),
        (lambda: equal_mass_bins(np.zeros(0), np.zeros(0), 3), "there are none"),
        (lambda: equal_mass_bins(SCORES, CORRECT, 0), "0 bins"),
        (lambda: auroc_by_task(SCORES, CORRECT / 2, offsets(0, 6)), "correct"),
        (lambda: mid_ranks(np.array([np.nan]), offsets(0, 1)), "finite"),
        (lambda: mid_ranks(SCORES, offsets(0, 5)), "offsets"),
        (lambda: clustered_error(np.ones(1), np.ones(1), np.ones(1)), "at least 2"),
        (lambda: clustered_error(np.array([1.0, 0]), np.ones(2), np.ones(2)), "every task"),
        (lambda: order_sums(np.array([0.5]), offsets(0, 1)), "correct"),
    ],
)
def test_what_has_no_answer_is_refused(call: object, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        call()  # pyright: ignore[reportCallIssue]
