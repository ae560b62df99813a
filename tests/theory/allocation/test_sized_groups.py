"""Groups of any size against the exact program of `arms.sized_group`, and the composed rule in a loop."""

import itertools
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs.damage.stopping import mean_of, population
from tests.theory.allocation.loops import Round, play, updates
from theory.allocation.memories import Memory
from theory.allocation.policies import predictive_sizing
from theory.allocation.policies.predictive_sizing import foresee, supplying_price
from theory.allocation.priors import BetaMixture, mixture
from theory.allocation.sized_groups import (
    best_sized_rates,
    drawn_to_the_end,
    energy_worth,
    sized_groups,
    sized_prospects,
)
from theory.errors import InvalidInput
from theory.exact.allocation import arms
from theory.exact.allocation.fresh_stream import optimum, priced_values, renewal

N = 7
HISTORIES = np.array([(0.0, 0.0), (2.5, 0.0), (0.0, 4.0), (1.5, 3.25), (0.0, 0.5), (6.0, 1.0)])


def prior() -> BetaMixture:
    return mixture(((0.3, 1.0, 6.0), (0.2, 2.5, 2.5)), ((0.25, 0.0), (0.2, 1.0), (0.05, 0.3)))


def least_energy(least: int) -> arms.GroupReward:
    return lambda s, f: np.where(s + f >= least, arms.energy(s, f), 0.0)


def exact_arm(history: np.ndarray, least: int) -> arms.Arm:
    seen = (float(history[0]), float(history[1]))
    return arms.sized_group(mean_of(prior(), seen), N, least_energy(least))


def groups_of(least: int) -> Any:
    s, f = jnp.asarray(HISTORIES).T
    return sized_groups(prior(), s, f, energy_worth(N, least))


@pytest.mark.parametrize("least", [2, 5, N])
def test_prospects_are_those_of_the_exact_program(least: int) -> None:
    """Value, rule on every state, chance to be trained on, and the best rate alone."""
    with jax.enable_x64(True):
        groups = jax.jit(groups_of, static_argnums=0)(least)
        rates = jax.jit(best_sized_rates)(groups)
        for price in (0.0, 0.11, 0.23, 0.4):
            found = jax.jit(sized_prospects)(groups, jnp.full(len(HISTORIES), price))
            for place, history in enumerate(HISTORIES):
                arm = exact_arm(history, least)
                _, drawing = priced_values(arm, np.array([price]))
                gain = drawing[arm.drawable, 0]
                assert float(found.value[place]) == pytest.approx(gain[0], abs=1e-12)
                depth, s = arm.depth[arm.drawable], arm.successes[arm.drawable]
                draws = np.asarray(found.draws)[depth, place, s]
                clear = np.abs(gain) > 1e-9
                np.testing.assert_array_equal(draws[clear], (gain > 0)[clear])
                assert not draws[~clear].any()
                draws[0] = True
                on_arm = np.zeros(len(arm.depth), bool)
                on_arm[arm.drawable] = draws
                stops = arms.sized_group(
                    mean_of(prior(), (float(history[0]), float(history[1]))),
                    N,
                    lambda s, f: (least_energy(least)(s, f) > 0).astype(float),
                )
                chance = renewal(stops, on_arm).reward
                assert float(found.chance[place]) == pytest.approx(chance, abs=1e-12)
                assert float(rates[place]) == pytest.approx(optimum(arm).rate, abs=4e-6)


def test_whole_groups_are_those_of_the_stream() -> None:
    """With no size but n the best rate is that of complete groups by energy."""
    with jax.enable_x64(True):
        rate = jax.jit(lambda: best_sized_rates(groups_of(N))[0])()
        truth = optimum(arms.single_group(mean_of(prior()), N, arms.energy)).rate
        assert float(rate) == pytest.approx(truth, abs=4e-6)


def test_drawn_to_the_end_by_all_outcomes() -> None:
    """Marked exactly where no sequence of outcomes leads to a stop before the group is full."""
    n = 4
    draws = np.random.default_rng(5).uniform(size=(n, 30, n + 1)) < 0.85
    found = np.asarray(drawn_to_the_end(jnp.asarray(draws)))
    for prompt in range(30):
        for d in range(n):
            for s in range(d + 1):
                ends = all(
                    draws[d + k, prompt, s + sum(outcomes[:k])]
                    for outcomes in itertools.product((0, 1), repeat=n - d)
                    for k in range(n - d)
                )
                assert found[d, prompt, s] == ends


@pytest.mark.slow
def test_the_price_is_where_supply_meets_the_batch() -> None:
    """Just below it the profitable prompts supply the batch, just above it they do not; poor ones are priced at their own best rate."""
    with jax.enable_x64(True):
        groups, batch = groups_of(2), 2
        price = float(supplying_price(groups, batch))

        def supply(at: float) -> float:
            found = sized_prospects(groups, jnp.full(len(HISTORIES), at))
            return float(jnp.sum(jnp.where(found.value > 0, found.chance, 0)))

        assert 0 < price < 0.5 and supply(price) >= batch > supply(price + 4e-6)
        assert float(supplying_price(groups, len(HISTORIES))) == 0.0
        s, f = jnp.asarray(HISTORIES).T
        found_price, found = foresee(Memory(prior(), s, f), energy_worth(N), batch)
        assert float(found_price) == price
        own = jnp.minimum(price, best_sized_rates(groups))
        expected = sized_prospects(groups, own)
        np.testing.assert_array_equal(found.draws, expected.draws)
        shared = sized_prospects(groups, jnp.full(len(HISTORIES), price))
        np.testing.assert_array_equal(found.value, shared.value)
        assert (own < price).any() and (own == price).any()


B, POOL, LEAST = 4, 40, 3
RATES = np.repeat([0.0, 1.0, 0.2, 0.6], (14, 8, 10, 8))


@cache
def run() -> tuple[Any, list[list[Round]]]:
    """The state before the first update, and the complete updates."""
    allocator = predictive_sizing.allocator(B, N, LEAST)
    start = jax.jit(allocator.init, static_argnums=1)(jax.random.key(0), POOL)
    return start, updates(play(allocator, RATES, 160))


@pytest.mark.slow
def test_it_does_what_its_prospects_say() -> None:
    """It opens the most valuable prompts; asks one rollout, or the rest at once, while that pays; and trains on what is mixed and large enough."""
    before, complete = run()
    assert len(complete) > 6
    sizes: set[int] = set()
    for update in complete:
        belief = before.belief
        value = np.asarray(belief.prospects.value)
        opened = np.asarray(before.opened_at) > 0
        assert opened.sum() == B
        assert value[opened].min() >= value[~opened].max() - 2e-6
        rule, to_the_end = np.asarray(belief.prospects.draws), np.asarray(belief.to_the_end)
        for each in update:
            s, f = np.asarray(before.successes), np.asarray(before.failures)
            for prompt in np.flatnonzero(np.asarray(before.open)):
                drawn = s[prompt] + f[prompt]
                wish = 0
                if drawn < N and (drawn == 0 or rule[drawn, prompt, s[prompt]]):
                    wish = N - drawn if to_the_end[drawn, prompt, s[prompt]] else 1
                assert each.requests.additional[prompt] == wish
            assert each.requests.additional[~np.asarray(before.open)].sum() == 0
            before = each.state
        groups = update[-1].groups
        assert groups.ready.sum() == B
        right, wrong = groups.successes[groups.ready], groups.failures[groups.ready]
        assert (right * wrong > 0).all() and (right + wrong >= LEAST).all()
        sizes |= set((right + wrong).tolist())
    assert max(sizes) == N


@pytest.mark.slow
def test_a_prior_that_is_given_is_never_changed() -> None:
    given = population()
    source = predictive_sizing.source(2, 4, prior=given)
    belief = jax.jit(source.init, static_argnums=1)(jax.random.key(0), 6)
    seen = jnp.array([3, 0, 1, 0, 0, 0])
    after = jax.jit(source.learn)(belief, jnp.arange(6) < 3, seen, 3 - seen)
    for weights in after.memories.log_weights:
        expected = np.concatenate([given.log_weights, given.log_point_weights])
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "line"),
    [((2, 1, 2), "group size"), ((0, 4, 2), "batch"), ((2, 4, 1), "least"), ((2, 4, 5), "at most")],
)
def test_sizes_that_make_no_sense(sizes: tuple[int, int, int], line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        predictive_sizing.allocator(*sizes)
