"""Exact joint transition matrices of coupled suffix-regeneration chains, and the law of the time at which they meet, in float64.

The joint state is a pair of sequences (x, y). A move couples the two cuts maximally, draws the tokens of both proposals from Gumbel races
with the noise of the position in common, and compares both acceptance ratios with one uniform: `theory.mcmc.coupled`, but that pairs which have
met are followed by the same rule as all others, so that it can be seen that they stay together.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.exact.sequence_space import MAX_STATES, Sequence, SequenceSpace
from theory.mcmc import density
from theory.mcmc.cuts import CutLaw, log_cut_probs
from theory.mcmc.density import Records


def coupled_transition(
    space: SequenceSpace, alpha: float, cut_law: CutLaw
) -> Float64[np.ndarray, "M M M M"]:
    """One common move of two chains.

    Args:
        space: the states of each chain.
        alpha: exponent of the target.
        cut_law: of the kernel.

    Returns:
        [M, M, M, M] K(x, y, x', y').

    Raises:
        InvalidInput: more than MAX_STATES pairs.
    """
    size = len(space.sequences)
    if size**2 > MAX_STATES:
        raise InvalidInput(
            f"{size} sequences: {size**2} pairs, at most {MAX_STATES} are enumerated; take a smaller model"
        )
    suffixes = _coupled_suffixes(space)
    accept = _acceptance(space, alpha, cut_law)
    cuts = np.exp(log_cut_probs(cut_law, space.records.entropies, space.records.lengths))
    joint = np.zeros((size, size, size, size))
    for x, y in np.ndindex(size, size):
        common = maximal_coupling(cuts[x], cuts[y])
        for m, n in np.argwhere(common > 0).tolist():
            proposals = common[m, n] * suffixes(space.sequences[x][:m], space.sequences[y][:n])
            first, second = accept[m, x], accept[n, y]
            both = jointly_accepted(first, second)
            joint[x, y] += proposals * both
            joint[x, y, :, y] += (proposals * (first[:, None] - both)).sum(axis=1)
            joint[x, y, x, :] += (proposals * (second[None, :] - both)).sum(axis=0)
            neither = 1 - first[:, None] - second[None, :] + both
            joint[x, y, x, y] += (proposals * neither).sum()
    return joint


def maximal_coupling(
    p: Float64[np.ndarray, " N"], q: Float64[np.ndarray, " N"]
) -> Float64[np.ndarray, "N N"]:
    """Joint law of two indices that are equal with probability sum_i min(p_i, q_i), and else independent given that.

    Args:
        p: [N] law of the first.
        q: [N] law of the second.

    Returns:
        [N, N].
    """
    common = np.minimum(p, q)
    apart = 1 - common.sum()
    joint = np.diag(common)
    # Laws that differ by rounding alone are the same.
    return joint if apart < 1e-12 else joint + np.outer(p - common, q - common) / apart


def jointly_accepted(
    first: Float64[np.ndarray, " M"], second: Float64[np.ndarray, " M"]
) -> Float64[np.ndarray, "M M"]:
    """Probability that one uniform accepts two proposals: the smaller of their acceptance probabilities.

    Args:
        first: [M] of the proposals of the first chain.
        second: [M] of those of the second.

    Returns:
        [M, M].
    """
    return np.minimum(first[:, None], second[None, :])


def shared_noise_law(
    p: Float64[np.ndarray, " V"], q: Float64[np.ndarray, " V"]
) -> Float64[np.ndarray, "V V"]:
    """Joint law of the winners of two Gumbel races that share their noise: argmax log p + G and argmax log q + G.

    With E = exp(-G) exponential the winners are argmin E / p and argmin E / q. Given that i wins the first at s and j the second at r = s rho,
    every other E_u is above max(p_u s, q_u r), and for i != j

        P(i, j) = integral over rho in (p_j / q_j, p_i / q_i) of p_i q_j / (sum_u max(p_u, q_u rho))^2,
        P(i, i) = 1 / sum_u max(p_u / p_i, q_u / q_i).

    The sum is linear in rho between the ratios p_u / q_u, so that the integral is a sum of (rho'' - rho') / (A(rho') A(rho'')).

    Args:
        p: [V] probabilities.
        q: [V] probabilities.

    Returns:
        [V, V].
    """
    joint = np.zeros((p.size, q.size))
    ratios = np.divide(p, q, out=np.full(p.size, np.inf), where=q > 0)
    for i in np.flatnonzero(p):
        if q[i] > 0:
            joint[i, i] = 1 / np.maximum(p / p[i], q / q[i]).sum()
        for j in np.flatnonzero(q):
            low, high = ratios[j], ratios[i]
            if low < high:
                inside = ratios[(ratios > low) & (ratios < high)]
                joint[i, j] += p[i] * q[j] * _integral(np.unique([low, *inside, high]), p, q)
    return joint


def laws_apart(
    joint: Float64[np.ndarray, "M M M M"], start: Float64[np.ndarray, "M M"], num_steps: int
) -> Float64[np.ndarray, "T1 M M"]:
    """Where two chains are that have not met: after 0, 1, ..., n common moves.

    Args:
        joint: of a common move.
        start: [M, M] joint law before the first: with a lag of L, of X_L and Y_0.
        num_steps: n, at least 0.

    Returns:
        [n + 1, M, M] P(X_{L+s} = x, Y_s = y, tau > L + s), of total mass P(tau > L + s).
    """
    size = start.shape[0]
    apart = ~np.eye(size, dtype=bool).ravel()
    matrix = joint.reshape(size**2, size**2)[np.ix_(apart, apart)]
    law = start.ravel()[apart]
    laws = np.zeros((num_steps + 1, size**2))
    for step in range(num_steps + 1):
        laws[step, apart] = law
        law = law @ matrix
    return laws.reshape(num_steps + 1, size, size)


def _integral(points: np.ndarray, p: np.ndarray, q: np.ndarray) -> float:
    """Of 1 / A(rho)^2 from the first point to the last, A linear between them; the last may be infinite."""
    finite = points[np.isfinite(points)]
    totals = np.maximum(p[None, :], q[None, :] * finite[:, None]).sum(axis=1)
    whole = (np.diff(finite) / (totals[:-1] * totals[1:])).sum()
    # Beyond every finite ratio A grows like sum_u q_u rho.
    tail = 0.0 if np.isfinite(points[-1]) else 1 / (q.sum() * totals[-1])
    return float(whole + tail)


def _coupled_suffixes(space: SequenceSpace) -> Callable[[Sequence, Sequence], np.ndarray]:
    """From two prefixes to the joint law [M, M] of what the proposal makes of them with common noise."""
    size = len(space.sequences)
    index = {sequence: place for place, sequence in enumerate(space.sequences)}
    num_tokens = int(space.tokens.max()) + 1
    laws: dict[Sequence, np.ndarray] = {}
    for row, sequence in enumerate(space.sequences):
        for depth, token in enumerate(sequence):
            law = laws.setdefault(sequence[:depth], np.zeros(num_tokens))
            law[token] = np.exp(space.records.log_q[row, depth])

    @cache
    def suffixes(a: Sequence, b: Sequence) -> np.ndarray:
        joint = np.zeros((size, size))
        if a in index and b in index:
            joint[index[a], index[b]] = 1.0
        elif a not in index and b not in index and len(a) == len(b):
            law = shared_noise_law(laws[a], laws[b])
            for v, w in np.argwhere(law > 0).tolist():
                joint += law[v, w] * suffixes((*a, v), (*b, w))
        elif b in index or (a not in index and len(a) < len(b)):
            for v in np.flatnonzero(laws[a]).tolist():
                joint += laws[a][v] * suffixes((*a, v), b)
        else:
            for w in np.flatnonzero(laws[b]).tolist():
                joint += laws[b][w] * suffixes(a, (*b, w))
        return joint

    return suffixes


def _acceptance(
    space: SequenceSpace, alpha: float, cut_law: CutLaw
) -> Float64[np.ndarray, "T M M"]:
    """For each cut, probability of accepting the column from the row; 0 where it cannot be proposed."""
    size, horizon = space.tokens.shape
    lengths = np.asarray(space.records.lengths)
    log_cuts = log_cut_probs(cut_law, space.records.entropies, space.records.lengths)
    accept = np.zeros((horizon, size, size))
    for cut in range(horizon):
        same = (space.tokens[:, None, :cut] == space.tokens[None, :, :cut]).all(axis=2)
        able = log_cuts[:, cut] > -np.inf
        x, y = np.nonzero(same & able[:, None] & (lengths > cut)[None, :])
        before, after = (Records(*(np.asarray(f)[i] for f in space.records)) for i in (x, y))
        log_ratio = density.log_ratio(alpha, cut_law, before, after, np.full(x.size, cut))
        accept[cut, x, y] = np.exp(np.minimum(log_ratio, 0.0))
    return accept
