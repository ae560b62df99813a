"""HORA-2 and HORA-5: that greedy is the best allocation there is, and what a cap on the size of groups costs small batches."""

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64, Int64

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.laws import LAWS, SKEWED, prior
from experiments.allocation.regimes import Population
from experiments.tables import schema
from theory.allocation.beta_binomial import hit_marginal
from theory.allocation.priors import beta
from theory.exact.allocation.hora import probe_kinds

OPTIMALITY = schema(
    successes=str, probes=int, extra=int, greedy=str, greedy_value=float, best_value=float
)
"""successes: of each prompt's probes; extra: rollouts to spend; greedy: what each gets; values: sum of hit utilities, best over every allocation."""

CAPPED = schema(
    population=str,
    rule=str,
    cap=int,
    hit=float,
    mixed=float,
    mean_largest=float,
    largest=int,
)
"""cap: rollouts of a group at most, 0 for none; hit, mixed: share of prompts with a success, and of mixed groups; mean_largest, largest: largest group of a batch, in the mean
and at most."""

EXAMPLES = (
    ((0, 1, 2, 3, 4), 60, (25, 15, 10, 6, 4)),
    ((0, 0, 0, 1, 2, 3, 4, 4), 96, (21, 20, 20, 13, 8, 6, 4, 4)),
)
"""(successes of four probes, extra rollouts, what HORA gives): allocation.md 2.4."""

PROBES = 4
PROMPTS = 8
EXTRA = 96
"""Batches of eight prompts with four probes and a mean of sixteen rollouts: those of the toy that allocation.md 2.5 reports."""

CAP = 32
POPULATIONS = (SKEWED, LAWS["beta-.15-.15"], LAWS["flat"])

Marginals = Float64[np.ndarray, "S M"]


def marginals(probes: int, largest: int, counted: int = 0) -> Marginals:
    """What one more rollout is worth to HORA, E[p (1 - p)^(counted + l) | s, f] under its flat prior.

    Args:
        probes: G0.
        largest: most extra rollouts.
        counted: rollouts of the probes that the exponent counts: none, or all of them in the mass-aware variant.

    Returns:
        [G0 + 1, `largest`] by successes of the probes.
    """
    with jax.enable_x64(True):
        hits, more = jnp.arange(probes + 1)[:, None], counted + jnp.arange(largest)
        return np.asarray(jax.jit(hit_marginal)(beta(1.0, 1.0), hits, probes - hits, more))


def greedy(rows: Float64[np.ndarray, "P M"], total: int) -> Int64[np.ndarray, " P"]:
    """The largest marginals of all prompts; ties go to the prompt that comes first.

    Args:
        rows: [P, M] falling in each row.
        total: how many.

    Returns:
        [P] how many of each.
    """
    order = np.argsort(-rows.ravel(), kind="stable")[:total]
    return np.bincount(order // rows.shape[1], minlength=rows.shape[0])


def best_value(rows: Float64[np.ndarray, "P M"], total: int) -> float:
    """The largest sum of utilities over every way to spend `total` rollouts, prompt by prompt: no property of the rows is used.

        V_i(r) = max over m of V_(i - 1)(r - m) + H_i(m)

    Args:
        rows: [P, M] marginals, M at least `total`.
        total: to spend.

    Returns:
        The maximum.
    """
    value = np.full(total + 1, -np.inf)
    value[0] = 0.0
    for row in rows:
        utility = np.concatenate([[0.0], np.cumsum(row[:total])])
        value = np.array([np.max(value[: r + 1] + utility[r::-1]) for r in range(total + 1)])
    return float(value[total])


def optimality_rows() -> list[Row]:
    """The worked examples, against every other allocation.

    Returns:
        Rows of `OPTIMALITY`.
    """
    out: list[Row] = []
    for successes, extra, _ in EXAMPLES:
        rows = marginals(PROBES, EXTRA)[list(successes)]
        chosen = greedy(rows, extra)
        value = sum(float(row[:m].sum()) for row, m in zip(rows, chosen, strict=True))
        out.append(
            {
                "successes": words(successes),
                "probes": PROBES,
                "extra": extra,
                "greedy": words(chosen.tolist()),
                "greedy_value": value,
                "best_value": best_value(rows, extra),
            }
        )
    return out


def words(numbers: Sequence[int]) -> str:
    """Numbers in one cell.

    Args:
        numbers: any.

    Returns:
        With blanks between them.
    """
    return " ".join(map(str, numbers))


def capped_rows() -> list[Row]:
    """Every batch that can occur, weighed by its probability.

    Returns:
        Rows of `CAPPED`.
    """
    profiles = np.array(
        [
            np.bincount(batch, minlength=PROBES + 1)
            for batch in itertools.combinations_with_replacement(range(PROBES + 1), PROMPTS)
        ]
    )
    rules = {
        "hora": marginals(PROBES, EXTRA),
        "mass-aware": marginals(PROBES, EXTRA, PROBES),
        "uniform": np.tile(np.arange(EXTRA, 0.0, -1.0), (PROBES + 1, 1)),
    }
    plans = {
        (rule, cap): [_plan(rows[:, : (cap or PROBES + EXTRA) - PROBES], each) for each in profiles]
        for rule, rows in rules.items()
        for cap in ((0, CAP) if rule != "uniform" else (0,))
    }
    return [
        row for population in POPULATIONS for row in _population_rows(population, profiles, plans)
    ]


def _plan(
    rows: Marginals, profile: Int64[np.ndarray, " S"]
) -> tuple[Int64[np.ndarray, " P"], Int64[np.ndarray, " P"]]:
    """Kinds of the batch's prompts and what each gets."""
    kinds = np.repeat(np.arange(profile.size), profile)
    return kinds, greedy(rows[kinds], EXTRA)


def _population_rows(
    population: Population,
    profiles: Int64[np.ndarray, "Q S"],
    plans: dict[tuple[str, int], list[tuple[np.ndarray, np.ndarray]]],
) -> list[Row]:
    with jax.enable_x64(True):
        share, hit, mixed = map(np.asarray, _KINDS(prior(population), PROBES, EXTRA))
    ways = math.factorial(PROMPTS) / np.vectorize(math.factorial)(profiles).prod(axis=1)
    chances = ways * np.prod(share**profiles, axis=1)
    out: list[Row] = []
    for (rule, cap), batches in plans.items():
        sizes = np.array([PROBES + extra.max() for _, extra in batches])
        means = [
            chances @ np.array([value[kinds, extra].mean() for kinds, extra in batches])
            for value in (hit, mixed)
        ]
        out.append(
            {
                "population": population.name,
                "rule": rule,
                "cap": cap,
                "hit": float(means[0]),
                "mixed": float(means[1]),
                "mean_largest": float(chances @ sizes),
                "largest": int(sizes.max()),
            }
        )
    return out


_KINDS = jax.jit(probe_kinds, static_argnums=(1, 2))


def comparisons(optimality: list[Row], capped: list[Row]) -> list[Row]:
    """The worked examples, and the largest groups of the outside toy.

    Args:
        optimality: rows of `OPTIMALITY`.
        capped: rows of `CAPPED`.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    examples = [
        Compared(
            f"G0 = {PROBES}, successes {row['successes']}, {row['extra']} extra",
            f"rollouts of prompt {place}",
            int(ours),
            str(theirs),
            "reconstruction",
        )
        for row, (_, _, wanted) in zip(optimality, EXAMPLES, strict=True)
        for place, (ours, theirs) in enumerate(zip(row["greedy"].split(), wanted, strict=True))
    ]
    examples += [
        Compared(
            f"successes {row['successes']}",
            "best value less greedy value",
            row["best_value"] - row["greedy_value"],
            "0 +- 1e-12",
            "reconstruction",
        )
        for row in optimality
    ]
    sizes = [
        Compared(
            f"{row['population']}, 8 prompts, mean 16, no cap",
            f"largest group, {row['rule']}",
            row["largest"],
            text,
            "second-hand",
        )
        for row in capped
        for rule, text in (("hora", "about 57"), ("mass-aware", "about 76"))
        if (row["rule"], row["cap"], row["population"]) == (rule, 0, SKEWED.name)
    ]
    return comparison.rows("HORA-2", examples) + comparison.rows("HORA-5", sizes)
