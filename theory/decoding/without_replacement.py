"""Distinct sequences as an estimator: inclusion probabilities and importance weights.

Let G(y) = log q(y) + Gumbel noise, independent for every sequence, let S be the k sequences with the largest G, and kappa the
(k + 1)-th largest. Given kappa, y is in S with probability

    q_kappa(y) = P(G(y) > kappa) = 1 - exp(-exp(log q(y) - kappa)),

and sum_{y in S} f(y) p(y) / q_kappa(y) is unbiased for sum_y p(y) f(y) over the support of q: for a fixed y let kappa' be the k-th
largest G among the *others*. It is independent of G(y); y is in S iff G(y) > kappa', and then kappa = kappa'. So given kappa'
the term of y has expectation f(y) p(y) P(G(y) > kappa') / q_kappa'(y) = f(y) p(y).

Source: Kool, van Hoof and Welling 2019, arXiv 1903.06059, section 4 (from memory, not re-read; the argument above is complete), after
priority sampling, Duffield, Lund and Thorup 2007.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

# Where exp(log q - kappa) is so small that 1 - exp(-x) is x to all digits of a float32.
_RARE = -17.0


def log_inclusion_probs(
    log_q: Float[Array, "B N"], kappa: Float[Array, " B"]
) -> Float[Array, "B N"]:
    """Log probability that a sequence is among the distinct draws, given the threshold.

        log(1 - exp(-exp(log q - kappa)))

    Args:
        log_q: [B, N] log probability of whole sequences under the law that was sampled.
        kappa: [B] the largest perturbed log probability that was not drawn; -inf if all sequences were.

    Returns:
        [B, N] natural log, at most 0; exactly 0 where kappa is -inf, -inf where log_q is.
    """
    gap = log_q - kappa[:, None]
    gap = jnp.where(jnp.isnan(gap), -jnp.inf, gap)
    common = jnp.log(-jnp.expm1(-jnp.exp(jnp.maximum(gap, _RARE))))
    return jnp.where(gap > _RARE, common, gap)


def log_importance_weights(
    log_p: Float[Array, "B N"], log_q: Float[Array, "B N"], kappa: Float[Array, " B"]
) -> Float[Array, "B N"]:
    """Log of p(y) / q_kappa(y), unnormalised.

    Args:
        log_p: [B, N] log probability under the law that an expectation is wanted of; -inf for a place that holds no sequence.
        log_q: [B, N] under the law that was sampled; its support must cover that of log_p.
        kappa: [B] the threshold.

    Returns:
        [B, N] natural log; -inf where log_p is.
    """
    drawn = log_p > -jnp.inf
    log_inclusion = jnp.where(drawn, log_inclusion_probs(log_q, kappa), 0.0)
    return jnp.where(drawn, log_p - log_inclusion, -jnp.inf)


def estimate_expectation(
    values: Float[Array, "B N"], log_weights: Float[Array, "B N"]
) -> Float[Array, " B"]:
    """Expectation under p from k distinct draws of each prompt.

        sum_{y in S} f(y) p(y) / q_kappa(y)

    Unit: one prompt's set of sequences. Unbiased for sum_y p(y) f(y) over the support of q. The weights need not sum to 1, and
    the variance is finite only for k >= 2.

    Args:
        values: [B, N] f of each sequence; not read in places that hold none.
        log_weights: [B, N] from `log_importance_weights`.

    Returns:
        [B] estimates.
    """
    weights = jnp.exp(log_weights)
    return jnp.sum(jnp.where(weights > 0, weights * values, 0.0), axis=-1)
