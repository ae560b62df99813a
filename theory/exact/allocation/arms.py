"""A prompt as an arm: what one more rollout does, in every state that the prompt can be in.

A state knows what has been seen of its prompt; drawing costs one rollout and leads to one of two states, after a success or a failure,
with a reward on the way, usually when it completes a group. Everything about optimal allocation (`fresh_stream`, `finite_pool`,
`relaxation`) is a program over such arms and does not know what a group is.

States are numbered so that a draw always leads to a larger number; number 0 is the prompt untouched.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from theory.errors import InvalidInput

SuccessProbability = Callable[
    [Int64[np.ndarray, " K"], Int64[np.ndarray, " K"]], Float64[np.ndarray, " K"]
]
"""P(the next rollout succeeds | successes, failures so far), one number for each pair: the posterior mean under a prior."""

GroupReward = Callable[
    [Int64[np.ndarray, " K"], Int64[np.ndarray, " K"]], Float64[np.ndarray, " K"]
]
"""What a finished group is worth by its successes and failures."""


class Arm(NamedTuple):
    """A prompt as a decision process with K states.

    Attributes:
        depth: [K], rollouts drawn so far; never decreases with the number of the state.
        drawable: [K], whether one more rollout may be drawn here.
        success_probability: [K], P(the next rollout succeeds | state); 0 where none may be drawn.
        next_success: [K], the state after a success; the state itself where none may be drawn.
        next_failure: [K], the state after a failure.
        reward_success: [K], reward received when the next rollout succeeds: the worth of the group that it completes, or what it adds.
        reward_failure: [K], the same for a failure.
        successes: [K], successes seen in the group under way (all of them for a single group).
        failures: [K], failures seen in the group under way.
    """

    depth: Int64[np.ndarray, " K"]
    drawable: Bool[np.ndarray, " K"]
    success_probability: Float64[np.ndarray, " K"]
    next_success: Int64[np.ndarray, " K"]
    next_failure: Int64[np.ndarray, " K"]
    reward_success: Float64[np.ndarray, " K"]
    reward_failure: Float64[np.ndarray, " K"]
    successes: Int64[np.ndarray, " K"]
    failures: Int64[np.ndarray, " K"]


def effective(
    successes: Int64[np.ndarray, " K"], failures: Int64[np.ndarray, " K"]
) -> Float64[np.ndarray, " K"]:
    """1 where a group is effective: it holds a success and a failure, so its advantages are not all zero."""
    return ((successes > 0) & (failures > 0)).astype(np.float64)


def push(
    successes: Int64[np.ndarray, " K"], failures: Int64[np.ndarray, " K"]
) -> Float64[np.ndarray, " K"]:
    """The push of a group under std-normalised advantages: sqrt(rbar (1 - rbar)) with rbar its share of successes.

    Its mean over the outcomes, not sqrt(p (1 - p)), is the size of the expected update of a finite group: at n = 8 and p = .05 it
    is .54 of that limit (allocation.md, corrections).
    """
    return np.sqrt(successes * failures) / np.maximum(successes + failures, 1)


def energy(
    successes: Int64[np.ndarray, " K"], failures: Int64[np.ndarray, " K"]
) -> Float64[np.ndarray, " K"]:
    """The push of a group times its size, sqrt(s f): its part of an update in which every rollout has the same weight (token mean)."""
    return np.sqrt(successes * failures)


def single_group(
    success_probability: SuccessProbability, group_size: int, reward: GroupReward
) -> Arm:
    """A prompt that yields at most one group, complete at `group_size` rollouts.

    Args:
        success_probability: the posterior mean by successes and failures.
        group_size: n, rollouts of a complete group.
        reward: what the complete group is worth.

    Returns:
        an arm with (n + 1)(n + 2) / 2 states (s, f), s + f <= n, by depth and then by successes.

    Raises:
        InvalidInput: a group size below 1.
    """
    return repeated_groups(success_probability, group_size, 1, reward)


def sized_group(success_probability: SuccessProbability, largest: int, value: GroupReward) -> Arm:
    """A prompt whose group may be closed at any size up to a largest one, and is worth what it then holds.

    Each rollout is rewarded with what it adds to the value of the group, value(after) - value(before), which may be negative; the sum up to
    any stop is the value there. So a rule of this arm stops prompts and sizes groups at once.

    Args:
        success_probability: the posterior mean by successes and failures.
        largest: most rollouts of a group.
        value: what a group of so many successes and failures is worth; 0 where nothing has been drawn.

    Returns:
        an arm with the states of `single_group`.

    Raises:
        InvalidInput: a largest size below 1.
    """
    arm = single_group(success_probability, largest, effective)
    worth = value(arm.successes, arm.failures)
    return arm._replace(
        reward_success=worth[arm.next_success] - worth,
        reward_failure=worth[arm.next_failure] - worth,
    )


def repeated_groups(
    success_probability: SuccessProbability, group_size: int, groups: int, reward: GroupReward
) -> Arm:
    """A prompt that is remembered and may yield several groups, one after the other, its success probability standing still.

    Each run of `group_size` rollouts is a group of its own; what was learnt in earlier ones is kept. The state is what has been seen
    in complete groups and in the one under way.

    Args:
        success_probability: the posterior mean by all successes and failures so far.
        group_size: n, rollouts of a complete group.
        groups: the most groups that the prompt may yield.
        reward: what a complete group is worth.

    Returns:
        an arm; for one group the lattice of `single_group`.

    Raises:
        InvalidInput: a group size or a number of groups below 1.
    """
    if group_size < 1 or groups < 1:
        raise InvalidInput(
            f"groups of {group_size} rollouts, {groups} of them: give at least 1 of each"
        )
    earlier, successes, failures, complete = _states(group_size, groups)
    depth = complete * group_size + successes + failures
    number = np.zeros((groups, groups * group_size + 1, group_size + 1, group_size + 1), np.int64)
    number[complete, earlier, successes, failures] = np.arange(len(depth))
    # A complete group is the empty state of the next one; only after the last one nothing more may be drawn.
    drawable = successes + failures < group_size
    rows = np.flatnonzero(drawable)
    seen = earlier[rows] + successes[rows]
    probability = np.zeros(len(depth))
    probability[rows] = success_probability(seen, depth[rows] - seen)

    def move(more_successes: int, more_failures: int) -> tuple[np.ndarray, np.ndarray]:
        """The next state of each row and the reward on the way."""
        s, f = successes[rows] + more_successes, failures[rows] + more_failures
        completes = s + f == group_size
        next_group = completes & (complete[rows] < groups - 1)
        states, rewards = np.arange(len(depth)), np.zeros(len(depth))
        states[rows] = number[
            complete[rows] + next_group,
            earlier[rows] + np.where(next_group, s, 0),
            np.where(next_group, 0, s),
            np.where(next_group, 0, f),
        ]
        rewards[rows] = np.where(completes, reward(s, f), 0.0)
        return states, rewards

    next_success, reward_success = move(1, 0)
    next_failure, reward_failure = move(0, 1)
    return Arm(
        depth,
        drawable,
        probability,
        next_success,
        next_failure,
        reward_success,
        reward_failure,
        successes,
        failures,
    )


def _states(group_size: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All (successes of complete groups, successes, failures, complete groups), by depth."""
    rows: list[tuple[int, int, int, int]] = []
    for group in range(groups):
        final = group == groups - 1
        for drawn in range(group_size + 1 if final else group_size):
            rows.extend(
                (earlier, s, drawn - s, group)
                for earlier in range(group * group_size + 1)
                for s in range(drawn + 1)
            )
    table = np.array(rows, np.int64)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]
