"""The three laws over whole sequences that the house is about, as conditional laws over layers.

    base          p(y)        = prod_t p(y_t | y_<t)
    temperature   q(y)        = prod_t p(y_t | y_<t)^alpha / z(y_<t),      z(x) = sum_v p(v | x)^alpha
    power         pi(y)       = p(y)^alpha / Z_alpha,                      Z_alpha = sum_y p(y)^alpha

Token temperature is 1/alpha. The power law is autoregressive too, through the look-ahead normaliser zeta:

    pi(v | x) = p(v | x)^alpha zeta(xv) / zeta(x),   zeta(x) = sum_v p(v | x)^alpha zeta(xv),   zeta(ended) = 1,

so Z_alpha = zeta(empty). The two agree exactly where zeta(xv) does not depend on v. This is the decomposition of Ji et al.,
"Scalable Power Sampling" (arXiv 2601.21590), Theorem 3.1; that the laws differ is Karan & Du, "Reasoning with Sampling"
(arXiv 2510.14901), Proposition 1.
"""

import math
from typing import NamedTuple

import numpy as np

from theory.errors import InvalidInput
from theory.exact.layers import Layer, Layers, continuation
from theory.exact.semiring import PerDepth, by_layer, log_backward, log_sum_exp, scaled

# Far beyond any use, and far from where alpha log p would overflow.
MAX_ALPHA = 1e12


class Law(NamedTuple):
    """A law over sequences, given by its next-token laws.

    Attributes:
        layers: of the model; the law lives on its sequences.
        log_conditional: depth -> [n, V] log probability of each token in each context, rows normalised.
    """

    layers: Layers
    log_conditional: PerDepth


class PowerLaw(NamedTuple):
    """The sequence-power law and its normalisers.

    Attributes:
        law: pi.
        log_Z: log sum_y p(y)^alpha, natural log.
        log_lookahead: per depth, [n] log zeta of each context; entry [0][0] is log_Z.
    """

    law: Law
    log_Z: float
    log_lookahead: list[np.ndarray]


def check_alpha(alpha: float) -> None:
    """Refuse an exponent that is not a positive finite number.

    Args:
        alpha: power exponent.

    Raises:
        InvalidInput: otherwise.
    """
    if not (math.isfinite(alpha) and alpha > 0):
        raise InvalidInput(f"alpha {alpha}: must be a finite number above 0")
    if alpha > MAX_ALPHA:
        raise InvalidInput(f"alpha {alpha}: at most {MAX_ALPHA:g}, beyond it the law is its mode")


def check_same_layers(p: Law, q: Law) -> None:
    """Refuse two laws that do not live on the same layers: depth and row would mean different prefixes.

    Args:
        p: first law.
        q: second law.

    Raises:
        InvalidInput: they come from two calls of `unroll`.
    """
    if p.layers is not q.layers:
        raise InvalidInput("two laws over different layers: build both from one unroll(table)")


def base_law(layers: Layers) -> Law:
    """The model's own law, p.

    Args:
        layers: of the model.

    Returns:
        The law.
    """
    return Law(layers, lambda depth: layers[depth].log_probs)


def token_log_normalisers(layers: Layers, alpha: float) -> PerDepth:
    """Log z(x) = log sum_v p(v | x)^alpha of every context.

    Args:
        layers: of the model.
        alpha: exponent, any real above 0.

    Returns:
        depth -> [n], natural log; exactly 0 at alpha = 1.
    """
    check_alpha(alpha)
    if alpha == 1.0:
        return by_layer(layers, lambda layer: np.zeros(layer.contexts.size))
    return by_layer(layers, lambda layer: log_sum_exp(scaled(alpha, layer.log_probs)))


def temperature_law(layers: Layers, alpha: float) -> Law:
    """Every next-token law raised to alpha and renormalised: token temperature 1/alpha.

    Args:
        layers: of the model.
        alpha: exponent, any real above 0.

    Returns:
        The law; not p(y)^alpha normalised over sequences.
    """
    check_alpha(alpha)
    if alpha == 1.0:
        return base_law(layers)

    def log_conditional(layer: Layer) -> np.ndarray:
        weights = scaled(alpha, layer.log_probs)
        return weights - log_sum_exp(weights)[:, None]

    return Law(layers, by_layer(layers, log_conditional))


def power_law(layers: Layers, alpha: float) -> PowerLaw:
    """The sequence-power law pi(y) = p(y)^alpha / Z_alpha, without enumeration.

    One backward pass for zeta, in log space: O(horizon x contexts x V). Any alpha above 0.

    Args:
        layers: of the model.
        alpha: exponent, any real above 0.

    Returns:
        The law with log Z_alpha and log zeta; at alpha = 1 exactly the base law with log zeta = 0.
    """
    check_alpha(alpha)
    if alpha == 1.0:
        zeros = [np.zeros(layer.contexts.size) for layer in layers]
        return PowerLaw(base_law(layers), 0.0, zeros)
    weights = by_layer(layers, lambda layer: scaled(alpha, layer.log_probs))
    lookahead = log_backward(layers, weights)

    def log_conditional(depth: int) -> np.ndarray:
        following = lookahead[depth + 1] if depth + 1 < len(layers) else None
        ahead = continuation(layers[depth], following, 0.0)
        return weights(depth) + ahead - lookahead[depth][:, None]

    return PowerLaw(Law(layers, log_conditional), float(lookahead[0][0]), lookahead)
