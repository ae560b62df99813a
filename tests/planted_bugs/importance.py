"""Wrong twins of importance weights, of the sizes of weights, and of rejection.

Twins of the weights stand in the place of `theory.importance.token_log_weights`: from recorded rows and alpha to what each token adds to the
log weight of its row.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int

from theory.decoding import TokenRule
from theory.generation import Trajectories

Weights = Float32[Array, "B T"]


def alpha_missing(rows: Trajectories, alpha: float) -> Weights:
    """p / q: the weight of the base model's own law."""
    return rows.log_p - rows.log_q


def alpha_for_alpha_minus_one(rows: Trajectories, alpha: float) -> Weights:
    """Under a base proposal p^alpha, where q = p leaves p^(alpha - 1)."""
    return alpha * rows.log_p


def mean_over_tokens(rows: Trajectories, alpha: float) -> Weights:
    """The mean over tokens in place of the sum: another target, in which length is free."""
    right = alpha * rows.log_p - rows.log_q
    return right / rows.lengths[:, None].astype(right.dtype)


def processed_log_prob_for_base(rows: Trajectories, alpha: float) -> Weights:
    """The log prob that the engine reports is that of the law after its rules, and it is taken for the model's."""
    return alpha * rows.log_q - rows.log_q


def log_prob_divided_by_temperature(rows: Trajectories, alpha: float) -> Weights:
    """Log p / T, not normalised, for log q: nothing weighs anything."""
    return alpha * rows.log_p - alpha * rows.log_p


def scored_at_temperature_one(rows: Trajectories, alpha: float) -> Weights:
    """Drawn at temperature 1/alpha and scored at temperature 1: log p for log q."""
    return alpha * rows.log_p - rows.log_p


def log_z_counted_twice(rows: Trajectories, alpha: float) -> Weights:
    """The normaliser is subtracted from a log q that is normalised already."""
    return alpha * rows.log_p - (rows.log_q - rows.log_z)


def eos_omitted_from_the_target(rows: Trajectories, alpha: float) -> Weights:
    """The target does not count the eos that the proposal drew."""
    return alpha * jnp.where(_is_eos(rows), 0.0, rows.log_p) - rows.log_q


def eos_masked_as_padding(rows: Trajectories, alpha: float) -> Weights:
    """The pad token is the eos, so that masking pads masks the eos that ended the row."""
    return jnp.where(_is_eos(rows), 0.0, alpha * rows.log_p - rows.log_q)


def _is_eos(rows: Trajectories) -> Bool[Array, "B T"]:
    places = jnp.arange(rows.tokens.shape[1])[None]
    return rows.ended[:, None] & (places == rows.lengths[:, None] - 1)


def eos_forced_at_the_horizon(
    tokens: Int[np.ndarray, "B T"], ended: Bool[np.ndarray, " B"], eos: int
) -> Int[np.ndarray, "B T"]:
    """The last token of a row that has not ended is replaced by eos, as if the model had drawn it."""
    forced = tokens.copy()
    forced[~ended, -1] = eos
    return forced


def no_support_check(rules: tuple[TokenRule, ...]) -> None:
    """Any proposal will do."""


def over_n_minus_one(
    log_weights: Float[Array, "*batch N"], values: Float[Array, "*batch N"]
) -> Float[Array, "*batch"]:
    """Self-normalised weights with N - 1 in the place of N, as in a sample variance: wrong even for constants."""
    weights = jnp.exp(log_weights - jnp.max(log_weights, axis=-1, keepdims=True))
    num = log_weights.shape[-1]
    return jnp.sum(weights * values, axis=-1) / ((num - 1) * jnp.mean(weights, axis=-1))


def geometric_mean_weight(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """The mean of the logs for the log of the mean."""
    return jnp.mean(log_weights, axis=-1)


def mean_weight_in_linear_space(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """Exponentiated as they are: below e^-103 everything is zero in float32."""
    return jnp.log(jnp.mean(jnp.exp(log_weights), axis=-1))


def ess_of_unnormalised_weights(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """1 / sum w^2, right for weights that sum to 1."""
    return 1.0 / jnp.sum(jnp.exp(log_weights) ** 2, axis=-1)


def ess_always_one(log_weights: Float[Array, "*batch N"]) -> Float[Array, "*batch"]:
    """The square is taken after the sum, above and below."""
    total = jnp.sum(jnp.exp(log_weights), axis=-1)
    return total**2 / total**2


def ess_that_normalises_in_place(log_weights: Float[np.ndarray, " N"]) -> float:
    """The caller's weights are normalised along the way, and the evidence is gone."""
    log_weights -= np.logaddexp.reduce(log_weights)
    return float(1.0 / np.square(np.exp(log_weights)).sum())


def bound_of_one(alpha: float, proposal_alpha: float, vocab_size: int, horizon: int) -> float:
    """Weights are at most 1, as they are for alpha of 1 and more."""
    return 0.0


def rate_of_rows(num_proposals: Float[np.ndarray, " K"], probs: Float[np.ndarray, " K"]) -> float:
    """Acceptance rate as the mean over rows of 1 / their proposals: stopping at a success favours the lucky."""
    return float(probs @ (1.0 / num_proposals))
