"""Posterior of the four hyperparameters by NUTS, every task's rate integrated out.

The likelihood of a task's outcomes, in their order, is B(a + c, b + n - c) / B(a, b) under the Beta part, 1 if c = 0 under the atom at 0, and 1
if c = n under the atom at 1. Priors, weak: (pi_0, pi_1, rest) uniform on the simplex; log a ~ N(log 1/2, 1.5^2), log b ~ N(log 2, 1.5^2), that is
95% of a in 0.026 .. 9.5 and of b in 0.11 .. 38. Sampler: Hoffman and Gelman 2014 (arXiv 1111.4246), as NumPyro has it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import betaln
from jaxtyping import Array, Float, Float64
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer.hmc import hmc
from numpyro.infer.util import potential_energy
from scipy import special, stats

from theory.errors import InvalidInput
from theory.estimators.hierarchical.closed_forms import Hyperparameters
from theory.estimators.hierarchical.posterior_diagnostics import Diagnostics, Fit
from theory.estimators.hierarchical.task_counts import TaskCounts

NAMES = ("weight_zero", "weight_one", "a", "b")

# log weights [3] (zero, one, Beta), a, b, and float64 [m] n, c, tasks -> log likelihood.
LogLikelihood = Callable[[Any, Any, Any, Any, Any, Any], Any]


class Prior(NamedTuple):
    """Of the hyperparameters.

    Attributes:
        weights: concentrations of the Dirichlet of (pi_0, pi_1, 1 - pi_0 - pi_1).
        log_a: mean and standard deviation of log a.
        log_b: mean and standard deviation of log b.
    """

    weights: tuple[float, float, float]
    log_a: tuple[float, float]
    log_b: tuple[float, float]


WEAK_PRIOR = Prior((1.0, 1.0, 1.0), (float(np.log(0.5)), 1.5), (float(np.log(2.0)), 1.5))


class Effort(NamedTuple):
    """How long to sample.

    Attributes:
        num_chains: at least 2, so that chains can disagree.
        num_warmup: adaptation steps of each chain, dropped.
        num_draws: kept draws of each chain, at least 4.
    """

    num_chains: int = 4
    num_warmup: int = 500
    num_draws: int = 1000


def log_likelihood(
    log_weights: Float[Array, " 3"],
    a: Float[Array, ""],
    b: Float[Array, ""],
    num_samples: Float[Array, " m"],
    num_correct: Float[Array, " m"],
    num_tasks: Float[Array, " m"],
) -> Float[Array, ""]:
    """Log probability of all outcomes in their order, the rates integrated out.

    Args:
        log_weights: log pi_0, log pi_1, log(1 - pi_0 - pi_1).
        a: of the Beta part.
        b: of the Beta part.
        num_samples: n of each pair.
        num_correct: c of each pair.
        num_tasks: tasks with this pair.

    Returns:
        The sum over tasks, nats.
    """
    n, c = num_samples, num_correct
    beta = log_weights[2] + betaln(a + c, b + n - c) - betaln(a, b)
    zero = jnp.where(c == 0, log_weights[0], -jnp.inf)
    one = jnp.where(c == n, log_weights[1], -jnp.inf)
    return jnp.sum(num_tasks * jnp.logaddexp(jnp.logaddexp(zero, one), beta))


def fit(
    seed: int, counts: TaskCounts, prior: Prior = WEAK_PRIOR, effort: Effort | None = None
) -> Fit:
    """Sample the posterior.

    Args:
        seed: of the chains.
        counts: of the tasks.
        prior: of the hyperparameters.
        effort: chains and steps; None for four chains of 500 + 1000.

    Returns:
        Draws and diagnostics; nothing is refused here because of the diagnostics.

    Raises:
        InvalidInput: fewer than 2 chains or 4 draws.
    """
    return fit_with(log_likelihood, seed, counts, prior, effort or Effort())


def fit_with(
    likelihood: LogLikelihood, seed: int, counts: TaskCounts, prior: Prior, effort: Effort
) -> Fit:
    """`fit` for a likelihood of one's own: the seam by which wrong ones are tested.

    Args:
        likelihood: as `log_likelihood`.
        seed: of the chains.
        counts: of the tasks.
        prior: of the hyperparameters.
        effort: chains and steps.

    Returns:
        As `fit`.

    Raises:
        InvalidInput: fewer than 2 chains or 4 draws.
    """
    if effort.num_chains < 2 or effort.num_draws < 4 or effort.num_warmup < 1:
        raise InvalidInput(
            f"{effort.num_chains} chains of {effort.num_warmup} + {effort.num_draws}: "
            "needs at least 2 chains, 1 warm-up step and 4 draws"
        )
    # A million tasks sum to more nats than single precision can tell apart. NumPyro mixes dtypes and ranks inside.
    with (
        jax.enable_x64(True),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        keys = jax.random.split(jax.random.key(seed), effort.num_chains)
        program = _program(likelihood, prior, effort)
        found, diverging = jax.device_get(program(keys, _padded(counts)))
    weights = np.asarray(found["weights"], np.float64)
    chains = Hyperparameters(
        weights[..., 0], weights[..., 1], np.exp(found["log_a"]), np.exp(found["log_b"])
    )
    return Fit(
        Hyperparameters(*(part.reshape(-1) for part in chains)),
        _diagnose(chains, int(np.sum(diverging))),
    )


@lru_cache(maxsize=8)
def _program(likelihood: LogLikelihood, prior: Prior, effort: Effort) -> Callable[..., Any]:
    """All chains as one compiled program. `numpyro.infer.MCMC` compiles anew in every run, which calibration cannot afford."""

    def model(*data: Any) -> None:
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.array(prior.weights)))
        log_a = numpyro.sample("log_a", dist.Normal(*prior.log_a))
        log_b = numpyro.sample("log_b", dist.Normal(*prior.log_b))
        value = likelihood(jnp.log(weights), jnp.exp(log_a), jnp.exp(log_b), *data)
        numpyro.factor("outcomes", value)

    def chain(key: Any, data: tuple[Any, ...]) -> tuple[dict[str, Any], Any]:
        key_start, key_steps = jax.random.split(key)
        start = {
            "weights": jax.random.uniform(key_start, (2,), minval=-1.0, maxval=1.0),
            "log_a": jnp.asarray(prior.log_a[0]),
            "log_b": jnp.asarray(prior.log_b[0]),
        }
        init, step = hmc(lambda at: potential_energy(model, data, {}, at), algo="NUTS")
        state = init(start, num_warmup=effort.num_warmup, target_accept_prob=0.9, rng_key=key_steps)
        state = jax.lax.fori_loop(0, effort.num_warmup, lambda _, s: step(s), state)

        def advance(state: Any, _: None) -> tuple[Any, tuple[dict[str, Any], Any]]:
            state = step(state)
            return state, (state.z, state.diverging)

        _, (found, diverging) = jax.lax.scan(advance, state, length=effort.num_draws)
        simplex = dist.biject_to(dist.constraints.simplex)
        return {**found, "weights": simplex(found["weights"])}, diverging

    return jax.jit(jax.vmap(chain, in_axes=(0, None)))


def _padded(counts: TaskCounts) -> tuple[Any, ...]:
    """Pairs in float64, filled up with pairs of no tasks, so that data of like size share one program."""
    num_pairs = counts.num_tasks.size
    missing = max(16, 1 << (num_pairs - 1).bit_length()) - num_pairs
    fills = (1.0, 0.0, 0.0)
    return tuple(
        jnp.asarray(np.pad(part.astype(np.float64), (0, missing), constant_values=fill))
        for part, fill in zip(counts, fills, strict=True)
    )


def _diagnose(chains: Hyperparameters, num_divergences: int) -> Diagnostics:
    normal = {name: _rank_normalised(part) for name, part in zip(NAMES, chains, strict=True)}
    return Diagnostics(
        {name: float(split_gelman_rubin(part)) for name, part in normal.items()},
        {name: float(effective_sample_size(_split(part))) for name, part in normal.items()},
        num_divergences,
        chains.a.size,
    )


def _rank_normalised(
    draws: Float64[np.ndarray, "chains draws"],
) -> Float64[np.ndarray, "chains draws"]:
    """Normal scores of the ranks: Vehtari et al. 2021, equation 14 (cited from memory)."""
    ranks = stats.rankdata(draws).reshape(draws.shape)
    return special.ndtri((ranks - 0.375) / (draws.size + 0.25))


def _split(draws: Float64[np.ndarray, "chains draws"]) -> Float64[np.ndarray, "halves half"]:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]], axis=0)
