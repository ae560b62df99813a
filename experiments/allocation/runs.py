"""Runs of methods by seed, one after the other. Settings of equal sizes share one compiled program a method: what differs between them is data."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from experiments.allocation.methods import Information, Method, Shape
from experiments.allocation.regimes import Population, SkillRegime
from experiments.allocation.simulator import Curve, Limits, simulate
from experiments.allocation.static_methods import STATIC_METHODS
from experiments.allocation.worlds import (
    World,
    draw_rates,
    draw_skill_prompts,
    learning_world,
    static_world,
)
from theory.protocols import Allocator

MOST_ROUNDS = 3000
"""Rounds of one update after which a rule is stopped: the pool has nothing left that it would train on."""


class Setting(NamedTuple):
    """Where a method runs.

    Attributes:
        name: of the regime.
        batch_size: B.
        group_size: n.
        num_prompts: of the training pool.
        draw: key -> the prompts, a pytree of arrays.
        world: those arrays -> prompts and policy.
    """

    name: str
    batch_size: int
    group_size: int
    num_prompts: int
    draw: Callable[[Key[Array, ""]], Any]
    world: Callable[[Any], World]


class InformedMethod(NamedTuple):
    """A rule that sees something of the prompts beside their verdicts.

    Attributes:
        information: what it may look at.
        build: (batch size, group size) -> (the prompts as `Setting.draw` gives them -> the allocator).
        shape: as of `Method`.
    """

    information: Information
    build: Callable[[int, int], Callable[[Any], Allocator]]
    shape: Callable[[int, int, int], Shape]


@functools.cache
def uninformed(method: Method) -> InformedMethod:
    """A rule that sees verdicts alone.

    Args:
        method: the rule.

    Returns:
        The same; one object a method, so that its programs are compiled once.
    """

    def build(batch_size: int, group_size: int) -> Callable[[Any], Allocator]:
        allocator = method.build(batch_size, group_size)
        return lambda prompts: allocator

    return InformedMethod(method.information, build, method.shape)


class Length(NamedTuple):
    """How long a run is.

    Attributes:
        updates: most updates.
        rollouts: the run ends with the first update at or beyond so many.
    """

    updates: int
    rollouts: int = 1 << 28


def skill_setting(regime: SkillRegime, form: str = "grpo") -> Setting:
    """A learning policy.

    Args:
        regime: of prompts and policy.
        form: of the advantage.

    Returns:
        The setting.
    """
    return Setting(
        regime.name,
        regime.batch_size,
        regime.group_size,
        regime.num_prompts,
        lambda key: draw_skill_prompts(key, regime, form),
        learning_world,
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
        lambda key: draw_rates(key, population, num_prompts),
        static_world,
    )


def run_method(name: str, setting: Setting, length: Length, seeds: range) -> Iterator[Curve]:
    """A method in a setting, once for each seed.

    All methods meet the same prompts at the same seed; their rollouts are independent.

    Args:
        name: of `STATIC_METHODS`.
        setting: where.
        length: of a run.
        seeds: of the runs.

    Yields:
        One curve a seed, on the host.
    """
    method = uninformed(STATIC_METHODS[name])
    return run(method, list(STATIC_METHODS).index(name), setting, length, seeds)


def run(
    method: InformedMethod, number: int, setting: Setting, length: Length, seeds: range
) -> Iterator[Curve]:
    """Any rule in a setting, once for each seed.

    Args:
        method: the rule.
        number: tells its rollouts from those of other rules.
        setting: where.
        length: of a run.
        seeds: of the runs.

    Yields:
        One curve a seed, on the host.
    """
    sizes = (setting.batch_size, setting.group_size, setting.num_prompts)
    program = _program(method, *sizes, length.updates, setting.world)
    for seed in seeds:
        key = jax.random.key(seed)
        prompts = setting.draw(jax.random.fold_in(key, 0))
        of_run = jax.random.fold_in(key, 1 + number)
        curve = jax.tree.map(np.asarray, program(of_run, prompts, jnp.int32(length.rollouts)))
        if curve.spent >= 1 << 29:
            raise ValueError(f"{setting.name}: a rule asked for more than its shape allows")
        yield curve


@functools.cache
def _program(
    method: InformedMethod,
    batch_size: int,
    group_size: int,
    num_prompts: int,
    updates: int,
    world: Callable[[Any], World],
) -> Callable[[Key[Array, ""], Any, Int[Array, ""]], Curve]:
    """A run as one compiled function of its key, its prompts and the rollouts after which it ends."""
    allocator_on = method.build(batch_size, group_size)
    shape = method.shape(batch_size, group_size, num_prompts)

    @jax.jit
    def one(key: Key[Array, ""], prompts: Any, rollouts: Int[Array, ""]) -> Curve:
        limits = Limits(updates, rollouts, MOST_ROUNDS, shape.most, shape.prompts)
        return simulate(key, allocator_on(prompts), world(prompts), limits)

    return one


def trimmed(curve: Curve) -> Curve:
    """Only the updates that came about.

    Args:
        curve: of a run.

    Returns:
        With columns of length `num_updates`.
    """
    length = int(curve.num_updates)
    return jax.tree.map(lambda column: column[:length] if jnp.ndim(column) else column, curve)
