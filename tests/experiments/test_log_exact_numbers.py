"""What is a whole number or a short fraction is printed as one, and numbers near the end of the range of doubles have their mean."""

import math
from fractions import Fraction
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.rollout_logs import pooled_scores
from experiments.rollout_logs.drafts import ratio_of_sums
from experiments.rollout_logs.pooled_scores import NUM_BINS, pool_scores
from experiments.rollout_logs.task_table import Success, means_of_known
from tests.experiments.rollout_log_tools import Rows, Run, by_name, code, value
from theory.estimators.calibration import equal_mass_bins, expected_calibration_error
from theory.estimators.ranks import auroc_by_task

FINITE = st.floats(allow_nan=False, allow_infinity=False)
HUGE = FINITE | st.sampled_from([1.7e308, -1.7e308, 1e308, 1e155])


@given(HUGE, st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_equal_ratios_have_that_ratio(ratio: float, sizes: list[int]) -> None:
    if abs(ratio) > 1e307:
        sizes = [1] * len(sizes)
    found = ratio_of_sums(ratio * np.array(sizes, np.float64), np.array(sizes, np.float64))
    assert found == pytest.approx(ratio, rel=1e-15, abs=1e-300)
    assert ratio_of_sums(np.full(len(sizes), ratio), np.ones(len(sizes))) == ratio


@given(st.lists(st.tuples(HUGE, st.integers(0, 9)), min_size=1, max_size=12))
def test_a_ratio_of_sums_is_that_of_exact_sums(pairs: list[tuple[float, int]]) -> None:
    above, below = (np.array(each, np.float64) for each in zip(*pairs, strict=True))
    above = np.where(below > 0, above, 0.0)
    found = ratio_of_sums(above, below)
    if not below.any():
        assert math.isnan(found)
        return
    exact = sum(map(Fraction, above), Fraction()) / sum(map(Fraction, below), Fraction())
    largest = max(abs(Fraction(each)) for each in above)
    assert abs(Fraction(found) - exact) <= largest / 10**14 + Fraction(1, 10**300)


@given(st.lists(st.lists(HUGE | st.just(math.nan), min_size=1, max_size=5), min_size=1, max_size=4))
def test_means_of_tasks_are_within_their_values(tasks: list[list[float]]) -> None:
    offsets = np.cumsum([0, *map(len, tasks)]).astype(np.int64)
    means, number = means_of_known(np.array([each for task in tasks for each in task]), offsets)
    for mean, count, task in zip(means, number, tasks, strict=True):
        known = [Fraction(each) for each in task if not math.isnan(each)]
        assert count == len(known)
        exact = sum(known, Fraction()) / max(len(known), 1)
        largest = max(map(abs, known), default=Fraction())
        assert abs(Fraction(mean) - exact) <= largest / 10**15 + Fraction(1, 10**300)


def _rewards(*tasks: list[float]) -> Rows:
    return [
        {"prompt_id": place, "sample_id": sample, "reward": reward}
        for place, task in enumerate(tasks)
        for sample, reward in enumerate(task)
    ]


def test_rewards_near_the_end_of_the_range_have_their_mean(run: Run) -> None:
    tasks = [[1.6e308, 1.2e308, 1.4e308], [1e308, 1e308, 1e308], [-1.7e308, 1.7e308, 0.0]]
    found = by_name(run(_rewards(*tasks)))["mean_reward"]
    assert found["value"] == pytest.approx(0.8e308, rel=1e-14)
    interval = found["interval"]
    assert 0 <= interval["low"] <= found["value"] <= interval["high"] <= 1.4e308
    # A power of two does not change the digits.
    small = by_name(run(_rewards(*[[math.ldexp(r, -900) for r in task] for task in tasks])))
    for mine, other in (
        (found["value"], small["mean_reward"]["value"]),
        (interval["low"], small["mean_reward"]["interval"]["low"]),
        (interval["high"], small["mean_reward"]["interval"]["high"]),
    ):
        assert mine == pytest.approx(math.ldexp(other, 900), rel=1e-14)
    assert found["notes"][0] == "mean over rows: 8e+307"
    unequal = by_name(run(_rewards([1e308], [1.6e308] * 3)))["mean_reward"]
    assert unequal["value"] == 1.3e308
    assert unequal["notes"][0] == "mean over rows: 1.45e+308"


def test_what_is_beyond_the_range_is_refused_for_what_it_is(run: Run) -> None:
    rows = [{"prompt_id": 0, "sample_id": s, "wall_s": 1.7e308} for s in range(3)]
    found = run(rows)
    assert code(found, "wall_s_mean") == "R11"
    assert "beyond the range" in by_name(found)["wall_s_mean"]["reason"]
    weighed = [{"prompt_id": 0, "sample_id": 0, "log_weight": 800.0, "reward": 1.0}]
    found = run(weighed)
    assert code(found, "is_mean") == "R20" and "weights overflow" in by_name(found)["is_mean"]["reason"]  # fmt: skip


@pytest.mark.parametrize("tasks", [1, 3, 7, 30])
@pytest.mark.parametrize("samples", [3, 7, 10])
def test_where_all_are_right_every_rate_is_one(run: Run, tasks: int, samples: int) -> None:
    rows = [
        {"prompt_id": task, "sample_id": s, "correct": True, "reward": 0.5, "answer": "ABCAAB"[s % 6], "score": s / 10,
         "target_logp": -3.3, "behavior_logp": -3.3, "completion_tokens": 7}
        for task in range(tasks)
        for s in range(samples)
    ]  # fmt: skip
    found = run(rows, ks=(1, 2, 3))
    for name, wanted in [
        *((f"{family}@{k}", 1.0) for family in ("pass", "majority", "best_of_n", "weighted_majority") for k in (1, 2, 3)),
        *((f"pass^{k}", 1.0) for k in (1, 2, 3)),
        ("mean_reward", 0.5), ("unique_answer_rate", 3 / samples), ("distinct_answers@1", 1.0), ("tokens_mean", 7.0),
        ("is_mean", 0.5), ("snis_mean", 0.5), ("ess_fraction", 1.0), ("ess", float(samples)), ("oracle@N", 1.0),
    ]:  # fmt: skip
        assert value(found, name) == wanted, name
        interval = by_name(found)[name]["interval"]
        assert interval is None or (interval["low"], interval["high"]) == (wanted, wanted), name


@given(
    st.lists(st.tuples(st.integers(0, 7), st.booleans()), min_size=2, max_size=60),
    st.integers(1, 9),
)
def test_scores_in_passing_have_the_bins_and_the_ranks_of_scores_in_memory(
    rows: list[tuple[int, bool]], batch: int
) -> None:
    score = np.array([numerator / 8 for numerator, _ in rows])
    outcome = np.array([float(correct) for _, correct in rows])
    connection = duckdb.connect()
    connection.register("staged", pa.table({"score": score, "correct": outcome}))
    with mock.patch.object(pooled_scores, "_BATCH", batch):
        found = pool_scores(connection, Success("correct", 0.0, "correct"))
    bins = equal_mass_bins(score, outcome, NUM_BINS)
    assert [(b.low, b.high, b.num_rows) for b in found.bins] == list(
        zip(bins.low, bins.high, bins.counts, strict=True)
    )
    assert found.ece == expected_calibration_error(bins)
    auroc = auroc_by_task(score, outcome, np.array([0, score.size]))[0]
    assert found.auroc == (None if np.isnan(auroc) else auroc)


def test_equal_rewards_have_themselves_as_mean(run: Run) -> None:
    rows = [{"prompt_id": 0, "sample_id": place, "reward": 0.1} for place in range(3)]
    assert value(run(rows, ks=(1,)), "mean_reward") == 0.1


@pytest.mark.parametrize("power", [-300, 600, 1023])
def test_scores_times_a_power_of_two_choose_the_same(run: Run, power: int) -> None:
    """Nothing overflows on the way: a warning would fail the test."""
    plain, rows = (
        [
            {
                "prompt_id": task,
                "sample_id": place,
                "answer": "ABC"[(place + task) % 3],
                "correct": (place + task) % 3 == 0,
                "score": math.ldexp((place * 5 + task) % 4 / 4, shift),
                "completion_tokens": 1 + place,
                "step": (place + task) // 2,
            }
            for task in range(4)
            for place in range(6)
        ]
        for shift in (0, power)
    )
    found, wanted = run(rows, ks=(1, 2, 3)), run(plain, ks=(1, 2, 3))
    for k in (1, 2, 3):
        for name in (f"best_of_n@{k}", f"weighted_majority@{k}"):
            assert value(found, name) == value(wanted, name) is not None
        name = f"expected_proxy@{k}"
        assert value(found, name) == pytest.approx(math.ldexp(value(wanted, name), power))
    assert code(found, "brier") == ("R12" if power > 0 else None)
    for name in ("auroc_pooled", "proxy_truth_divergence"):
        assert value(found, name) == pytest.approx(value(wanted, name), rel=1e-13)
