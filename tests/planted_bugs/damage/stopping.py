"""Stopping rules of this project: what a stream earns and what a pool costs under them, exactly."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import betaln, logsumexp, xlog1py, xlogy

from tests.planted_bugs.defect import relative_error
from theory.allocation.equal_runs import Prospects
from theory.allocation.policies.optimal_stopping import table
from theory.allocation.policies.predictive_stopping import foresee
from theory.allocation.priors import BetaMixture, mixture
from theory.allocation.sequential import ActionTable
from theory.allocation.stopping_program import (
    best_rate,
    effective_worth,
    stopping_problem,
    stopping_rule,
)
from theory.exact.allocation.arms import Arm, SuccessProbability, effective, single_group
from theory.exact.allocation.fresh_stream import Renewal, renewal

GROUP, BATCH = 12, 15
STREAM = "40 % near .1, 30 % at 0, 30 % at 1, n = 12"
POOL = f"60 prompts of that law with histories, n = 12, {BATCH} groups and half as many again"

TableOf = Callable[[BetaMixture, int], ActionTable]
Foresee = Callable[[BetaMixture, Any, Any, int, int], tuple[Any, Prospects]]


def population() -> BetaMixture:
    """Lopsided, so that failures and successes are waited for differently."""
    return mixture(((0.4, 1.0, 9.0),), ((0.3, 0.0), (0.3, 1.0)))


def optimal_table(prior: BetaMixture, group_size: int) -> ActionTable:
    """The right rule of a stream, in the form of its twins."""
    problem = stopping_problem(prior, effective_worth(group_size))
    draws = stopping_rule(problem, best_rate(problem))
    return table(draws.at[0, 0].set(True))


def log_moments(prior: BetaMixture, s: np.ndarray, f: np.ndarray) -> np.ndarray:
    """[..., K] log E[p^s (1 - p)^f] under every part, Beta laws first."""
    laws, points = ([np.asarray(x, np.float64) for x in part] for part in (prior[1:3], prior[4:]))
    s, f = np.asarray(s, np.float64)[..., None], np.asarray(f, np.float64)[..., None]
    betas = betaln(laws[0] + s, laws[1] + f) - betaln(*laws)
    return np.concatenate([betas, xlogy(s, points[0]) + xlog1py(f, -points[0])], axis=-1)


def mean_of(prior: BetaMixture, seen: tuple[float, float] = (0, 0)) -> SuccessProbability:
    """P(the next rollout succeeds | s, f) of a prompt with a history; no code is shared with the rules."""
    log_weights = np.concatenate([np.asarray(prior[0]), np.asarray(prior[3])]).astype(np.float64)

    def mean(s: np.ndarray, f: np.ndarray) -> np.ndarray:
        here, then = (
            np.asarray(
                logsumexp(
                    log_weights + log_moments(prior, seen[0] + s + more, seen[1] + f), axis=-1
                )
            )
            for more in (0, 1)
        )
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(here), 0.0, np.exp(then - here))

    return mean


def arm_of(prior: BetaMixture, group_size: int, seen: tuple[float, float] = (0, 0)) -> Arm:
    """Such a prompt, for the exact programs."""
    return single_group(mean_of(prior, seen), group_size, effective)


def drawn(actions: ActionTable, arm: Arm) -> np.ndarray:
    """Where a table draws, on the states of an arm."""
    more = np.array(actions.additional)
    # A commitment is not looked at again.
    for s in range(len(more)):
        for f in range(len(more)):
            if more[s, f] > 1:
                for later in range(more[s, f]):
                    for right in range(later + 1):
                        more[s + right, f + later - right] = 1
    return more[arm.successes, arm.failures] > 0


def histories() -> tuple[np.ndarray, np.ndarray]:
    """What 60 prompts have shown: strangers, hopeless, mastered and mixed ones."""
    cells = [(0, 0), (0, 4), (1, 3), (8, 0), (0, 12), (2, 2), (0, 2), (3, 1), (1, 11), (2, 0)]
    found = np.array(cells * 6, float)
    return found[:, 0], found[:, 1]


class Visit(NamedTuple):
    """Of one prompt: its place in the ranking comes from its value."""

    value: float
    renewal: Renewal


def visits(found: Prospects, prior: BetaMixture, s: Any, f: Any, group_size: int) -> list[Visit]:
    """What every prompt costs and yields under its patience and its own posterior."""
    arms: dict[tuple[float, float], Arm] = {}
    listed: list[Visit] = []
    for place, history in enumerate(zip(s, f, strict=True)):
        if history not in arms:
            arms[history] = arm_of(prior, group_size, history)
        arm = arms[history]
        wrong, right = (int(each[place]) for each in found.patience)
        mixed = (arm.successes > 0) & (arm.failures > 0)
        draws = (mixed | ((arm.successes < right) & (arm.failures < wrong))) & arm.drawable
        listed.append(Visit(float(found.value[place]), renewal(arm, draws)))
    return listed


def table_by(build: TableOf) -> ActionTable:
    """The rule of the stream, compiled: under x64."""
    return jax.jit(build, static_argnums=1)(population(), GROUP)


def pool_by(build: Foresee) -> tuple[Any, Prospects]:
    """Price and prospects of the pool, compiled: under x64."""
    known = map(jnp.asarray, histories())
    return jax.jit(build, static_argnums=(3, 4))(population(), *known, GROUP, BATCH)


@cache
def _rate(build: TableOf) -> float:
    """Effective groups per rollout on the stream."""
    with jax.enable_x64(True):
        arm = arm_of(population(), GROUP)
        return renewal(arm, drawn(table_by(build), arm)).rate


@cache
def _cost(build: Foresee) -> float:
    """Rollouts per group, prompts taken by value until there are half as many groups again as the batch."""
    with jax.enable_x64(True):
        s, f = histories()
        _, found = pool_by(build)
        groups = rollouts = 0.0
        listed = visits(found, population(), s, f, GROUP)
        for each in sorted(listed, key=lambda visit: -visit.value):
            share = min(1.0, (1.5 * BATCH - groups) / max(each.renewal.reward, 1e-12))
            groups += share * each.renewal.reward
            rollouts += share * each.renewal.rollouts
        return rollouts / groups


def of_stream(build: TableOf) -> float:
    """Relative error of the best rate."""
    return relative_error(_rate(build), _rate(optimal_table))


def of_pool(build: Foresee) -> float:
    """Relative error of the cost of a group."""
    return relative_error(_cost(build), _cost(foresee))
