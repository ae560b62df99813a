"""The second-order law near alpha = 1: what base samples say about the power law.

With h_t the Shannon entropy of the next token after y_<t, S = sum_t h_t and e = alpha - 1,

    KL(power || temperature) = e^2/2 Var_p(S)     + c e^3 + O(e^4),    -log ESS fraction from temperature = e^2 Var_p(S)     + O(e^3),
    KL(power || base)        = e^2/2 Var_p(log p) + k e^3 + O(e^4),    -log ESS fraction from base        = e^2 Var_p(log p) + O(e^3).

All coefficients are moments of sums along sequences under the *base* model, so plain base samples estimate them. With v_t and w_t
the second and third central moments of log p(. | y_<t) under the next-token law, and third cumulants k3,

    k = k3(log p) / 3,
    c = (E sum_t w_t - k3(log p)) / 6 + Cov(sum_t v_t, log p) / 2 - k3(S, log p, log p) / 2.

The third-order terms say how far the second-order law can be trusted (`SmallAlphaLaw.radius`). Both were derived for this project,
by expanding log(power/temperature) = sum_t log z_t - log Z in cumulants; we know of no earlier statement.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from theory.exact.functionals import Moments, base_log_prob_moments, moments
from theory.exact.laws import base_law
from theory.exact.layers import Layer, Layers
from theory.exact.semiring import by_layer

# Share of the second-order term that the third-order term may come to inside the radius.
TOLERATED_SHARE = 0.25


class SmallAlphaLaw(NamedTuple):
    """Second-order predictions as functions of alpha, and where they hold.

    Attributes:
        variance_entropy_sum: Var_p(S), nats squared.
        variance_log_prob: Var_p(log p), nats squared.
        third_order_temperature: c, the coefficient of e^3 in KL(power || temperature).
        third_order_base: k, the coefficient of e^3 in KL(power || base).
    """

    variance_entropy_sum: float
    variance_log_prob: float
    third_order_temperature: float
    third_order_base: float

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
        """|alpha - 1| up to which the law is offered as a guide, at most 1/2.

        There the third-order terms of both divergences come to at most TOLERATED_SHARE of the second-order ones. A statement
        about the next order of the expansion, not a bound on the error.
        """
        limits = [
            TOLERATED_SHARE * variance / (2 * abs(third))
            for variance, third in (
                (self.variance_entropy_sum, self.third_order_temperature),
                (self.variance_log_prob, self.third_order_base),
            )
            if abs(third) > 1e-12 * variance and variance > 1e-20
        ]
        return min([0.5, *limits])


def small_alpha_law(layers: Layers) -> SmallAlphaLaw:
    """The exact coefficients of the law.

    Args:
        layers: of the model.

    Returns:
        The law.
    """
    law = base_law(layers)
    log_prob, entropy = base_log_prob_moments(law), entropy_sum_moments(layers)
    log_probs = by_layer(layers, lambda layer: layer.log_probs)
    entropies, seconds, thirds = (by_layer(layers, f) for f in (_entropies, _seconds, _thirds))

    def combined(sign: float, other: Callable[[int], np.ndarray]) -> Moments:
        return moments(law, lambda depth: log_probs(depth) + sign * other(depth))

    plus, minus = combined(1.0, entropies), combined(-1.0, entropies)
    # Polarisation: k3(S, l, l) = [k3(l + S) - k3(l - S) - 2 k3(S)] / 6, Cov(V, l) = [Var(l + V) - Var(l - V)] / 4.
    joint = (plus.third - minus.third - 2 * entropy.third) / 6
    covariance = (combined(1.0, seconds).variance - combined(-1.0, seconds).variance) / 4
    third = (moments(law, thirds).mean - log_prob.third) / 6 + covariance / 2 - joint / 2
    return SmallAlphaLaw(entropy.variance, log_prob.variance, third, log_prob.third / 3)


def entropy_sum_moments(layers: Layers) -> Moments:
    """Moments of S = sum_t h_t under the base law; the mean is the entropy of the sequence (chain rule).

    Args:
        layers: of the model.

    Returns:
        Nats, nats squared, nats cubed.
    """
    return moments(base_law(layers), by_layer(layers, _entropies))


def _entropies(layer: Layer) -> np.ndarray:
    """[n, V] the entropy of each row's law, repeated along the row."""
    return -_row_means(layer, lambda logs, mean: logs)


def _seconds(layer: Layer) -> np.ndarray:
    """[n, V] the variance of log p(. | x) under each row's law."""
    return _row_means(layer, lambda logs, mean: (logs - mean) ** 2)


def _thirds(layer: Layer) -> np.ndarray:
    """[n, V] its third central moment."""
    return _row_means(layer, lambda logs, mean: (logs - mean) ** 3)


def _row_means(layer: Layer, value: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """[n, V] the mean under each row's law of a function of (log p, its mean), repeated along the row."""
    probs = np.exp(layer.log_probs)
    logs = np.where(probs > 0, layer.log_probs, 0.0)
    mean = (probs * logs).sum(axis=1, keepdims=True)
    return np.broadcast_to((probs * value(logs, mean)).sum(axis=1, keepdims=True), probs.shape)
