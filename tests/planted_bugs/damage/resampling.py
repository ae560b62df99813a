"""Resampling: the exact laws of tests/theory/resampling/laws.py, which cut the cube of the uniforms where the outcome changes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.planted_bugs import resampling as planted
from tests.planted_bugs.defect import relative_error
from tests.theory.resampling import laws
from tests.theory.resampling.laws import Scheme, counts_of, outcomes
from theory.resampling import (
    multinomial_from_uniforms,
    residual_from_uniforms,
    systematic_from_uniforms,
)
from theory.resampling.ancestors import equal_log_weights

# The sharpest of the weights of the laws; nothing is symmetric, and one particle is dead.
WEIGHTS = (0.45, 0.0, 0.35, 2.2)
TOY = "weights .45, 0, .35, 2.2"
BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


def systematic(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The right code, in the form of its twins."""
    return systematic_from_uniforms(uniforms, log_weights), equal_log_weights(log_weights)


def multinomial(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The right code; its N uniforms are [M, N]."""
    return multinomial_from_uniforms(uniforms, log_weights), equal_log_weights(log_weights)


def residual(uniforms: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The right code; its N uniforms are [M, N]."""
    return residual_from_uniforms(uniforms, log_weights), equal_log_weights(log_weights)


def scheme_of(run: Any) -> Scheme:
    """With the cuts of its uniforms."""
    if run is residual:
        return Scheme("residual", int, run, laws.residual_cuts)
    if run in (multinomial, planted.residual_drawn_by_the_weights):
        return Scheme(run.__name__, int, run, laws.multinomial_cuts)
    if run is planted.one_uniform_for_all_draws:
        return laws.planted_scheme(run)._replace(cuts=lambda w: laws.multinomial_cuts(w)[:1])
    return laws.planted_scheme(run)


def of_weight(run: Any) -> float:
    """Relative bias of the weight that the offspring of a particle carry together, for the worst of the particles."""
    ancestors, after, probs = outcomes(scheme_of(run), WEIGHTS)
    mine = ancestors[..., None] == np.arange(len(WEIGHTS))
    carried = probs @ np.where(mine, np.exp(after)[..., None], 0.0).sum(axis=1)
    return max(
        relative_error(mean, weight)
        for mean, weight in zip(carried, WEIGHTS, strict=True)
        if weight > 0
    )


def of_evidence(run: Any) -> float:
    """Relative bias of the mean weight."""
    _, after, probs = outcomes(scheme_of(run), WEIGHTS)
    return relative_error(float(probs @ np.exp(after).mean(axis=1)), float(np.mean(WEIGHTS)))


def of_variance(run: Any) -> float:
    """Error of the variance of the heaviest particle's number of offspring: N w (1 - w) is right for independent draws."""
    ancestors, _, probs = outcomes(scheme_of(run), WEIGHTS)
    counts = counts_of(ancestors, len(WEIGHTS))[:, -1]
    share = WEIGHTS[-1] / sum(WEIGHTS)
    mean = float(probs @ counts)
    variance = float(probs @ (counts - mean) ** 2)
    return relative_error(variance, len(WEIGHTS) * share * (1 - share))


def at(uniform: float, weights: list[float]) -> Callable[[Any], np.ndarray]:
    """Ancestors in float32 at one uniform."""

    def ancestors(run: Any) -> np.ndarray:
        with np.errstate(divide="ignore"):
            log_weights = jnp.asarray(np.log(weights), jnp.float32)[None]
        program = laws.compiled(run, True)
        return np.asarray(program(jnp.full(1, uniform, jnp.float32), log_weights)[0][0])

    return ancestors


def dead_parents(run: Any) -> float:
    """Share of ancestors of weight 0 at the uniform 0, where the first of four particles is dead."""
    return float((at(0.0, [0.0, 1.0, 1.0, 1.0])(run) == 0).mean())


def parents_out_of_range(run: Any) -> float:
    """Share of ancestors that do not exist at the largest uniform, five equal weights."""
    return float((at(BELOW_ONE, [1.0] * 5)(run) >= 5).mean())


def parents_without_weight(run: Any) -> float:
    """Share of ancestors whose weight is NaN, where the others weigh 1 and 3."""
    return float((at(0.5, [1.0, np.nan, 3.0])(run) == 1).mean())


def lost_particles(run: Any) -> float:
    """Share of particles without offspring where all four are dead: nothing is to be resampled."""
    return 1.0 - np.unique(at(0.5, [0.0] * 4)(run)).size / 4


def left_alone(needs: Any) -> float:
    """Share of degenerate populations, with effective sizes 1.01 to 1.9 of four, that are not resampled at threshold 1/2."""
    lightest = np.array([0.005, 0.05, 0.1, 0.2])
    log_weights = np.log(np.stack([np.ones(4), lightest, lightest / 9, lightest / 9], axis=1))
    return float((~np.asarray(needs(jnp.asarray(log_weights, jnp.float32), 0.5))).mean())
