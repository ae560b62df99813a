"""SARA-4: what SARA predicts of the prompts that it abandons, and what is so, with a right prior and with wrong ones."""

import jax
import jax.numpy as jnp

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.laws import (
    EVEN,
    FLAT,
    LAWS,
    PUBLISHED,
    SKEWED,
    SYMMETRIC,
    on_host,
    prior,
)
from experiments.allocation.regimes import Population
from experiments.tables import schema
from theory.allocation.beta_binomial import probability_effective
from theory.allocation.policies.sara import TAU_LOW
from theory.allocation.priors import BetaMixture
from theory.exact.allocation.claims import Abandonment, abandonment, threshold_rules

ABANDONED = schema(
    believed=str,
    population=str,
    group_size=int,
    threshold=float,
    abandoned=float,
    predicted=float,
    actual=float,
    kept=bool,
)
"""predicted, actual: mean P(a full group would have been mixed) of abandoned prompts, as believed and as it is; kept: whether actual <= threshold, as claimed."""

RUNS = schema(
    believed=str,
    population=str,
    group_size=int,
    outcome=str,
    run=int,
    predicted=float,
    actual=float,
)
"""P(the group ends mixed | `run` equal outcomes so far)."""

PAIRS: tuple[tuple[Population, Population], ...] = (
    (FLAT, FLAT),
    (SYMMETRIC, SYMMETRIC),
    (SKEWED, SKEWED),
    (PUBLISHED, PUBLISHED),
    (FLAT, PUBLISHED),
    (FLAT, LAWS["beta-.15-.15"]),
    (FLAT, EVEN),
    (FLAT, LAWS["all-hard"]),
    (PUBLISHED, FLAT),
)
"""(believed, true) laws."""

THRESHOLDS = (0.25, 0.35, TAU_LOW, 0.56, 0.67)


def _abandonment(
    believed: BetaMixture, population: BetaMixture, group_size: int
) -> tuple[Abandonment, jax.Array]:
    thresholds = jnp.asarray(THRESHOLDS, believed.a.dtype)
    rule = threshold_rules(believed, group_size, thresholds)
    runs = jnp.arange(group_size)
    nothing = jnp.zeros_like(runs)
    # Runs of successes and of failures, believed and true.
    s, f = jnp.stack([runs, nothing]), jnp.stack([nothing, runs])
    predicted = [probability_effective(law, s, f, group_size) for law in (believed, population)]
    return abandonment(rule, believed, population, group_size), jnp.stack(predicted)


_ABANDONMENT = jax.jit(_abandonment, static_argnums=2)


def rows(group_size: int) -> tuple[list[Row], list[Row]]:
    """All pairs of laws.

    Args:
        group_size: n.

    Returns:
        Rows of `ABANDONED`, without thresholds at which nothing is abandoned, and of `RUNS`.
    """
    abandoned: list[Row] = []
    runs: list[Row] = []
    for believed, population in PAIRS:
        with jax.enable_x64(True):
            found, predicted = on_host(_ABANDONMENT(prior(believed), prior(population), group_size))
        names = {
            "believed": believed.name,
            "population": population.name,
            "group_size": group_size,
        }
        for place, tau in enumerate(THRESHOLDS):
            share = float(found.abandoned[place])
            if share > 0:
                actual = float(found.actual[place])
                abandoned.append(
                    {
                        **names,
                        "threshold": tau,
                        "abandoned": share,
                        "predicted": float(found.predicted[place]),
                        "actual": actual,
                        # A rate that is the threshold but for rounding keeps it.
                        "kept": actual <= tau + 1e-12,
                    }
                )
        for side, outcome in enumerate(("right", "wrong")):
            for run in range(1, group_size):
                runs.append(
                    {
                        **names,
                        "outcome": outcome,
                        "run": run,
                        "predicted": float(predicted[0, side, run]),
                        "actual": float(predicted[1, side, run]),
                    }
                )
    return abandoned, runs


def comparisons(abandoned: list[Row]) -> list[Row]:
    """Beside predicted and simulated rates, and the error that was reported.

    Args:
        abandoned: rows at n = 8.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    own = {
        (row["believed"], row["population"]): row
        for row in abandoned
        if row["threshold"] == TAU_LOW and row["group_size"] == 8
    }
    if not own:
        return []
    found: list[Compared] = []
    for law, predicted, simulated in (
        (FLAT, "0.444", "0.444 +- 0.002"),
        (SYMMETRIC, "0.372", "0.371 +- 0.002"),
        (SKEWED, "0.430", "0.431 +- 0.002"),
    ):
        row, setting = own[law.name, law.name], f"right prior {law.name}, n = 8, tau {TAU_LOW}"
        found += [
            Compared(setting, "predicted", row["predicted"], predicted, "reconstruction"),
            Compared(setting, "actual", row["actual"], simulated, "reconstruction"),
        ]
    wrong = f"flat prior, population %s, n = 8, tau {TAU_LOW}"
    found += [
        Compared(
            wrong % "published",
            "actual",
            own["flat", "published"]["actual"],
            "8.5 %",
            "reconstruction",
        ),
        Compared(
            wrong % "published",
            "actual",
            own["flat", "published"]["actual"],
            "about 8.6 %",
            "second-hand",
        ),
        Compared(
            wrong % "all at 1/2",
            "actual",
            own["flat", EVEN.name]["actual"],
            "94 %",
            "reconstruction",
        ),
    ]
    return comparison.rows("SARA-4", found)
