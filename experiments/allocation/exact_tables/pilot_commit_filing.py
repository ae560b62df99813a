"""PC-5 and PC-4: whom the pilots file where, what mixed groups that loses, and what becomes of the prompts that are evicted for good."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.laws import MIXTURES, known_rates, on_host, prior
from experiments.tables import schema
from theory.allocation.priors import BetaMixture, log_moment
from theory.exact.allocation.claims import mixed_probability
from theory.exact.allocation.pilot_commit import (
    EvictionAudit,
    Screening,
    eviction_audit,
    filed,
    filing,
)

MISFILED = schema(
    pilots=int,
    group_size=int,
    rate=float,
    too_hard=float,
    too_easy=float,
    screened_out=float,
    mixed=float,
    mixed_lost=float,
)
"""Of prompts with success rate `rate`: filed below the band, above it, either; P(a full group is mixed); and P(mixed and screened out)."""

LOST = schema(
    population=str,
    pilots=int,
    group_size=int,
    screened_out=float,
    mixed=float,
    mixed_lost_share=float,
)
"""mixed_lost_share: of the groups that would be mixed, those screened out."""

EVICTED = schema(
    population=str,
    pilots=int,
    group_size=int,
    evicted=float,
    mean_rate=float,
    solved_again=float,
    group_solved=float,
    group_mixed=float,
    mastered_for_published=float,
)
"""solved_again: P(k fresh pilots are all right | evicted); group_solved, group_mixed: of a fresh group of n; mastered_for_published: the share of prompts with rate 1 which, beside
this population, makes solved_again 81.2 %; NaN where none does."""

PILOTS = (4, 8, 16, 32)
RATES = tuple(place / 100 for place in range(101))
SOLVED_AGAIN = 0.812
"""Of the prompts that were fully solved in one epoch, those that are in the next: notes on arXiv 2605.26606, second-hand."""


_NOTHING = 1e-9
"""A population of which less is evicted evicts nothing: all prompts are hard."""


def of_pilots(pilots: int) -> Screening:
    """The released scripts' split.

    Args:
        pilots: k.

    Returns:
        k pilots and 3 k commits.
    """
    return Screening(pilots, 3 * pilots)


def _filed(law: BetaMixture, screening: Screening) -> dict[str, jax.Array]:
    kinds = filing(screening)
    mixed = mixed_probability(law, screening.pilots + screening.commits)
    committed = filed(screening, kinds.commit, law)
    return {
        "too_hard": filed(screening, kinds.too_hard, law),
        "too_easy": filed(screening, kinds.too_easy, law),
        "screened_out": 1 - committed,
        "mixed": mixed,
        # Inside the band the pilots hold both outcomes, so that every committed group is mixed.
        "mixed_lost": mixed - committed,
    }


_FILED = jax.jit(_filed, static_argnums=1)


def misfile_rows(pilots: Sequence[int]) -> list[Row]:
    """The misfile curves.

    Args:
        pilots: k.

    Returns:
        Rows of `MISFILED`.
    """
    out: list[Row] = []
    for k in pilots:
        screening = of_pilots(k)
        with jax.enable_x64(True):
            found = on_host(_FILED(known_rates(RATES), screening))
        for place, rate in enumerate(RATES):
            values = {name: max(float(value[place]), 0.0) for name, value in found.items()}
            out.append({"pilots": k, "group_size": 4 * k, "rate": rate, **values})
    return out


def lost_rows(pilots: Sequence[int]) -> list[Row]:
    """Mixed groups lost in each population.

    Args:
        pilots: k.

    Returns:
        Rows of `LOST`.
    """
    out: list[Row] = []
    for k in pilots:
        for population in MIXTURES:
            with jax.enable_x64(True):
                found = on_host(_FILED(prior(population), of_pilots(k)))
            out.append(
                {
                    "population": population.name,
                    "pilots": k,
                    "group_size": 4 * k,
                    "screened_out": float(found["screened_out"]),
                    "mixed": float(found["mixed"]),
                    "mixed_lost_share": float(found["mixed_lost"] / found["mixed"]),
                }
            )
    return out


def _audited(
    law: BetaMixture, screening: Screening
) -> tuple[EvictionAudit, EvictionAudit, jax.Array]:
    k = screening.pilots
    again = jnp.exp(jnp.stack([log_moment(law, k, 0), log_moment(law, 2 * k, 0)]))
    return (
        eviction_audit(screening, law, k),
        eviction_audit(screening, law, k + screening.commits),
        again,
    )


_AUDITED = jax.jit(_audited, static_argnums=1)


def eviction_rows(pilots: Sequence[int]) -> list[Row]:
    """The audit in each population, rates standing still.

    Args:
        pilots: k.

    Returns:
        Rows of `EVICTED`.
    """
    out: list[Row] = []
    for k in pilots:
        for population in MIXTURES:
            with jax.enable_x64(True):
                again, group, (once, twice) = on_host(_AUDITED(prior(population), of_pilots(k)))
            out.append(
                {
                    "population": population.name,
                    "pilots": k,
                    "group_size": 4 * k,
                    "evicted": float(again.probability),
                    "mean_rate": float(again.mean_rate),
                    "solved_again": float(1 - again.not_solved),
                    "group_solved": float(1 - group.not_solved),
                    "group_mixed": float(group.mixed),
                    "mastered_for_published": mastered_share(float(once), float(twice)),
                }
            )
    return out


def mastered_share(once: float, twice: float) -> float:
    """Share w of prompts with rate 1 which makes the published figure come out beside a population.

        (w + (1 - w) E[p^2k]) / (w + (1 - w) E[p^k]) = .812

    Args:
        once: E[p^k] of the population.
        twice: E[p^2k].

    Returns:
        w; NaN where the population alone is above.
    """
    wanted = SOLVED_AGAIN * once - twice
    return wanted / (wanted + 1 - SOLVED_AGAIN) if wanted >= 0 else float("nan")


def comparisons(evicted: list[Row], misfiled: list[Row]) -> list[Row]:
    """The published share, and shares under the flat prior.

    Args:
        evicted: rows of `EVICTED`.
        misfiled: rows of `MISFILED`.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    audits = [
        Compared(
            f"{row['population']}, k = {row['pilots']}",
            "evicted prompts solved again",
            row["solved_again"],
            "81.2 %",
            "second-hand",
        )
        for row in evicted
        if row["pilots"] in (16, 32) and row["evicted"] > _NOTHING
    ]
    audits += [
        Compared(
            f"flat, k = n = {k}",
            "evicted prompts not solved again",
            1 - row["solved_again"],
            text,
            "reconstruction",
        )
        for row in evicted
        for k, text in ((16, "0.485"), (32, "0.492"))
        if (row["population"], row["pilots"]) == ("flat", k)
    ]
    hard = [
        Compared("p = .02, n = 128", "P(mixed)", row["mixed"], "0.92", "reconstruction")
        for row in misfiled
        if (row["pilots"], row["rate"]) == (32, 0.02)
    ]
    return comparison.rows("PC-4", audits) + comparison.rows("PC-5", hard)
