"""What the best rule with memory could earn in a static pool: the relaxation, for pools of any size.

Each prompt may be visited once an update and is remembered; the bound lets it have its visits at any time, which can only help, and lets the
budget hold on average. So bound >= the optimum of the class >= every rule, compositions of DPS included.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from experiments.allocation.moments import success_probability
from experiments.allocation.quadrature import rates
from experiments.allocation.regimes import Population
from theory.exact.allocation.arms import GroupReward, repeated_groups
from theory.exact.allocation.fresh_stream import priced_values
from theory.exact.allocation.remembered import Visits, untouched_values
from theory.exact.allocation.remembered_sizes import sized_values

HORIZON = 64
"""Rollouts of a prompt after which the program of unequal groups is told its rate; that of sizes fixed beforehand gets as many before the largest group begins."""

PRICE_STEP = 5e-5
"""How close the prices of a rollout lie around the best of them."""

Values = Callable[[Float64[np.ndarray, " M"]], Float64[np.ndarray, " M"]]
"""Prices of a rollout -> what an untouched prompt is worth at most, net of them."""


class PoolBound:
    """Upper bounds on what a pool is worth, by budget."""

    def __init__(self, values: Values, num_prompts: int) -> None:
        """Price the pool.

        Args:
            values: of a prompt: `whole_groups`, `stopped_groups` or `fixed_groups`.
            num_prompts: of the pool.
        """
        self._values, self._num_prompts = values, num_prompts
        # No rollout is worth more than half of one: sqrt(s f) <= (s + f) / 2, and the second outcome takes two rollouts.
        self._prices: Float64[np.ndarray, " M"] = np.linspace(0, 0.5, 9)
        self._worth = num_prompts * values(self._prices)

    def most(self, budget: int) -> float:
        """Most reward that any rule can expect.

        Args:
            budget: rollouts.

        Returns:
            The smallest of the bounds that the prices give, ever closer around the best of them; each is valid.
        """
        while True:
            bounds = self._prices * budget + self._worth
            at = int(np.argmin(bounds))
            low, high = self._prices[[max(at - 1, 0), min(at + 1, len(bounds) - 1)]]
            if high - low <= PRICE_STEP:
                return float(bounds[at])
            between = np.setdiff1d(np.linspace(low, high, 9)[1:-1], self._prices)
            order = np.argsort(prices := np.concatenate([self._prices, between]))
            worth = np.concatenate([self._worth, self._num_prompts * self._values(between)])
            self._prices, self._worth = prices[order], worth[order]


def whole_groups(
    population: Population, group_size: int, updates: int, reward: GroupReward
) -> Values:
    """Of a prompt whose groups are all of n rollouts.

    Args:
        population: that it is drawn from.
        group_size: n.
        updates: most groups.
        reward: of a complete group.

    Returns:
        The values, exact.
    """
    arm = repeated_groups(success_probability(population), group_size, updates, reward)
    return lambda prices: priced_values(arm, prices)[0][0]


def stopped_groups(
    population: Population, largest: int, updates: int, reward: GroupReward
) -> Values:
    """Of a prompt whose groups may end at any size up to the largest.

    Args:
        population: that it is drawn from.
        largest: most rollouts of a group.
        updates: most visits.
        reward: of a group.

    Returns:
        The values.
    """
    visits = Visits(updates, largest, 1, min(HORIZON, updates * largest))
    law = rates(population)
    return lambda prices: untouched_values(law, visits, reward, prices)


def fixed_groups(population: Population, largest: int, updates: int, reward: GroupReward) -> Values:
    """Of a prompt whose groups may have any size up to the largest, fixed before their first rollout.

    Args:
        population: that it is drawn from.
        largest: most rollouts of a group.
        updates: most visits.
        reward: of a group.

    Returns:
        The values.
    """
    visits = Visits(updates, largest, 1, min(HORIZON, (updates - 1) * largest + 1))
    law = rates(population)
    return lambda prices: sized_values(law, visits, reward, prices)
