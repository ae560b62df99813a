"""Five priors of a prompt's success rate that are learned from what was seen before: what HORA's flat prior is compared with.

A predictor gives a rate for each prompt and a concentration says how many rollouts it is worth: Beta(kappa p_hat, kappa (1 - p_hat)). Each function returns a prior with a
leading axis, one for every prompt, as `theory.allocation.policies.hora.allocate` takes it; `theory.allocation.prior_source` learns them on the way. The paper (arXiv
2605.07114) compares a flat prior with five learned ones that were not seen; these five are a reconstruction.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theory.allocation.empirical_bayes import fit_parameters
from theory.allocation.priors import BetaMixture, beta
from theory.errors import InvalidInput

_NEWTON_STEPS = 30
_POPULATION_STEPS = 100


def of_rates(rates: Float[Array, " P"], concentration: float) -> BetaMixture:
    """Beta laws around predicted rates.

    Args:
        rates: [P] p_hat in (0, 1).
        concentration: kappa, above 0.

    Returns:
        [P, 1] one Beta a prompt.

    Raises:
        InvalidInput: kappa is not above 0.
    """
    if not concentration > 0:
        raise InvalidInput(f"concentration {concentration}: must be above 0")
    column, nothing = rates[:, None], jnp.zeros((rates.size, 0), rates.dtype)
    return BetaMixture(
        jnp.zeros_like(column),
        concentration * column,
        concentration * (1 - column),
        nothing,
        nothing,
    )


def global_prior(fitted: BetaMixture, num_prompts: int) -> BetaMixture:
    """The population's law for every prompt, as `theory.allocation.empirical_bayes` fits it.

    Args:
        fitted: one prior.
        num_prompts: P.

    Returns:
        [P, J] and [P, L].
    """
    return BetaMixture(*(jnp.broadcast_to(part, (num_prompts, *part.shape)) for part in fitted))


def fitted_beta(
    successes: Float[Array, " N"], failures: Float[Array, " N"], counts: Float[Array, " N"]
) -> BetaMixture:
    """The population as one Beta law, by 100 steps of `fit_parameters` from the flat one.

    Args:
        successes: [N] right rollouts seen before, discounted or not.
        failures: [N] wrong ones.
        counts: [N] prompts of which this was seen.

    Returns:
        One Beta; flat while nothing has been seen.
    """
    return fit_parameters(beta(1.0, 1.0), successes, failures, counts, _POPULATION_STEPS)


def population_prior(successes: Float[Array, " P"], failures: Float[Array, " P"]) -> BetaMixture:
    """`fitted_beta` of the pool, for every prompt of it.

    Args:
        successes: [P] right rollouts seen before, discounted or not.
        failures: [P] wrong ones.

    Returns:
        [P, 1].
    """
    fitted = fitted_beta(successes, failures, jnp.ones_like(successes))
    return global_prior(fitted, successes.size)


def last_visit_prior(
    successes: Float[Array, " P"], failures: Float[Array, " P"], discount: float
) -> BetaMixture:
    """The posterior of the last visit, partly forgotten: Beta(1 + lam s, 1 + lam f).

    Args:
        successes: [P] right rollouts seen before, discounted or not.
        failures: [P] wrong ones.
        discount: lam in [0, 1].

    Returns:
        [P, 1].
    """
    a, b = 1 + discount * successes, 1 + discount * failures
    nothing = jnp.zeros((a.size, 0), a.dtype)
    return BetaMixture(jnp.zeros((a.size, 1), a.dtype), a[:, None], b[:, None], nothing, nothing)


def bin_prior(
    bins: Int[Array, " P"],
    num_bins: int,
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    concentration: float,
) -> BetaMixture:
    """Around the rate of the prompt's difficulty bin, p_hat = (1 + S) / (2 + S + F) over the bin.

    Args:
        bins: [P] from 0.
        num_bins: how many.
        successes: [P] seen before.
        failures: [P] seen before.
        concentration: kappa.

    Returns:
        [P, 1].
    """
    s, f = (jax.ops.segment_sum(part, bins, num_bins) for part in (successes, failures))
    return of_rates(((1 + s) / (2 + s + f))[bins], concentration)


def logistic_prior(
    features: Float[Array, "P D"],
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    ridge: float,
    concentration: float,
) -> BetaMixture:
    """Around a logistic regression of verdicts on features.

        maximise sum_i s_i log p_i + f_i log(1 - p_i) - ridge |w|^2 / 2,   p = sigmoid(X w + c),   the intercept c free

    Args:
        features: [P, D] of every prompt.
        successes: [P] seen before.
        failures: [P] seen before.
        ridge: above 0.
        concentration: kappa.

    Returns:
        [P, 1].
    """
    ones = jnp.ones((features.shape[0], 1), features.dtype)
    design = jnp.concatenate([features, ones], axis=1)
    # A little on the intercept keeps it finite where all verdicts are alike.
    penalty = jnp.concatenate([jnp.full(features.shape[1], ridge), jnp.full(1, 1e-3 * ridge)])
    penalty = penalty.astype(features.dtype)

    def negative(weights: Float[Array, " D1"]) -> Float[Array, ""]:
        logits = design @ weights
        fit = successes * jax.nn.log_sigmoid(logits) + failures * jax.nn.log_sigmoid(-logits)
        return jnp.sum(penalty * weights**2) / 2 - jnp.sum(fit)

    def step(_: Array | int, weights: Float[Array, " D1"]) -> Float[Array, " D1"]:
        rates = jax.nn.sigmoid(design @ weights)
        curvature = (successes + failures) * rates * (1 - rates)
        hessian = design.T @ (curvature[:, None] * design) + jnp.diag(penalty)
        direction = jnp.linalg.solve(hessian, jax.grad(negative)(weights))
        sizes = 0.5 ** jnp.arange(8, dtype=weights.dtype)
        tried = weights[None, :] - sizes[:, None] * direction[None, :]
        best = tried[jnp.argmin(jax.vmap(negative)(tried))]
        return jnp.where(negative(best) <= negative(weights), best, weights)

    start = jnp.zeros(design.shape[1], features.dtype)
    weights = jax.lax.fori_loop(0, _NEWTON_STEPS, step, start)
    rates = jax.nn.sigmoid(design @ weights)
    tiny = float(jnp.finfo(rates.dtype).eps)
    return of_rates(jnp.clip(rates, tiny, 1 - tiny), concentration)


def neighbour_prior(
    embeddings: Float[Array, "P D"],
    successes: Float[Array, " P"],
    failures: Float[Array, " P"],
    scale: float,
    concentration: float,
) -> BetaMixture:
    """Around the verdicts of prompts with like embeddings, the prompt itself included.

        p_hat_i = (1 + sum_j K_ij s_j) / (2 + sum_j K_ij (s_j + f_j)),   K = exp(-|e_i - e_j|^2 / (2 scale^2))

    Args:
        embeddings: [P, D].
        successes: [P] seen before.
        failures: [P] seen before.
        scale: distance at which a prompt's verdicts count for exp(-1/2).
        concentration: kappa.

    Returns:
        [P, 1].
    """
    gaps = embeddings[:, None, :] - embeddings[None, :, :]
    kernel = jnp.exp(-jnp.sum(gaps**2, axis=2) / (2 * scale**2))
    rates = (1 + kernel @ successes) / (2 + kernel @ (successes + failures))
    return of_rates(rates, concentration)
