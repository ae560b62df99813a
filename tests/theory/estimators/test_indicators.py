"""Indicators against every way to deal scores out anew, and curves and slopes against their definition."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planted_bugs import rollout_logs as planted
from tests.planted_bugs.damage import rollout_logs as exact
from theory.errors import InvalidInput
from theory.estimators.best_of_n import best_of_n_at_k
from theory.estimators.indicators import (
    TrendSums,
    length_coupling,
    optimism_gap,
    pay,
    proxy_truth_trends,
    repeated,
    trend_sums,
    turn_down,
)

ONE = np.array([0, 5], np.int64)
VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 2.0]), min_size=5, max_size=5)
BITS = st.lists(st.sampled_from([0.0, 1.0]), min_size=5, max_size=5)


EVERY = np.arange(0, 601, 5).astype(np.int64)


def dealt(values: list[float]) -> np.ndarray:
    """A task of each of the 120 orders."""
    return np.array(list(itertools.permutations(values))).ravel()


def same(values: list[float]) -> np.ndarray:
    return np.tile(np.array(values), 120)


@given(VALUES, BITS, st.integers(1, 5))
def test_the_gap_of_scores_that_say_nothing(scores: list[float], bits: list[float], k: int) -> None:
    correct = np.array(bits)
    gap, noise = optimism_gap(np.array(scores), correct, ONE, k)
    direct = [
        max(scores[i] for i in drawn)
        - np.mean([bits[i] for i in drawn if scores[i] == max(scores[j] for j in drawn)])
        for drawn in itertools.combinations(range(5), k)
    ]
    assert gap[0] == pytest.approx(np.mean(direct))
    anew = optimism_gap(dealt(scores), same(bits), EVERY, k)[0]
    assert noise[0] == pytest.approx(np.mean(anew), abs=1e-12)


@given(VALUES, BITS, st.permutations([1.0, 2.0, 2.0, 5.0, 9.0]))
def test_length_coupling_of_scores_that_say_nothing(
    scores: list[float], bits: list[float], lengths: list[float]
) -> None:
    found = length_coupling(np.array(scores), np.array(bits), np.array(lengths), ONE)
    if len(set(scores)) == 1 or len(set(bits)) == 1:
        assert np.isnan([found.value[0], found.noise[0], found.noise_variance[0]]).all()
        return
    anew = length_coupling(dealt(scores), same(bits), same(lengths), EVERY).value
    assert found.noise[0] == pytest.approx(np.mean(anew), abs=1e-9)
    assert found.noise_variance[0] == pytest.approx(np.var(anew), abs=1e-9)


def test_baselines_are_those_of_scores_dealt_out_anew() -> None:
    assert exact.of_gap_baseline(optimism_gap) < 1e-12
    assert exact.of_gap_baseline(planted.gap_beside_that_of_one_sample) > 0.1
    assert exact.of_coupling_baseline(length_coupling) < 1e-12
    assert exact.of_coupling_baseline(planted.coupling_of_scores_alone) > 0.1


@given(VALUES, BITS)
def test_pay_of_scores_that_say_nothing(values: list[float], bits: list[float]) -> None:
    marked = np.array(bits) == 1
    found = pay(np.array(values), marked, ONE)
    if marked.all() or not marked.any():
        assert np.isnan([found.value[0], found.noise[0], found.noise_variance[0]]).all()
        return
    inside = [v for v, bit in zip(values, bits, strict=True) if bit]
    outside = [v for v, bit in zip(values, bits, strict=True) if not bit]
    assert found.value[0] == pytest.approx(np.mean(inside) - np.mean(outside))
    anew = pay(dealt(values), np.tile(marked, 120), EVERY).value
    assert found.noise[0] == pytest.approx(np.mean(anew), abs=1e-12)
    assert found.noise_variance[0] == pytest.approx(np.var(anew), abs=1e-12)


def test_tasks_stand_for_themselves() -> None:
    codes = np.array([3, 3, 1, 3, 2, 2, 1], np.uint64)
    offsets = np.array([0, 3, 3, 7], np.int64)
    np.testing.assert_array_equal(
        repeated(codes, offsets), [True, True, False, False, True, True, False]
    )
    values = np.arange(7.0)
    found = pay(values, repeated(codes, offsets), offsets)
    np.testing.assert_allclose(found.value, [0.5 - 2, np.nan, 4.5 - 4.5])
    assert repeated(codes[:0], np.zeros(2, np.int64)).size == 0


def test_a_drop_is_measured_where_it_was_not_looked_for() -> None:
    gold = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.25], [1.0, 0.5, 0.0], [0.0, 1.0, 0.0]])
    proxy = np.array([[0.0, 1.0, 2.0]] * 4)
    found = turn_down(gold, proxy)
    assert found.peaks == (0, 1)  # of tasks 0 and 2, and of tasks 1 and 3
    np.testing.assert_allclose(found.drop, [0.0 - 0.5, 0.0 - 0.25, 0.5 - 0.0, 0.0 - 0.0])
    np.testing.assert_allclose(found.rise, [1.0, 2.0, 1.0, 2.0])
    # Over all data sets of flat curves the mean is 0; with the peak of the tasks themselves it is not.
    assert exact.of_turn_down(turn_down) < 1e-12
    assert exact.of_turn_down(planted.drop_from_its_own_peak) > 0.1


@given(st.data())
def test_slopes_are_those_of_least_squares(data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    total = sum(sizes)
    steps = rng.integers(0, 4, total).astype(float) + 1e6
    proxy, truth = rng.normal(size=total), rng.integers(0, 2, total).astype(float)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    sums = trend_sums(steps, proxy, truth, offsets)
    if len(set(steps.tolist())) < 2:
        if total:
            with pytest.raises(InvalidInput, match="one step"):
                proxy_truth_trends(sums)
        return
    found = proxy_truth_trends(sums)
    for part, values in ((found.proxy, proxy), (found.truth, truth)):
        spread = values.std()
        if spread == 0:
            assert np.isnan(part).all()
            continue
        slope = np.polyfit(steps - 1e6, values / spread, 1)[0]
        assert part.sum() / found.steps.sum() == pytest.approx(slope, abs=1e-8)


def test_sums_do_not_depend_on_where_steps_begin() -> None:
    steps, values = np.array([0.0, 1, 2, 3]), np.array([0.0, 1, 1, 0])
    offsets = np.array([0, 2, 4], np.int64)
    first = proxy_truth_trends(trend_sums(steps, steps, values, offsets))
    later = proxy_truth_trends(trend_sums(steps + 1e9, steps, values, offsets))
    for one, two in zip(first, later, strict=True):
        np.testing.assert_allclose(one, two)
    assert isinstance(trend_sums(steps, steps, values, offsets), TrendSums)
    # A rising proxy gains one step a step: in standard deviations 1 / sqrt(5/4).
    assert first.proxy.sum() / first.steps.sum() == pytest.approx(1 / math.sqrt(1.25))


HUGE = st.sampled_from([0.0, 1.0, 0.1, -3.0, 1e99, 3e101, -1e155, 1e308, -1.7e308, 1.7e308])


@given(st.lists(st.tuples(st.integers(0, 3) | st.just(2**60 + 3), HUGE, HUGE, st.integers(0, 2)), min_size=2, max_size=12))  # fmt: skip
def test_slopes_of_numbers_at_the_end_of_the_range(rows: list[Any]) -> None:
    """Against numbers of a wider range; nothing overflows on the way."""
    rows.sort(key=lambda row: row[3])
    steps, proxy, truth = (np.array([row[place] for row in rows], np.float64) for place in range(3))
    if np.ptp(steps) == 0:
        return
    sizes = np.bincount([row[3] for row in rows], minlength=3)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    found = proxy_truth_trends(trend_sums(steps, proxy, truth, offsets))
    for part, of in ((found.proxy, proxy), (found.truth, truth)):
        wide = of.astype(np.longdouble)
        rest, moved = wide - wide.mean(), steps - steps.mean()
        spread = np.sqrt((rest**2).mean())
        if len(set(of.tolist())) == 1:
            assert np.isnan(part).all()
            continue
        slope = float((moved * rest).sum() / spread / (moved**2).sum())
        assert part.sum() / found.steps.sum() == pytest.approx(slope, abs=1e-12)


@given(st.integers(-200, 1000), st.integers(-200, 1000))
def test_slopes_have_no_scale(first: int, second: int) -> None:
    steps, offsets = np.array([0.0, 1, 2, 3, 5]), np.array([0, 2, 5], np.int64)
    proxy, truth = np.array([1.0, 3, 2, 9, -4]), np.array([0.0, 1, 1, 0, 5])
    wanted = proxy_truth_trends(trend_sums(steps, proxy, truth, offsets))
    large = np.ldexp(proxy, first)
    found = proxy_truth_trends(trend_sums(steps, large, np.ldexp(truth, second), offsets))
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: turn_down(np.zeros((1, 3)), np.zeros((1, 3))), "at least 2 tasks"),
        (lambda: turn_down(np.zeros((3, 1)), np.zeros((3, 1))), "2 numbers of samples"),
        (lambda: turn_down(np.full((2, 2), np.nan), np.zeros((2, 2))), "curves: must be finite"),
        (lambda: pay(np.array([np.nan]), np.array([True]), np.array([0, 1])), "values: must"),
        (
            lambda: trend_sums(np.array([np.inf]), np.ones(1), np.ones(1), np.array([0, 1])),
            "steps, proxy and truth",
        ),
        (lambda: repeated(np.array([1]), np.array([0, 2])), "offsets"),
    ],
)
def test_what_has_no_answer_is_refused(call: Any, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        call()


def test_the_gap_is_that_of_the_selected(k: int = 2) -> None:
    scores, correct = np.array([0.1, 0.4, 0.7, 0.9, 0.2]), np.array([0.0, 1, 1, 0, 1])
    gap, _ = optimism_gap(scores, correct, ONE, k)
    parts = [best_of_n_at_k(scores, values, ONE, k)[0] for values in (scores, correct)]
    assert gap[0] == pytest.approx(parts[0] - parts[1])
