"""What Pilot-Commit costs, idealised and as coded, what a rollout of it teaches, and where it loses: PC-6 and the static side of PC-1."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.laws import MIXTURES, on_host, prior
from experiments.allocation.regimes import Population
from experiments.tables import schema
from theory.allocation.priors import BetaMixture
from theory.exact.allocation.claims import dynamic_sampling_cost, mixed_probability
from theory.exact.allocation.objective import expected_square, standardised, trained_shares
from theory.exact.allocation.pilot_commit import (
    Screening,
    batched_dynamic_sampling_cost,
    coded_cost,
    filed,
    filing,
    idealised_cost,
    screening_rule,
)

SCHEMA = schema(
    population=str,
    group_size=int,
    pilots=int,
    effective=float,
    kappa=float,
    dynamic_sampling=float,
    dapo=float,
    idealised=float,
    coded=float,
    idealised_ratio=float,
    coded_ratio=float,
    push_idealised=float,
    push_coded=float,
    push_dapo=float,
)
"""effective: P(a group of n is mixed); kappa: P(the pilots fall in the band); then rollouts per trained group of dynamic sampling, of its batched form, and of
Pilot-Commit with k = n / 4; ratios: dynamic sampling over Pilot-Commit, below 1 where it loses; push_*: E sqrt(rbar (1 - rbar)) of the trained groups per rollout, over that
of uniform groups."""


GROUP_SIZES = (16, 64, 128)
"""n; 64 and 128 are those of the released scripts."""

README_RATIOS = {"GRPO / Pilot-Commit": "1.5 to 1.9", "DAPO / Pilot-Commit": "2.3 to 4.0"}
"""Rollouts to the target accuracy, over the four configurations of the README."""


def _costs(law: BetaMixture, screening: Screening) -> dict[str, jax.Array]:
    size = screening.pilots + screening.commits
    kappa = filed(screening, filing(screening).commit, law)
    effective = mixed_probability(law, size)
    weights = standardised(size).astype(law.a.dtype)
    shares = trained_shares(screening_rule(screening), size, law.a)
    # Push of a visited prompt: of those that pass the screen, and of all.
    passed, everything = expected_square(jnp.stack([shares, jnp.ones_like(shares)]), weights, law)
    found = {
        "effective": effective,
        "kappa": kappa,
        "dynamic_sampling": dynamic_sampling_cost(law, size),
        "dapo": batched_dynamic_sampling_cost(law, size),
        "idealised": idealised_cost(screening, law),
        "coded": coded_cost(screening, law),
    }
    uniform = everything / size
    for name in ("idealised", "coded"):
        found[f"{name}_ratio"] = found["dynamic_sampling"] / found[name]
        found[f"push_{name}"] = passed / kappa / found[name] / uniform
    return {**found, "push_dapo": size / (effective * found["dapo"])}


_COSTS = jax.jit(_costs, static_argnums=1)


def of_size(group_size: int) -> Screening:
    """The released scripts' split: a quarter of the group as pilots.

    Args:
        group_size: n.

    Returns:
        k = n / 4, m = n - k.
    """
    return Screening(group_size // 4, group_size - group_size // 4)


def rows(group_sizes: Sequence[int], populations: Sequence[Population] = MIXTURES) -> list[Row]:
    """Every population and size.

    Args:
        group_sizes: n.
        populations: mixtures.

    Returns:
        Rows of `SCHEMA`.
    """
    out: list[Row] = []
    for group_size in group_sizes:
        screening = of_size(group_size)
        for population in populations:
            with jax.enable_x64(True):
                found = on_host(_COSTS(prior(population), screening))
            out.append(
                {
                    "population": population.name,
                    "group_size": group_size,
                    "pilots": screening.pilots,
                    **{name: float(value) for name, value in found.items()},
                }
            )
    return out


def comparisons(found: list[Row]) -> list[Row]:
    """Ratios of cost worked out earlier, the negative control, and the README's ratios beside the push of a rollout.

    Args:
        found: rows.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    cells = {(row["population"], row["group_size"]): row for row in found}

    def compared(*wanted: tuple[str, int, str, str]) -> list[Compared]:
        return [
            Compared(
                f"{name}, n = {n}",
                f"dynamic sampling / Pilot-Commit, {form}",
                cells[name, n][f"{form}_ratio"],
                text,
                "reconstruction",
            )
            for name, n, form, text in wanted
            if (name, n) in cells
        ]

    costs = compared(
        ("flat", 16, "idealised", "0.97"),
        ("flat", 16, "coded", "0.76"),
        ("flat", 128, "idealised", "0.89"),
        ("beta-.15-.15", 16, "idealised", "1.43"),
        ("beta-.15-.15", 128, "idealised", "0.92"),
        ("published", 16, "idealised", "1.67 to 1.75"),
        ("published", 64, "idealised", "1.67 to 1.75"),
    )
    hard = compared(
        ("all-hard", 16, "idealised", "0.91"),
        ("all-hard", 64, "idealised", "0.20"),
        ("all-hard", 128, "idealised", "0.02"),
    )
    proxy = [
        Compared(f"{name}, n = {n}", quantity, ratio, README_RATIOS[quantity], "readme")
        for (name, n), row in cells.items()
        for quantity, ratio in (
            ("GRPO / Pilot-Commit", row["push_coded"]),
            ("DAPO / Pilot-Commit", row["push_coded"] / row["push_dapo"]),
        )
    ]
    best = {n: 0.0 for _, n in cells}
    for (_, n), row in cells.items():
        best[n] = max(best[n], row["push_coded"] / row["push_dapo"])
    proxy += [
        Compared("best population, n = 128", "DAPO / Pilot-Commit", ratio, "4.0", "readme")
        for n, ratio in best.items()
        if n == 128
    ]
    return (
        comparison.rows("PC-1, static", proxy)
        + comparison.rows("PC cost", costs)
        + comparison.rows("PC-6", hard)
    )
