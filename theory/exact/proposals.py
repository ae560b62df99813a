"""The best token temperature to draw from: a one-dimensional convex search.

For every sequence log(1/q_beta(y)) = sum_t [log z_beta - beta log p] is convex in beta, so every log of a sum over sequences of 1/q_beta is
convex too: D_2(power || q_beta), and its growth per token.
"""

from collections.abc import Callable
from typing import NamedTuple

from scipy.optimize import minimize_scalar

# The search stops when beta is known to this; a divergence is then within about its square of the least one.
_BETA_TOLERANCE = 1e-8


class BestProposal(NamedTuple):
    """A minimum over the proposals at token temperature 1/beta.

    Attributes:
        proposal_alpha: beta; where the divergence is flat, one of many that are as good.
        value: the divergence there, nats (or nats per token).
    """

    proposal_alpha: float
    value: float


def minimise_over_proposals(divergence: Callable[[float], float], alpha: float) -> BestProposal:
    """Search beta in (0, 4 max(alpha, 1)).

    Args:
        divergence: convex in beta.
        alpha: target exponent, above 0.

    Returns:
        The minimum, at least 0.
    """
    found = minimize_scalar(
        divergence,
        bounds=(1e-6, 4 * max(alpha, 1.0)),
        method="bounded",
        options={"xatol": _BETA_TOLERANCE},
    )
    return BestProposal(float(found.x), max(0.0, float(found.fun)))
