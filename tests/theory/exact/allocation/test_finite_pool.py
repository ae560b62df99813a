"""Optimal pools against a recursion in fractions that shares nothing with them, and the order relaxation >= optimum >= every rule."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.exact.allocation.priors import FLAT, U_SHAPED, Rational
from theory.errors import InvalidInput
from theory.exact.allocation.arms import (
    Arm,
    effective,
    energy,
    push,
    repeated_groups,
    single_group,
    sized_group,
)
from theory.exact.allocation.finite_pool import optimal_value, value_of_rule
from theory.exact.allocation.fresh_stream import optimum, priced_values, stopping_index
from theory.exact.allocation.relaxation import bound


def best_by_recursion(priors: tuple[Rational, ...], n: int, budget: int, groups: int) -> Fraction:
    """The optimum over histories: each prompt is its successes and failures and those of the group under way."""

    @cache
    def value(state: tuple[tuple[int, int, int, int], ...], left: int) -> Fraction:
        best = Fraction(0)
        for i, (seen_s, seen_f, s, f) in enumerate(state):
            if left == 0 or seen_s + seen_f == n * groups:
                continue
            mean = priors[i].mean(seen_s, seen_f)
            total = Fraction(0)
            for probability, more in ((mean, 1), (1 - mean, 0)):
                s2, f2 = s + more, f + 1 - more
                done = s2 + f2 == n
                next_one = (
                    seen_s + more,
                    seen_f + 1 - more,
                    0 if done else s2,
                    0 if done else f2,
                )
                earned = int(done and s2 > 0 and f2 > 0)
                total += probability * (
                    earned + value((*state[:i], next_one, *state[i + 1 :]), left - 1)
                )
            best = max(best, total)
        return best

    return value(tuple((0, 0, 0, 0) for _ in priors), budget)


@pytest.mark.parametrize(
    ("priors", "n", "budget", "groups"),
    [
        ((U_SHAPED,), 4, 4, 1),
        ((U_SHAPED,), 3, 7, 3),
        ((FLAT, U_SHAPED), 3, 4, 1),
        ((FLAT, U_SHAPED), 2, 6, 2),
        ((U_SHAPED, U_SHAPED, Rational(3, 1)), 2, 4, 1),
        ((U_SHAPED, FLAT, Rational(1, 3)), 3, 5, 1),
    ],
)
def test_the_optimum_is_that_of_the_recursion(
    priors: tuple[Rational, ...], n: int, budget: int, groups: int
) -> None:
    arms = [repeated_groups(prior.means, n, groups, effective) for prior in priors]
    expected = float(best_by_recursion(priors, n, budget, groups))
    assert optimal_value(arms, budget) == pytest.approx(expected, rel=1e-13)


def in_order(stop_after: int, arms: list[Arm]):
    """Prompts one after the other, each given up after that many equal outcomes: dynamic sampling and SARA."""

    def rule(states: list[np.ndarray], spent: int) -> np.ndarray:
        chosen = np.full(len(states[0]), -1)
        for i, (arm, state) in reversed(list(enumerate(zip(arms, states, strict=True)))):
            alike = (arm.successes[state] == 0) | (arm.failures[state] == 0)
            open_ = arm.drawable[state] & ~(alike & (arm.depth[state] >= stop_after))
            chosen = np.where(open_, i, chosen)
        return chosen

    return rule


def by_index(arms: list[Arm]):
    """The prompt whose next rollouts are worth most."""
    indices = [stopping_index(arm) for arm in arms]

    def rule(states: list[np.ndarray], spent: int) -> np.ndarray:
        offers = np.stack([index[state] for index, state in zip(indices, states, strict=True)])
        return np.where(offers.max(axis=0) > 0, offers.argmax(axis=0), -1)

    return rule


def test_dynamic_sampling_in_order_earns_one_chance_for_every_full_group() -> None:
    """A budget of m full groups gives m P(effective), whatever the pool."""
    n = 3
    arms = [single_group(U_SHAPED.means, n, effective)] * 3
    chance = float(1 - U_SHAPED.moment(n, 0) - U_SHAPED.moment(0, n))
    for full in (1, 2, 3):
        value = value_of_rule(arms, full * n + 1, in_order(n, arms))
        assert value == pytest.approx(full * chance, rel=1e-13)


@given(
    shapes=st.lists(st.tuples(st.floats(0.1, 4), st.floats(0.1, 4)), min_size=1, max_size=3),
    n=st.integers(2, 4),
    budget=st.integers(0, 12),
    reward=st.sampled_from([effective, push]),
    groups=st.integers(1, 2),
)
@settings(max_examples=40, deadline=None)
def test_relaxation_bounds_the_optimum_and_that_every_rule(
    shapes: list[tuple[float, float]], n: int, budget: int, reward: object, groups: int
) -> None:
    n = min(n, 3) if groups == 2 and len(shapes) == 3 else n
    arms = [
        repeated_groups(lambda s, f, a=a, b=b: (a + s) / (a + b + s + f), n, groups, reward)  # pyright: ignore[reportArgumentType]
        for a, b in shapes
    ]
    best = optimal_value(arms, budget)
    assert bound(arms, [1] * len(arms), budget).value >= best - 1e-12
    for rule in (in_order(1, arms), in_order(2, arms), in_order(n, arms), by_index(arms)):
        if groups == 1:
            assert value_of_rule(arms, budget, rule) <= best + 1e-12
    assert value_of_rule(arms, budget, by_index(arms)) <= best + 1e-12
    assert optimal_value(arms, budget + 1) >= best - 1e-12


@given(
    shapes=st.lists(st.tuples(st.floats(0.1, 4), st.floats(0.1, 4)), min_size=1, max_size=3),
    n=st.integers(2, 6),
    budget=st.integers(0, 40),
)
@settings(max_examples=40, deadline=None)
def test_no_price_gives_a_smaller_bound(
    shapes: list[tuple[float, float]], n: int, budget: int
) -> None:
    """The right side is convex in the price; at its smallest it is what `bound` found, for groups of one size and of any, some worth ten times as much."""
    for make in (single_group, sized_group):
        arms = [
            make(
                lambda s, f, a=a, b=b: (a + s) / (a + b + s + f),
                n,
                lambda s, f, worth=10.0**place: worth * energy(s, f),
            )
            for place, (a, b) in enumerate(shapes)
        ]
        counts = [1 + place for place in range(len(arms))]
        found = bound(arms, counts, budget)
        prices = np.append(np.linspace(0, 100, 257), found.price + np.linspace(-1e-3, 1e-3, 65))
        prices = np.maximum(prices, 0)
        sides = prices * budget
        for arm, count in zip(arms, counts, strict=True):
            sides += count * priced_values(arm, prices)[0][0]
        assert found.value == pytest.approx(sides.min(), rel=1e-11, abs=1e-12)


def test_the_bound_is_reached_where_the_budget_does_not_bind() -> None:
    """All is drawn: bound, optimum and dynamic sampling are one number."""
    n = 3
    arms = [single_group(U_SHAPED.means, n, effective), single_group(FLAT.means, n, effective)]
    value = value_of_rule(arms, 2 * n, in_order(n, arms))
    assert optimal_value(arms, 2 * n) == pytest.approx(value, rel=1e-13)
    assert bound(arms, [1, 1], 2 * n).value == pytest.approx(value, rel=1e-13)


def test_a_large_pool_is_worth_its_budget_at_the_rate_of_the_stream() -> None:
    """Where prompts do not run out, memory of other prompts is worth nothing: the bound is the budget times the best rate."""
    arm = single_group(U_SHAPED.means, 6, effective)
    found = bound([arm], [10_000], 500)
    assert found.value == pytest.approx(500 * optimum(arm).rate, rel=1e-12)
    assert found.price == pytest.approx(optimum(arm).rate, rel=1e-12)


def test_the_gap_of_the_bound_closes_with_the_size_of_the_pool() -> None:
    """For each prompt the bound is the same at any size, and the optimum comes up to it."""
    arm = single_group(U_SHAPED.means, 3, effective)
    gaps = [
        bound([arm], [size], 2 * size).value / size - optimal_value([arm] * size, 2 * size) / size
        for size in (1, 2, 4)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > 0


@pytest.mark.parametrize("price", [0.0, 0.05, 0.2, 0.45])
def test_a_price_may_be_part_of_the_reward(price: float) -> None:
    """A pool that nothing presses is worth what its prompts are worth one by one, where each rollout lowers the reward as where it costs so much."""
    n, priors = 4, (FLAT, U_SHAPED)
    paid = [
        sized_group(prior.means, n, lambda s, f: energy(s, f) - price * (s + f)) for prior in priors
    ]
    free = [sized_group(prior.means, n, energy) for prior in priors]
    alone = [priced_values(arm, np.array([price]))[0][0, 0] for arm in free]
    assert optimal_value(paid, 2 * n) == pytest.approx(sum(alone), rel=1e-13, abs=1e-15)
    assert (sum(alone) > 0) == (price < 0.45)


def test_prompts_of_different_kinds_are_counted() -> None:
    one, other = single_group(U_SHAPED.means, 3, effective), single_group(FLAT.means, 3, effective)
    together = bound([one, other], [2, 1], 5)
    assert together.value == pytest.approx(bound([one, one, other], [1, 1, 1], 5).value, rel=1e-12)


def test_bad_pools_are_refused() -> None:
    arm = single_group(FLAT.means, 8, effective)
    for call, line in (
        (lambda: optimal_value([], 3), "without prompts"),
        (lambda: optimal_value([arm], -1), "negative"),
        (lambda: optimal_value([arm] * 5, 3), "joint states"),
        (lambda: bound([arm], [1, 2], 3), "one count"),
        (lambda: bound([arm], [1], -1), "negative"),
        (
            lambda: value_of_rule(
                [arm] * 2, 9, lambda states, spent: np.zeros(len(states[0]), int)
            ),
            "finished prompt",
        ),
    ):
        with pytest.raises(InvalidInput, match=line):
            call()
