"""HORA-3: the flat prior beside five learned ones, exactly, where rates stand still and where they have moved since they were learned from.

A prompt has a level of difficulty that can be seen, a success rate that cannot, eight rollouts of an earlier visit, and HORA's four probes. On infinitely many prompts there are
finitely many kinds of them (level, earlier successes, successes of the probes), every learner's prior is a function of the kind, and HORA is `fill`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64
from scipy import special, stats

from experiments.allocation.exact_tables import comparison
from experiments.allocation.exact_tables.comparison import Compared, Row
from experiments.tables import schema
from theory.allocation import learned_priors
from theory.allocation.beta_binomial import hit_marginal
from theory.allocation.empirical_bayes import fit_parameters
from theory.allocation.priors import BetaMixture, beta
from theory.exact.allocation.hora import Kinds, fill, hit_shares, outcome

SCHEMA = schema(world=str, prior=str, hit=float, mixed=float, hit_gain=float)
"""hit: share of prompts with at least one success; mixed: share of mixed groups; hit_gain: hit less that of the flat prior."""

HISTORY = 8
PROBES = 4
MEAN_SIZE = 16
LARGEST = 124
POOL = 4096
"""Prompts whose earlier rollouts the learners see."""

NODES = 32


class LevelWorld(NamedTuple):
    """Prompts of five levels, equally many of each; the rates of a level are a Beta law, as 32 atoms.

    Attributes:
        name: of the row.
        concentration: a + b of a level's Beta law: how much a level tells.
        moved: logits by which every rate has risen since the earlier visit.
    """

    name: str
    concentration: float
    moved: float


MEANS = (0.03, 0.15, 0.4, 0.7, 0.95)
"""Mean rate of each level at the earlier visit."""

WORLDS = (
    LevelWorld("levels tell much", 20.0, 0.0),
    LevelWorld("levels tell little", 1.5, 0.0),
    LevelWorld("rates moved by one logit", 1.5, 1.0),
    LevelWorld("rates moved by two logits", 1.5, 2.0),
)


class _Prompts(NamedTuple):
    """All kinds of prompts: level x, s0 of the history, s of the probes."""

    level: np.ndarray
    earlier: np.ndarray
    probed: np.ndarray
    share: Float64[np.ndarray, " K"]
    rates: Float64[np.ndarray, "K L"]
    weights: Float64[np.ndarray, "K L"]
    """Of the rates, given level and history."""


def _prompts(world: LevelWorld) -> _Prompts:
    before, weights = _level_rates(world.concentration)
    now = special.expit(special.logit(before) + world.moved)
    level, earlier, probed = (
        each.ravel() for each in np.indices((len(MEANS), HISTORY + 1, PROBES + 1))
    )
    seen = weights[level] * stats.binom.pmf(earlier[:, None], HISTORY, before[level])
    share = (seen * stats.binom.pmf(probed[:, None], PROBES, now[level])).sum(axis=1)
    rates = now[level]
    return _Prompts(
        level, earlier, probed, share / len(MEANS), rates, seen / seen.sum(axis=1, keepdims=True)
    )


def _level_rates(
    concentration: float,
) -> tuple[Float64[np.ndarray, "X L"], Float64[np.ndarray, "X L"]]:
    """Gauss nodes and weights of each level's Beta law."""
    rates: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for mean in MEANS:
        a, b = concentration * mean, concentration * (1 - mean)
        nodes, mass = special.roots_jacobi(NODES, b - 1, a - 1)
        rates.append((1 + nodes) / 2)
        weights.append(mass / mass.sum())
    return np.stack(rates), np.stack(weights)


def _believed(world: LevelWorld, prompts: _Prompts) -> dict[str, BetaMixture]:
    """The prior that each learner has of each kind of prompt; all learn from the earlier rollouts alone."""
    kappa = world.concentration
    earlier = jnp.asarray(prompts.earlier, float)
    count = jnp.asarray(POOL * prompts.share)
    successes, failures = count * earlier, count * (HISTORY - earlier)
    level = jnp.asarray(prompts.level)
    place = (jnp.asarray(prompts.level, float) / (len(MEANS) - 1))[:, None]
    fitted = fit_parameters(beta(1.0, 1.0), earlier, HISTORY - earlier, count, 500)
    kinds = earlier.size
    return {
        "flat": learned_priors.global_prior(beta(1.0, 1.0), kinds),
        "population, empirical Bayes": learned_priors.global_prior(fitted, kinds),
        "last visit, discount .5": learned_priors.last_visit_prior(earlier, HISTORY - earlier, 0.5),
        "level": learned_priors.bin_prior(level, len(MEANS), successes, failures, kappa),
        "logistic regression on the level": learned_priors.logistic_prior(
            place, successes, failures, 1.0, kappa
        ),
        "neighbours by level": learned_priors.neighbour_prior(
            place, successes, failures, 0.1, kappa
        ),
    }


def _marginals(believed: BetaMixture, hits: Array) -> Array:
    row = BetaMixture(*(field[:, None, :] for field in believed))
    return hit_marginal(row, hits[:, None], PROBES - hits[:, None], jnp.arange(LARGEST))


_MARGINALS = jax.jit(_marginals)
_SHARES = jax.jit(hit_shares)


def rows() -> list[Row]:
    """Every world and prior.

    Returns:
        Rows of `SCHEMA`.
    """
    out: list[Row] = []
    for world in WORLDS:
        prompts = _prompts(world)
        with jax.enable_x64(True):
            found = {
                name: tuple(map(float, shares))
                for name, shares in _outcomes(world, prompts).items()
            }
        for name, (hit, mixed) in found.items():
            out.append(
                {
                    "world": world.name,
                    "prior": name,
                    "hit": hit,
                    "mixed": mixed,
                    "hit_gain": hit - found["flat"][0],
                }
            )
    return out


def _outcomes(world: LevelWorld, prompts: _Prompts) -> dict[str, tuple[Array, Array]]:
    hits = jnp.asarray(prompts.probed, float)
    nothing = jnp.zeros((hits.size, 1, 0))
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(prompts.weights))[:, None, :]
    law = BetaMixture(
        nothing, nothing, nothing, log_weights, jnp.asarray(prompts.rates)[:, None, :]
    )
    sizes = jnp.arange(LARGEST + 1)
    kinds = Kinds(
        jnp.asarray(prompts.share), *_SHARES(law, hits[:, None], PROBES - hits[:, None], sizes)
    )
    budget = float(MEAN_SIZE - PROBES)
    equal = jnp.full(hits.size, budget)
    found = {"none: equal groups": outcome(kinds, equal)}
    for name, believed in _believed(world, prompts).items():
        extra = fill(kinds.share, _MARGINALS(believed, hits), budget)
        found[name] = outcome(kinds, extra)
    # The law itself, given all that is seen: what no prior can beat.
    marginals = jnp.diff(kinds.hit, axis=1)
    with_hit = jnp.broadcast_to((hits > 0)[:, None], marginals.shape)
    found["best for hits, with the law known"] = outcome(
        kinds, fill(kinds.share, jnp.where(with_hit, 0.0, marginals), budget)
    )
    return found


def comparisons(found: list[Row]) -> list[Row]:
    """The abstract's claim that the flat prior is on par: how far the best learned one is ahead of it.

    Args:
        found: rows.

    Returns:
        Rows of `comparison.SCHEMA`.
    """
    learned = {"population, empirical Bayes", "last visit, discount .5", "level"}
    learned |= {"logistic regression on the level", "neighbours by level"}
    return comparison.rows(
        "HORA-3",
        [
            Compared(
                world.name,
                "hits of the best of five learned priors less those of the flat one",
                max(
                    row["hit_gain"]
                    for row in found
                    if row["world"] == world.name and row["prior"] in learned
                ),
                "0 +- 0.01",
                "abstract",
            )
            for world in WORLDS
        ],
    )
