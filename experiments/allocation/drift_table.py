"""Tables of `allocation-drift`: one row a run, means over seeds, and the drift at which one rule falls behind another."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from experiments.allocation.regimes import EXCHANGE, WALK
from experiments.allocation.simulator import Curve
from experiments.tables import schema
from theory.estimators.interval import t_interval

RUNS = schema(
    population=str,
    held_out=bool,
    drift=str,
    rate=float,
    method=str,
    seed=int,
    updates=int,
    rollouts=int,
    effective=int,
    per_1000=float,
    push_per_1000=float,
    energy_per_1000=float,
    per_1000_with_start=float,
    stopped=bool,
)
"""After the first epoch: rollouts, effective groups, those per 1000 rollouts, sum of sqrt(rbar (1 - rbar)) and of n sqrt(rbar (1 - rbar)) = sqrt(s f) per 1000 rollouts;
per_1000_with_start: effective groups per 1000 rollouts of the whole run; stopped: an update never came about."""

CROSSINGS = schema(
    population=str,
    held_out=bool,
    drift=str,
    first=str,
    second=str,
    verdict=str,
    crossing=float,
    low=float,
    high=float,
    seeds=int,
)
"""The smallest drift at which the mean over seeds of (first - second), in effective groups per 1000 rollouts, is no longer above 0, linear between the rates that were run; low, high: the same of the
ends of the pointwise 95 % t interval. NaN: not within the rates that were run. verdict: crosses, never (first stays ahead) or at once (it is behind at the smallest rate)."""

PAIRS = (
    ("dps", "sara"),
    ("mopps", "sara"),
    ("predictive-stopping", "optimal-stopping"),
    ("frozen", "uniform"),
    ("frozen", "sara"),
)
"""Prediction against probing: published rules, then those of this project; and estimates that are never updated."""

CROSSES, NEVER, AT_ONCE = "crosses", "never", "at once"


class Case(NamedTuple):
    """Where a run took place.

    Attributes:
        population: name.
        held_out: whether nothing was chosen by looking at it.
        drift: kind.
        rate: of it.
    """

    population: str
    held_out: bool
    drift: str
    rate: float


def run_row(case: Case, method: str, seed: int, curve: Curve, start: int) -> dict[str, Any]:
    """A run by what it did after its first updates.

    Args:
        case: where.
        method: its name.
        seed: of the run.
        curve: of the run in a drifting world, on the host.
        start: updates that do not count.

    Returns:
        A row of `RUNS`; NaN rates where no update counts.
    """
    done = int(curve.num_updates)
    counted = slice(start, max(done, start))
    before = int(curve.rollouts[start - 1]) if 0 < start <= done else 0
    # An update that never came about was paid for.
    rollouts = int(curve.spent) - before if done >= start else 0
    effective = float(curve.effective[counted].sum())
    push = float(curve.push[counted].sum())
    energies = [0.0, *curve.accuracy[:done].tolist()]
    energy = energies[-1] - energies[min(start, done)]

    def thousands(amount: float) -> float:
        return 1000 * amount / rollouts if rollouts else math.nan

    return {
        **case._asdict(),
        "method": method,
        "seed": seed,
        "updates": max(done - start, 0),
        "rollouts": rollouts,
        "effective": int(effective),
        "per_1000": thousands(effective),
        "push_per_1000": thousands(push),
        "energy_per_1000": thousands(energy),
        "per_1000_with_start": 1000
        * float(curve.effective[:done].sum())
        / max(int(curve.spent), 1),
        "stopped": done < len(curve.rollouts),
    }


def crossing_rows(runs: pa.Table) -> Iterator[dict[str, Any]]:
    """Where prediction falls behind probing.

    Args:
        runs: of the schema `RUNS`.

    Yields:
        Rows of `CROSSINGS`, for every pair that ran and every drift that has no direction.
    """
    cells: dict[tuple[str, bool, str], dict[float, dict[str, dict[int, float]]]] = {}
    for row in runs.to_pylist():
        if row["drift"] in (EXCHANGE, WALK):
            rates = cells.setdefault((row["population"], row["held_out"], row["drift"]), {})
            by_method = rates.setdefault(row["rate"], {})
            by_method.setdefault(row["method"], {})[row["seed"]] = row["per_1000"]
    for (population, held_out, drift), rates in cells.items():
        for first, second in PAIRS:
            if all(first in at and second in at for at in rates.values()):
                grid = sorted(rates)
                gaps = [_gaps(rates[rate][first], rates[rate][second]) for rate in grid]
                found = crossing(grid, gaps)
                yield {
                    "population": population,
                    "held_out": held_out,
                    "drift": drift,
                    "first": first,
                    "second": second,
                    **found._asdict(),
                    "seeds": len(gaps[0]),
                }


class Crossing(NamedTuple):
    """See `CROSSINGS`."""

    verdict: str
    crossing: float
    low: float
    high: float


def crossing(rates: Sequence[float], gaps: Sequence[Float64[np.ndarray, " seeds"]]) -> Crossing:
    """Where the mean gap is no longer above 0, and where the ends of its interval are not.

    Args:
        rates: of the drift, rising.
        gaps: first - second at each rate, one a seed.

    Returns:
        The crossing; the interval is that of the rates at which the pointwise 95 % t interval of the mean gap holds 0, up to the first of them from below.
    """
    means = [float(gap.mean()) for gap in gaps]
    ends = [t_interval(gap) if len(gap) > 1 else None for gap in gaps]
    lows = [math.nan if end is None else end.low for end in ends]
    highs = [math.nan if end is None else end.high for end in ends]
    at = _falls_to_zero(rates, means)
    verdict = NEVER if math.isnan(at) else AT_ONCE if means[0] <= 0 else CROSSES
    low, high = _falls_to_zero(rates, lows), _falls_to_zero(rates, highs)
    return Crossing(verdict, math.nan if verdict == AT_ONCE else at, low, high)


def _gaps(first: Mapping[int, float], second: Mapping[int, float]) -> Float64[np.ndarray, " seeds"]:
    """Paired by seed: both met the same prompts on the same way."""
    return np.array([first[seed] - second[seed] for seed in sorted(first)], np.float64)


def _falls_to_zero(rates: Sequence[float], values: Sequence[float]) -> float:
    """The first rate at which a curve, linear between the rates, is at most 0; NaN where it never is."""
    for place, value in enumerate(values):
        if value <= 0:
            if place == 0:
                return rates[0]
            before = values[place - 1]
            share = before / (before - value)
            return rates[place - 1] + share * (rates[place] - rates[place - 1])
    return math.nan
