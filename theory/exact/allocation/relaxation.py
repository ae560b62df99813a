"""An upper bound for pools of any size: the budget holds on average only, so the prompts come apart.

For every price lambda per rollout, and every rule of the pool that keeps to the budget R,

    E[reward]  <=  lambda R + sum over prompts of V_i(lambda),      V_i(lambda) = max over rules for prompt i alone of E[reward - lambda rollouts]

because paying the price for at most R rollouts and being given lambda R costs nothing, and because what a rule does with prompt i, seen
alone, is a (randomised) rule for it (Lagrangian relaxation of weakly coupled programs: Whittle 1988; Adelman and Mersereau 2008). The
right side is convex and piecewise linear in lambda; its minimum is the bound, and it is the best reward of rules that keep to the
budget on average. It lies above `finite_pool.optimal_value`, which lies above every rule.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from theory.errors import InvalidInput
from theory.exact.allocation.arms import Arm
from theory.exact.allocation.fresh_stream import priced_values, renewal


class Bound(NamedTuple):
    """The best bound that a price gives.

    Attributes:
        value: upper bound on the expected reward of every rule.
        price: the price per rollout that gives it: what one more rollout of budget is worth at most.
    """

    value: float
    price: float


class _Line(NamedTuple):
    """The right side at one price: its value there and a slope that supports it."""

    price: float
    value: float
    slope: float


def bound(arms: Sequence[Arm], counts: Sequence[int], budget: int) -> Bound:
    """The smallest right side over all prices, by cutting lines: exact after finitely many steps.

    Args:
        arms: the kinds of prompts.
        counts: how many prompts of each kind.
        budget: rollouts that may be drawn in all.

    Returns:
        the bound and its price. The value is an upper bound whatever the rounding of the price.

    Raises:
        InvalidInput: no prompt, counts of another length or below 0, a negative budget.
    """
    if len(arms) != len(counts) or not arms or min(counts) < 0:
        raise InvalidInput(
            "give one count of prompts, 0 or more, for each kind of arm, and at least one kind"
        )
    if budget < 0:
        raise InvalidInput(f"budget {budget} is negative: give 0 rollouts or more")
    # At price 0 all is drawn; at the largest reward nothing is.
    low = _line(arms, counts, budget, 0.0)
    if low.slope >= 0:
        return Bound(low.value, 0.0)
    ceiling = max(float(max(arm.reward_success.max(), arm.reward_failure.max())) for arm in arms)
    high = _line(arms, counts, budget, ceiling)
    while True:
        price = _crossing(low, high)
        line = _line(arms, counts, budget, price)
        touched = low.value + low.slope * (price - low.price)
        if line.value <= touched + 1e-12 * max(1.0, abs(touched)):
            return Bound(line.value, price)
        if line.slope < 0:
            low = line
        else:
            high = line


def _crossing(low: _Line, high: _Line) -> float:
    """Where the two supporting lines meet; between their prices, since one falls and the other does not."""
    meets = (high.value - low.value + low.slope * low.price - high.slope * high.price) / (
        low.slope - high.slope
    )
    return float(np.clip(meets, low.price, high.price))


def _line(arms: Sequence[Arm], counts: Sequence[int], budget: int, price: float) -> _Line:
    value, slope = price * budget, float(budget)
    for arm, count in zip(arms, counts, strict=True):
        values, drawing = priced_values(arm, np.array([price]))
        value += count * float(values[0, 0])
        draws = drawing[:, 0] > 0
        if draws[0]:
            slope -= count * renewal(arm, draws).rollouts
    return _Line(price, value, slope)
