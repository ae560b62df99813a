"""The second-order law near alpha = 1: what base samples say about the power law.

With h_t the Shannon entropy of the next token after y_<t and e = alpha - 1,

    KL(power || temperature) = e^2/2 Var_p(sum_t h_t) + O(e^3),    -log ESS fraction from temperature = e^2 Var_p(sum_t h_t) + O(e^3),
    KL(power || base)        = e^2/2 Var_p(log p)     + O(e^3),    -log ESS fraction from base        = e^2 Var_p(log p)     + O(e^3).

Both variances are plain moments under the base model. The law was derived for this project by expanding
log(power/temperature) = e (H - sum_t h_t) + O(e^2); we know of no earlier statement. Its radius of validity is small: see
`SmallAlphaLaw.radius`.
"""

import math
from typing import NamedTuple

import numpy as np

from theory.exact.functionals import Moments, base_log_prob_moments, moments
from theory.exact.laws import base_law
from theory.exact.layers import Layers
from theory.exact.semiring import by_layer


class SmallAlphaLaw(NamedTuple):
    """Second-order predictions as functions of alpha.

    Attributes:
        variance_entropy_sum: Var_p(sum_t h_t), nats squared.
        variance_log_prob: Var_p(log p), nats squared.
    """

    variance_entropy_sum: float
    variance_log_prob: float

    def kl_power_temperature(self, alpha: float) -> float:
        """Predicted KL(power || temperature), nats."""
        return 0.5 * (alpha - 1) ** 2 * self.variance_entropy_sum

    def kl_power_base(self, alpha: float) -> float:
        """Predicted KL(power || base), nats."""
        return 0.5 * (alpha - 1) ** 2 * self.variance_log_prob

    def log_ess_fraction_from_temperature(self, alpha: float) -> float:
        """Predicted log ESS fraction of importance sampling from the temperature law."""
        return -((alpha - 1) ** 2) * self.variance_entropy_sum

    def log_ess_fraction_from_base(self, alpha: float) -> float:
        """Predicted log ESS fraction of importance sampling from the base law."""
        return -((alpha - 1) ** 2) * self.variance_log_prob

    @property
    def radius(self) -> float:
        """|alpha - 1| up to which the law is offered as a guide: (alpha - 1)^2 Var <= 1/4 for the larger variance.

        A rule of thumb, not a bound: the neglected third-order term depends on the model. inf where both variances are 0.
        """
        largest = max(self.variance_entropy_sum, self.variance_log_prob)
        return 0.5 / math.sqrt(largest) if largest > 0 else math.inf


def small_alpha_law(layers: Layers) -> SmallAlphaLaw:
    """The exact variances of the second-order law.

    Args:
        layers: of the model.

    Returns:
        The law.
    """
    law = base_law(layers)
    return SmallAlphaLaw(entropy_sum_moments(layers).variance, base_log_prob_moments(law).variance)


def entropy_sum_moments(layers: Layers) -> Moments:
    """Mean and variance of sum_t h_t under the base law; the mean is the entropy of the sequence (chain rule).

    Args:
        layers: of the model.

    Returns:
        Nats and nats squared.
    """
    costs = by_layer(layers, lambda layer: _entropies(layer.log_probs))
    return moments(base_law(layers), costs)


def _entropies(log_probs: np.ndarray) -> np.ndarray:
    """[n, V] the entropy of each row's law, repeated along the row."""
    terms = np.exp(log_probs) * np.where(np.isneginf(log_probs), 0.0, log_probs)
    return np.broadcast_to(-terms.sum(axis=1)[:, None], log_probs.shape)
