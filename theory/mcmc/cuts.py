"""Where a suffix move cuts: laws c(m | y) over the positions 0..len(y)-1 of a sequence; lengths count eos.

Positions before m are kept, the suffix from m on is drawn anew. A law that depends on the sequence, and be it only on its length, enters
the acceptance ratio of the move (`theory.mcmc.density`). The functions here take NumPy and JAX arrays alike.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from theory.errors import InvalidInput

Numbers = Array | np.ndarray


class CutLaw(NamedTuple):
    """A law over cuts, by its unnormalised weights.

    Attributes:
        log_weights: (entropies [B, T], lengths [B]) -> [B, T] natural log; what it says past a row's length does not matter.
        reads_entropies: whether it reads the entropies, which then have to be computed.
    """

    log_weights: Callable[[Numbers, Numbers], Numbers]
    reads_entropies: bool


def log_cut_probs(
    law: CutLaw, entropies: Float[Numbers, "B T"], lengths: Int[Numbers, " B"]
) -> Float[Numbers, "B T"]:
    """The law of the cut of each row.

        log c(m | y) = log w(m; y) - log sum_{j < len(y)} w(j; y)

    Args:
        law: of the cut.
        entropies: [B, T] Shannon entropy (nats) of the next-token law before each token; read only if the law says so.
        lengths: [B] at least 1.

    Returns:
        [B, T] natural log, normalised; -inf past the length.
    """
    xp = entropies.__array_namespace__()
    inside = positions(entropies) < lengths[:, None]
    log_weights = xp.where(inside, law.log_weights(entropies, lengths), -xp.inf)
    return log_weights - log_sum_exp(log_weights)[:, None]


def uniform_cut() -> CutLaw:
    """Every position of the sequence alike.

        c(m | y) = 1 / len(y)

    Returns:
        The law.
    """
    return CutLaw(lambda entropies, lengths: 0 * entropies, False)


def block_cut(size: int) -> CutLaw:
    """Every start of a block alike: positions 0, S, 2S, ... below the length.

        c(m | y) = 1 / ceil(len(y) / S)  where S divides m

    Args:
        size: S, tokens in a block, at least 1.

    Returns:
        The law.

    Raises:
        InvalidInput: S is below 1.
    """
    if size < 1:
        raise InvalidInput(f"block of {size} tokens: must be at least 1")

    def log_weights(entropies: Numbers, lengths: Numbers) -> Numbers:
        xp = entropies.__array_namespace__()
        return xp.where(positions(entropies) % size == 0, 0 * entropies, -xp.inf)

    return CutLaw(log_weights, False)


def start_cut() -> CutLaw:
    """Always the start: the whole sequence is drawn anew.

    Returns:
        The law.
    """

    def log_weights(entropies: Numbers, lengths: Numbers) -> Numbers:
        xp = entropies.__array_namespace__()
        return xp.where(positions(entropies) == 0, 0 * entropies, -xp.inf)

    return CutLaw(log_weights, False)


def entropy_cut(power: float = 1.0) -> CutLaw:
    """Where the model was undecided.

        c(m | y) proportional to h(y_<m)^power,   h: Shannon entropy of the next-token law

    A position without a choice is never a cut; nothing is lost, since two sequences first differ where there was one. A sequence
    without any choice is the only one its model has; its cut is uniform.

    Source: the idea is that of Zhou, Mehrotra and Liu, arXiv 2605.30327 (read second-hand).

    Args:
        power: finite and above 0.

    Returns:
        The law.

    Raises:
        InvalidInput: the power is not a positive finite number.
    """
    if not (np.isfinite(power) and power > 0):
        raise InvalidInput(f"entropy power {power}: must be a finite number above 0")

    def log_weights(entropies: Numbers, lengths: Numbers) -> Numbers:
        xp = entropies.__array_namespace__()
        choice = (entropies > 0) & (positions(entropies) < lengths[:, None])
        log_powers = power * xp.log(xp.where(choice, entropies, 1))
        return xp.where(choice.any(axis=1, keepdims=True) & ~choice, -xp.inf, log_powers)

    return CutLaw(log_weights, True)


def positions(like: Float[Numbers, "B T"]) -> Int[Numbers, "1 T"]:
    """0..T-1 as a row.

    Args:
        like: [B, T] for the size and the library.

    Returns:
        [1, T].
    """
    return like.__array_namespace__().arange(like.shape[1])[None, :]


def log_sum_exp(log_values: Float[Numbers, "B N"]) -> Float[Numbers, " B"]:
    """Log of a sum of exponentials along the last axis.

    Args:
        log_values: [B, N] natural log; -inf is a real zero.

    Returns:
        [B] -inf where all are.
    """
    xp = log_values.__array_namespace__()
    peak = log_values.max(axis=1, keepdims=True)
    scale = xp.where(peak > -xp.inf, peak, 0)
    total = xp.exp(log_values - scale).sum(axis=1)
    some = total > 0
    return xp.where(some, xp.log(xp.where(some, total, 1)) + scale[:, 0], -xp.inf)
