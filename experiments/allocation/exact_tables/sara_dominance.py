"""SARA-5: where SARA gives more effective groups than dynamic sampling from the same budget, and where it gives fewer.

It does if and only if odds(q_m) / odds(P) > m / n. Where all prompts have one rate it never does, for any rate and any stop: outcomes are independent then, so a
run of equal ones says nothing, and abandoning loses what was drawn.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.allocation.exact_tables.laws import (
    EVEN,
    HARD,
    LAWS,
    MASTERED_APART,
    MIXTURES,
    PUBLISHED,
    on_host,
    side_by_side,
)
from experiments.tables import schema
from theory.allocation.policies.sara import TAU_LOW
from theory.allocation.priors import BetaMixture
from theory.exact.allocation.claims import (
    dominance_margin,
    dynamic_sampling_cost,
    flat_stop,
    sara_cost,
)

DOMINANCE = schema(
    population=str,
    group_size=int,
    stop=int,
    margin=float,
    saving=float,
    holds=bool,
    best=bool,
)
"""margin: odds(q_m) / odds(P) - m / n; saving: of rollouts per effective group against dynamic sampling; holds: whether the claim does; best: whether the stop saves most (or
loses least) in its population at its n."""

REGION = schema(
    family=str,
    group_size=int,
    stop=int,
    saving=float,
    parameter=float,
)
"""parameter: where the saving is as given: below it is less, above it more. NaN: nowhere in the family. At saving 0 the claim begins to hold."""

POPULATIONS = (*MIXTURES, EVEN, MASTERED_APART)

SAVINGS = (0.0, 0.1, 0.2, 0.3)
"""Levels that are looked for."""


Parameters = Float64[np.ndarray, " K"]

FAMILIES: dict[str, Callable[[Parameters], tuple[Parameters, Parameters]]] = {
    "beta-2.5-and-atoms": lambda share: (share, np.full_like(share, 2.5)),
    "flat-and-atoms": lambda share: (share, np.ones_like(share)),
    "beta-a-a": lambda spread: (np.zeros_like(spread), (1 / spread - 1) / 2),
}
"""Families of populations with one parameter in (0, 1), as (share of prompts that are never or always solved, half each; a of the Beta(a, a) of the others). The
parameter is that share, or for Beta(a, a) alone 1 / (2 a + 1), the correlation of two rollouts of one prompt."""

_STEPS = 40
_EDGE = 1e-6


def _savings(law: BetaMixture, sizes: Array, stops: Array) -> tuple[Array, Array]:
    saving = 1 - sara_cost(law, sizes, stops) / dynamic_sampling_cost(law, sizes)
    return dominance_margin(law, sizes, stops), saving


_SAVINGS = jax.jit(_savings)


def savings(
    law: BetaMixture, sizes: Sequence[int], stops: Sequence[int]
) -> tuple[Float64[np.ndarray, " K"], Float64[np.ndarray, " K"]]:
    """The claim in many cells.

    Args:
        law: [K, 1] and [K, L] populations.
        sizes: [K] n.
        stops: [K] m, at least 2.

    Returns:
        [K] margins and savings.
    """
    with jax.enable_x64(True):
        return on_host(_SAVINGS(law, *(jnp.asarray(each, float) for each in (sizes, stops))))


def family_law(family: str, parameters: Parameters) -> BetaMixture:
    """Populations of a family.

    Args:
        family: of `FAMILIES`.
        parameters: [K] in (0, 1).

    Returns:
        [K, 1] and [K, 2], on the host.
    """
    share, a = FAMILIES[family](parameters)
    with np.errstate(divide="ignore"):
        rest, atoms = np.log1p(-share)[:, None], np.log(share / 2)[:, None]
    points = np.broadcast_to(np.array([0.0, 1.0]), (share.size, 2))
    return BetaMixture(
        *map(jnp.asarray, (rest, a[:, None], a[:, None], np.repeat(atoms, 2, axis=1), points))
    )


def dominance_rows(group_sizes: Sequence[int]) -> list[Row]:
    """Every population and every stop.

    Args:
        group_sizes: n.

    Returns:
        Rows of `DOMINANCE`, m = 2 .. n - 1.
    """
    cells = [
        (population, n, m) for population in POPULATIONS for n in group_sizes for m in range(2, n)
    ]
    populations, sizes, stops = zip(*cells, strict=True)
    with jax.enable_x64(True):
        law = side_by_side(populations)
    margins, saved = savings(law, sizes, stops)
    most: dict[tuple[str, int], float] = {}
    for (population, n, _), saving in zip(cells, saved, strict=True):
        most[population.name, n] = max(saving, most.get((population.name, n), -np.inf))
    return [
        {
            "population": population.name,
            "group_size": n,
            "stop": m,
            "margin": float(margin),
            "saving": float(saving),
            "holds": bool(margin > 0),
            "best": bool(saving == most[population.name, n]),
        }
        for (population, n, m), margin, saving in zip(cells, margins, saved, strict=True)
    ]


def region_rows(group_sizes: Sequence[int]) -> list[Row]:
    """Where in each family the claim begins to hold, and where it saves 10, 20 and 30 %: bisection.

    Args:
        group_sizes: n.

    Returns:
        Rows of `REGION`, m = 2 .. n - 1.
    """
    cells = [(n, m, level) for n in group_sizes for m in range(2, n) for level in SAVINGS]
    return [
        {"family": family, "group_size": n, "stop": m, "saving": level, "parameter": value}
        for family in FAMILIES
        for (n, m, level), value in zip(cells, _crossings(family, cells), strict=True)
    ]


def _crossings(family: str, cells: Sequence[tuple[int, int, float]]) -> list[float]:
    """Parameter at which each cell (n, m, saving) reaches its saving; NaN where none does."""
    sizes, stops, levels = zip(*cells, strict=True)

    def above(parameters: Parameters) -> np.ndarray:
        with jax.enable_x64(True):
            law = family_law(family, parameters)
        return savings(law, sizes, stops)[1] > np.asarray(levels)

    low, high = np.full(len(cells), _EDGE), np.full(len(cells), 1 - _EDGE)
    never = ~above(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        is_above = above(middle)
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return np.where(never, np.nan, high).tolist()


def comparisons(dominance: list[Row]) -> list[Row]:
    """Savings at the paper's threshold beside those worked out earlier, and the composition with a perfect choice of prompts.

    Args:
        dominance: rows with n = 8.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    stop = flat_stop(TAU_LOW, 8)
    own = {
        row["population"]: row["saving"]
        for row in dominance
        if (row["group_size"], row["stop"]) == (8, stop)
    }
    if not own:
        return []
    setting = f"%s, n = 8, tau {TAU_LOW}"
    found = [
        Compared(setting % name, "saving", own[law.name], text, "reconstruction")
        for law, name, text in (
            (EVEN, "all at 1/2", "-6 %"),
            (LAWS["flat"], "flat", "-4 %"),
            (HARD, "all at .02", "-4 %"),
            (LAWS["beta-.3-.3"], "Beta(.3, .3)", "8.5 %"),
            (LAWS["beta-.15-.15"], "Beta(.15, .15)", "16 %"),
            (PUBLISHED, "published", "22 %"),
        )
    ]
    sampled, chosen, sizes_only = composition()
    published = "published, n = 8"
    found += [
        Compared(
            published,
            "saving with only prompts of its Beta",
            1 - chosen / sampled,
            "67 %",
            "abstract",
        ),
        Compared(
            published,
            "saving if every group drawn is mixed",
            1 - sizes_only / sampled,
            "67 %",
            "abstract",
        ),
    ]
    return comparison.rows("SARA-5", found)


def composition() -> tuple[float, float, float]:
    """What SARA could cost on prompts that an oracle picks, at n = 8 on the published mixture.

    Returns:
        Rollouts per effective group of dynamic sampling on the mixture; of SARA when only prompts of its Beta law are visited; and n, when no rollout is lost.
    """
    with jax.enable_x64(True):
        laws = side_by_side([PUBLISHED, MASTERED_APART])
        size = jnp.asarray(8.0)
        stop = jnp.asarray(float(flat_stop(TAU_LOW, 8)))
        sampled, sara = on_host(
            jax.jit(lambda law: (dynamic_sampling_cost(law, size), sara_cost(law, size, stop)))(
                laws
            )
        )
        return float(sampled[0]), float(sara[1]), float(size)
