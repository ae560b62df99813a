"""The price of `theory.allocation.policies.predictive_sizing` with one mistake each; its `foresee` has the right one.

Each takes what is remembered of a pool, the worth of groups and the batch, and finds the price of a rollout and what every prompt is worth at it. The right one in
the form of its twins is in `tests.planted_bugs.damage.sizing`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theory.allocation.memories import Memory
from theory.allocation.sized_groups import (
    PRICE_STEPS,
    SizedGroups,
    SizedProspects,
    best_sized_rates,
    sized_groups,
    sized_prospects,
)

# Compiled once for all of them.
_groups, _prospects, _rates = map(jax.jit, (sized_groups, sized_prospects, best_sized_rates))


def _remembered(memory: Memory, worth: Float[Array, "M M"]) -> SizedGroups:
    return _groups(memory.population, memory.successes, memory.failures, worth)


def _at(groups: SizedGroups, price: Any) -> SizedProspects:
    return _prospects(groups, jnp.full(groups.mean.shape[1], price))


def _highest(groups: SizedGroups, supply: Callable[[SizedProspects], Any], batch: int) -> float:
    """The highest price at which so much is supplied."""
    low, high = 0.0, 0.5
    for _ in range(PRICE_STEPS):
        middle = (low + high) / 2
        enough = bool(supply(_at(groups, middle)) >= batch)
        low, high = (middle, high) if enough else (low, middle)
    return low


def _groups_of_gains(found: SizedProspects) -> Array:
    return jnp.sum(jnp.where(found.value > 0, found.chance, 0))


def _foreseen(groups: SizedGroups, price: float) -> tuple[Float[Array, ""], SizedProspects]:
    """What follows from a price, as it should."""
    shared = _at(groups, price)
    own = _prospects(groups, jnp.minimum(price, _rates(groups)))
    return jnp.asarray(price), own._replace(value=shared.value)


def losing_prompts_supply_the_batch(
    memory: Memory, worth: Float[Array, "M M"], batch: int
) -> tuple[Float[Array, ""], SizedProspects]:
    """Prompts that cost more than they earn are counted in the supply: a rollout looks dearer than it is."""
    groups = _remembered(memory, worth)
    return _foreseen(groups, _highest(groups, lambda found: jnp.sum(found.chance), batch))


def every_gain_counted_as_a_group(
    memory: Memory, worth: Float[Array, "M M"], batch: int
) -> tuple[Float[Array, ""], SizedProspects]:
    """Prompts with a gain are counted, not their chances to be trained on."""
    groups = _remembered(memory, worth)
    return _foreseen(groups, _highest(groups, lambda found: jnp.sum(found.value > 0), batch))


def sized_pool_priced_like_a_stream(
    memory: Memory, worth: Float[Array, "M M"], batch: int
) -> tuple[Float[Array, ""], SizedProspects]:
    """Rollouts cost what strangers earn, whoever else is in the pool."""
    nothing = jnp.zeros_like(memory.successes)
    strangers = _remembered(memory._replace(successes=nothing, failures=nothing), worth)
    return _foreseen(_remembered(memory, worth), float(_rates(strangers)[0]))


def losing_prompts_sized_at_the_shared_price(
    memory: Memory, worth: Float[Array, "M M"], batch: int
) -> tuple[Float[Array, ""], SizedProspects]:
    """A prompt worth less than the price is given up at its first outcome: it is visited in vain."""
    groups = _remembered(memory, worth)
    price = _highest(groups, _groups_of_gains, batch)
    return jnp.asarray(price), _at(groups, price)
