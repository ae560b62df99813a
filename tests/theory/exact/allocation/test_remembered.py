"""Groups of any size of a prompt that is remembered: against every policy there is, the programs for equal sizes and for one visit, and what can only help."""

import itertools

import numpy as np
import pytest

from tests.planted_bugs import allocation as planted
from tests.planted_bugs.damage import dropped_rollouts as dropped
from tests.stat_asserts import assert_rejected
from theory.errors import InvalidInput
from theory.exact.allocation.arms import (
    GroupReward,
    effective,
    energy,
    repeated_groups,
    sized_group,
)
from theory.exact.allocation.fresh_stream import optimum, priced_values, renewal
from theory.exact.allocation.relaxation import bound
from theory.exact.allocation.remembered import Rates, Visits, untouched_values
from theory.exact.allocation.remembered_sizes import sized_values

POINTS = np.array([0.0, 0.15, 0.6, 1.0])
RATES = Rates(POINTS, 1 - POINTS, np.array([0.2, 0.4, 0.3, 0.1]))
PRICES = np.array([0.02, 0.08, 0.17, 0.3])


def moment(s: int, f: int) -> float:
    return float(RATES.weights @ (RATES.right**s * RATES.wrong**f))


def means(s: np.ndarray, f: np.ndarray) -> np.ndarray:
    pairs = zip(s.tolist(), f.tolist(), strict=True)
    return np.array([moment(x + 1, y) / moment(x, y) for x, y in pairs])


def uneven(s: np.ndarray, f: np.ndarray) -> np.ndarray:
    """No symmetry to hide behind; an unmixed group is better dropped."""
    return np.sqrt(s * f) + 0.1 * s * (f > 0) - 0.2 * (s * f == 0)


Pair = tuple[float, float]
"""Probability-weighted reward and rollouts from some history on."""


def all_policies(
    seen: tuple[int, int], group: tuple[int, int], left: int, visits: Visits, worth: GroupReward
) -> set[Pair]:
    """What every deterministic policy earns and pays from a history on, each outcome sequence weighed by its probability."""
    (seen_s, seen_f), (s, f) = seen, group
    found = {(0.0, 0.0)}
    here = moment(seen_s + s, seen_f + f)
    if s + f >= visits.least:
        value = here * max(0.0, float(worth(np.array([s]), np.array([f]))[0]))
        for reward, cost in all_policies((seen_s + s, seen_f + f), (0, 0), left, visits, worth):
            found.add((reward + value, cost))
    begins = s + f == 0
    if s + f < visits.largest and (not begins or left):
        rest = left - begins
        after = [
            all_policies(seen, (s + x, f + 1 - x), rest, visits, worth)
            if here > 0
            else {(0.0, 0.0)}
            for x in (1, 0)
        ]
        found |= {(a + c, b + d + here) for (a, b), (c, d) in itertools.product(*after)}
    return {(round(a, 12), round(b, 12)) for a, b in found}


@pytest.mark.parametrize("worth", [effective, uneven])
@pytest.mark.parametrize(
    "visits", [Visits(1, 3, 1, 3), Visits(2, 2, 1, 4), Visits(1, 3, 2, 9), Visits(2, 2, 2, 4)]
)
def test_no_policy_of_all_is_worth_more(visits: Visits, worth: GroupReward) -> None:
    policies = np.array(list(all_policies((0, 0), (0, 0), visits.number, visits, worth)))
    best = (policies[:, :1] - policies[:, 1:] * PRICES).max(axis=0)
    assert len(policies) > 3
    np.testing.assert_allclose(
        untouched_values(RATES, visits, worth, PRICES), best, rtol=0, atol=1e-10
    )


def sizes_by_recursion(
    seen: tuple[int, int], left: int, visits: Visits, worth: GroupReward, price: float
) -> float:
    """The best sizes by outcome sequences, weighed by the probability of the history."""
    if left == 0:
        return 0.0
    best = 0.0
    for m in range(visits.least, visits.largest + 1):
        total = -price * m * moment(*seen)
        for outcomes in itertools.product((0, 1), repeat=m):
            s, f = sum(outcomes), m - sum(outcomes)
            after = (seen[0] + s, seen[1] + f)
            total += moment(*after) * max(0.0, float(worth(np.array([s]), np.array([f]))[0]))
            total += sizes_by_recursion(after, left - 1, visits, worth, price)
        best = max(best, total)
    return best


@pytest.mark.parametrize("worth", [effective, uneven])
@pytest.mark.parametrize(("number", "least", "largest"), [(2, 1, 3), (2, 2, 3), (3, 1, 2)])
def test_sizes_fixed_beforehand_are_the_best_of_all(
    number: int, least: int, largest: int, worth: GroupReward
) -> None:
    visits = Visits(number, largest, least, number * largest)
    found = sized_values(RATES, visits, worth, PRICES)
    truth = [sizes_by_recursion((0, 0), number, visits, worth, price) for price in PRICES]
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-13)


@pytest.mark.parametrize("reward", [effective, energy])
def test_equal_sizes_give_the_numbers_of_equal_groups(reward: GroupReward) -> None:
    n, groups = 3, 4
    arm = repeated_groups(means, n, groups, reward)
    truth = priced_values(arm, PRICES)[0][0]
    assert truth[0] > 0
    visits = Visits(groups, n, n, n * groups)
    np.testing.assert_allclose(untouched_values(RATES, visits, reward, PRICES), truth, rtol=1e-12)
    # The relaxation of a pool is its price times the budget and these values.
    relaxed = bound([arm], [7], 30)
    worth = untouched_values(RATES, visits, reward, np.array([relaxed.price]))[0]
    assert 30 * relaxed.price + 7 * worth == pytest.approx(relaxed.value, rel=1e-12)


def test_one_visit_is_a_sized_group_and_breaks_even_at_the_rate_of_the_stream() -> None:
    arm = sized_group(means, 5, energy)
    visits = Visits(1, 5, 1, 5)
    truth = priced_values(arm, PRICES)[0][0]
    np.testing.assert_allclose(untouched_values(RATES, visits, energy, PRICES), truth, rtol=1e-12)
    rate = np.array([optimum(arm).rate])
    assert untouched_values(RATES, visits, energy, rate)[0] == pytest.approx(0, abs=1e-12)
    assert untouched_values(RATES, visits, energy, rate * 0.999)[0] > 0


def test_a_known_rate_has_nothing_to_learn() -> None:
    """Whatever the horizon, each visit is worth the same."""
    known = Rates(np.array([0.3]), np.array([0.7]), np.array([1.0]))
    for program in (untouched_values, sized_values):
        one = program(known, Visits(1, 4, 1, 4), energy, PRICES)
        for horizon in (1, 2, 5):
            many = program(known, Visits(3, 4, 1, horizon), energy, PRICES)
            np.testing.assert_allclose(many, 3 * one, rtol=1e-12)


@pytest.mark.parametrize("worth", [effective, energy])
def test_values_fall_with_the_horizon_to_those_of_the_class(worth: GroupReward) -> None:
    exact = untouched_values(RATES, Visits(3, 4, 1, 12), worth, PRICES)
    told = [untouched_values(RATES, Visits(3, 4, 1, h), worth, PRICES) for h in (1, 3, 6, 12, 15)]
    for before, after in itertools.pairwise(told):
        assert (after <= before + 1e-12).all()
    np.testing.assert_allclose(told[-2:], [exact, exact], rtol=1e-12)
    assert (told[0] > exact + 1e-3).any()


@pytest.mark.parametrize("worth", [effective, energy])
def test_more_freedom_is_worth_more(worth: GroupReward) -> None:
    """Larger groups, more visits, earlier ends; a look at every rollout beside sizes fixed beforehand."""

    def both(number: int, largest: int, least: int) -> np.ndarray:
        visits = Visits(number, largest, least, number * largest)
        found = [
            program(RATES, visits, worth, PRICES) for program in (untouched_values, sized_values)
        ]
        assert (found[1] <= found[0] + 1e-12).all()
        return np.stack(found)

    base = both(2, 4, 2)
    assert (base[0] > base[1] + 1e-3).any() and (base[1, 0] > 0)
    for freer in (both(3, 4, 2), both(2, 5, 2), both(2, 4, 1)):
        assert (freer >= base - 1e-12).all()
    assert (both(3, 4, 2)[:, 0] > base[:, 0]).all()


def test_an_effective_group_is_closed_at_once() -> None:
    """At a known rate of 1/2 the second outcome comes after three rollouts in the mean: a third of a group a rollout, at any large size."""
    half = Rates(np.array([0.5]), np.array([0.5]), np.array([1.0]))
    price = np.array([0.2])
    found = untouched_values(half, Visits(4, 40, 1, 3), effective, price)
    assert found[0] == pytest.approx(4 * (1 - 3 * 0.2), abs=1e-9)
    # Fixed beforehand, two or three rollouts are best: a quarter a rollout.
    fixed = sized_values(half, Visits(4, 40, 1, 3), effective, price)
    assert fixed[0] == pytest.approx(4 * (0.75 - 3 * 0.2), abs=1e-12)


def test_bad_visits_are_refused() -> None:
    for visits in (Visits(0, 2, 1, 4), Visits(1, 2, 3, 4), Visits(1, 2, 0, 4), Visits(1, 2, 1, 0)):
        for program in (untouched_values, sized_values):
            with pytest.raises(InvalidInput, match="at least 1 visit"):
                program(RATES, visits, effective, PRICES)
    with pytest.raises(InvalidInput, match="must be 1"):
        untouched_values(
            RATES._replace(weights=RATES.weights / 2), Visits(1, 2, 1, 2), effective, PRICES
        )


def test_rollouts_that_were_drawn_and_dropped_are_paid_for() -> None:
    """A played rule earns, net of its rollouts at its rate, nothing in the mean; at the rate of the twin it loses."""
    dropped.check(renewal)
    assert_rejected(lambda: dropped.check(planted.dropped_rollouts_not_paid))
