"""Exact laws of resampling schemes, by cutting the cube of their uniforms where the outcome changes.

For fixed weights a scheme is a piecewise constant function of its uniforms, so an expectation over them is a finite sum. The cuts are
found here by plain recursions that share nothing with `theory.resampling`; cuts too many do no harm, one too few makes a
sum wrong. The checks certify the right code and must reject the planted bugs.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.planted_bugs import resampling as planted
from theory import resampling
from theory.resampling.ancestors import equal_log_weights

# Of any size: nothing may depend on weights being normalised.
WEIGHTS: tuple[tuple[float, ...], ...] = (
    (1.0, 3.0),
    (0.0, 0.7),
    (0.5, 0.2, 1.1),
    (0.3, 0.0, 0.9),
    (0.1, 0.2, 0.3, 0.4),
    (0.45, 0.0, 0.35, 2.2),
    (3.0, 0.2, 0.5, 0.0),
    (0.25, 0.25, 0.25, 0.25),
)

# Enough to reject a planted bug.
FEW = ((0.45, 0.0, 0.35, 2.2),)

# Shape of the checks in float32: one program for all of them. The size is no power of two.
ROWS, SIZE = 32, 999

# Uniforms are evaluated in blocks of this many, so that all sums share one compiled program a scheme and N.
BLOCK = 4096

Run = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


class Scheme(NamedTuple):
    """A resampling scheme as a function of its noise.

    Attributes:
        name: for reports.
        num_uniforms: D as a function of N.
        run: from uniforms [M, D] and log weights [M, N] to ancestors and log weights [M, N].
        cuts: from weights, the points at which each uniform may change the outcome.
    """

    name: str
    num_uniforms: Callable[[int], int]
    run: Run
    cuts: Callable[[np.ndarray], list[np.ndarray]]


class Outcomes(NamedTuple):
    """All that a scheme may do: M cells of the cube of uniforms."""

    ancestors: np.ndarray
    log_weights: np.ndarray
    probs: np.ndarray


@functools.cache
def compiled(run: Callable[..., Any], exact: bool) -> Callable[..., Any]:
    """One program for all weights of a size; exact laws are compiled quickly, float32 as it is compiled for everyone."""
    return jax.jit(run, compiler_options={"xla_backend_optimization_level": 0} if exact else None)


@functools.cache
def outcomes(scheme: Scheme, weights: tuple[float, ...]) -> Outcomes:
    """Every cell's outcome and its probability, in float64."""
    values = np.asarray(weights, np.float64)
    cuts = scheme.cuts(values)
    assert len(cuts) == scheme.num_uniforms(values.size)
    edges = [np.unique([0.0, *points[(points > 0) & (points < 1)], 1.0]) for points in cuts]
    middles = itertools.product(*[(edge[1:] + edge[:-1]) / 2 for edge in edges])
    probs = np.array([math.prod(widths) for widths in itertools.product(*map(np.diff, edges))])
    uniforms = np.array(list(middles)).reshape(probs.size, -1)
    with np.errstate(divide="ignore"):
        log_weights = np.log(values)
    padding = -probs.size % BLOCK
    uniforms = np.pad(uniforms, ((0, padding), (0, 0)))
    ancestors, after = [], []
    for block in uniforms.reshape(-1, BLOCK, uniforms.shape[1]):
        with jax.enable_x64(True):
            rows = jnp.tile(jnp.asarray(log_weights), (BLOCK, 1))
            result = compiled(scheme.run, True)(jnp.asarray(block), rows)
        ancestors.append(np.asarray(result[0]))
        after.append(np.asarray(result[1]))
    size = probs.size
    return Outcomes(np.concatenate(ancestors)[:size], np.concatenate(after)[:size], probs)


def counts_of(ancestors: np.ndarray, size: int) -> np.ndarray:
    """[M, N] offspring of each particle."""
    return (ancestors[..., None] == np.arange(size)).sum(axis=-2)


def check_unbiased(scheme: Scheme, cases: tuple[tuple[float, ...], ...] = WEIGHTS) -> None:
    """The expected total weight of a particle's offspring is its own weight, and N offspring there are."""
    for weights in cases:
        ancestors, after, probs = outcomes(scheme, weights)
        size = len(weights)
        assert ancestors.min() >= 0 and ancestors.max() < size, (scheme.name, weights)
        mine = ancestors[..., None] == np.arange(size)
        expected = probs @ np.where(mine, np.exp(after)[..., None], 0.0).sum(axis=1)
        np.testing.assert_allclose(
            expected, weights, rtol=0, atol=1e-12 * sum(weights), err_msg=scheme.name
        )


def check_evidence(scheme: Scheme, cases: tuple[tuple[float, ...], ...] = WEIGHTS) -> None:
    """The mean weight is the same before and after, whatever the uniforms."""
    for weights in cases:
        after = outcomes(scheme, weights).log_weights
        means = np.exp(after).mean(axis=1)
        np.testing.assert_allclose(means, np.mean(weights), rtol=1e-12, err_msg=scheme.name)


def edge_uniforms(num_uniforms: int) -> np.ndarray:
    """[ROWS, D] float32: all 0, all as near to 1 as it gets, all 1/2, mixtures of these, and ordinary ones."""
    below_one = np.nextafter(np.float32(1), np.float32(0))
    generator = np.random.default_rng(5)
    corners = np.array([0.0, below_one, 0.5], np.float32)
    num_mixed = ROWS // 2
    mixed = corners[generator.integers(0, 3, (num_mixed, num_uniforms))]
    ordinary = generator.random((ROWS - num_mixed - 3, num_uniforms), np.float32)
    return np.concatenate([np.repeat(corners[:, None], num_uniforms, axis=1), mixed, ordinary])


def run_at_edges(scheme: Scheme, log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[ROWS, SIZE] ancestors and log weights in float32, compiled as for everyone."""
    uniforms = jnp.asarray(edge_uniforms(scheme.num_uniforms(SIZE)))
    rows = jnp.asarray(np.tile(log_weights.astype(np.float32), (ROWS, 1)))
    ancestors, after = compiled(scheme.run, False)(uniforms, rows)
    return np.asarray(ancestors), np.asarray(after)


def check_zero_weights(scheme: Scheme) -> None:
    """In float32 a weight of zero has no offspring even at u = 0 and just below 1, wherever it stands, and nobody is made up."""
    generator = np.random.default_rng(1)
    index = np.arange(SIZE)
    deaths = [
        index < 5,
        index >= SIZE - 5,
        generator.random(SIZE) < 0.5,
        generator.random(SIZE) < 0.99,
        index != SIZE // 3,
    ]
    for dead in deaths:
        for scale in (0.0, 3.0):
            log_weights = generator.normal(scale=scale, size=SIZE)
            log_weights[dead] = -np.inf
            ancestors, _ = run_at_edges(scheme, log_weights)
            assert ancestors.min() >= 0 and ancestors.max() < SIZE, scheme.name
            assert not dead[ancestors].any(), scheme.name


def check_nan_is_dead(scheme: Scheme) -> None:
    """NaN and +inf are dead particles: same outcome as with -inf in their place."""
    log_weights = np.random.default_rng(2).normal(size=SIZE)
    results: list[tuple[np.ndarray, np.ndarray]] = []
    for no_weight in (-np.inf, np.nan, np.inf):
        log_weights[[0, 11, SIZE - 1]] = no_weight
        results.append(run_at_edges(scheme, log_weights))
    for ancestors, after in results[1:]:
        np.testing.assert_array_equal(ancestors, results[0][0], err_msg=scheme.name)
        np.testing.assert_array_equal(after, results[0][1], err_msg=scheme.name)


def check_all_dead(scheme: Scheme) -> None:
    """Where all are dead nothing is resampled, and the log weights say so."""
    ancestors, after = run_at_edges(scheme, np.full(SIZE, -np.inf))
    np.testing.assert_array_equal(ancestors, np.tile(np.arange(SIZE), (ROWS, 1)))
    assert np.isneginf(after).all(), scheme.name


def check_range(scheme: Scheme) -> None:
    """In float32 no ancestor lies out of range, equal weights included, and a shift of the log weights is no change."""
    generator = np.random.default_rng(3)
    # Multiples of 1/8, so that the shift itself rounds nothing.
    for log_weights in (np.zeros(SIZE), generator.integers(-40, 40, SIZE) / 8):
        ancestors, after = run_at_edges(scheme, log_weights)
        assert ancestors.min() >= 0 and ancestors.max() < SIZE, scheme.name
        shifted, shifted_after = run_at_edges(scheme, log_weights - 512.0)
        np.testing.assert_array_equal(shifted, ancestors, err_msg=scheme.name)
        np.testing.assert_allclose(shifted_after + 512.0, after, atol=1e-4, err_msg=scheme.name)


def _cumulative(weights: np.ndarray) -> np.ndarray:
    return np.cumsum(weights) / weights.sum()


def _scaled(weights: np.ndarray) -> np.ndarray:
    return weights.size * weights / weights.sum()


def multinomial_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """Every uniform is cut by the cumulative weights."""
    return [_cumulative(weights)] * weights.size


def systematic_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """The uniform is cut where a point meets a cumulative weight."""
    return [np.cumsum(_scaled(weights)) % 1.0]


def stratified_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """Uniform j is cut by the cumulative weights inside stratum j."""
    return [np.cumsum(_scaled(weights)) - j for j in range(weights.size)]


def residual_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """The first R uniforms are cut by the cumulative fractions."""
    scaled = _scaled(weights)
    fractions = scaled - np.floor(scaled + 1e-12)
    left = round(fractions.sum())
    cumulative = np.cumsum(fractions) / max(fractions.sum(), 1e-300)
    return [cumulative if j < left else np.array([]) for j in range(weights.size)]


def ssp_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """Uniform i is cut at the odds of every open fraction that may meet particle i."""
    scaled = _scaled(weights)
    fractions = scaled - np.floor(scaled)
    open_fraction, cuts = fractions[0], [np.array([])]
    for b in fractions[1:]:
        total = open_fraction + b
        odds = open_fraction / total if 0 < total < 1 else (1 - b) / (2 - total)
        cuts.append(np.array([odds]))
        open_fraction = total if total < 1 else total - 1
    return cuts


def killing_cuts(weights: np.ndarray) -> list[np.ndarray]:
    """Survival is cut at w / max w, a replacement by the cumulative weights (if the slot can be killed)."""
    survival = weights / weights.max()
    replaced = [_cumulative(weights) if odds < 1 else np.array([]) for odds in survival]
    return [*(np.array([odds]) for odds in survival), *replaced]


def chopthin_cuts(ratio: float) -> Callable[[np.ndarray], list[np.ndarray]]:
    """The first uniform is cut by the thinned, the second by the fractions of the chopped for either number thinned."""

    def cuts(weights: np.ndarray) -> list[np.ndarray]:
        low, high = 2 * weights.mean() / ratio, weights.mean()
        for _ in range(200):
            middle = math.sqrt(low * high)
            enough = _chopthin_expected(weights, middle, ratio).sum() >= weights.size
            low, high = (middle, high) if enough else (low, middle)
        light = weights < low
        expected = _chopthin_expected(weights, low, ratio)
        thinned = np.cumsum(np.where(light, expected, 0.0))
        fractions = np.where(light, 0.0, expected - np.floor(expected))
        left = weights.size - np.floor(expected[~light]).sum() - np.floor(thinned[-1])
        chopped = np.cumsum(fractions) / max(fractions.sum(), 1e-300)
        return [thinned % 1.0, np.concatenate([chopped * left % 1.0, chopped * (left - 1) % 1.0])]

    return cuts


def _chopthin_expected(weights: np.ndarray, threshold: float, ratio: float) -> np.ndarray:
    return np.where(
        weights < threshold,
        weights / threshold,
        np.maximum(1.0, 2 * weights / (ratio * threshold)),
    )


def _equal(ancestors: Callable[[jax.Array, jax.Array], jax.Array]) -> Run:
    return lambda uniforms, lw: (ancestors(uniforms, lw), equal_log_weights(lw))


def _one(size: int) -> int:
    del size
    return 1


def _two(size: int) -> int:
    del size
    return 2


def _kill(uniforms: jax.Array, log_weights: jax.Array) -> jax.Array:
    size = log_weights.shape[-1]
    return resampling.killing_from_uniforms(uniforms[:, :size], uniforms[:, size:], log_weights)


def _systematic(uniforms: jax.Array, log_weights: jax.Array) -> jax.Array:
    return resampling.systematic_from_uniforms(uniforms[:, 0], log_weights)


def _chopthin(ratio: float) -> Run:
    return lambda uniforms, lw: resampling.chopthin_from_uniforms(uniforms, lw, ratio)


EQUAL_SCHEMES = (
    Scheme("multinomial", int, _equal(resampling.multinomial_from_uniforms), multinomial_cuts),
    Scheme("stratified", int, _equal(resampling.stratified_from_uniforms), stratified_cuts),
    Scheme("systematic", _one, _equal(_systematic), systematic_cuts),
    Scheme("residual", int, _equal(resampling.residual_from_uniforms), residual_cuts),
    Scheme("ssp", int, _equal(resampling.ssp_from_uniforms), ssp_cuts),
    Scheme("killing", lambda size: 2 * size, _equal(_kill), killing_cuts),
)


@functools.cache
def chopthin_scheme(ratio: float) -> Scheme:
    """Chopthin with this bound on the ratio of weights."""
    return Scheme(f"chopthin {ratio:.3g}", _two, _chopthin(ratio), chopthin_cuts(ratio))


SCHEMES = (*EQUAL_SCHEMES, chopthin_scheme(resampling.HALF_ESS_RATIO))


def check_unbiased_once(scheme: Scheme) -> None:
    """`check_unbiased` on weights that suffice for a planted bug."""
    check_unbiased(scheme, FEW)


def check_evidence_once(scheme: Scheme) -> None:
    """`check_evidence` on weights that suffice for a planted bug."""
    check_evidence(scheme, FEW)


@functools.cache
def planted_scheme(bug: planted.Bug) -> Scheme:
    """A planted bug of systematic resampling, as a scheme."""
    return Scheme(bug.__name__, _one, lambda u, lw: bug(u[:, 0], lw), systematic_cuts)
