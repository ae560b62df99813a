"""Certified worst cases over all success rates, against closed forms and dense evaluation, and the rules that keep a guarantee."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from theory.errors import InvalidInput
from theory.exact.allocation import lattice, prior_free
from theory.exact.allocation.claims import run_length_rules

RATES = np.linspace(0, 1, 4001)


def wrong(rates: np.ndarray, size: int, after_successes: int, after_failures: int) -> np.ndarray:
    return (
        rates**after_successes - rates**size + (1 - rates) ** after_failures - (1 - rates) ** size
    )


@pytest.mark.parametrize(("m1", "m0"), [(4, 4), (2, 7), (8, 3), (8, 8), (1, 1)])
def test_coefficients_are_those_of_the_rule(m1: int, m0: int) -> None:
    """From the lattice and in closed form; m1 = 8 of 8 abandons nothing on that side."""
    with jax.enable_x64(True):
        rule = run_length_rules(8, jnp.array([m1]), jnp.array([m0]))
    coefficients = prior_free.wrong_abandonment(rule, 8)[0]
    values = stats.binom.pmf(np.arange(9), 8, RATES[:, None]) @ coefficients
    np.testing.assert_allclose(values, wrong(RATES, 8, m1, m0), atol=1e-14)
    found = prior_free.largest_value(coefficients)
    truth = wrong(RATES, 8, m1, m0).max()
    assert found.low <= found.high <= found.low + 1e-11
    assert truth - 1e-14 <= found.high <= truth + 1e-6
    np.testing.assert_allclose(wrong(np.array([found.at]), 8, m1, m0), found.low, atol=1e-14)


@pytest.mark.parametrize("size", [8, 20, 128])
def test_half_a_group_of_one_side_is_a_quarter(size: int) -> None:
    """p^m - p^(2m) has the maximum 1/4, at p = 2^(-1 / m); at m = 4 that is .84."""
    half = size // 2
    assert prior_free.one_sided_worst(half, size) == 0.25
    with jax.enable_x64(True):
        rule = run_length_rules(size, jnp.array([half]), jnp.array([size]))
    found = prior_free.largest_value(prior_free.wrong_abandonment(rule, size)[0])
    np.testing.assert_allclose([found.low, found.high], 0.25, atol=1e-11)
    np.testing.assert_allclose(found.at, 0.5 ** (1 / half), atol=1e-5)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_enclosures_hold_every_value(coefficients: list[float]) -> None:
    degree = len(coefficients) - 1
    found = prior_free.largest_value(np.array(coefficients))
    values = stats.binom.pmf(np.arange(degree + 1), degree, RATES[:, None]) @ coefficients
    assert values.max() <= found.high + 1e-12
    assert found.high - found.low <= 1e-11
    at = stats.binom.pmf(np.arange(degree + 1), degree, found.at) @ coefficients
    np.testing.assert_allclose(at, found.low, atol=1e-12)


def test_a_narrow_peak_is_found() -> None:
    """p^1800 - p^2000 rises within .0002 of its top at .99947: a grid of 1,000 rates sees .03 less."""
    truth = prior_free.one_sided_worst(1800, 2000)
    count = np.arange(2001.0)
    shares = np.exp(
        np.cumsum(
            np.log(np.maximum(count[:, None] - np.arange(1800), 1e-300))
            - np.log(2000 - np.arange(1800)),
            axis=1,
        )[:, -1]
    )
    shares[-1] = 0
    found = prior_free.largest_value(shares)
    np.testing.assert_allclose([found.low, found.high], truth, rtol=1e-9)


@pytest.mark.parametrize("delta", [0.3, 0.1, 0.05, 0.01, 0.0])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_smallest_stop_is_the_first_that_keeps_the_guarantee(size: int, delta: float) -> None:
    stop = prior_free.smallest_stop(size, delta)
    assert wrong(RATES, size, stop, stop).max() <= delta + 1e-12
    if stop > 1:
        assert wrong(RATES, size, stop - 1, stop - 1).max() > delta


def test_the_frontier_is_that_of_all_pairs() -> None:
    size, delta = 10, 0.12
    keeps = {
        (m1, m0)
        for m1 in range(1, size + 1)
        for m0 in range(1, size + 1)
        if wrong(RATES, size, m1, m0).max() <= delta
    }
    best = {
        pair
        for pair in keeps
        if not any(other != pair and other[0] <= pair[0] and other[1] <= pair[1] for other in keeps)
    }
    found = prior_free.frontier(size, delta)
    assert (
        set(zip(found.after_successes.tolist(), found.after_failures.tolist(), strict=True)) == best
    )
    assert np.all(found.worst <= delta)
    # Success and failure may be swapped.
    np.testing.assert_array_equal(found.after_successes, found.after_failures[::-1])


def test_a_side_that_is_never_abandoned_belongs_to_the_frontier() -> None:
    """With no wrong abandonment at all only full groups are left; with room for the last outcome of one side, either side may have it but not both."""
    size = 10
    room = prior_free.one_sided_worst(size - 1, size) + 1e-10
    for delta, pairs in ((0.0, [(10, 10)]), (room, [(9, 10), (10, 9)])):
        found = prior_free.frontier(size, delta)
        stops = (found.after_successes.tolist(), found.after_failures.tolist())
        assert list(zip(*stops, strict=True)) == pairs


def test_verdicts_on_any_rule() -> None:
    stops = jnp.array([4, 6, 8])
    with jax.enable_x64(True):
        rules = run_length_rules(8, stops, stops)
        sampling = lattice.full_groups(8)
    np.testing.assert_array_equal(prior_free.keeps(rules, 8, 0.2), [False, True, True])
    assert prior_free.keeps(sampling, 8, 0.0)


def test_a_guarantee_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"delta -0\.1"):
        prior_free.smallest_stop(8, -0.1)
    with pytest.raises(InvalidInput, match="delta nan"):
        prior_free.frontier(8, float("nan"))
