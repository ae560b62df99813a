"""SARA-2 and SARA-3: what SARA saves and misses at every threshold, and when it decides."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.laws import PUBLISHED, on_host, prior
from experiments.allocation.regimes import Population
from experiments.tables import schema
from theory.allocation.policies.sara import TAU_LOW
from theory.allocation.priors import BetaMixture
from theory.exact.allocation.claims import flat_stop, run_length_rules
from theory.exact.allocation.lattice import (
    Characteristics,
    SequentialRule,
    characteristics,
    cost_per_effective_group,
    false_abandonment,
    missed_share,
)

SWEEP = schema(
    population=str,
    group_size=int,
    stop=int,
    threshold=float,
    cost=float,
    saving=float,
    false_abandonment=float,
    missed_share=float,
)
"""stop: m, equal outcomes after which SARA abandons; threshold: the least tau_low, under the flat prior, that stops there; cost: rollouts per effective group; saving:
against dynamic sampling; false_abandonment: P(a full group would have been mixed | abandoned); missed_share: P(abandoned | it would have been)."""

TIMES = schema(
    population=str,
    group_size=int,
    stop=int,
    step=int,
    committed=float,
    abandoned=float,
    committed_of_effective=float,
)
"""Of the prompts visited, those decided after `step` rollouts; committed_of_effective: share of the groups that would be mixed."""

FIGURES = {
    0.25: ("12.0 %", "2.8 %"),
    0.35: ("17.4 %", "5.2 %"),
    0.45: ("21.9 %", "8.5 %"),
    0.56: ("24.5 %", "13.5 %"),
    0.67: ("20.4 %", "21.2 %"),
}
"""Saving and false abandonment by threshold on the published mixture at n = 8: allocation.md 4.6."""


class Measured(NamedTuple):
    """What rules come to.

    Attributes:
        visit: of one prompt.
        cost: rollouts per effective group.
        false_abandonment: P(a full group would have been mixed | abandoned).
        missed_share: P(abandoned | it would have been mixed).
    """

    visit: Characteristics
    cost: Float[Array, " K"]
    false_abandonment: Float[Array, " K"]
    missed_share: Float[Array, " K"]


def _measured(rules: SequentialRule, law: BetaMixture, group_size: int) -> Measured:
    visit = characteristics(rules, law, group_size)
    return Measured(
        visit, cost_per_effective_group(visit), false_abandonment(visit), missed_share(visit)
    )


_MEASURED = jax.jit(_measured, static_argnums=2)


class Sweep(NamedTuple):
    """Rules that abandon after m = 2 .. n equal outcomes, in one population.

    Attributes:
        population: the law.
        group_size: n.
        stops: [n - 1] m; the last abandons only finished groups and is dynamic sampling.
        found: [n - 1] what they come to.
    """

    population: Population
    group_size: int
    stops: np.ndarray
    found: Measured


def sweep(population: Population, group_size: int) -> Sweep:
    """All thresholds in one population.

    Args:
        population: the law.
        group_size: n.

    Returns:
        On the host.
    """
    with jax.enable_x64(True):
        stops = jnp.arange(2, group_size + 1)
        rules = run_length_rules(group_size, stops, stops)
        found = _MEASURED(rules, prior(population), group_size)
        return Sweep(population, group_size, *on_host((stops, found)))


def threshold(stop: int, group_size: int) -> float:
    """The least tau_low with which SARA, under its flat prior, abandons after `stop` equal outcomes: its prediction there.

        1 - (m + 1) / (n + 1)

    Args:
        stop: m.
        group_size: n.

    Returns:
        In [0, 1).
    """
    return (group_size - stop) / (group_size + 1)


def sweep_rows(sweeps: Sequence[Sweep]) -> list[Row]:
    """Costs and errors.

    Args:
        sweeps: of populations and sizes.

    Returns:
        Rows of `SWEEP`.
    """
    out: list[Row] = []
    for each in sweeps:
        _, cost, wrong, missed = each.found
        for place, stop in enumerate(each.stops.tolist()):
            out.append(
                {
                    "population": each.population.name,
                    "group_size": each.group_size,
                    "stop": stop,
                    "threshold": threshold(stop, each.group_size),
                    "cost": float(cost[place]),
                    "saving": float(1 - cost[place] / cost[-1]),
                    "false_abandonment": float(wrong[place]),
                    "missed_share": float(missed[place]),
                }
            )
    return out


def time_rows(sweeps: Sequence[Sweep]) -> list[Row]:
    """When SARA decides at its own threshold, .45.

    Args:
        sweeps: of populations and sizes.

    Returns:
        Rows of `TIMES`.
    """
    out: list[Row] = []
    for each in sweeps:
        stop = flat_stop(TAU_LOW, each.group_size)
        place = stop - int(each.stops[0])
        visit = each.found.visit
        committed, abandoned = visit.trains_at[place], visit.abandons_at[place]
        for step in range(2, stop + 1):
            out.append(
                {
                    "population": each.population.name,
                    "group_size": each.group_size,
                    "stop": stop,
                    "step": step,
                    "committed": float(committed[step]),
                    "abandoned": float(abandoned[step]),
                    "committed_of_effective": float(committed[step] / visit.full_effective[place]),
                }
            )
    return out


def comparisons(sweeps: Sequence[Sweep]) -> list[Row]:
    """The published mixture at n = 8 beside what was published and worked out of it.

    Args:
        sweeps: of populations and sizes.

    Returns:
        Rows of `comparison.SCHEMA`; none where that sweep is not among them.
    """
    size = 8
    mine = [each for each in sweeps if (each.population, each.group_size) == (PUBLISHED, size)]
    by_stop = {row["stop"]: row for row in sweep_rows(mine)}
    times = {row["step"]: row for row in time_rows(mine)}
    if not mine:
        return []
    errors = [
        Compared(f"published, n = 8, tau {tau}", what, by_stop[m][column], text, "reconstruction")
        for tau, (saving, wrong) in FIGURES.items()
        for m in (flat_stop(tau, size),)
        for what, column, text in (
            ("saving", "saving", saving),
            ("false abandonment", "false_abandonment", wrong),
        )
    ]
    own = by_stop[flat_stop(TAU_LOW, size)]
    setting = f"published, n = 8, tau {TAU_LOW}"
    best = max(by_stop.values(), key=lambda row: row["saving"])
    errors += [
        Compared(setting, "saving", own["saving"], "22 %", "abstract"),
        Compared(
            setting, "false abandonment", own["false_abandonment"], "about 8.6 %", "second-hand"
        ),
        Compared(setting, "missed share", own["missed_share"], "18.8 %", "reconstruction"),
        Compared("published, n = 8", "stop that saves most", best["stop"], "3", "reconstruction"),
    ]
    visited = {2: "15 %", 3: "8 %", 4: "77 %"}
    effective = {2: "46 %", 3: "23 %", 4: "13 %"}
    decided = [
        Compared(setting, f"decided at step {step}", _decided(times[step]), text, "reconstruction")
        for step, text in visited.items()
    ] + [
        Compared(
            setting,
            f"of effective prompts, committed at step {step}",
            times[step]["committed_of_effective"],
            text,
            "reconstruction",
        )
        for step, text in effective.items()
    ]
    return comparison.rows("SARA-2", errors) + comparison.rows("SARA-3", decided)


def _decided(row: Row) -> float:
    return row["committed"] + row["abandoned"]
