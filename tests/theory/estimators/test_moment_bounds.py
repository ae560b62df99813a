"""Bounds beyond the samples: sharp where they are known, and never past a law that fits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InvalidInput
from theory.estimators.moment_bounds import count_law, pass_at_k_bounds, sampling_band
from theory.estimators.pass_at_k import binomial_law, pass_at_k


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
        assert found.low == pytest.approx(estimate, abs=1e-4)
        assert found.high == pytest.approx(estimate, abs=1e-4)
    widths = [b.high - b.low for b in (pass_at_k_bounds(law, k, 0.0) for k in (8, 16, 100))]
    assert widths[0] < widths[1] < widths[2]


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
