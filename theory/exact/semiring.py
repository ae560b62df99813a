"""Backward dynamic programs over layers in the log and the max-plus semiring.

For a weight w of each token in each context, the sum over all continuations of a prefix is

    S(x) = sum_v w(x, v) S(xv),        S(ended) = 1,

and log S, computed by log-sum-exp, never under- or overflows. The same recursion with max for the sum gives the
largest weight of any continuation.
"""

from collections.abc import Callable

import numpy as np

from theory.exact.layers import Layer, Layers, continuation

# What a program reads of a layer, given its depth: [n, V] log weights of tokens (-inf where impossible), or [n] values.
PerDepth = Callable[[int], np.ndarray]


# Plain arrays in the signatures of what runs once a token: shape checks in the tests would cost more than the sums.
def log_sum_exp(values: np.ndarray) -> np.ndarray:
    """Row-wise log of the sum of exponentials; a row of -inf gives -inf.

    Args:
        values: [n, V] logarithms; infinities allowed, NaN not.

    Returns:
        [n].
    """
    peak = values.max(axis=1)
    shift = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return shift + np.log(np.exp(values - shift[:, None]).sum(axis=1))


def log_total(values: np.ndarray) -> float:
    """Log of the sum of exponentials of all entries.

    Args:
        values: [...] logarithms; -inf allowed, NaN not.

    Returns:
        Natural log; -inf where every entry is.
    """
    return float(log_sum_exp(values.reshape(1, -1))[0])


def log_backward(layers: Layers, token_log_weights: PerDepth) -> list[np.ndarray]:
    """Log S of every prefix class: the log-sum over all continuations.

    Args:
        layers: of a model.
        token_log_weights: depth -> [n, V].

    Returns:
        Per depth, [n] natural logarithms; entry [0][0] is the sum over whole sequences.
    """
    return _backward(layers, token_log_weights, log_sum_exp)


def max_backward(layers: Layers, token_log_weights: PerDepth) -> list[np.ndarray]:
    """The largest log weight of any continuation of every prefix class.

    Args:
        layers: of a model.
        token_log_weights: depth -> [n, V].

    Returns:
        Per depth, [n].
    """
    return _backward(layers, token_log_weights, lambda values: values.max(axis=1))


def by_layer(layers: Layers, compute: Callable[[Layer], np.ndarray]) -> PerDepth:
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
    token_log_weights: PerDepth,
    total: Callable[[np.ndarray], np.ndarray],
) -> list[np.ndarray]:
    values: list[np.ndarray] = []
    following: np.ndarray | None = None
    for depth in reversed(range(len(layers))):
        following = total(token_log_weights(depth) + continuation(layers[depth], following, 0.0))
        values.append(following)
    return values[::-1]
