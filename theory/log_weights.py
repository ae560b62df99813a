"""The one place that decides what -inf, NaN and all -inf mean.

A log weight is an unnormalised importance weight in natural logarithms. -inf is a dead particle. NaN is no weight, and
neither is +inf: both count as -inf *and are counted* by `clean`. Every function here cleans what it is given. Where all
particles are dead the mean weight is zero (log -inf), the effective sample size is zero, the normalised law is empty and
flagged, and an index is never made up.

All but the evidence are invariant under adding a constant to the log weights. Everything works over the last
axis and keeps the floating type of its argument.

Pareto smoothing and k-hat run on the host in float64.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int32

# With fewer weights above the threshold the tail is not fitted, as in the authors' own implementation.
MIN_TAIL = 5


class ParetoSmoothed(NamedTuple):
    """Weights whose largest were replaced by the expected order statistics of a fitted tail.

    Attributes:
        log_weights: [..., N] unnormalised, on the scale of the raw ones; dead particles stay -inf.
        pareto_k: [...] shape of the tail. Moments of the weights beyond 1 / k do not exist: below .5 the variance is
            finite, below .7 self-normalised estimates are usable, above 1 not even the mean exists. inf where the
            tail has too few weights to say, -inf where it is empty (the largest weight occurs that often).
    """

    log_weights: Float64[np.ndarray, "*batch N"]
    pareto_k: Float64[np.ndarray, "*batch"]


def clean(
    log_weights: Float[Array, "*batch N"],
) -> tuple[Float[Array, "*batch N"], Int32[Array, "*batch"]]:
    """Replace what is no weight by -inf, and count it.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] without NaN and +inf, and [...] how many there were.
    """
    no_weight = jnp.isnan(log_weights) | jnp.isposinf(log_weights)
    num_no_weight = jnp.sum(no_weight, axis=-1, dtype=jnp.int32)
    return jnp.where(no_weight, -jnp.inf, log_weights), num_no_weight


def clean_on_host(
    log_weights: Float[np.ndarray, "*batch"],
) -> tuple[Float64[np.ndarray, "*batch"], Bool[np.ndarray, "*batch"]]:
    """`clean` in float64 NumPy, for rows of tasks of different sizes.

    Args:
        log_weights: [...] natural log, unnormalised.

    Returns:
        [...] without NaN and +inf, and [...] which of them were no weight.
    """
    raw = np.asarray(log_weights, np.float64)
    no_weight = ~(raw < np.inf)
    return np.where(no_weight, -np.inf, raw), no_weight


def all_dead(log_weights: Float[Array, "*batch N"]) -> Bool[Array, "*batch"]:
    """Whether no particle is alive.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [...].
    """
    return jnp.all(jnp.isneginf(clean(log_weights)[0]), axis=-1)


def relative_weights(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch N"]:
    """Weights in linear space, relative to the largest.

        w_i / max_j w_j

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] in 0..1, the largest exactly 1; all 0 where all are dead.
    """
    return _scaled(log_weights)[1]


def log_mean_weight(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """Log of the mean weight: the factor of the evidence that these particles carry.

        log (1/N) sum_i w_i

    The mean weight itself is unbiased for the evidence when the weights are proper; its log is biased downwards.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [...] -inf where all are dead. Its gradient is 0 there, not NaN.
    """
    log_scale, weights = _scaled(log_weights)
    mean = jnp.mean(weights, axis=-1)
    dead = mean == 0
    return jnp.where(dead, -jnp.inf, jnp.log(jnp.where(dead, 1.0, mean)) + log_scale[..., 0])


def normalise(
    log_weights: Float[Array, "*batch N"],
) -> tuple[Float[Array, "*batch N"], Bool[Array, "*batch"]]:
    """The law that the weights put on the particles.

        log w_i - log sum_j w_j

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N] log probabilities, all -inf where all are dead, and [...] whether all are dead.
    """
    log_scale, weights = _scaled(log_weights)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    dead = total == 0
    # The large numbers first: their difference is small where it matters, their logarithm of a sum is not.
    relative = clean(log_weights)[0] - log_scale
    return relative - jnp.log(jnp.where(dead, 1.0, total)), dead[..., 0]


def ess(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """Effective sample size.

        (sum_i w_i)^2 / sum_i w_i^2

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [...] in 1..N, exactly N when all weights are equal; 0 where all are dead.
    """
    weights = relative_weights(log_weights)
    total = jnp.sum(weights, axis=-1)
    squares = jnp.sum(weights**2, axis=-1)
    dead = squares == 0
    size = jnp.clip(total * (total / jnp.where(dead, 1.0, squares)), 1, log_weights.shape[-1])
    return jnp.where(dead, 0.0, size)


def log_ess_fraction(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """Log of the effective sample size per particle.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [...] in -log N..0, exactly 0 when all weights are equal; -inf where all are dead.
    """
    return jnp.log(ess(log_weights) / log_weights.shape[-1])


def largest_share(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """Share of the total weight that the heaviest particle has.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [...] in 1/N..1; 0 where all are dead.
    """
    total = jnp.sum(relative_weights(log_weights), axis=-1)
    return jnp.where(total > 0, 1 / jnp.maximum(total, 1), 0.0)


def _scaled(
    log_weights: Float[Array, "*batch N"],
) -> tuple[Float[Array, "*batch 1"], Float[Array, "*batch N"]]:
    """The largest log weight (0 where all are dead) and the weights relative to it."""
    log_weights = clean(log_weights)[0]
    largest = jax.lax.stop_gradient(jnp.max(log_weights, axis=-1, keepdims=True))
    log_scale = jnp.where(jnp.isneginf(largest), 0.0, largest)
    return log_scale, jnp.exp(log_weights - log_scale)


def pareto_smooth(log_weights: Float[np.ndarray, "*batch N"]) -> ParetoSmoothed:
    """Pareto-smoothed importance weights and their k-hat.

    A generalised Pareto law is fitted to the M = ceil(min(N / 5, 3 sqrt(N))) largest weights less the largest of the others,
    they are replaced by F^-1((j - 1/2) / M), j = 1..M, and no weight may exceed the largest raw one. Estimates from
    smoothed weights are biased, with less variance; they are consistent for k < 1.

    Source: Vehtari, Simpson, Gelman, Yao & Gabry, "Pareto smoothed importance sampling", JMLR 25 (2024),
    Algorithm 1; fit by Zhang & Stephens, Technometrics 51 (2009), with the weak prior on k that
    Vehtari et al. add for small samples.

    Args:
        log_weights: [..., N] natural log, unnormalised; on the host.

    Returns:
        Smoothed log weights and k-hat.
    """
    raw = clean_on_host(log_weights)[0]
    smoothed = np.array(raw).reshape(-1, raw.shape[-1])
    shapes = np.array([_smooth_row(row) for row in smoothed])
    return ParetoSmoothed(smoothed.reshape(raw.shape), shapes.reshape(raw.shape[:-1]))


def pareto_k(log_weights: Float[np.ndarray, "*batch N"]) -> Float64[np.ndarray, "*batch"]:
    """k-hat alone; see `pareto_smooth`.

    Args:
        log_weights: [..., N] natural log, unnormalised; on the host.

    Returns:
        [...] shape of the tail.
    """
    return pareto_smooth(log_weights).pareto_k


def pareto_k_of_largest(largest: Float[np.ndarray, " M1"], num_weights: int) -> float:
    """k-hat of many weights from the largest alone, where the others need not be in memory.

    Args:
        largest: [M + 1] natural log of the largest, in any order; M is `num_tail_weights`.
        num_weights: N, of which they are the largest.

    Returns:
        `pareto_k` of all N.
    """
    ordered = np.sort(largest)
    if np.isneginf(ordered[-1]) or num_tail_weights(num_weights) >= num_weights:
        return math.inf
    return _fit_tail(ordered)[0].shape


def num_tail_weights(num_weights: int) -> int:
    """How many of the largest weights are the tail.

        ceil(min(N / 5, 3 sqrt(N)))

    Args:
        num_weights: N.

    Returns:
        M.
    """
    return math.ceil(min(num_weights / 5, 3 * math.sqrt(num_weights)))


class _Tail(NamedTuple):
    """A law fitted to excesses over a threshold; the scale means nothing where the shape is infinite."""

    threshold: float
    shape: float
    scale: float


def _fit_tail(ordered: Float[np.ndarray, " M1"]) -> tuple[_Tail, Bool[np.ndarray, " M"]]:
    """The tail of ascending weights whose first is the threshold, and which of the others are above it."""
    largest = ordered[-1]
    # A threshold that underflows would leave excesses no fit can tell from the weights themselves.
    floor = largest + math.log(np.finfo(np.float64).tiny)
    threshold = math.exp(max(ordered[0], floor) - largest)
    relative = np.exp(ordered[1:] - largest)
    above = relative > threshold
    if not above.any():
        return _Tail(threshold, -math.inf, 0.0), above
    if above.sum() < MIN_TAIL:
        return _Tail(threshold, math.inf, 0.0), above
    return _Tail(threshold, *fit_generalised_pareto(relative[above] - threshold)), above


def _smooth_row(log_weights: Float[np.ndarray, " N"]) -> float:
    """Smooth one population in place and return its k-hat."""
    size = log_weights.size
    num_tail = num_tail_weights(size)
    largest = log_weights.max()
    if np.isneginf(largest) or num_tail >= size:
        return math.inf
    order = np.argsort(log_weights, kind="stable")[-num_tail - 1 :]
    (threshold, shape, scale), above = _fit_tail(log_weights[order])
    if not math.isfinite(shape):
        return shape
    tail = order[1:][above]
    levels = (np.arange(tail.size) + 0.5) / tail.size
    log_survival = np.log1p(-levels)
    excess = -log_survival if shape == 0 else np.expm1(-shape * log_survival) / shape
    log_weights[tail] = np.minimum(np.log(threshold + scale * excess), 0.0) + largest
    return shape


def fit_generalised_pareto(excesses: Float64[np.ndarray, " M"]) -> tuple[float, float]:
    """Shape k and scale of a generalised Pareto law, by the quasi-Bayesian profile of Zhang & Stephens.

        F(x) = 1 - (1 + k x / scale)^(-1/k)

    The shape is shrunk towards 1/2 with the weight of ten observations.

    Args:
        excesses: [M] positive, ascending.

    Returns:
        Shape and scale.
    """
    size = excesses.size
    num_grid = 30 + math.isqrt(size)
    quartile = excesses[int(size / 4 + 0.5) - 1]
    grid = 1 - np.sqrt(num_grid / (np.arange(1, num_grid + 1) - 0.5))
    theta = 1 / excesses[-1] + grid / (3 * quartile)
    shape, scale = _profile(theta, excesses)
    log_likelihood = -size * (np.log(scale) + shape + 1)
    posterior = np.exp(log_likelihood - log_likelihood.max())
    mean_theta = posterior @ theta / posterior.sum()
    shape, scale = _profile(np.array([mean_theta]), excesses)
    return (size * float(shape[0]) + 10 * 0.5) / (size + 10), float(scale[0])


def _profile(
    theta: Float64[np.ndarray, " J"], excesses: Float64[np.ndarray, " M"]
) -> tuple[Float64[np.ndarray, " J"], Float64[np.ndarray, " J"]]:
    """Shape and scale that maximise the likelihood where -shape / scale is theta; at theta 0 the law is exponential."""
    shape = np.log1p(-theta[:, None] * excesses).mean(axis=1)
    exponential = theta == 0
    scale = -shape / np.where(exponential, 1.0, theta)
    return shape, np.where(exponential, excesses.mean(), scale)
