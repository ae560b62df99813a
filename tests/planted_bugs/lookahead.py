"""Wrong twins of the look-ahead estimates, each one step away from the right one; the damage is exact, on the two-token tree of
`tests/theory/smc/all_outcomes.py` at alpha = 3."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from theory.generation import Generation
from theory.log_weights import log_mean_weight
from theory.protocols import SequenceModel
from theory.smc.lookahead_law import log_plug_in_law
from theory.smc.zeta import Rollouts, log_terms, roll_out


def log_zeta_with_alpha(log_p: Float[Array, "*batch M"], alpha: float) -> Float[Array, "*batch"]:
    """The exponent is alpha, as if the rollouts were uniform: .6562 for .730 after the first token, .1325 for .2575 after the other."""
    return log_mean_weight(alpha * log_p)


def log_zeta_as_mean_of_logs(
    log_p: Float[Array, "*batch M"], alpha: float
) -> Float[Array, "*batch"]:
    """The mean of the logs for the log of the mean: .637 for .730 after the first token, .254 for .2575 after the other, at three rollouts."""
    return log_terms(log_p, alpha).mean(axis=-1)


def jackknife_with_wrong_factor(
    log_power: Float[Array, "*batch K"], terms: Float[Array, "*batch K M"]
) -> Float[Array, "*batch K"]:
    """(M p_hat - mean_s p_hat_{-s}) / (M - 1): sums to 1, and has the bias of p_hat still."""
    num_rollouts = terms.shape[-1]
    whole = jnp.exp(log_plug_in_law(log_power, terms))
    left = [jnp.delete(terms, s, axis=-1) for s in range(num_rollouts)]
    without = jnp.stack([jnp.exp(log_plug_in_law(log_power, each)) for each in left])
    return (num_rollouts * whole - without.mean(axis=0)) / (num_rollouts - 1)


def carried_with_score(
    log_mean: Float[Array, " M"], log_score: Float[Array, "M N"], ancestors: Float[Array, "M N"]
) -> Float[Array, "M N"]:
    """Children keep the score that they were chosen by: E[Z_hat] is the mean of w psi zeta, in place of Z."""
    return jnp.broadcast_to(log_mean[:, None], ancestors.shape)


def roll_out_with_one_key(
    keys: Key[Array, " B"],
    model: SequenceModel,
    generation: Generation,
    num_rollouts: int,
    num_tokens: int,
) -> Rollouts:
    """All particles look ahead with the noise of the first: those at one prefix see one and the same future."""
    return roll_out(
        jax.random.wrap_key_data(
            jnp.broadcast_to(jax.random.key_data(keys)[:1], (keys.shape[0], 2))
        ),
        model,
        generation,
        num_rollouts,
        num_tokens,
    )


def roll_out_of_one_token(
    keys: Key[Array, " B"],
    model: SequenceModel,
    generation: Generation,
    num_rollouts: int,
    num_tokens: int,
) -> Rollouts:
    """A future of one token read as the whole one: on toy E at alpha = 2 the start's zeta is .38 in place of .1217."""
    return roll_out(keys, model, generation, num_rollouts, 1)
