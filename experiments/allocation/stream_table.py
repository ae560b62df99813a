"""Exact cost of every rule of a fresh stream beside the optimum, on every population: no simulation, no seeds."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import betaln

from experiments.allocation.methods import WRONG_PRIOR
from experiments.allocation.moments import log_moment, success_probability
from experiments.allocation.regimes import POPULATIONS, Population
from experiments.allocation.static_methods import tau_with_prior
from experiments.tables import schema
from theory.allocation.policies.sara import TAU_LOW
from theory.exact.allocation.arms import Arm, GroupReward, effective, push, single_group
from theory.exact.allocation.claims import flat_stop
from theory.exact.allocation.fresh_stream import Renewal, optimum, renewal

SCHEMA = schema(
    population=str,
    held_out=bool,
    group_size=int,
    rule=str,
    rollouts_per_group=float,
    saving=float,
    regret=float,
    push_rate=float,
    missed_share=float,
)
"""rollouts_per_group: of an effective group; saving: against dynamic sampling; regret: effective groups per 1000 rollouts below the optimum; push_rate: sum of
sqrt(rbar (1 - rbar)) per 1000 rollouts; missed_share: of the groups that would have been effective, those given up."""

Rule = Callable[[Arm], Bool[np.ndarray, " K"]]


def _mixed(arm: Arm) -> Bool[np.ndarray, " K"]:
    return (arm.successes > 0) & (arm.failures > 0)


def given_up_after(alike: int) -> Rule:
    """Give up after so many equal outcomes; drawn one by one or all at once, the cost is the same.

    Args:
        alike: equal outcomes at the start.

    Returns:
        The rule.
    """
    return lambda arm: _mixed(arm) | (arm.depth < alike)


def sara_for(population: Population, group_size: int) -> Rule:
    """SARA with a prior, at the threshold of `tau_with_prior`.

    Args:
        population: taken as the prior.
        group_size: n.

    Returns:
        The rule.
    """

    def rule(arm: Arm) -> Bool[np.ndarray, " K"]:
        s, f = arm.successes, arm.failures
        left = group_size - arm.depth
        here = log_moment(population, s, f)
        seen = ~np.isneginf(here)
        base = np.where(seen, here, 0.0)
        right = np.where(f == 0, np.exp(log_moment(population, s + left, f) - base), 0.0)
        wrong = np.where(s == 0, np.exp(log_moment(population, s, f + left) - base), 0.0)
        chance = 1 - right - wrong
        return _mixed(arm) | (seen & (chance > tau_with_prior(float(chance[0]), group_size)))

    return rule


def rules(group_size: int) -> dict[str, Rule]:
    """Rules whose cost on a stream is a closed program.

    Args:
        group_size: n.

    Returns:
        By name.
    """
    wrong = next(each for each in POPULATIONS if each.name == WRONG_PRIOR)
    wrong_arm = single_group(success_probability(wrong), group_size, effective)
    wrong_draws = optimum(wrong_arm).draws
    return {
        "dynamic-sampling": lambda arm: arm.drawable,
        "sara": given_up_after(flat_stop(TAU_LOW, group_size)),
        f"sara-for-{WRONG_PRIOR}": sara_for(wrong, group_size),
        "speed": given_up_after(group_size // 4),
        "optimal-stopping": lambda arm: optimum(arm).draws,
        f"optimal-stopping-for-{WRONG_PRIOR}": lambda arm: wrong_draws,
    }


def rows(group_sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """The table.

    Args:
        group_sizes: n.

    Yields:
        A row for each population, size and rule.
    """
    for population in POPULATIONS:
        for group_size in group_sizes:
            yield from _population_rows(population, group_size)


def _population_rows(population: Population, group_size: int) -> Iterator[dict[str, Any]]:
    mean = success_probability(population)
    arm, pushed = (single_group(mean, group_size, worth) for worth in (effective, push))
    best = optimum(arm).rate
    full = renewal(arm, arm.drawable)

    def row(name: str, found: Renewal, pushes: Renewal) -> dict[str, Any]:
        return {
            "population": population.name,
            "held_out": population.held_out,
            "group_size": group_size,
            "rule": name,
            "rollouts_per_group": 1 / found.rate,
            "saving": 1 - full.rate / found.rate,
            "regret": 1000 * (best - found.rate),
            "push_rate": 1000 * pushes.rate,
            "missed_share": 1 - found.reward / full.reward,
        }

    for name, rule in rules(group_size).items():
        draws = rule(arm)
        draws = draws | (np.arange(len(draws)) == 0)
        yield row(name, renewal(arm, draws), renewal(pushed, draws))
    yield row(
        "pilot-commit, idealised",
        pilot_commit(population, group_size, effective),
        pilot_commit(population, group_size, push),
    )


def pilot_commit(population: Population, group_size: int, worth: GroupReward) -> Renewal:
    """Pilot-Commit without rounds, buffer or staleness: k = n / 4 pilots, m = n - k commits where their mean lies in [1/8, 3/4].

    Args:
        population: of success rates.
        group_size: n.
        worth: of a trained group.

    Returns:
        What one piloted prompt earns and costs.
    """
    pilots = group_size // 4
    commits = group_size - pilots
    s, t = (each.ravel() for each in np.indices((pilots + 1, commits + 1)))
    passes = (8 * s >= pilots) & (4 * s <= 3 * pilots)
    s, t = s[passes], t[passes]
    right = s + t
    log_ways = _log_choose(pilots, s) + _log_choose(commits, t)
    chances = np.exp(log_ways + log_moment(population, right, group_size - right))
    reward = float(chances @ worth(right, group_size - right))
    return Renewal(reward, pilots + commits * float(chances.sum()))


def _log_choose(n: int, k: Int64[np.ndarray, " K"]) -> Float64[np.ndarray, " K"]:
    return -np.log(n + 1) - betaln(n - k + 1, k + 1)
