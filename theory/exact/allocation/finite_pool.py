"""The optimum on a finite pool: a few prompts that are all remembered, and a budget of rollouts for them together.

The information class of rules that may leave a prompt and come back to it, and that know different things about different prompts:
ranking by prediction (DPS, MoPPS) and its compositions with stopping are in it. The joint state is one state of each arm; the
budget left follows from what has been drawn. With V the best expected reward to come and x_i the state of prompt i,

    V(x) = max over prompts i of E[reward + V(x with x_i moved) | x_i],     V = 0 where the budget is spent

which is exact and costs the product of the sizes of the arms: four prompts with groups of 8 are 45^4 = 4.1 million states. For larger
pools see `relaxation`, which bounds it from above.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.exact.allocation.arms import Arm

LARGEST_POOL = 20_000_000
"""Most joint states: some 8 bytes each for the value, the order and the depth."""

PoolRule = Callable[[list[Int64[np.ndarray, " M"]], int], Int64[np.ndarray, " M"]]
"""(state of each prompt in M joint situations, rollouts drawn so far) -> the prompt to draw from in each, -1 to stop."""


class _Pool(NamedTuple):
    arms: Sequence[Arm]
    strides: list[int]
    size: int


def optimal_value(arms: Sequence[Arm], budget: int) -> float:
    """The largest expected reward that any rule can have from the pool with that budget.

    Args:
        arms: one for each prompt; they may have different priors and group sizes.
        budget: rollouts that may be drawn in all.

    Returns:
        the expected reward of the best rule, summed over the prompts.

    Raises:
        InvalidInput: no prompt, a negative budget, or more joint states than `LARGEST_POOL`.
    """

    def best(
        offers: Float64[np.ndarray, "P M"], states: list[np.ndarray], spent: int
    ) -> np.ndarray:
        return np.maximum(offers.max(axis=0), 0.0)

    return _backward(_pool(arms, budget), budget, best)


def value_of_rule(arms: Sequence[Arm], budget: int, rule: PoolRule) -> float:
    """The expected reward of a given rule on the pool with that budget, exactly.

    Args:
        arms: one for each prompt.
        budget: rollouts that may be drawn in all.
        rule: the prompt to draw from in each joint situation; must not name one from which nothing may be drawn.

    Returns:
        the expected reward, never above `optimal_value`.

    Raises:
        InvalidInput: as `optimal_value`; a rule that draws where nothing may be drawn.
    """

    def followed(
        offers: Float64[np.ndarray, "P M"], states: list[np.ndarray], spent: int
    ) -> np.ndarray:
        chosen = rule(states, spent)
        value = np.where(chosen < 0, 0.0, offers[np.maximum(chosen, 0), np.arange(len(chosen))])
        if np.isneginf(value).any():
            raise InvalidInput(f"the rule draws from a finished prompt after {spent} rollouts")
        return value

    return _backward(_pool(arms, budget), budget, followed)


def _pool(arms: Sequence[Arm], budget: int) -> _Pool:
    if not arms:
        raise InvalidInput("a pool without prompts: give at least one")
    if budget < 0:
        raise InvalidInput(f"budget {budget} is negative: give 0 rollouts or more")
    sizes = [len(arm.depth) for arm in arms]
    size = math.prod(sizes)
    if size > LARGEST_POOL:
        raise InvalidInput(
            f"{size} joint states are more than {LARGEST_POOL}: take fewer prompts or smaller groups"
        )
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return _Pool(arms, strides, size)


def _backward(pool: _Pool, budget: int, decide: Callable[..., np.ndarray]) -> float:
    """The value of the untouched pool, by total depth from the end of the budget."""
    shape = [len(arm.depth) for arm in pool.arms]
    depth = np.zeros(shape, np.int32)
    for axis, arm in enumerate(pool.arms):
        depth += arm.depth.astype(np.int32).reshape(
            [-1 if a == axis else 1 for a in range(len(shape))]
        )
    order = np.argsort(depth, axis=None, kind="stable")
    starts = np.searchsorted(depth.ravel()[order], np.arange(int(depth.max()) + 2))
    values = np.zeros(pool.size)
    for spent in range(min(budget, int(depth.max())) - 1, -1, -1):
        joint = order[starts[spent] : starts[spent + 1]]
        states = [joint // stride % size for stride, size in zip(pool.strides, shape, strict=True)]
        offers = np.stack(
            [
                _offer(arm, state, joint, stride, values)
                for arm, state, stride in zip(pool.arms, states, pool.strides, strict=True)
            ]
        )
        values[joint] = decide(offers, states, spent)
    return float(values[0])


def _offer(
    arm: Arm, state: np.ndarray, joint: np.ndarray, stride: int, values: np.ndarray
) -> np.ndarray:
    """What drawing from this prompt is worth in each joint state; -inf where nothing may be drawn."""
    p = arm.success_probability[state]
    success = values[joint + (arm.next_success[state] - state) * stride]
    failure = values[joint + (arm.next_failure[state] - state) * stride]
    offer = p * (arm.reward_success[state] + success) + (1 - p) * (
        arm.reward_failure[state] + failure
    )
    return np.where(arm.drawable[state], offer, -np.inf)
