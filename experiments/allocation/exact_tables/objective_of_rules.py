"""What each rule climbs: its expected update per visited prompt is phi(p) grad p."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.laws import on_host
from experiments.tables import schema
from theory.allocation.policies.sara import TAU_LOW
from theory.exact.allocation.claims import flat_stop, run_length_rules
from theory.exact.allocation.lattice import SequentialRule, full_groups
from theory.exact.allocation.objective import (
    bernstein,
    leave_one_out,
    objective_weights,
    standardised,
    trained_shares,
)
from theory.exact.allocation.pilot_commit import Screening, screening_rule

SCHEMA = schema(rule=str, group_size=int, advantage=str, rate=float, phi=float)
"""advantage: `leave-one-out` (RLOO: phi = 1 climbs the success rate itself) or `standardised` (GRPO)."""

RATES = tuple(place / 100 for place in range(101))


class NamedRule(NamedTuple):
    """A rule to look at.

    Attributes:
        name: of the row.
        group_size: n.
        pilots: of Pilot-Commit's screen; 0 for a rule that abandons after equal outcomes.
        stop: m, equal outcomes after which it abandons; n for dynamic sampling.
    """

    name: str
    group_size: int
    pilots: int
    stop: int


RULES = (
    NamedRule("dynamic-sampling", 16, 0, 16),
    NamedRule("sara, tau .45", 16, 0, flat_stop(TAU_LOW, 16)),
    NamedRule("sara, stop 4", 16, 0, 4),
    NamedRule("pilot-commit, k = 4", 16, 4, 4),
    NamedRule("pilot-commit, k = 16", 64, 16, 16),
    NamedRule("pilot-commit, k = 32", 128, 32, 32),
)


def table_of(rule: NamedRule) -> SequentialRule:
    """The rule on the lattice.

    Args:
        rule: named.

    Returns:
        Its actions.
    """
    if rule.pilots:
        return screening_rule(Screening(rule.pilots, rule.group_size - rule.pilots))
    if rule.stop == rule.group_size:
        return full_groups(rule.group_size)
    stop = jnp.asarray(rule.stop)[None]
    return jax.tree.map(
        lambda field: field.reshape(field.shape[-2:]), run_length_rules(rule.group_size, stop, stop)
    )


def _phi(rule: SequentialRule, rates: Float[Array, " R"], group_size: int) -> tuple[Array, Array]:
    shares = trained_shares(rule, group_size, rates)
    weights = (leave_one_out(group_size), standardised(group_size))
    coefficients = [objective_weights(shares, each.astype(rates.dtype)) for each in weights]
    loo, std = bernstein(jnp.stack(coefficients), rates)
    return loo, std


_PHI = jax.jit(_phi, static_argnums=2)


def phi(rule: NamedRule, rates: Float64[np.ndarray, " R"]) -> dict[str, Float64[np.ndarray, " R"]]:
    """Phi of a rule under both advantages.

    Args:
        rule: named.
        rates: p.

    Returns:
        By the name of the advantage.
    """
    with jax.enable_x64(True):
        loo, std = on_host(_PHI(table_of(rule), jnp.asarray(rates), rule.group_size))
        return {"leave-one-out": loo, "standardised": std}


def rows() -> list[Row]:
    """Every rule on a grid of rates.

    Returns:
        Rows of `SCHEMA`.
    """
    return [
        {
            "rule": rule.name,
            "group_size": rule.group_size,
            "advantage": advantage,
            "rate": rate,
            "phi": float(value),
        }
        for rule in RULES
        for advantage, values in phi(rule, np.array(RATES)).items()
        for rate, value in zip(RATES, values, strict=True)
    ]


def comparisons(found: list[Row]) -> list[Row]:
    """Beside the figures of four pilots and groups of sixteen.

    Args:
        found: rows.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    printed = {0.5: "0.88", 0.1: "0.49", 0.02: "0.30"}
    return comparison.rows(
        "objective",
        [
            Compared(
                f"{row['rule']}, p = {row['rate']}",
                "phi",
                row["phi"],
                printed[row["rate"]],
                "reconstruction",
            )
            for row in found
            if row["rule"] in ("sara, stop 4", "pilot-commit, k = 4")
            and row["advantage"] == "leave-one-out"
            and row["rate"] in printed
        ],
    )
