"""The law of success rates fitted to counts: expectation maximisation over mixtures of Betas and atoms.

    l(prior) = sum_i c_i log E[p^s_i (1 - p)^f_i]

A prompt whose rollouts were stopped early enters with the counts it has. Every rule of this package stops by what it has seen, and then the
probability of stopping where it did holds no p and cancels: dropping the prompts that were stopped, or filling their groups up, is what
biases the fit. What must not happen is that prompts are picked for their rates.

fitted = fit_weights(flat_grid(), successes, failures, counts, num_steps=100)
fitted = fit_parameters(mixture(((0.5, 1.0, 1.0),), ((0.25, 0.0), (0.25, 1.0))), successes, failures, counts, num_steps=500)

Unit: the prompt; N of them, or N different pairs of counts that occur c times. No step lowers l, and the steps stop at a stationary point; for weights alone l is concave,
and that is the maximum. The floating type is that of the prior.

These are fits of a log that is at hand; `theory.allocation.population` learns weights on the way, update by update, by the same steps.

Source: Dempster, Laird & Rubin 1977 for the weights; Minka, "Estimating a Dirichlet distribution", 2000, for the step of a and b (both cited from
memory).
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma
from jaxtyping import Array, Float, Real

from theory.allocation.priors import (
    BetaMixture,
    log_moments,
    log_relative_likelihood,
    posterior,
)


def log_likelihood(
    prior: BetaMixture,
    successes: Real[Array, " N"],
    failures: Real[Array, " N"],
    counts: Real[Array, " N"],
) -> Float[Array, ""]:
    """What a fit maximises, less the part that no law of rates changes: sum_i c_i log_relative_likelihood.

    Args:
        prior: of the rates.
        successes: [N] s.
        failures: [N] f.
        counts: [N] how often each pair occurs.

    Returns:
        Natural log; -inf for a prior that excludes what occurred.
    """
    logs = log_relative_likelihood(prior, successes, failures)
    counts = counts.astype(logs.dtype)
    return jnp.sum(jnp.where(counts > 0, counts * logs, 0.0))


def fit_weights(
    prior: BetaMixture,
    successes: Real[Array, " N"],
    failures: Real[Array, " N"],
    counts: Real[Array, " N"],
    num_steps: int,
) -> BetaMixture:
    """Weights of fixed Betas and atoms, by expectation maximisation.

        w_j <- sum_i c_i P(part j | s_i, f_i) / sum_i c_i

    Args:
        prior: where to start; a weight of 0 stays 0.
        successes: [N] s.
        failures: [N] f.
        counts: [N] how often each pair occurs, 0 for rows to leave out; one of them above 0.
        num_steps: steps.

    Returns:
        The same parts with other weights. A pair of counts that the prior excludes makes them NaN.
    """
    likelihoods = jnp.concatenate(log_moments(prior, successes, failures), axis=-1)
    logs = learn_weights(_log_weights(prior), likelihoods, counts, num_steps)
    return _with_weights(prior, logs)


def learn_weights(
    log_weights: Float[Array, " K"],
    log_likelihoods: Float[Array, "N K"],
    counts: Real[Array, " N"],
    num_steps: int,
    pseudocount: float = 0.0,
) -> Float[Array, " K"]:
    """Weights of K known parts, by expectation maximisation.

        w_k <- (e / K + sum_i c_i P(part k | i)) / (e + sum_i c_i),   P(part k | i) proportional to w_k L_ik

    Args:
        log_weights: [K] where to start; -inf stays without a pseudocount.
        log_likelihoods: [N, K] log L of each row under each part.
        counts: [N] how often each row occurs, 0 for rows to leave out.
        num_steps: steps.
        pseudocount: e, a Dirichlet prior worth as many rows, shared equally, so that no weight dies.

    Returns:
        [K] natural logs. A row that occurs and that every part excludes makes them NaN.
    """
    times = counts.astype(log_likelihoods.dtype)[:, None]

    def step(_: Array, logs: Array) -> Array:
        shares = jax.nn.softmax(logs[None, :] + log_likelihoods, axis=-1)
        mass = jnp.sum(jnp.where(times > 0, times * shares, 0.0), axis=0)
        mass = mass + pseudocount / logs.size
        return jnp.log(mass / mass.sum())

    return jax.lax.fori_loop(0, num_steps, step, log_weights)


def fit_parameters(
    prior: BetaMixture,
    successes: Real[Array, " N"],
    failures: Real[Array, " N"],
    counts: Real[Array, " N"],
    num_steps: int,
) -> BetaMixture:
    """Weights of all parts, and a and b of every Beta; atoms stay where they are.

        a_j <- a_j sum_i r_ij [psi(a_j + s_i) - psi(a_j)] / sum_i r_ij [psi(a_j + b_j + s_i + f_i) - psi(a_j + b_j)],

    b_j likewise, with r_ij the share of pair i that part j accounts for. Each step maximises a lower bound on l that touches it.

    Args:
        prior: where to start.
        successes: [N] s.
        failures: [N] f.
        counts: [N] how often each pair occurs, 0 for rows to leave out.
        num_steps: steps; hundreds, as convergence is linear.

    Returns:
        The fitted law. Where all rates agree a and b grow without end, and where no prompt is mixed they fall to 0: the fit then has no
        maximum.
    """
    kind = prior.a.dtype
    s, f = successes.astype(kind)[:, None], failures.astype(kind)[:, None]

    def step(_: Array, current: BetaMixture) -> BetaMixture:
        shares = _shares(current, successes, failures, counts)
        of_betas = shares[:, : current.a.shape[0]]

        def gained(parameter: Array, count: Array) -> Array:
            """Sum over prompts of r [psi(parameter + count) - psi(parameter)], where a count of 0 gives no rounding either."""
            wide = jnp.broadcast_to(parameter, of_betas.shape)
            gains = jnp.where(count > 0, digamma(wide + count) - digamma(wide), 0)
            return jnp.sum(of_betas * gains, axis=0)

        num = gained(current.a + current.b, s + f)
        # A Beta that accounts for no rollout stays.
        safe = jnp.where(num > 0, num, 1.0)
        a = jnp.where(num > 0, current.a * gained(current.a, s) / safe, current.a)
        b = jnp.where(num > 0, current.b * gained(current.b, f) / safe, current.b)
        smallest = float(jnp.finfo(kind).tiny) ** 0.25
        moved = current._replace(a=jnp.maximum(a, smallest), b=jnp.maximum(b, smallest))
        mass = shares.sum(axis=0)
        return _with_weights(moved, jnp.log(mass / mass.sum()))

    return jax.lax.fori_loop(0, num_steps, step, prior)


def _shares(prior: BetaMixture, successes: Array, failures: Array, counts: Array) -> Array:
    """[N, J + L] how much of each pair of counts each part accounts for; nothing where it does not occur."""
    shares = jnp.exp(_log_weights(posterior(prior, successes, failures)))
    shares = jnp.broadcast_to(shares, (successes.shape[0], shares.shape[-1]))
    occurs = jnp.broadcast_to(counts[:, None], shares.shape).astype(shares.dtype)
    return jnp.where(occurs > 0, occurs * shares, 0.0)


def _with_weights(prior: BetaMixture, logs: Array) -> BetaMixture:
    """The same parts with other weights."""
    num_betas = prior.a.shape[-1]
    return prior._replace(log_weights=logs[:num_betas], log_point_weights=logs[num_betas:])


def _log_weights(prior: BetaMixture) -> Array:
    return jnp.concatenate([prior.log_weights, prior.log_point_weights], axis=-1)
