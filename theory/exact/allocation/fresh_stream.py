"""The optimum on a fresh stream: prompts come one after the other, are never seen again, and may be given up at any rollout.

The information class of dynamic sampling and SARA: what is known of a prompt is what its own rollouts said. A rule decides in every
state whether to go on; when it stops or completes the group, the next prompt comes. Over a long stream it earns, per rollout,

    rate = E[reward of a prompt] / E[rollouts of a prompt]                 (renewal-reward theorem)

and the best rate lambda* is the price at which the best rule breaks even: max over rules of E[reward - lambda* rollouts] = 0 with
the first rollout drawn (Dinkelbach 1967). At that price the stopping problem is a backward program over the states.

Rules that remember prompts (DPS, SARA on DPS) are of another class and may earn more: `finite_pool`, `relaxation`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from theory.errors import InvalidInput
from theory.exact.allocation.arms import Arm


class Renewal(NamedTuple):
    """What a rule earns and pays on one prompt of the stream.

    Attributes:
        reward: expected reward of a prompt.
        rollouts: expected rollouts of a prompt.
    """

    reward: float
    rollouts: float

    @property
    def rate(self) -> float:
        """Reward per rollout in the long run."""
        return self.reward / self.rollouts


class Optimum(NamedTuple):
    """The best rule for a stream.

    Attributes:
        rate: lambda*, reward per rollout; 1 / rate is the cost of one effective group where the reward counts those.
        draws: [K], whether the rule goes on in each state; it stops where going on is worth exactly nothing.
        renewal: what it earns and pays on one prompt.
    """

    rate: float
    draws: Bool[np.ndarray, " K"]
    renewal: Renewal


def priced_values(
    arm: Arm, price: Float64[np.ndarray, " M"]
) -> tuple[Float64[np.ndarray, "K M"], Float64[np.ndarray, "K M"]]:
    """Value of every state where each rollout costs `price`, and of drawing there once more.

        V(x) = max(0, Q(x)),   Q(x) = -price + E[reward + V(next state) | x]

    Args:
        arm: the prompt.
        price: [M], many prices side by side.

    Returns:
        V and Q, [K, M] each; Q is -inf where nothing may be drawn.
    """
    values = np.zeros((len(arm.depth), len(price)))
    drawing = np.full(values.shape, -np.inf)
    for states in _levels_from_the_end(arm):
        p = arm.success_probability[states, None]
        drawing[states] = (
            p * (arm.reward_success[states, None] + values[arm.next_success[states]])
            + (1 - p) * (arm.reward_failure[states, None] + values[arm.next_failure[states]])
            - price
        )
        values[states] = np.maximum(drawing[states], 0)
    return values, drawing


def renewal(arm: Arm, draws: Bool[np.ndarray, " K"]) -> Renewal:
    """What a rule earns and pays on one prompt, by expected visits of every state.

    The rule may have been made for another prior than the arm's: this is how a misspecified one is judged.

    Args:
        arm: the prompt as it is.
        draws: [K], whether the rule goes on in each state; it must in state 0.

    Returns:
        expected reward and rollouts.

    Raises:
        InvalidInput: a rule for other states, or one that never draws.
    """
    if draws.shape != arm.depth.shape or not draws[0]:
        raise InvalidInput("a rule says for every state whether it draws, and draws in state 0")
    reach = np.zeros(len(arm.depth))
    reach[0] = 1.0
    going = draws & arm.drawable
    for states in reversed(_levels_from_the_end(arm)):
        states = states[going[states]]
        p = arm.success_probability[states]
        np.add.at(reach, arm.next_success[states], reach[states] * p)
        np.add.at(reach, arm.next_failure[states], reach[states] * (1 - p))
    p = arm.success_probability[going]
    earned = p * arm.reward_success[going] + (1 - p) * arm.reward_failure[going]
    return Renewal(float(reach[going] @ earned), float(reach[going].sum()))


def optimum(arm: Arm) -> Optimum:
    """The best rule on a stream of such prompts, by Dinkelbach's iteration: each step prices rollouts at the rate of the last rule.

    The rates rise strictly until they repeat, and there are finitely many rules, so the last is optimal.

    Args:
        arm: the prompt; its prior is the law of the stream.

    Returns:
        the rate, the rule and what it earns and pays.

    Raises:
        InvalidInput: no rule earns anything.
    """
    draws = arm.drawable
    best = renewal(arm, draws)
    if not best.reward > 0:
        raise InvalidInput("no group of this stream is worth anything under its prior")
    while True:
        _, drawing = priced_values(arm, np.array([best.rate]))
        # What only rounding calls a gain does not count: at the break-even price indifferent states are the rule, not the exception.
        better = drawing[:, 0] > 1e-13
        better[0] = True
        candidate = renewal(arm, better)
        if candidate.rate <= best.rate * (1 + 1e-14):
            return Optimum(best.rate, draws & arm.drawable, best)
        draws, best = better, candidate


def stopping_index(arm: Arm) -> Float64[np.ndarray, " K"]:
    """The best rate that can still be had from each state on: the largest price at which one more rollout there does not lose.

        index(x) = sup over rules that draw at x of E[reward | x] / E[rollouts | x]

    It ranks prompts in different states and with different priors by what the next rollouts are worth (the index of Gittins 1979 for
    a prompt that may be left for good, without discounting). Of the untouched prompt it is the rate of `optimum`.

    Args:
        arm: the prompt.

    Returns:
        [K]; 0 where nothing may be drawn.
    """
    states = np.arange(len(arm.depth))
    index = np.zeros(len(arm.depth))
    low, high = np.zeros(len(arm.depth)), np.full(len(arm.depth), _largest_reward(arm))
    # Q falls in the price and is convex: bisection to the last bit that matters, for all states at once.
    for _ in range(60):
        index = (low + high) / 2
        _, drawing = priced_values(arm, index)
        gains = drawing[states, states] > 0
        low, high = np.where(gains, index, low), np.where(gains, high, index)
    return np.where(arm.drawable, index, 0.0)


def _largest_reward(arm: Arm) -> float:
    return float(max(arm.reward_success.max(), arm.reward_failure.max()))


def _levels_from_the_end(arm: Arm) -> list[np.ndarray]:
    """States in which a rollout may be drawn, grouped by depth, the deepest first."""
    drawable = np.flatnonzero(arm.drawable)
    cuts = np.flatnonzero(np.diff(arm.depth[drawable])) + 1
    return np.split(drawable, cuts)[::-1]
