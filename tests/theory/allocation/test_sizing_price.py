"""The price of a rollout where groups may have any size, against the exact program of every prompt: once, wrongly, and learnt in a loop."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import sizing as planted
from tests.planted_bugs.damage.sizing import (
    LEAST,
    Foresee,
    SizedArms,
    arms_of,
    drawn,
    foresee,
    pool_by,
)
from tests.planted_bugs.damage.stopping import BATCH, GROUP, histories, population
from tests.theory.allocation.loops import play, updates
from theory.allocation.assembly import AllocatorState
from theory.allocation.memories import Memories, best_memory
from theory.allocation.policies import predictive_sizing
from theory.allocation.population import flat_grid
from theory.allocation.priors import BetaMixture, mixture
from theory.allocation.records import Decision, Reason
from theory.allocation.sized_groups import (
    SizedProspects,
    drawn_to_the_end,
    energy_worth,
    sized_groups,
    sized_prospects,
)
from theory.exact.allocation.fresh_stream import optimum, priced_values, renewal

# A price is found by halving [0, 1/2] 18 times.
STEP = 0.5**19


def chance_of(arms: SizedArms, draws: np.ndarray) -> float:
    return renewal(arms.trained, draws).reward


def check_sized_pool(
    price: float,
    found: SizedProspects,
    prior: BetaMixture,
    seen: tuple[np.ndarray, np.ndarray],
    sizes: tuple[int, int, int],
    rounding: float,
) -> None:
    """The price clears the market, values are those of the exact program at it, and every prompt is drawn from while that pays at it or at its own best rate."""
    batch, largest, least = sizes
    every = list(zip(*(part.tolist() for part in seen), strict=True))
    known = {cell: arms_of(prior, largest, least, cell) for cell in set(every)}

    def supply(price: float) -> float:
        total = dict.fromkeys(known, 0.0)
        for cell, arms in known.items():
            _, drawing = priced_values(arms.energy, np.array([price]))
            if drawing[0, 0] > 0:
                total[cell] = chance_of(arms, drawing[:, 0] > 0)
        return sum(total[cell] for cell in every)

    assert supply(price - rounding) >= batch - 1e-6 and supply(price + STEP + rounding) < batch
    best = {cell: optimum(arms.energy).rate for cell, arms in known.items()}
    assert min(best.values()) < price < max(best.values())
    for place, cell in enumerate(every):
        arms = known[cell]
        _, drawing = priced_values(arms.energy, np.array([price, min(price, best[cell])]))
        assert float(found.value[place]) == pytest.approx(drawing[0, 0], abs=rounding)
        draws = drawn(found, place, arms.energy)
        # Prices are within a step of each other, and a group has `largest` rollouts.
        clear = np.abs(drawing[:, 1]) > rounding + 2 * STEP * largest
        clear[0] = False
        np.testing.assert_array_equal(draws[clear], (drawing[:, 1] > 0)[clear])
        assert float(found.chance[place]) == pytest.approx(chance_of(arms, draws), abs=rounding)


def check_pool(build: Foresee) -> None:
    """On the histories of the catalogue."""
    with jax.enable_x64(True):
        price, found = pool_by(build)
        check_sized_pool(
            float(price), found, population(), histories(), (BATCH, GROUP, LEAST), 1e-9
        )


def test_the_price_of_groups_of_any_size_is_exact() -> None:
    check_pool(foresee)


@pytest.mark.parametrize(
    "twin",
    [
        planted.losing_prompts_supply_the_batch,
        planted.every_gain_counted_as_a_group,
        planted.sized_pool_priced_like_a_stream,
        planted.losing_prompts_sized_at_the_shared_price,
    ],
)
def test_planted_prices_are_rejected(twin: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError):
        check_pool(twin)


def test_what_is_worth_exactly_nothing_is_not_drawn_for() -> None:
    """Prompts that are never mixed, and free rollouts."""
    never, nothing = mixture((), ((0.3, 0.0), (0.7, 1.0))), jnp.zeros(2)
    found = jax.jit(
        lambda: sized_prospects(sized_groups(never, nothing, nothing, energy_worth(4)), nothing)
    )()
    for number in range(4):
        assert not np.asarray(found.draws)[number, :, [0, number]].any()
    assert not np.asarray(found.value).any() and not np.asarray(found.chance).any()


def test_requests_are_what_the_prospects_say_at_every_count() -> None:
    """Draw while that pays and once in any case, the rest at once where nothing could stop it; then train on what is large enough and mixed."""
    n, least = 5, 3
    cells = [(s, d - s) for d in range(n + 1) for s in range(d + 1)] * 4
    num = len(cells)
    pays = np.random.default_rng(7).random((n, num, n + 1)) < 0.7
    pays[0, ::2] = False
    draws = jnp.asarray(pays)
    to_the_end = drawn_to_the_end(draws)
    nothing, no, zero = jnp.zeros(num), jnp.zeros(num, bool), jnp.zeros((), jnp.int32)
    belief = predictive_sizing.SizingBelief(
        jax.random.key(0),
        Memories(nothing[None], nothing[None], jnp.zeros((1, 1)), jnp.zeros(1)),
        jnp.zeros(()),
        SizedProspects(nothing, draws, nothing),
        to_the_end,
        zero,
    )
    s, f = (jnp.asarray(part, jnp.int32) for part in zip(*cells, strict=True))
    open_ = jnp.arange(num) != 3
    state = AllocatorState(belief, open_, no, open_, s, f, jnp.arange(num), zero, zero, zero)
    found = predictive_sizing.allocator(2, n, least).propose(state, 10**6)
    for place, (right, wrong) in enumerate(cells):
        drawn = right + wrong
        more, decision = 0, Decision.NONE
        if place != 3:
            decision = Decision.COMMIT if drawn >= least and right > 0 < wrong else Decision.ABANDON
            if drawn < n and (drawn == 0 or bool(draws[drawn, place, right])):
                decision = Decision.CONTINUE
                more = n - drawn if bool(to_the_end[drawn, place, right]) else 1
        assert (int(found.additional[place]), int(found.decision[place])) == (more, decision)
        if place != 3:
            reason = Reason.COMMIT if right > 0 < wrong else Reason.PILOT
            assert int(found.reason[place]) == reason
    assert set(found.additional.tolist()) >= {0, 1, 2, 3}


@pytest.mark.slow
def test_the_price_is_learnt_anew_at_every_update() -> None:
    """In a loop, of what is remembered then: not the price of the update before, nor that of strangers."""
    batch, largest, least, rates = 4, 7, 3, np.repeat([0.0, 1.0, 0.2, 0.6], (14, 8, 10, 8))
    complete = updates(play(predictive_sizing.allocator(batch, largest, least), rates, 120))
    beliefs = [update[-1].state.belief for update in complete]
    prices = [float(belief.price) for belief in beliefs]
    assert len(set(prices)) == len(prices) > 5
    for belief in (beliefs[0], beliefs[len(beliefs) // 2], beliefs[-1]):
        memory = best_memory(flat_grid(), belief.memories)
        seen = (np.asarray(memory.successes), np.asarray(memory.failures))
        check_sized_pool(
            float(belief.price),
            belief.prospects,
            memory.population,
            (seen[0].astype(np.float64), seen[1].astype(np.float64)),
            (batch, largest, least),
            5e-5,
        )
