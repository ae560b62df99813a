"""Backward dynamic programs over layers in the log and the max-plus semiring.

For a weight w of each token in each context, the sum over all continuations of a prefix is

    S(x) = sum_v w(x, v) S(xv),        S(ended) = 1,

and log S, computed by log-sum-exp, never under- or overflows. The same recursion with max for the sum gives the
largest weight of any continuation.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from theory.exact.layers import Layer, Layers, continuation

# The log weight of each token in each context of a layer, given the depth: [n, V], -inf where impossible.
TokenLogWeights = Callable[[int], np.ndarray]


def log_sum_exp(values: Float64[np.ndarray, "n V"]) -> Float64[np.ndarray, " n"]:
    """Row-wise log of the sum of exponentials; a row of -inf gives -inf.

    Args:
        values: [n, V] logarithms; -inf allowed, NaN not.

    Returns:
        [n].
    """
    return _log_sum_exp(values)


def log_backward(layers: Layers, token_log_weights: TokenLogWeights) -> list[np.ndarray]:
    """Log S of every prefix class: the log-sum over all continuations.

    Args:
        layers: of a model.
        token_log_weights: depth -> [n, V].

    Returns:
        Per depth, [n] natural logarithms; entry [0][0] is the sum over whole sequences.
    """
    return _backward(layers, token_log_weights, _log_sum_exp)


def max_backward(layers: Layers, token_log_weights: TokenLogWeights) -> list[np.ndarray]:
    """The largest log weight of any continuation of every prefix class.

    Args:
        layers: of a model.
        token_log_weights: depth -> [n, V].

    Returns:
        Per depth, [n].
    """
    return _backward(layers, token_log_weights, lambda values: values.max(axis=1))


def by_layer(layers: Layers, compute: Callable[[Layer], np.ndarray]) -> Callable[[int], np.ndarray]:
    """A function of depth that computes once per distinct layer.

    Args:
        layers: of a model.
        compute: layer -> array.

    Returns:
        depth -> array; repeated layers give the same array object.
    """
    cache: dict[int, np.ndarray] = {}

    def at(depth: int) -> np.ndarray:
        layer = layers[depth]
        if id(layer) not in cache:
            cache[id(layer)] = compute(layer)
        return cache[id(layer)]

    return at


def scaled(exponent: float, log_values: np.ndarray) -> np.ndarray:
    """`exponent * log_values` with -inf kept -inf for every exponent: a zero is a zero in any power."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_values), -np.inf, exponent * log_values)


def _backward(
    layers: Layers,
    token_log_weights: TokenLogWeights,
    total: Callable[[np.ndarray], np.ndarray],
) -> list[np.ndarray]:
    values: list[np.ndarray] = []
    following: np.ndarray | None = None
    for depth in reversed(range(len(layers))):
        following = total(token_log_weights(depth) + continuation(layers[depth], following, 0.0))
        values.append(following)
    return values[::-1]


# Called once a token: without shape annotations, whose checks in the tests would cost more than the sum.
def _log_sum_exp(values: np.ndarray) -> np.ndarray:
    peak = values.max(axis=1)
    shift = np.where(np.isneginf(peak), 0.0, peak)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(values - shift[:, None]).sum(axis=1))
