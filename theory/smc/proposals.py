"""Proposals for the samplers: pipelines of token rules with the full support that the target needs."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theory.decoding.row_law import normalise
from theory.decoding.rule import TokenRule
from theory.decoding.temperature import temperature
from theory.errors import InvalidInput
from theory.exact.laws import check_alpha


class DefensiveMixture(NamedTuple):
    """A mixture of temperature and the law that comes in, token by token.

        q(v) = (1 - epsilon) p(v)^alpha / z + epsilon p(v)

    No token has less than epsilon p(v), so that the weight p^alpha / q of a token is at most p^(alpha-1) / epsilon: for
    alpha >= 1 at most 1 / epsilon.

    Source: Hesterberg, "Weighted average importance sampling and defensive mixture distributions", Technometrics 37 (1995).

    Attributes:
        alpha: exponent of the tempered part, above 0.
        epsilon: weight of the other part, in (0, 1).
    """

    alpha: float | Float[Array, ""]
    epsilon: float | Float[Array, ""]

    name = "defensive mixture"
    reads_counts = False

    def truncates(self) -> bool:
        """Never."""
        return False

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        alpha = jnp.asarray(self.alpha, logits.dtype)
        epsilon = jnp.asarray(self.epsilon, logits.dtype)
        log_probs = normalise(logits)
        tempered = normalise(alpha * log_probs)
        return jnp.logaddexp(jnp.log1p(-epsilon) + tempered, jnp.log(epsilon) + log_probs)


def temperature_proposal(proposal_alpha: float) -> tuple[TokenRule, ...]:
    """Token temperature 1/beta; beta = 1 is the base model itself.

    Among proposals that see the prefix only, beta = alpha makes the weight of a token, z, independent of the token: the least
    variance of one step. Over whole sequences it may be the worse choice: where eos comes early the base can win by far.

    Args:
        proposal_alpha: beta, above 0.

    Returns:
        The pipeline.

    Raises:
        InvalidInput: beta is not a finite number above 0.
    """
    check_alpha(proposal_alpha)
    return () if proposal_alpha == 1.0 else (temperature(1.0 / proposal_alpha),)


def defensive_proposal(proposal_alpha: float, epsilon: float) -> tuple[TokenRule, ...]:
    """Token temperature 1/beta, with a share epsilon of the base model.

    Args:
        proposal_alpha: beta, above 0.
        epsilon: in (0, 1).

    Returns:
        The pipeline.

    Raises:
        InvalidInput: a parameter is outside its domain.
    """
    check_alpha(proposal_alpha)
    if not 0 < epsilon < 1:
        raise InvalidInput(f"defensive share {epsilon}: must be above 0 and below 1")
    return (DefensiveMixture(proposal_alpha, epsilon),)
