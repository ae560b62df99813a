"""Wrong twins of the contrastive loss of twists; see `theory.smc.twist_losses.contrastive_loss` for what they stand in the place of."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theory.log_weights import normalise
from theory.smc.twist_losses import contrastive_loss


def negatives_without_their_twist(
    positive_log_twist: Float[Array, "B T"],
    positive_log_weights: Float[Array, " B"],
    negative_log_twist: Float[Array, "B2 T"],
    negative_log_weights: Float[Array, "B2 T"],
) -> Float[Array, ""]:
    """Negatives stand for p(x)^alpha and not for p(x)^alpha psi(x): the gradient is never zero, and the twist runs away."""
    without = negative_log_weights - jax.lax.stop_gradient(negative_log_twist)
    return contrastive_loss(positive_log_twist, positive_log_weights, negative_log_twist, without)


def differentiated_through_the_weights(
    positive_log_twist: Float[Array, "B T"],
    positive_log_weights: Float[Array, " B"],
    negative_log_twist: Float[Array, "B2 T"],
    negative_log_weights: Float[Array, "B2 T"],
) -> Float[Array, ""]:
    """The negatives' weights hold psi and are not held fixed."""
    weights = jnp.exp(normalise((negative_log_weights + negative_log_twist).T)[0]).T
    positive = jnp.exp(normalise(positive_log_weights)[0])
    return jnp.sum(weights * negative_log_twist) - jnp.sum(positive[:, None] * positive_log_twist)
