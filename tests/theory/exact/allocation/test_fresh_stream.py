"""The optimum on a stream against every rule there is, and against the figures that were published for it."""

import itertools

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
    single_group,
    sized_group,
)
from theory.exact.allocation.fresh_stream import (
    optimum,
    priced_values,
    renewal,
    stopping_index,
)


def stop_after(arm: Arm, alike: int) -> np.ndarray:
    """Give up after that many equal outcomes and nothing else; SARA's rule at its stopping step."""
    mixed = (arm.successes > 0) & (arm.failures > 0)
    return mixed | (arm.depth < alike)


def enumerated(prior: Rational, n: int, draws: dict[tuple[int, int], bool]) -> tuple[float, float]:
    """Expected effective groups and rollouts of a rule, by all outcome sequences as fractions."""
    reward = rollouts = 0
    for outcomes in itertools.product((0, 1), repeat=n):
        s = f = 0
        for outcome in outcomes:
            if not draws[s, f]:
                break
            s, f = s + outcome, f + 1 - outcome
        successes = sum(outcomes)
        probability = prior.moment(successes, n - successes)
        reward += probability * (s + f == n and s > 0 and f > 0)
        rollouts += probability * (s + f)
    return float(reward), float(rollouts)


@pytest.mark.parametrize("prior", [FLAT, U_SHAPED])
@pytest.mark.parametrize("n", [2, 3])
def test_no_rule_of_all_earns_more_than_the_optimum(prior: Rational, n: int) -> None:
    """Every subset of states is a rule; the best of them by enumeration of outcomes is the optimum."""
    arm = single_group(prior.means, n, effective)
    states = [(int(s), int(f)) for s, f in zip(arm.successes, arm.failures, strict=True)]
    free = [
        state for state, may in zip(states, arm.drawable, strict=True) if may and state != (0, 0)
    ]
    best = 0.0
    for chosen in itertools.product((False, True), repeat=len(free)):
        draws = {
            **dict.fromkeys(states, False),
            (0, 0): True,
            **dict(zip(free, chosen, strict=True)),
        }
        reward, rollouts = enumerated(prior, n, draws)
        ours = renewal(arm, np.array([draws[state] for state in states]))
        assert ours.reward == pytest.approx(reward, abs=1e-14)
        assert ours.rollouts == pytest.approx(rollouts, abs=1e-13)
        best = max(best, reward / rollouts)
    found = optimum(arm)
    assert found.rate == pytest.approx(best, rel=1e-13)
    assert renewal(arm, found.draws).rate == pytest.approx(found.rate, rel=1e-13)


@given(
    a=st.floats(0.05, 5),
    b=st.floats(0.05, 5),
    n=st.integers(2, 12),
    reward=st.sampled_from([effective, push]),
)
@settings(max_examples=40, deadline=None)
def test_the_optimum_breaks_even_at_its_own_rate(
    a: float, b: float, n: int, reward: object
) -> None:
    """Drawing the first rollout at the price of the best rate is worth exactly nothing, and no stop at equal outcomes does better."""
    arm = single_group(lambda s, f: (a + s) / (a + b + s + f), n, reward)  # pyright: ignore[reportArgumentType]
    found = optimum(arm)
    _, drawing = priced_values(arm, np.array([found.rate]))
    assert drawing[0, 0] == pytest.approx(0.0, abs=1e-12)
    for alike in range(1, n + 1):
        assert renewal(arm, stop_after(arm, alike)).rate <= found.rate * (1 + 1e-12)


def test_a_flat_prior_is_never_worth_stopping_early() -> None:
    """On Beta(1, 1) the best rule for effective groups of 8 is dynamic sampling, a good negative control (rl-prototype.md 4.1)."""
    arm = single_group(FLAT.means, 8, effective)
    assert optimum(arm).rate == pytest.approx(renewal(arm, arm.drawable).rate, rel=1e-14)
    assert renewal(arm, arm.drawable).rate == pytest.approx((1 - 2 / 9) / 8, rel=1e-14)


def mixture(s: np.ndarray, f: np.ndarray) -> np.ndarray:
    """36 % Beta(5/2, 5/2), the rest half never and half always right: the population of the published pair (allocation.md 4.6)."""

    def moments(s: np.ndarray, f: np.ndarray) -> np.ndarray:
        beta = np.array(
            [
                np.prod([(2.5 + i) / (5 + i) for i in range(x)])
                * np.prod([(2.5 + j) / (5 + x + j) for j in range(y)])
                for x, y in zip(s.tolist(), f.tolist(), strict=True)
            ]
        )
        return 0.36 * beta + 0.32 * (s == 0) + 0.32 * (f == 0)

    return moments(s + 1, f) / moments(s, f)


@pytest.mark.parametrize(("n", "stops", "published"), [(8, 4, 0.23), (16, 9, 0.41), (32, 18, 0.52)])
def test_the_saving_of_the_optimum_on_the_published_mixture(
    n: int, stops: int, published: float
) -> None:
    """About 23, 41 and 52 % under dynamic sampling (a simulation with a fitted prior): give up after three; SARA stops too late."""
    arm = single_group(mixture, n, effective)
    found = optimum(arm)
    full = renewal(arm, arm.drawable).rate
    saved = 1 - full / found.rate
    assert saved == pytest.approx(published, abs=0.02)
    assert renewal(arm, found.draws & stop_after(arm, 3)).rate == pytest.approx(
        found.rate, rel=1e-14
    )
    sara = renewal(arm, stop_after(arm, stops)).rate
    assert full < sara < found.rate


def test_the_index_is_the_best_rate_from_every_state_on() -> None:
    """At the root it is the rate of the optimum; of a mixed group it is one group for the rollouts that it lacks."""
    n = 8
    arm = single_group(mixture, n, effective)
    index = stopping_index(arm)
    assert index[0] == pytest.approx(optimum(arm).rate, rel=1e-13)
    mixed = (arm.successes > 0) & (arm.failures > 0) & arm.drawable
    np.testing.assert_allclose(index[mixed], 1 / (n - arm.depth[mixed]), rtol=1e-13)
    assert (index[~arm.drawable] == 0).all()
    # The optimal rule goes on exactly where the index exceeds the rate.
    draws = optimum(arm).draws
    reached = renewal(arm, arm.drawable).rollouts > 0
    assert reached
    inside = arm.drawable & (arm.depth > 0)
    np.testing.assert_array_equal(draws[inside], index[inside] > index[0] * (1 + 1e-12))


def test_a_rule_for_another_prior_earns_no_more_than_the_right_one() -> None:
    """A misspecified rule is judged on the prompts as they are."""
    flat = optimum(single_group(FLAT.means, 8, effective)).draws
    arm = single_group(mixture, 8, effective)
    assert renewal(arm, flat).rate < optimum(arm).rate


def test_a_group_that_counts_only_at_full_size_is_the_single_group() -> None:
    """Sizing with a value that is 0 before n and the reward at n is stopping."""
    n = 6

    def only_full(s: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(s + f == n, push(s, f), 0.0)

    sized = sized_group(mixture, n, only_full)
    assert optimum(sized).rate == pytest.approx(
        optimum(single_group(mixture, n, push)).rate, rel=1e-13
    )


@pytest.mark.parametrize("prior", [FLAT, U_SHAPED])
def test_the_best_size_of_a_group_is_the_best_over_all_rules(prior: Rational) -> None:
    """Every rule that may close a group of up to three at any size, by enumeration of outcomes."""
    n = 3
    arm = sized_group(prior.means, n, energy)
    inside = np.flatnonzero(arm.drawable)
    best = 0.0
    for chosen in itertools.product((False, True), repeat=len(inside) - 1):
        draws = np.zeros(len(arm.depth), bool)
        draws[inside] = (True, *chosen)
        worth = rollouts = 0.0
        for outcomes in itertools.product((0, 1), repeat=n):
            state = 0
            for outcome in outcomes:
                if draws[state]:
                    state = int((arm.next_success if outcome else arm.next_failure)[state])
            chance = float(prior.moment(sum(outcomes), n - sum(outcomes)))
            worth += chance * np.sqrt(arm.successes[state] * arm.failures[state])
            rollouts += chance * arm.depth[state]
        assert renewal(arm, draws).reward == pytest.approx(worth, abs=1e-14)
        best = max(best, worth / rollouts)
    assert optimum(arm).rate == pytest.approx(best, rel=1e-13)
    # Signal by weight of rollouts is never lost by allowing smaller groups.
    fixed = optimum(single_group(prior.means, n, energy)).rate
    assert optimum(arm).rate >= fixed * (1 - 1e-13)


def test_what_is_no_stream_is_refused() -> None:
    arm = single_group(FLAT.means, 4, effective)
    with pytest.raises(InvalidInput, match="worth anything"):
        optimum(single_group(FLAT.means, 1, effective))
    with pytest.raises(InvalidInput, match="draws in state 0"):
        renewal(arm, np.zeros(len(arm.depth), bool))
    with pytest.raises(InvalidInput, match="at least 1"):
        single_group(FLAT.means, 0, effective)
