"""Importance sampling of p(y)^alpha: weights from what was recorded, and the estimators that use them.

With rows y drawn from q, the unnormalised weight of a row is

    log w(y) = sum_t (alpha log p(y_t | y_<t) - log q(y_t | y_<t)),      E_q[w] = Z = sum_y p(y)^alpha,

so that exp of `theory.log_weights.log_mean_weight` is unbiased for Z, at every N. An estimate of an expectation is an estimate of an
expectation: rows with weights are not draws from the target. The unit of all weights here is the whole trajectory.

Log p and log q are those recorded when the token was drawn, log q of the whole rule, so the weights are right for any rule
whose support holds the model's (`check_full_support`).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Float64

from theory.decoding.pipeline import is_truncating
from theory.decoding.rule import TokenRule
from theory.errors import InvalidInput
from theory.generation import Trajectories
from theory.log_weights import (
    all_dead,
    clean,
    log_mean_weight,
    normalise,
    pareto_smooth,
    relative_weights,
)


class WeightedSums(NamedTuple):
    """Numerator and denominator of an expectation under the target, on a common scale.

    Attributes:
        numerator: [...] numerator exp(log_scale) is unbiased for Z E_pi[f].
        denominator: [...] denominator exp(log_scale) is unbiased for Z.
        log_scale: [...] the largest log weight; 0 where all are dead.
    """

    numerator: Float[Array, "*batch"]
    denominator: Float[Array, "*batch"]
    log_scale: Float[Array, "*batch"]


class SmoothedEstimate(NamedTuple):
    """An estimate from Pareto-smoothed weights, and whether to believe it.

    Attributes:
        value: [...].
        pareto_k: [...] usable below .7; see `theory.log_weights.ParetoSmoothed`.
    """

    value: Float64[np.ndarray, "*batch"]
    pareto_k: Float64[np.ndarray, "*batch"]


def check_full_support(rules: tuple[TokenRule, ...]) -> None:
    """Refuse a proposal that cannot draw all that the target can. Eager: reads the parameters of the rules.

    No weight repairs what is never drawn: the estimate would be of p^alpha restricted to the proposal's support.

    Args:
        rules: the pipeline that tokens are drawn from.

    Raises:
        InvalidInput: names the first rule that may truncate.
    """
    for rule in rules:
        if is_truncating((rule,)):
            raise InvalidInput(
                f"proposal rule {rule.name}: may cut off tokens that the target p^alpha needs, "
                f"take it out of the proposal"
            )


def check_alive(log_weights: Float[Array, "*batch N"]) -> None:
    """Refuse populations without a single positive weight. Eager: reads the values.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Raises:
        InvalidInput: names the first such population.
    """
    dead = np.atleast_1d(np.asarray(all_dead(log_weights))).ravel()
    if dead.any():
        raise InvalidInput(
            f"population {int(np.argmax(dead))}: all {log_weights.shape[-1]} weights are 0 "
            f"(log Z = -inf), nothing can be estimated; take a proposal that reaches the target"
        )


def token_log_weights(
    trajectories: Trajectories, alpha: float | Float32[Array, ""]
) -> Float32[Array, "B T"]:
    """What each token contributes to the log weight of its row.

        alpha log p(y_t | y_<t) - log q(y_t | y_<t)

    Args:
        trajectories: with the log p and log q that were recorded.
        alpha: target exponent, above 0.

    Returns:
        [B, T] natural log; 0 past a row's length, -inf where p is 0.
    """
    impossible = jnp.isneginf(trajectories.log_p)
    log_p = jnp.where(impossible, 0.0, trajectories.log_p)
    log_q = jnp.where(impossible, 0.0, trajectories.log_q)
    return jnp.where(impossible, -jnp.inf, alpha * log_p - log_q)


def trajectory_log_weights(
    trajectories: Trajectories, alpha: float | Float32[Array, ""]
) -> Float32[Array, " B"]:
    """Unnormalised importance weights of whole rows for p(y)^alpha; exp of them is unbiased for Z.

    Args:
        trajectories: independent rows, finished.
        alpha: target exponent, above 0.

    Returns:
        [B] natural log.
    """
    return jnp.sum(token_log_weights(trajectories, alpha), axis=-1)


def weighted_sums(
    log_weights: Float[Array, "*batch N"], values: Float[Array, "*batch N"]
) -> WeightedSums:
    """Means of w f and of w: what plain importance sampling can say without knowing Z.

    Both are unbiased on the scale of the weights; their ratio is not (see `self_normalised_estimate`).

    Args:
        log_weights: [..., N] natural log, unnormalised.
        values: [..., N] f of each row; not read where the weight is 0.

    Returns:
        (1/N) sum w f and (1/N) sum w, both divided by exp(log_scale).
    """
    weights = relative_weights(log_weights)
    largest = jnp.max(clean(log_weights)[0], axis=-1)
    products = weights * jnp.where(weights > 0, values, 0.0)
    return WeightedSums(
        jnp.mean(products, axis=-1),
        jnp.mean(weights, axis=-1),
        jnp.where(jnp.isneginf(largest), 0.0, largest),
    )


def plain_estimate(
    log_weights: Float[Array, "*batch N"],
    values: Float[Array, "*batch N"],
    log_Z: float | Float[Array, ""],
) -> Float[Array, "*batch"]:
    """Plain importance sampling, for a known normaliser.

        (1/N) sum_i w_i f_i / Z

    Unbiased for E_pi[f] at every N. Not invariant: adding a constant to f adds more or less than that constant.

    Args:
        log_weights: [..., N] natural log, unnormalised.
        values: [..., N] f of each row.
        log_Z: the exact log normaliser of the target; an estimate of it does not make an unbiased estimate.

    Returns:
        [...]; 0 where all are dead, as unbiasedness demands.
    """
    sums = weighted_sums(log_weights, values)
    return sums.numerator * jnp.exp(sums.log_scale - log_Z)


def self_normalised_estimate(
    log_weights: Float[Array, "*batch N"], values: Float[Array, "*batch N"]
) -> Float[Array, "*batch"]:
    """Self-normalised importance sampling.

        sum_i w_i f_i / sum_i w_i

    Biased by O(1/N) towards E_q[f], consistent; exact for constants.

    Args:
        log_weights: [..., N] natural log, unnormalised.
        values: [..., N] f of each row.

    Returns:
        [...]; NaN where all are dead (`check_alive` says which).
    """
    sums = weighted_sums(log_weights, values)
    dead = sums.denominator == 0
    return jnp.where(dead, jnp.nan, sums.numerator / jnp.where(dead, 1.0, sums.denominator))


def truncate(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch N"]:
    """Cap the weights at sqrt(N) times their mean.

        min(w_i, sqrt(N) mean_j w_j)

    The mean of the capped weights is below that of the raw ones: biased for Z, with finite variance whenever Z is finite.

    Source: Ionides, "Truncated importance sampling", J. Comput. Graph. Stat. 17 (2008), with the mean weight in place of Z.

    Args:
        log_weights: [..., N] natural log, unnormalised.

    Returns:
        [..., N].
    """
    num = jnp.asarray(log_weights.shape[-1], log_weights.dtype)
    log_cap = log_mean_weight(log_weights) + jnp.log(num) / 2
    return jnp.minimum(clean(log_weights)[0], log_cap[..., None])


def truncated_estimate(
    log_weights: Float[Array, "*batch N"], values: Float[Array, "*batch N"]
) -> Float[Array, "*batch"]:
    """Self-normalised importance sampling with weights capped at sqrt(N) times their mean.

    Biased, with less variance than the uncapped estimate; consistent. See `truncate`.

    Args:
        log_weights: [..., N] natural log, unnormalised.
        values: [..., N] f of each row.

    Returns:
        [...]; NaN where all are dead.
    """
    return self_normalised_estimate(truncate(log_weights), values)


def smoothed_estimate(
    log_weights: Float[np.ndarray, "*batch N"], values: Float[np.ndarray, "*batch N"]
) -> SmoothedEstimate:
    """Self-normalised importance sampling with Pareto-smoothed weights, on the host.

    Biased, with less variance than raw weights; consistent where k < 1. See `theory.log_weights.pareto_smooth`.

    Args:
        log_weights: [..., N] natural log, unnormalised.
        values: [..., N] f of each row.

    Returns:
        The estimate, NaN where all are dead, with k-hat.
    """
    smoothed = pareto_smooth(log_weights)
    largest = smoothed.log_weights.max(axis=-1, keepdims=True)
    weights = np.exp(smoothed.log_weights - np.where(np.isneginf(largest), 0.0, largest))
    total = weights.sum(axis=-1)
    products = weights * np.where(weights > 0, values, 0.0)
    dead = total == 0
    value = np.where(dead, np.nan, products.sum(axis=-1) / np.where(dead, 1.0, total))
    return SmoothedEstimate(np.asarray(value, np.float64), smoothed.pareto_k)


def estimated_divergence(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """KL(pi || q) from weighted rows.

        sum_i W_i log w_i - log mean_j w_j,      W_i = w_i / sum_j w_j

    Biased by O(1/N) and at most log N, whatever the truth: a value near log N says that N is too small.

    Args:
        log_weights: [..., N] natural log, unnormalised; rows from q.

    Returns:
        [...] nats, in 0..log N; NaN where all are dead.
    """
    log_shares, dead = normalise(log_weights)
    shares = jnp.exp(log_shares)
    num = jnp.asarray(log_weights.shape[-1], log_weights.dtype)
    terms = jnp.where(shares > 0, shares * jnp.where(shares > 0, log_shares, 0.0), 0.0)
    return jnp.where(dead, jnp.nan, jnp.clip(jnp.sum(terms, axis=-1) + jnp.log(num), 0.0))


def sample_size(divergence: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """How many draws importance sampling needs, to first exponential order.

        exp(KL(pi || q))

    Far fewer and the estimate misses the bulk of the target with high probability; far more (by exp of a few standard
    deviations of log pi/q under pi) and it is accurate. Not exp(D_2), which is what the variance needs.

    Source: Chatterjee & Diaconis, "The sample size required in importance sampling", Ann. Appl. Probab. 28 (2018).

    Args:
        divergence: [...] KL(pi || q) in nats, exact (`theory.exact.kl_divergence`) or from `estimated_divergence`.

    Returns:
        [...] number of draws.
    """
    return jnp.exp(divergence)
