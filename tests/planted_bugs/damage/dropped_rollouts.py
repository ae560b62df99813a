"""Groups of any size up to eight on a U-shaped population, by the rule with the best energy per rollout: its rate, exact and as it is played."""

from collections.abc import Callable
from functools import cache

import numpy as np

from tests.planted_bugs.defect import relative_error
from tests.stat_asserts import assert_mean
from tests.theory.exact.allocation.priors import U_SHAPED
from theory.exact.allocation.arms import Arm, energy, sized_group
from theory.exact.allocation.fresh_stream import Optimum, Renewal, optimum, renewal

GROUP = 8
TOY = "Beta(2, 3) between atoms at 0 and 1, groups of at most 8"
PROMPTS = 20_000

Count = Callable[[Arm, np.ndarray], Renewal]


@cache
def sized() -> tuple[Arm, Optimum]:
    """The prompt and its best rule."""
    arm = sized_group(U_SHAPED.means, GROUP, energy)
    return arm, optimum(arm)


def of_rate(count: Count) -> float:
    """Relative error of the rate."""
    arm, best = sized()
    return relative_error(count(arm, best.draws).rate, renewal(arm, best.draws).rate)


@cache
def played() -> tuple[np.ndarray, np.ndarray]:
    """Energy and rollouts of each prompt, drawn at rates of the population and not from posterior means."""
    arm, best = sized()
    rng = np.random.default_rng(20_261_130)
    atoms = float(U_SHAPED.at_zero), float(U_SHAPED.at_one)
    kind = rng.choice(3, PROMPTS, p=(*atoms, 1 - sum(atoms)))
    beta = rng.beta(float(U_SHAPED.a), float(U_SHAPED.b), PROMPTS)
    rates = np.where(kind == 2, beta, kind)
    state = np.zeros(PROMPTS, np.int64)
    for _ in range(GROUP):
        right = rng.random(PROMPTS) < rates
        moved = np.where(right, arm.next_success[state], arm.next_failure[state])
        state = np.where(best.draws[state], moved, state)
    return energy(arm.successes[state], arm.failures[state]), arm.depth[state]


def check(count: Count) -> None:
    """Energy less the rate times the rollouts has mean 0 over prompts."""
    arm, best = sized()
    earned, rollouts = played()
    rate = count(arm, best.draws).rate
    assert_mean(earned - rate * rollouts, 0.0, smallest_bias=0.1)
