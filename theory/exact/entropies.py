"""Entropies of a model's law over whole sequences, and their power-law reading.

    H_a = log sum_y p(y)^a / (1 - a)   (a != 1),   H_1 = -E_p log p,   H_inf = -log max_y p(y).

log Z_alpha = (1 - alpha) H_alpha: the power normaliser is a Renyi entropy.
"""

import math
from typing import NamedTuple

import numpy as np

from theory.errors import InvalidInput
from theory.exact.functionals import base_log_prob_moments
from theory.exact.laws import base_law, power_law
from theory.exact.layers import Layers, continuation
from theory.exact.semiring import log_backward, max_backward, scaled


class Mode(NamedTuple):
    """The most likely sequence, the limit of the power law as alpha grows.

    Attributes:
        tokens: the lexicographically first of the most likely sequences.
        log_prob: its log probability.
        num_modes: sequences of that probability, up to a relative 1e-12; the limit law is uniform over them. Exact below
            2**53, inf above the double range.
    """

    tokens: tuple[int, ...]
    log_prob: float
    num_modes: float


def renyi_entropy(layers: Layers, order: float) -> float:
    """Renyi entropy of the law over whole sequences.

    Args:
        layers: of the model.
        order: at least 0; 0 is the log of the support size, 1 Shannon's entropy, inf the min-entropy.

    Returns:
        Nats.

    Raises:
        InvalidInput: a negative order or NaN.
    """
    if not order >= 0:
        raise InvalidInput(f"order {order}: must be at least 0")
    if order == math.inf:
        return -float(max_backward(layers, lambda depth: layers[depth].log_probs)[0][0])
    if order == 1:
        return -base_log_prob_moments(base_law(layers)).mean
    if order == 0:
        weights = log_backward(layers, lambda depth: scaled(0.0, layers[depth].log_probs))
        return float(weights[0][0])
    return power_law(layers, order).log_Z / (1 - order)


def mode(layers: Layers) -> Mode:
    """The most likely sequence, by the max-plus dynamic program.

    Args:
        layers: of the model.

    Returns:
        The first of the most likely sequences in lexicographic order, and how many there are.
    """
    best = max_backward(layers, lambda depth: layers[depth].log_probs)
    choices = [_best_tokens(layers, best, depth) for depth in range(len(layers))]
    tokens: list[int] = []
    row = 0
    for layer, choice in zip(layers, choices, strict=True):
        token = int(np.argmax(choice[row]))
        tokens.append(token)
        row = int(layer.successor[row, token])
        if row < 0:
            break
    counts: np.ndarray | None = None
    with np.errstate(over="ignore"):
        for layer, choice in zip(reversed(layers), reversed(choices), strict=True):
            counts = np.where(choice, continuation(layer, counts, 1.0), 0.0).sum(axis=1)
    assert counts is not None
    return Mode(tuple(tokens), float(best[0][0]), float(counts[0]))


def _best_tokens(layers: Layers, best: list[np.ndarray], depth: int) -> np.ndarray:
    """[n, V] whether a token begins a most likely continuation."""
    following = best[depth + 1] if depth + 1 < len(layers) else None
    total = layers[depth].log_probs + continuation(layers[depth], following, 0.0)
    return total >= best[depth][:, None] - 1e-12
