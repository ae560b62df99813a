"""How far every rule stays below the best of its information class, on prompts that stand still."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from experiments.allocation.methods import METHODS
from experiments.allocation.moments import success_probability
from experiments.allocation.pool_bound import PoolBound
from experiments.allocation.regimes import POPULATIONS
from experiments.tables import schema
from theory.exact.allocation.arms import effective, single_group
from theory.exact.allocation.fresh_stream import optimum

SCHEMA = schema(
    population=str,
    held_out=bool,
    method=str,
    information=str,
    seed=int,
    achieved=float,
    stream_bound=float,
    memory_bound=float,
    regret=float,
)
"""Effective groups per 1000 rollouts: of the run, at most of a rule on a fresh stream (exact), at most of a rule that remembers a pool of this size (a bound), and the
shortfall against the bound of the rule's own class. One pool is one draw of prompts: a lucky one may come out above a bound on expectations."""

UNEQUAL = frozenset(
    {
        "hora",
        "hora-in-pilot-commit",
        "vip",
        "knapsack",
        "cures",
        "ar3po",
        "reinforce-ada",
    }
)
"""Rules whose groups are not of n rollouts: smaller ones are cheaper to fill, and the bounds do not hold for them."""


def rows(
    runs: pa.Table, group_size: int, num_prompts: int, updates: int
) -> Iterator[dict[str, Any]]:
    """The regret of every static run of a rule whose groups are of n rollouts.

    Args:
        runs: of the schema `run_tables.RUNS`.
        group_size: n.
        num_prompts: of a pool.
        updates: most groups of a prompt.

    Yields:
        Rows of `SCHEMA`.
    """
    laws = {population.name: population for population in POPULATIONS}
    bounds: dict[str, tuple[float, PoolBound]] = {}
    for row in runs.to_pylist():
        if row["kind"] != "static" or row["method"] in UNEQUAL:
            continue
        name = row["regime"]
        if name not in bounds:
            arm = single_group(success_probability(laws[name]), group_size, effective)
            pool = PoolBound(laws[name], group_size, num_prompts, updates)
            bounds[name] = (1000 * optimum(arm).rate, pool)
        stream, pool = bounds[name]
        memory = 1000 * pool.groups(row["rollouts"]) / row["rollouts"]
        achieved = 1000 / row["rollouts_per_effective"]
        information = METHODS[row["method"]].information
        yield {
            "population": name,
            "held_out": laws[name].held_out,
            "method": row["method"],
            "information": information,
            "seed": row["seed"],
            "achieved": achieved,
            "stream_bound": stream,
            "memory_bound": memory,
            "regret": (memory if information == "memory" else stream) - achieved,
        }
