"""How far every rule stays below the best of its information class, on prompts that stand still.

A class says what a rule may look at (a stream, or all that it remembers) and what groups it may train on: of n rollouts; of any size up to a largest, ended at any rollout
(stopped); or of any size that is fixed before the first rollout, which is a part of the stopped ones. Each has its best in two currencies:

- effective groups: a group that holds both outcomes counts 1. Where groups may have any size the best rule ends one at its second outcome, after three rollouts or little more, so
  this currency favours small groups.
- energy: the sum of sqrt(s f) over the groups, the part of each in an update in which every rollout weighs the same. It pays neither for splitting groups nor for padding them.

Rollouts of dropped and unfinished groups count; replayed ones are neither paid for nor counted.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from experiments.allocation.methods import HORA_CAP, Information
from experiments.allocation.moments import success_probability
from experiments.allocation.pool_bound import (
    PoolBound,
    fixed_groups,
    stopped_groups,
    whole_groups,
)
from experiments.allocation.regimes import POPULATIONS
from experiments.allocation.static_methods import SIZING, STATIC_METHODS, wrong_name
from experiments.tables import schema
from theory.allocation.policies import reinforce_ada
from theory.exact.allocation.arms import effective, energy, single_group, sized_group
from theory.exact.allocation.fresh_stream import optimum

SCHEMA = schema(
    population=str,
    held_out=bool,
    method=str,
    information=str,
    groups=str,
    largest=int,
    currency=str,
    seed=int,
    achieved=float,
    bound=float,
    regret=float,
)
"""Per 1000 rollouts: of the run, at most of a rule of its class (exact on a stream, an upper bound with memory), and the shortfall. groups: whole, stopped or fixed; largest: rollouts of
one. One pool is one draw of prompts: a lucky one may come out above a bound on expectations."""

Form = Literal["whole", "stopped", "fixed"]

LAWS = {population.name: population for population in POPULATIONS}

CURRENCIES = {"effective": effective, "energy": energy}


class Groups(NamedTuple):
    """What groups a rule may train on.

    Attributes:
        form: see the module.
        largest: most rollouts of one.
    """

    form: Form
    largest: int


def groups_of(method: str, group_size: int) -> Groups:
    """The groups of a rule.

    Args:
        method: its name.
        group_size: n.

    Returns:
        Its class.
    """
    capped = HORA_CAP * group_size
    unequal: dict[str, Groups] = {
        "hora": Groups("stopped", capped),
        wrong_name("hora"): Groups("stopped", capped),
        "hora-in-pilot-commit": Groups("stopped", capped),
        "reinforce-ada": Groups("stopped", reinforce_ada.ROUND * reinforce_ada.MOST_ROUNDS),
        "ar3po": Groups("stopped", group_size),
        SIZING: Groups("stopped", group_size),
        wrong_name(SIZING): Groups("stopped", group_size),
        "vip": Groups("fixed", capped),
        "knapsack": Groups("fixed", capped),
        "cures": Groups("fixed", capped),
    }
    return unequal.get(method, Groups("whole", group_size))


class Pool(NamedTuple):
    """A static pool.

    Attributes:
        population: its name.
        num_prompts: of it.
        updates: most groups of a prompt.
    """

    population: str
    num_prompts: int
    updates: int


@cache
def stream_rate(population: str, groups: Groups, currency: str) -> float:
    """The best of a stream, exactly, where rules may look at every rollout.

    Args:
        population: its name.
        groups: whole or stopped.
        currency: of `CURRENCIES`.

    Returns:
        Per 1000 rollouts.
    """
    mean, reward = success_probability(LAWS[population]), CURRENCIES[currency]
    make = single_group if groups.form == "whole" else sized_group
    return 1000 * optimum(make(mean, groups.largest, reward)).rate


@cache
def memory_bound(pool: Pool, groups: Groups, currency: str) -> PoolBound:
    """What a rule with memory can have at most.

    Args:
        pool: where.
        groups: what it may train on.
        currency: of `CURRENCIES`.

    Returns:
        The bound by budget.
    """
    law, reward = LAWS[pool.population], CURRENCIES[currency]
    values = {"whole": whole_groups, "stopped": stopped_groups, "fixed": fixed_groups}[groups.form]
    return PoolBound(values(law, groups.largest, pool.updates, reward), pool.num_prompts)


def best(
    pool: Pool, information: Information, groups: Groups, currency: str, rollouts: int
) -> float:
    """The best of a class.

    Args:
        pool: where.
        information: what a rule may look at.
        groups: what it may train on.
        currency: of `CURRENCIES`.
        rollouts: that were drawn.

    Returns:
        Per 1000 rollouts.
    """
    if information != "memory":
        return stream_rate(pool.population, groups, currency)
    return 1000 * memory_bound(pool, groups, currency).most(rollouts) / rollouts


def rows(
    runs: pa.Table, group_size: int, num_prompts: int, updates: int
) -> Iterator[dict[str, Any]]:
    """The regret of every static run, in both currencies.

    Args:
        runs: of the schema `run_tables.RUNS`.
        group_size: n.
        num_prompts: of a pool.
        updates: most groups of a prompt.

    Yields:
        Rows of `SCHEMA`.
    """
    for row in runs.to_pylist():
        if row["kind"] != "static":
            continue
        pool = Pool(row["regime"], num_prompts, updates)
        groups = groups_of(row["method"], group_size)
        information = STATIC_METHODS[row["method"]].information
        for currency in CURRENCIES:
            bound = best(pool, information, groups, currency, row["rollouts"])
            achieved = row[f"own_{currency}_rate"]
            yield {
                "population": pool.population,
                "held_out": LAWS[pool.population].held_out,
                "method": row["method"],
                "information": information,
                "groups": groups.form,
                "largest": groups.largest,
                "currency": currency,
                "seed": row["seed"],
                "achieved": achieved,
                "bound": bound,
                "regret": bound - achieved,
            }
