"""Bounds beyond the samples: sharp where they are known, and never past a law that fits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betaln

from theory.errors import InvalidInput
from theory.estimators.coverage import binomial_law, pass_at_k
from theory.estimators.moment_bounds import count_law, pass_at_k_bounds, sampling_band


@pytest.mark.parametrize("mean", [0.1, 0.37, 0.8])
@pytest.mark.parametrize("k", [2, 7, 50])
def test_one_sample_a_task(mean: float, k: int) -> None:
    """Only the mean is known: least where tasks are always or never solved, greatest where all are alike."""
    found = pass_at_k_bounds(np.array([1 - mean, mean]), k, 0.0)
    assert found.low == pytest.approx(mean, abs=2e-3) and found.low <= mean + 1e-9
    greatest = 1 - (1 - mean) ** k
    assert found.high == pytest.approx(greatest, abs=2e-3) and found.high >= greatest - 1e-9


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.integers(2, 12), st.integers(1, 60))
def test_the_law_that_gave_the_counts_is_inside(
    chances: list[float], num_samples: int, k: int
) -> None:
    p = np.array(chances)
    law = binomial_law(num_samples, p).mean(axis=0)
    truth = float((1 - (1 - p) ** k).mean())
    for band in (0.0, 0.1):
        found = pass_at_k_bounds(law / law.sum(), k, band)
        assert found.low - 1e-7 <= truth <= found.high + 1e-7
        assert 0 <= found.low <= 1 and 0 <= found.high <= 1 and found.grid_error >= 0


def test_up_to_the_samples_drawn_it_is_the_estimate() -> None:
    p, shares = np.array([0.0, 0.05, 0.3, 0.9]), np.array([0.3, 0.3, 0.2, 0.2])
    law = shares @ binomial_law(8, p)
    counts = np.arange(9)
    for k in (1, 4, 8):
        found = pass_at_k_bounds(law, k, 0.0)
        estimate = law @ pass_at_k(np.full(9, 8), counts, k)
        assert found.low == pytest.approx(estimate, abs=1e-12)
        assert found.high == pytest.approx(estimate, abs=1e-12)
        near = pass_at_k_bounds(law, k, 0.05)
        assert estimate - 0.05 - 1e-12 <= near.low < estimate < near.high <= estimate + 0.05 + 1e-12
    widths = [b.high - b.low for b in (pass_at_k_bounds(law, k, 0.0) for k in (8, 16, 100))]
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize("num_samples", [4, 10, 40])
def test_difficulty_that_follows_a_beta_law(num_samples: int) -> None:
    """pass@k is 1 - B(a, b + k) / B(a, b), and the counts have a law in closed form too."""
    a, b = 0.4, 0.8
    law = stats.betabinom.pmf(np.arange(num_samples + 1), num_samples, a, b)
    widths: list[float] = []
    for k in (1, num_samples, 2 * num_samples, 10 * num_samples):
        truth = -np.expm1(betaln(a, b + k) - betaln(a, b))
        found = pass_at_k_bounds(law / law.sum(), k, 0.0)
        assert found.low - 1e-9 <= truth <= found.high + 1e-9
        widths.append(found.high - found.low)
    assert widths[1] < 1e-12 < widths[2] < widths[3] < 1


@pytest.mark.parametrize("k", [3, 10, 50])
def test_two_samples_a_task_have_laws_that_attain_both_ends(k: int) -> None:
    """Two moments are those of one law on {0, x} and of one on {y, 1}: the greatest and the least, by Markov and Krein."""
    p, shares = np.array([0.1, 0.35, 0.8]), np.array([0.5, 0.3, 0.2])
    law = shares @ binomial_law(2, p)
    found = pass_at_k_bounds(law, k, 0.0)
    mean, square = shares @ p, shares @ p**2
    miss, missed_twice = 1 - mean, shares @ (1 - p) ** 2
    x, y = square / mean, 1 - missed_twice / miss
    on_zero = mean / x * (1 - (1 - x) ** k)
    on_one = 1 - miss / (1 - y) * (1 - y) ** k
    # Both give the counts that were put in.
    for atoms, weight in (((x, 0.0), mean / x), ((y, 1.0), miss / (1 - y))):
        mixed = np.array([weight, 1 - weight]) @ binomial_law(2, np.array(atoms))
        np.testing.assert_allclose(mixed, law, atol=1e-12)
    assert found.low == pytest.approx(min(on_zero, on_one), abs=2e-3)
    assert found.high == pytest.approx(max(on_zero, on_one), abs=2e-3)
    assert found.low <= min(on_zero, on_one) + 1e-9 and found.high >= max(on_zero, on_one) - 1e-9


@pytest.mark.parametrize(
    ("p", "shares"),
    [([0.0, 1.0], [0.7, 0.3]), ([0.3], [1.0]), ([0.0, 0.4], [0.6, 0.4])],
)
def test_counts_that_one_law_alone_gives(p: list[float], shares: list[float]) -> None:
    """Few atoms and many samples leave no other law, so that nothing is lost beyond the samples."""
    at, weight = np.array(p), np.array(shares)
    law = weight @ binomial_law(6, at)
    for k in (12, 60):
        truth = float(weight @ (1 - (1 - at) ** k))
        found = pass_at_k_bounds(law / law.sum(), k, 0.0)
        assert found.low == pytest.approx(truth, abs=5e-3) and found.low <= truth + 1e-9
        assert found.high == pytest.approx(truth, abs=5e-3) and found.high >= truth - 1e-9


def test_order_and_copies_of_tasks_change_nothing() -> None:
    counts = np.array([0, 0, 1, 3, 4, 4, 0, 2])
    once = pass_at_k_bounds(count_law(counts, 4), 20, 0.2)
    assert pass_at_k_bounds(count_law(counts[::-1], 4), 20, 0.2) == once
    again = pass_at_k_bounds(count_law(np.tile(counts, 5), 4), 20, 0.2)
    np.testing.assert_allclose(again, once, atol=1e-9)


def test_a_wider_band_has_wider_bounds_and_zero_counts_may_hide_success() -> None:
    law = count_law(np.array([0] * 60 + [3] * 30 + [10] * 10), 10)
    bounds = [pass_at_k_bounds(law, 1000, band) for band in (0.1, 0.2, 0.3)]
    assert bounds[0].low > bounds[1].low > bounds[2].low
    assert bounds[0].high > 0.99
    # At k = n pass@n is the share of tasks with any success, and a distribution function moves by the band.
    at = pass_at_k_bounds(law, 10, 0.1)
    assert 0.3 - 1e-6 <= at.low < 0.4 < at.high <= 0.5 + 1e-6


def test_the_band() -> None:
    assert sampling_band(100, 0.95) == pytest.approx(0.13581, abs=5e-6)
    assert sampling_band(400, 0.95) == pytest.approx(sampling_band(100, 0.95) / 2)
    assert count_law(np.array([0, 2, 2, 1]), 3).tolist() == [0.25, 0.25, 0.5, 0.0]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        # Every task has one of two right: no law of p does that.
        (lambda: pass_at_k_bounds(np.array([0.0, 1, 0]), 3, 0.01), "band 0.01"),
        (lambda: pass_at_k_bounds(np.array([0.5, 0.6]), 3, 0.1), "law"),
        (lambda: pass_at_k_bounds(np.array([0.5, 0.5]), 0, 0.1), "k = 0"),
        (lambda: pass_at_k_bounds(np.array([0.5, 0.5]), 1, -0.1), "band"),
        (lambda: count_law(np.array([4]), 3), "num_correct"),
        (lambda: sampling_band(0, 0.9), "0 tasks"),
        (lambda: sampling_band(9, 1.0), "level"),
    ],
)
def test_what_is_refused(call: object, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        call()  # pyright: ignore[reportCallIssue]
