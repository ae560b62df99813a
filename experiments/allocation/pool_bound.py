"""What the best rule with memory could earn in a static pool: the relaxation, for pools of any size.

Each prompt may yield one group an update and is remembered; the bound lets it yield its groups at any time, which can only help, and lets the
budget hold on average. So bound >= the optimum of the class >= every rule, compositions of DPS included.
"""

import numpy as np
from jaxtyping import Float64

from experiments.allocation.moments import success_probability
from experiments.allocation.regimes import Population
from theory.exact.allocation.arms import effective, repeated_groups
from theory.exact.allocation.fresh_stream import priced_values


class PoolBound:
    """Upper bounds on the effective groups of a pool, by budget."""

    def __init__(
        self, population: Population, group_size: int, num_prompts: int, updates: int
    ) -> None:
        """Price the pool.

        Args:
            population: that the prompts are drawn from.
            group_size: n.
            num_prompts: of the pool.
            updates: most groups of a prompt.
        """
        arm = repeated_groups(success_probability(population), group_size, updates, effective)
        self._prices: Float64[np.ndarray, " M"] = np.linspace(0, 1 / group_size, 129)
        values, _ = priced_values(arm, self._prices)
        self._worth: Float64[np.ndarray, " M"] = num_prompts * values[0]

    def groups(self, budget: int) -> float:
        """Most effective groups that any rule can expect.

        Args:
            budget: rollouts.

        Returns:
            The smallest of the bounds that the prices give; each is valid.
        """
        return float(np.min(self._prices * budget + self._worth))
