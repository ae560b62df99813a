"""What is known of a prompt's success rate: a mixture of Beta laws and atoms.

    p ~ sum_j w_j Beta(a_j, b_j) + sum_l v_l delta(x_l)

Conjugate to independent Bernoulli rollouts, so a posterior is again such a mixture. One number serves everything else: E[p^s (1 - p)^f], the
probability of one given sequence of s successes and f failures.

prior = mixture(((0.36, 2.5, 2.5),), ((0.32, 0.0), (0.32, 1.0)))
log_moment(prior, 3, 1)
posterior(prior, 3, 1)

Unit: the prompt. Parameters and counts broadcast over leading axes, the last axis being that of the parts, so that every prompt may have a
prior of its own. The floating type is that of the prior. In float64 the log of a moment is exact to about 1e-15 of itself up to counts
of 10^6, in float32 to about 1e-6 (`theory.allocation.log_beta`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from theory.allocation.log_beta import log_beta_likelihood, log_beta_moment, times_log_ratio
from theory.errors import InvalidInput

Count = Real[Array, "..."] | int | float


class BetaMixture(NamedTuple):
    """A law of success rates. The weights of all parts together sum to 1; J or L may be 0.

    Attributes:
        log_weights: [..., J] natural log of the weight of each Beta law.
        a: [..., J] above 0.
        b: [..., J] above 0.
        log_point_weights: [..., L] natural log of the weight of each atom; -inf is no weight.
        points: [..., L] where the atoms are, in [0, 1].
    """

    log_weights: Float[Array, "*batch J"]
    a: Float[Array, "*batch J"]
    b: Float[Array, "*batch J"]
    log_point_weights: Float[Array, "*batch L"]
    points: Float[Array, "*batch L"]


class Moments(NamedTuple):
    """E[p^s (1 - p)^f] under each part of a mixture.

    Attributes:
        log_betas: [..., J] of the Beta laws.
        log_points: [..., L] of the atoms; 0 log 0 = 0.
    """

    log_betas: Float[Array, "*batch J"]
    log_points: Float[Array, "*batch L"]


def beta(a: float, b: float) -> BetaMixture:
    """One Beta law.

    Args:
        a: above 0.
        b: above 0.

    Returns:
        J = 1, L = 0.

    Raises:
        InvalidInput: a or b is not a positive finite number.
    """
    return mixture(((1.0, a, b),), ())


def mixture(
    betas: Sequence[tuple[float, float, float]], atoms: Sequence[tuple[float, float]]
) -> BetaMixture:
    """A mixture from its parts.

    Args:
        betas: (weight, a, b) each; a and b above 0.
        atoms: (weight, point) each; points in [0, 1].

    Returns:
        Of JAX's default floating type, weights normalised to sum 1.

    Raises:
        InvalidInput: a number is out of its range, or no part has weight.
    """
    betas_array = np.asarray(betas, np.float64).reshape(len(betas), 3)
    atoms_array = np.asarray(atoms, np.float64).reshape(len(atoms), 2)
    weights = np.concatenate([betas_array[:, 0], atoms_array[:, 0]])
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and weights.sum() > 0):
        raise InvalidInput(
            f"prior weights {weights.tolist()}: need finite numbers of at least 0, one of them above"
        )
    parameters = betas_array[:, 1:]
    if not np.all((parameters > 0) & np.isfinite(parameters)):
        raise InvalidInput(
            f"prior Beta{tuple(parameters.ravel().tolist())}: a and b must be above 0"
        )
    points = atoms_array[:, 1]
    if not np.all((points >= 0) & (points <= 1)):
        raise InvalidInput(f"prior points {points.tolist()}: each must lie in [0, 1]")
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights / weights.sum())
    fields = (log_weights[: len(betas)], *parameters.T, log_weights[len(betas) :], points)
    return BetaMixture(*(jnp.asarray(field, float) for field in fields))


def log_moments(prior: BetaMixture, successes: Count, failures: Count) -> Moments:
    """Log E[p^s (1 - p)^f] under each part.

        Beta: log B(a + s, b + f) / B(a, b)      atom: s log x + f log(1 - x)

    Args:
        prior: of the rate.
        successes: s, at least 0; real exponents are moments too.
        failures: f, the same.

    Returns:
        Natural logs.
    """
    prior, (s, f) = _aligned(prior, successes, failures)
    at_points = jax.scipy.special.xlogy(s, prior.points) + jax.scipy.special.xlog1py(
        f, -prior.points
    )
    return Moments(log_beta_moment(prior.a, prior.b, s, f), at_points)


def log_moment(prior: BetaMixture, successes: Count, failures: Count) -> Float[Array, "..."]:
    """Log E[p^s (1 - p)^f], that rollouts come out as one given sequence of s successes and f failures.

    Args:
        prior: [..., J] and [..., L].
        successes: [...] s, real and at least 0.
        failures: [...] f, the same.

    Returns:
        [...] natural log; -inf for what the prior excludes.
    """
    prior, _ = _aligned(prior, successes, failures)
    logs = _joined(log_moments(prior, successes, failures)) + _joined_weights(prior)
    return jax.nn.logsumexp(logs, axis=-1)


def one_minus_moment(prior: BetaMixture, successes: Count, failures: Count) -> Float[Array, "..."]:
    """1 - E[p^s (1 - p)^f], with all its digits where the moment is near 1.

        sum_j w_j (1 - E_j[p^s (1 - p)^f])

    Args:
        prior: [..., J] and [..., L].
        successes: [...] s, real and at least 0.
        failures: [...] f, the same.

    Returns:
        [...] in [0, 1].
    """
    prior, _ = _aligned(prior, successes, failures)
    shares = -jnp.expm1(_joined(log_moments(prior, successes, failures)))
    return jnp.sum(jnp.exp(_joined_weights(prior)) * shares, axis=-1)


def posterior(prior: BetaMixture, successes: Count, failures: Count) -> BetaMixture:
    """The law of the rate after s successes and f failures.

        w_j E_j[p^s (1 - p)^f] / E[p^s (1 - p)^f],   Beta(a_j + s, b_j + f)

    Weights are formed from the likelihood relative to its peak, so they keep their digits at counts of 10^6. A stopping rule that looks
    at the rollouts alone leaves this as it is.

    Args:
        prior: [..., J] and [..., L].
        successes: [...] s, real and at least 0.
        failures: [...] f, the same.

    Returns:
        The same parts; NaN weights where the prior excludes the data.
    """
    prior, (s, f) = _aligned(prior, successes, failures)
    a, b = prior.a + s, prior.b + f
    num_betas = a.shape[-1]
    if num_betas == 1 and not prior.points.shape[-1]:
        return prior._replace(a=a, b=b)
    logs = _joined_weights(prior) + _joined(_relative_moments(prior, s, f))
    logs = logs - jax.nn.logsumexp(logs, axis=-1, keepdims=True)
    return BetaMixture(logs[..., :num_betas], a, b, logs[..., num_betas:], prior.points)


def log_relative_likelihood(
    prior: BetaMixture, successes: Count, failures: Count
) -> Float[Array, "..."]:
    """Log E[p^s (1 - p)^f] over the largest value of p^s (1 - p)^f, at p = s / (s + f).

    Differs from `log_moment` by s log(s / n) + f log(f / n), which no prior changes, and keeps the digits that this part would cost.

    Args:
        prior: [..., J] and [..., L].
        successes: [...] s, real and at least 0.
        failures: [...] f, the same.

    Returns:
        [...] natural log, at most 0.
    """
    prior, (s, f) = _aligned(prior, successes, failures)
    logs = _joined_weights(prior) + _joined(_relative_moments(prior, s, f))
    return jax.nn.logsumexp(logs, axis=-1)


def log_moment_ratio(
    prior: BetaMixture,
    successes: Count,
    failures: Count,
    more_successes: Count,
    more_failures: Count,
) -> Float[Array, "..."]:
    """Log E[p^s' (1 - p)^f' | s, f], that the next rollouts come out as one given sequence.

    Not a difference of two large logs: the moment of the posterior.

    Args:
        prior: [..., J] and [..., L].
        successes: [...] s seen.
        failures: [...] f seen.
        more_successes: [...] s' to come, real and at least 0.
        more_failures: [...] f' to come, the same.

    Returns:
        [...] natural log; -inf for what cannot come, NaN where the prior excludes s and f.
    """
    return log_moment(posterior(prior, successes, failures), more_successes, more_failures)


def _aligned(prior: BetaMixture, *counts: Count) -> tuple[BetaMixture, list[Array]]:
    """Prior and counts with the same leading axes and the same type; counts get a last axis of one for the parts."""
    arrays = [jnp.asarray(count).astype(prior.a.dtype) for count in counts]
    batch = jnp.broadcast_shapes(prior.a.shape[:-1], *(array.shape for array in arrays))
    fields = (jnp.broadcast_to(field, (*batch, field.shape[-1])) for field in prior)
    return BetaMixture(*fields), [jnp.broadcast_to(array, batch)[..., None] for array in arrays]


def _relative_moments(prior: BetaMixture, s: Array, f: Array) -> Moments:
    """`log_moments` relative to the largest value of p^s (1 - p)^f."""
    rate = s / jnp.where(s + f > 0, s + f, 1.0)
    at_points = times_log_ratio(s, prior.points, jnp.where(s > 0, rate, 1.0))
    at_points = at_points + times_log_ratio(f, 1 - prior.points, jnp.where(f > 0, 1 - rate, 1.0))
    return Moments(log_beta_likelihood(prior.a, prior.b, s, f), at_points)


def _joined(moments: Moments) -> Array:
    """All parts side by side: [..., J + L]."""
    return jnp.concatenate(moments, axis=-1)


def _joined_weights(prior: BetaMixture) -> Array:
    """Log weights of all parts side by side: [..., J + L]."""
    return jnp.concatenate([prior.log_weights, prior.log_point_weights], axis=-1)
