"""The price of groups of any size: what a pool earns per rollout under what every prompt is said to be worth, exactly."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.planted_bugs.damage.stopping import BATCH, GROUP, histories, mean_of, population
from tests.planted_bugs.defect import relative_error
from theory.allocation.memories import Memory
from theory.allocation.policies import predictive_sizing
from theory.allocation.priors import BetaMixture
from theory.allocation.sized_groups import SizedProspects, energy_worth
from theory.exact.allocation import arms
from theory.exact.allocation.arms import Arm
from theory.exact.allocation.fresh_stream import Renewal, renewal

LEAST = 3
POOL = f"60 prompts with histories, groups of {LEAST} to {GROUP}, {BATCH} groups and half as many again"

Foresee = Callable[[Memory, Any, int], tuple[Any, SizedProspects]]


@jax.jit
def _right(memory: Memory, worth: Any) -> tuple[Any, SizedProspects]:
    return predictive_sizing.foresee(memory, worth, BATCH)


def foresee(memory: Memory, worth: Any, batch: int) -> tuple[Any, SizedProspects]:
    """The right one, in the form of its twins."""
    assert batch == BATCH
    return _right(memory, worth)


class SizedArms(NamedTuple):
    """A prompt with a history.

    Attributes:
        energy: pays what each rollout adds to the energy of its group.
        trained: pays 1 for a group that may be trained on.
    """

    energy: Arm
    trained: Arm


def arms_of(
    prior: BetaMixture, largest: int, least: int, seen: tuple[float, float] = (0, 0)
) -> SizedArms:
    """The prompt for the exact programs."""

    def worth(s: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(s + f >= least, arms.energy(s, f), 0.0)

    mean = mean_of(prior, seen)
    return SizedArms(
        arms.sized_group(mean, largest, worth),
        arms.sized_group(mean, largest, lambda s, f: (worth(s, f) > 0).astype(np.float64)),
    )


def drawn(found: SizedProspects, place: int, arm: Arm) -> np.ndarray:
    """Where prompt `place` is drawn from once it was picked, on the states of its arm."""
    depth = np.minimum(arm.depth, arm.depth.max() - 1)
    draws = np.asarray(found.draws)[depth, place, arm.successes] & arm.drawable
    draws[0] = True
    return draws


@cache
def pool_by(build: Foresee) -> tuple[Any, SizedProspects]:
    """Price and prospects of the pool of the catalogue: under x64."""
    memory = Memory(population(), *map(jnp.asarray, histories()))
    price, found = build(memory, energy_worth(GROUP, LEAST), BATCH)
    return jax.tree.map(np.asarray, (price, found))


class _Visit(NamedTuple):
    value: float
    energy: Renewal
    trained: float


@cache
def _rate(build: Foresee) -> float:
    """Energy per rollout, prompts taken by value until there are half as many groups again as the batch."""
    with jax.enable_x64(True):
        _, found = pool_by(build)
        visits: list[_Visit] = []
        known: dict[tuple[float, float], SizedArms] = {}
        for place, cell in enumerate(zip(*histories(), strict=True)):
            if cell not in known:
                known[cell] = arms_of(population(), GROUP, LEAST, cell)
            energy, trained = known[cell]
            draws = drawn(found, place, energy)
            visits.append(
                _Visit(
                    float(found.value[place]),
                    renewal(energy, draws),
                    renewal(trained, draws).reward,
                )
            )
        groups = earned = rollouts = 0.0
        for each in sorted(visits, key=lambda visit: -visit.value):
            share = min(1.0, (1.5 * BATCH - groups) / max(each.trained, 1e-12))
            groups += share * each.trained
            earned += share * each.energy.reward
            rollouts += share * each.energy.rollouts
        return earned / rollouts


def of_pool(build: Foresee) -> float:
    """Relative error of the energy per rollout."""
    return relative_error(_rate(build), _rate(foresee))
