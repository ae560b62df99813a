"""The law that a twist induces on a tabular model, and the twist that it is weighed by.

    q(v | x) proportional to p(v | x)^alpha psi(xv),        psi'(x) = sum_v p(v | x)^alpha psi(xv),        psi = 1 for ended sequences

With `theory.exact.smc_finite_variance.twisted_relative_variance(power, q, log psi', N)` these give the exact Var(Z_hat / Z) of
`theory.smc.child_twist`.
"""

from typing import NamedTuple

import numpy as np

from theory.exact.laws import Law, check_alpha
from theory.exact.layers import Layers, continuation
from theory.exact.semiring import PerDepth, log_sum_exp, scaled


class InducedLaw(NamedTuple):
    """What a twist makes of a model.

    Attributes:
        law: q.
        log_backup: depth -> [n] log psi' of each context.
    """

    law: Law
    log_backup: PerDepth


def induced_law(layers: Layers, alpha: float, log_twist: PerDepth) -> InducedLaw:
    """The induced proposal. For psi = 1 token temperature 1/alpha, for psi = zeta the power law.

    Args:
        layers: of the model.
        alpha: exponent, above 0.
        log_twist: number of tokens, 1 to depth - 1 -> [n] log psi of each live context, finite.

    Returns:
        The law and the backup.

    Raises:
        InvalidInput: alpha is not above 0.
    """
    check_alpha(alpha)

    def log_terms(depth: int) -> np.ndarray:
        following = log_twist(depth + 1) if depth + 1 < len(layers) else None
        layer = layers[depth]
        return scaled(alpha, layer.log_probs) + continuation(layer, following, 0.0)

    def log_backup(depth: int) -> np.ndarray:
        return log_sum_exp(log_terms(depth))

    return InducedLaw(
        Law(layers, lambda depth: log_terms(depth) - log_backup(depth)[:, None]), log_backup
    )
