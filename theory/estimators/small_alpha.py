"""The second-order law near alpha = 1 (`theory.exact.small_alpha`), estimated from draws of the base model.

Its coefficients are moments of four sums along a sequence: log p(y_t | y_<t), and the mean, variance and third central moment of log p(. | y_<t)
under each next-token law. Draws y ~ p with these sums, from any model that gives its next-token laws, estimate them without bias.

**Unit.** Draws of one prompt are independent and of one law, so there the bootstrap is over draws. Of several prompts each has a law of its own:
what is estimated is the mean over prompts of each prompt's KL (and log ESS fraction), and the bootstrap is over prompts, a prompt's draws kept together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from theory.errors import InvalidInput
from theory.estimators.bootstrap import percentile_interval, resample_counts, resampled_means
from theory.estimators.interval import Interval
from theory.exact.laws import check_alpha
from theory.exact.small_alpha import SmallAlphaLaw
from theory.protocols import SequenceModel
from theory.reductions import at_token

# The third-order coefficients need the third k-statistic.
MIN_DRAWS = 3


class StepMoments(NamedTuple):
    """Numbers of each position, or their sums along sequences.

    Attributes:
        log_prob: log p(y_t | y_<t) of the token that was drawn.
        entropy: h = - sum_v p(v) log p(v) of the law it was drawn from, nats.
        variance: of log p(v) under v ~ p, nats squared.
        third: third central moment of log p(v) under v ~ p, nats cubed.
    """

    log_prob: Float[Array, "*batch"] | Float64[np.ndarray, "*batch"]
    entropy: Float[Array, "*batch"] | Float64[np.ndarray, "*batch"]
    variance: Float[Array, "*batch"] | Float64[np.ndarray, "*batch"]
    third: Float[Array, "*batch"] | Float64[np.ndarray, "*batch"]


class Prediction(NamedTuple):
    """What the law says at one alpha.

    Attributes:
        alpha: the exponent.
        kl_power_temperature: (alpha - 1)^2 / 2 Var(S), nats.
        kl_power_base: (alpha - 1)^2 / 2 Var(log p), nats.
        log_ess_fraction_from_temperature: -(alpha - 1)^2 Var(S).
        log_ess_fraction_from_base: -(alpha - 1)^2 Var(log p).
        is_inside_radius: whether |alpha - 1| is within the estimated radius; outside the numbers are no prediction.
    """

    alpha: float
    kl_power_temperature: "Estimate"
    kl_power_base: "Estimate"
    log_ess_fraction_from_temperature: "Estimate"
    log_ess_fraction_from_base: "Estimate"
    is_inside_radius: bool


class Estimate(NamedTuple):
    """A number and its interval."""

    value: float
    interval: Interval


class SmallAlphaEstimate(NamedTuple):
    """The law with its uncertainty.

    Attributes:
        law: unbiased estimates of all four coefficients.
        replicates: [R, 4] the same in bootstrap resamples, in the order of `SmallAlphaLaw`.
        unit: "draws" or "prompts": what was resampled.
        num_units: how many.
    """

    law: SmallAlphaLaw
    replicates: Float64[np.ndarray, "R 4"]
    unit: str
    num_units: int


def step_moments(log_probs: Float[Array, "*batch V"], tokens: Int[Array, "*batch"]) -> StepMoments:
    """The `Reduce` that records what the law needs.

    Args:
        log_probs: [..., V] next-token laws, natural log; -inf counts 0.
        tokens: [...] the tokens drawn from them.

    Returns:
        [...] each.
    """
    probs = jnp.exp(log_probs)
    logs = jnp.where(probs > 0, log_probs, 0.0)
    drawn = at_token(log_probs, tokens)
    mean = jnp.sum(probs * logs, axis=-1)
    gaps = logs - mean[..., None]
    return StepMoments(
        drawn, -mean, jnp.sum(probs * gaps**2, axis=-1), jnp.sum(probs * gaps**3, axis=-1)
    )


def record_step_moments(
    model: SequenceModel,
    prompts: Int[Array, "B P"],
    prompt_lengths: Int[Array, " B"],
    tokens: Int[Array, "B T"],
    lengths: Int[Array, " B"],
) -> StepMoments:
    """Read sequences once more and record their steps.

    Args:
        model: of the tokens.
        prompts: [B, P] right-padded.
        prompt_lengths: [B].
        tokens: [B, T] what was drawn after them, right-padded.
        lengths: [B] eos included.

    Returns:
        [B, T] each, 0 past a row's length.
    """
    state, _ = model.init(prompts, prompt_lengths)
    _, moments, _ = model.extend(state, tokens, lengths, step_moments)
    return moments


def estimate_from_draws(
    rng: np.random.Generator, sums: StepMoments, num_resamples: int = 2000
) -> SmallAlphaEstimate:
    """From independent draws of one prompt; intervals are over draws.

    Args:
        rng: of the resamples; advanced.
        sums: [n] of each draw.
        num_resamples: R.

    Returns:
        Each coefficient unbiased for its exact value, from n >= 3 draws of p.

    Raises:
        InvalidInput: fewer than three draws.
    """
    monomials, num_draws = _monomials(sums), sums.log_prob.shape[0]
    counts = resample_counts(rng, num_draws, num_resamples)
    replicates = _coefficients(resampled_means(counts, monomials), num_draws)
    return SmallAlphaEstimate(law_from_draws(sums), replicates, "draws", num_draws)


def estimate_over_prompts(
    rng: np.random.Generator, sums: Sequence[StepMoments], num_resamples: int = 10_000
) -> SmallAlphaEstimate:
    """Means over prompts of each prompt's coefficients; intervals are over prompts.

    The law is then that of the mean over prompts of KL and of log ESS fraction.

    Args:
        rng: of the resamples; advanced.
        sums: [n] of each draw, prompt by prompt; n may differ.
        num_resamples: R.

    Returns:
        Each coefficient unbiased for its mean over prompts, from at least three draws of each.

    Raises:
        InvalidInput: fewer than two prompts, or fewer than three draws of one of them.
    """
    found = np.array([law_from_draws(each) for each in sums], np.float64).reshape(-1, 4)
    counts = resample_counts(rng, len(found), num_resamples)
    law = SmallAlphaLaw(*map(float, found.mean(axis=0)))
    return SmallAlphaEstimate(law, resampled_means(counts, found), "prompts", len(found))


def law_from_draws(sums: StepMoments) -> SmallAlphaLaw:
    """Unbiased estimates of the four coefficients, by k-statistics.

    Args:
        sums: [n] of independent draws from p.

    Returns:
        The law.

    Raises:
        InvalidInput: fewer than three draws.
    """
    monomials = _monomials(sums)
    means = monomials.mean(axis=0, keepdims=True)
    return SmallAlphaLaw(*map(float, _coefficients(means, len(monomials))[0]))


def predict(estimate: SmallAlphaEstimate, alpha: float, level: float = 0.95) -> Prediction:
    """The law at one alpha, with percentile intervals over the unit of the estimate.

    Args:
        estimate: of the law.
        alpha: exponent, above 0.
        level: nominal coverage.

    Returns:
        The prediction.

    Raises:
        InvalidInput: alpha is not a finite number above 0, or a level outside (0, 1).
    """
    check_alpha(alpha)
    half = 0.5 * (alpha - 1) ** 2
    law = estimate.law
    entropies = _interval(estimate, estimate.replicates[:, 0], level)
    log_probs = _interval(estimate, estimate.replicates[:, 1], level)
    return Prediction(
        alpha,
        Estimate(law.kl_power_temperature(alpha), _scaled(entropies, half)),
        Estimate(law.kl_power_base(alpha), _scaled(log_probs, half)),
        Estimate(law.log_ess_fraction_from_temperature(alpha), _scaled(entropies, -2 * half)),
        Estimate(law.log_ess_fraction_from_base(alpha), _scaled(log_probs, -2 * half)),
        abs(alpha - 1) <= law.radius,
    )


def predicted_radius(estimate: SmallAlphaEstimate, level: float = 0.95) -> Estimate:
    """|alpha - 1| up to which the law is offered as a guide, with its interval.

    A ratio of second and third moments: noisy, and consistent rather than unbiased. Where the tokens are nearly independent, Var(S) is
    nearly 0 and the estimate is small whatever the true radius.

    Args:
        estimate: of the law.
        level: nominal coverage.

    Returns:
        See `SmallAlphaLaw.radius`.
    """
    radii = [SmallAlphaLaw(*map(float, row)).radius for row in estimate.replicates]
    return Estimate(estimate.law.radius, _interval(estimate, np.array(radii), level))


def _interval(
    estimate: SmallAlphaEstimate, replicates: Float64[np.ndarray, " R"], level: float
) -> Interval:
    return percentile_interval(replicates, level, estimate.num_units)


def _scaled(interval: Interval, factor: float) -> Interval:
    low, high = sorted((factor * interval.low, factor * interval.high))
    return interval._replace(low=low, high=high)


def _monomials(sums: StepMoments) -> Float64[np.ndarray, "n 10"]:
    """What the central moments are made of, about the sample means, so that nothing cancels."""
    parts = [np.asarray(part, np.float64) for part in sums]
    num_draws = parts[0].size
    if num_draws < MIN_DRAWS:
        raise InvalidInput(
            f"{num_draws} draws of a prompt: third moments need at least {MIN_DRAWS}, draw more"
        )
    log_p, entropy, variance = (part - part.mean() for part in parts[:3])
    return np.stack(
        [
            log_p,
            entropy,
            variance,
            parts[3],
            log_p**2,
            entropy**2,
            entropy * log_p,
            variance * log_p,
            log_p**3,
            entropy * log_p**2,
        ],
        axis=1,
    )


def _coefficients(means: Float64[np.ndarray, "R 10"], num_draws: int) -> Float64[np.ndarray, "R 4"]:
    """Unbiased second and third cumulants from mean monomials, and the coefficients from them."""
    log_p, entropy, variance, thirds, ll, ss, sl, vl, lll, sll = means.T
    n = num_draws
    second, third = n / (n - 1), n**2 / ((n - 1) * (n - 2))
    variance_log_p = second * (ll - log_p**2)
    variance_entropy = second * (ss - entropy**2)
    covariance = second * (vl - variance * log_p)
    cubed = third * (lll - 3 * log_p * ll + 2 * log_p**3)
    joint = third * (sll - 2 * log_p * sl - entropy * ll + 2 * entropy * log_p**2)
    third_temperature = (thirds - cubed) / 6 + covariance / 2 - joint / 2
    return np.stack([variance_entropy, variance_log_p, third_temperature, cubed / 3], axis=1)
