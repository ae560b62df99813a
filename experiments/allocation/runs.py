"""Runs of methods by seed: one compiled program a method and regime, its seeds one after the other, so that a killed run keeps what it has."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from experiments.allocation.methods import METHODS
from experiments.allocation.regimes import Population, SkillRegime
from experiments.allocation.simulator import Curve, Limits, simulate
from experiments.allocation.worlds import World, draw_rates, skill_world, static_world

MOST_ROUNDS = 3000
"""Rounds of one update after which a rule is stopped: the pool has nothing left that it would train on."""


class Setting(NamedTuple):
    """Where a method runs.

    Attributes:
        name: of the regime.
        batch_size: B.
        group_size: n.
        num_prompts: of the training pool.
        world: key -> prompts and policy.
    """

    name: str
    batch_size: int
    group_size: int
    num_prompts: int
    world: Callable[[Key[Array, ""]], World]


def skill_setting(regime: SkillRegime) -> Setting:
    """A learning policy.

    Args:
        regime: of prompts and policy.

    Returns:
        The setting.
    """
    return Setting(
        regime.name,
        regime.batch_size,
        regime.group_size,
        regime.num_prompts,
        lambda key: skill_world(key, regime),
    )


def static_setting(
    population: Population, batch_size: int, group_size: int, num_prompts: int
) -> Setting:
    """Success rates that stand still.

    Args:
        population: that prompts are drawn from.
        batch_size: B.
        group_size: n.
        num_prompts: of the pool.

    Returns:
        The setting.
    """
    return Setting(
        population.name,
        batch_size,
        group_size,
        num_prompts,
        lambda key: static_world(draw_rates(key, population, num_prompts)),
    )


def run_method(
    name: str, setting: Setting, updates: int, rollouts: int, seeds: range
) -> Iterator[Curve]:
    """A method in a setting, once for each seed.

    All methods meet the same prompts at the same seed; their rollouts are independent.

    Args:
        name: of `METHODS`.
        setting: where.
        updates: most updates.
        rollouts: the run ends with the first update at or beyond so many.
        seeds: of the runs.

    Yields:
        One curve a seed, on the host.
    """
    method = METHODS[name]
    allocator = method.build(setting.batch_size, setting.group_size)
    shape = method.shape(setting.batch_size, setting.group_size, setting.num_prompts)
    limits = Limits(updates, rollouts, MOST_ROUNDS, shape.most, shape.prompts)
    number = list(METHODS).index(name)

    @jax.jit
    def one(key: Key[Array, ""]) -> Curve:
        world = setting.world(jax.random.fold_in(key, 0))
        return simulate(jax.random.fold_in(key, 1 + number), allocator, world, limits)

    for seed in seeds:
        curve = jax.tree.map(np.asarray, one(jax.random.key(seed)))
        if curve.spent >= 1 << 29:
            raise ValueError(
                f"{name}: asked for more prompts or rollouts than its shape {shape} allows"
            )
        yield curve


def trimmed(curve: Curve) -> Curve:
    """Only the updates that came about.

    Args:
        curve: of a run.

    Returns:
        With columns of length `num_updates`.
    """
    length = int(curve.num_updates)
    return jax.tree.map(lambda column: column[:length] if jnp.ndim(column) else column, curve)
