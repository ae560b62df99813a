"""The price of a rollout where groups may have any size, against the exact program of every prompt: once, wrongly, and learnt in a loop."""

from collections.abc import Callable
from typing import Any

import jax
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
from theory.allocation.memories import best_memory
from theory.allocation.policies import predictive_sizing
from theory.allocation.population import flat_grid
from theory.allocation.priors import BetaMixture
from theory.allocation.sized_groups import SizedProspects
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
