"""Forward-backward for a Markov model of order 1 at the speed of bare matrix-vector products.

With A(s, v) = p(v | s)^alpha and an ended sequence kept in its eos state with weight 1, the power law's partial sums are

    h_0 = 1,  h_r = A h_{r-1}  (backward),        g_1 = p(. | start)^alpha,  g_{t+1} = g_t A  (forward),
    Z = g_T . 1,    P(y_t = v) = g_t(v) h_{T-t}(v) / Z,

in linear space, each vector rescaled by its largest entry. Linear space can underflow, so the result carries a
certificate: it is returned only if every backward value stayed above 1e-250 of its vector's largest (and of the matrix's),
which bounds every flushed term below 1e-50 of the sum it is missing from. Otherwise the caller takes the log-space path.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.exact.context_table import ContextTable
from theory.exact.functionals import token_marginals
from theory.exact.laws import check_alpha, power_law
from theory.exact.layers import unroll

_FLOOR = 1e-250


class PowerMarginals(NamedTuple):
    """The power law's normaliser and token marginals.

    Attributes:
        log_Z: log sum_y p(y)^alpha, natural log.
        marginals: [T, V] P(length >= t and y_t = v) under the power law.
    """

    log_Z: float
    marginals: Float64[np.ndarray, "T V"]


def power_marginals(table: ContextTable, alpha: float) -> PowerMarginals:
    """Log Z and every token marginal of the power law.

    Two matrix-vector products a token where the model is a Markov chain of order 1 (O(T V^2), no log or exp
    inside); the log-space dynamic program otherwise, and wherever linear space would lose a term.

    Args:
        table: the model.
        alpha: exponent, any real above 0.

    Returns:
        The normaliser and the marginals.
    """
    check_alpha(alpha)
    matrix = _weight_matrix(table, alpha)
    if matrix is not None:
        with np.errstate(under="ignore"):
            found = _forward_backward(table, alpha, *matrix)
        if found is not None:
            return found
    layers = unroll(table)
    power = power_law(layers, alpha)
    marginals = token_marginals(power.law)
    rest = np.zeros((table.horizon - len(layers), table.vocab_size))
    return PowerMarginals(power.log_Z, np.concatenate([marginals, rest]))


def _weight_matrix(table: ContextTable, alpha: float) -> tuple[np.ndarray, float] | None:
    """[V, V] weights from token to token, eos absorbing, and the log factor taken out of them; None if not of order 1."""
    contexts = table.next_context[table.initial]
    if not (table.next_context == contexts).all():
        return None
    block = slice(contexts[0], contexts[0] + table.vocab_size)
    in_order = np.array_equal(contexts, np.arange(block.start, block.stop))
    weights = alpha * table.log_probs[block if in_order else contexts]
    # With eos the absorbing weight 1 is the largest; without, the largest entry is taken out.
    shift = 0.0 if table.eos else float(weights.max())
    weights -= shift
    np.exp(weights, out=weights)
    for token in table.eos:
        weights[token] = 0.0
        weights[token, token] = 1.0
    return weights, shift


def _forward_backward(
    table: ContextTable, alpha: float, matrix: np.ndarray, shift: float
) -> PowerMarginals | None:
    """The two passes, or None without the certificate."""
    horizon, vocab_size = table.horizon, table.vocab_size
    backward = np.ones((horizon, vocab_size))
    smallest = 1.0
    for r in range(1, horizon):
        np.dot(matrix, backward[r - 1], out=backward[r])
        peak = backward[r].max()
        if not peak > 0:
            return None
        backward[r] *= 1.0 / peak
        smallest = min(smallest, peak)
    if not backward.min() * min(smallest, 1.0) > _FLOOR:
        return None
    first = alpha * table.log_probs[table.initial]
    log_scale = float(first.max())
    forward = np.empty((horizon, vocab_size))
    forward[0] = np.exp(first - log_scale)
    peaks = np.ones(horizon)
    for t in range(1, horizon):
        np.dot(forward[t - 1], matrix, out=forward[t])
        peaks[t] = forward[t].max()
        forward[t] *= 1.0 / peaks[t]
    log_Z = log_scale + np.log(peaks).sum() + (horizon - 1) * shift + np.log(forward[-1].sum())
    backward = backward[::-1]
    totals = np.einsum("tv,tv->t", forward, backward)
    if table.eos:
        # An eos state holds every sequence that has ended there so far; what is asked for is what ends now.
        eos = list(table.eos)
        live = np.setdiff1d(np.arange(vocab_size), eos)
        ends_now = forward[:-1, live] @ matrix[live][:, eos]
        forward[1:, eos] = ends_now / peaks[1:, None]
    forward *= backward
    forward /= totals[:, None]
    return PowerMarginals(float(log_Z), forward)
