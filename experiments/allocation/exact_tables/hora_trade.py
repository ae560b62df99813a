"""HORA-6: hits are bought with mixed groups, exactly and on infinitely many prompts."""

import jax
import jax.numpy as jnp

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.hora_batches import marginals
from experiments.allocation.exact_tables.laws import LAWS, SKEWED, prior
from experiments.allocation.regimes import Population
from experiments.tables import schema
from theory.exact.allocation.hora import fill, outcome, probe_kinds

SCHEMA = schema(
    population=str,
    rule=str,
    probes=int,
    mean_size=int,
    hit=float,
    mixed=float,
    largest=float,
)
"""hit: share of prompts with at least one success; mixed: share of mixed groups; largest: rollouts of the largest group."""

PROBES = 4
MEAN_SIZE = 16
LARGEST = 124
"""Most extra rollouts of a prompt; no group comes near it."""

POPULATIONS = (
    SKEWED,
    LAWS["beta-.15-.15"],
    Population("beta-.2-1", betas=((1.0, 0.2, 1.0),)),
    Population("logit-normal--2-3", logit_normals=((1.0, -2.0, 3.0),)),
    LAWS["flat"],
    LAWS["published"],
)

FIGURES = {
    "beta-.3-.6": {"uniform": (0.689, 0.623), "hora": (0.716, 0.614), "mass-aware": (0.726, 0.575)},
    "beta-.15-.15": {
        "uniform": (0.683, 0.362),
        "hora": (0.704, 0.347),
        "mass-aware": (0.711, 0.321),
    },
    "beta-.2-1": {"uniform": (0.477, 0.464), "hora": (0.490, 0.461)},
    "logit-normal--2-3": {
        "uniform": (0.655, 0.605),
        "hora": (0.684, 0.599),
        "mass-aware": (0.694, 0.570),
    },
}
"""Hit rate and mixed share: allocation.md 6.4, 600 draws of 64 prompts."""

TOLERANCE = 0.007
"""Three standard errors of such a share: the shares of 64 prompts vary by about .056, their mean over 600 draws by .0023."""


_KINDS = jax.jit(probe_kinds, static_argnums=(1, 2))


def rows() -> list[Row]:
    """Every population and rule.

    Returns:
        Rows of `SCHEMA`.
    """
    rules = {
        "hora": marginals(PROBES, LARGEST),
        "mass-aware": marginals(PROBES, LARGEST, PROBES),
    }
    out: list[Row] = []
    for population in POPULATIONS:
        with jax.enable_x64(True):
            kinds = _KINDS(prior(population), PROBES, LARGEST)
            equal = jnp.full(PROBES + 1, float(MEAN_SIZE - PROBES))
            plans = {
                "uniform": equal,
                **{
                    name: fill(kinds.share, jnp.asarray(rows), float(MEAN_SIZE - PROBES))
                    for name, rows in rules.items()
                },
            }
            for name, extra in plans.items():
                hit, mixed = outcome(kinds, extra)
                out.append(
                    {
                        "population": population.name,
                        "rule": name,
                        "probes": PROBES,
                        "mean_size": MEAN_SIZE,
                        "hit": float(hit),
                        "mixed": float(mixed),
                        "largest": float(PROBES + jnp.max(jnp.ceil(extra))),
                    }
                )
    return out


def comparisons(found: list[Row]) -> list[Row]:
    """Beside shares that were simulated with 64 prompts.

    Args:
        found: rows.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    return comparison.rows(
        "HORA-6",
        [
            Compared(
                f"{row['population']}, G0 = 4, mean n = 16, {row['rule']}",
                what,
                row[what],
                f"{figure} +- {TOLERANCE}",
                "reconstruction",
            )
            for row in found
            for what, figure in zip(
                ("hit", "mixed"),
                FIGURES.get(row["population"], {}).get(row["rule"], ()),
                strict=False,
            )
        ],
    )
