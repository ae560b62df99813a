"""What sizing a group could gain on a fresh stream, exactly, under three objectives."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from experiments.allocation.moments import success_probability
from experiments.allocation.regimes import Population
from experiments.tables import schema
from theory.exact.allocation.arms import (
    GroupReward,
    effective,
    energy,
    push,
    single_group,
    sized_group,
)
from theory.exact.allocation.fresh_stream import optimum

SCHEMA = schema(
    population=str,
    held_out=bool,
    group_size=int,
    objective=str,
    least=int,
    whole=float,
    sized=float,
    gain=float,
)
"""whole: best rate per rollout with groups of n only; sized: with groups of `least` to n rollouts; gain: sized / whole - 1."""

OBJECTIVES: dict[str, GroupReward] = {"energy": energy, "push": push, "effective": effective}
"""energy: sqrt(s f), every rollout weighs the same in an update; push: sqrt(s f) / (s + f), every group does; effective: 1 for a mixed group."""


def from_size(value: GroupReward, least: int) -> GroupReward:
    """Nothing for a group that is too small.

    Args:
        value: of a group.
        least: smallest size.

    Returns:
        The value of a group that may be closed at any size.
    """

    def worth(
        successes: Int64[np.ndarray, " K"], failures: Int64[np.ndarray, " K"]
    ) -> Float64[np.ndarray, " K"]:
        return np.where(successes + failures >= least, value(successes, failures), 0.0)

    return worth


def rows(populations: Sequence[Population], group_sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Every population, size and objective, with groups of at least 2 and of at least n / 2.

    Args:
        populations: taken as the prior.
        group_sizes: n.

    Yields:
        Rows of `SCHEMA`.
    """
    for population in populations:
        mean = success_probability(population)
        for size in group_sizes:
            for name, value in OBJECTIVES.items():
                whole = optimum(single_group(mean, size, value)).rate
                for least in (2, size // 2):
                    sized = optimum(sized_group(mean, size, from_size(value, least))).rate
                    yield {
                        "population": population.name,
                        "held_out": population.held_out,
                        "group_size": size,
                        "objective": name,
                        "least": least,
                        "whole": whole,
                        "sized": sized,
                        "gain": sized / whole - 1,
                    }
