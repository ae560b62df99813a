"""The majority vote over k of a task's samples, exactly, without enumerating subsets.

The samples of a task fall into answers with counts c_1 ... c_d, and the rest abstain. Of a subset of k, let answer j get s_j votes. The value of the vote
is the mean value of the answers with most votes. With A_j(t) the event s_j < t and B_j(t) the event s_j = t,

    E[vote] = sum_t sum_j v_j integral_0^1 P(B_j(t), every other i: A_i(t), or B_i(t) marked y) dy,

because the integral of y^m is 1/(m + 1), the share of each of m + 1 tied answers. The integrand is a polynomial in y of degree below k/t, so that
Gauss-Legendre nodes integrate it without error. For each t and node a pass over the answers carries the law of how many draws remain; the votes for the next
answer are hypergeometric given those, so that every number is a probability and nothing overflows.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_BLOCK = 1 << 22  # numbers held at a time


def majority_at_k(
    counts: Counts, values: Floats, offsets: Counts, num_samples: Counts, k: int
) -> Floats:
    """The expected value of the majority vote of k samples; ties are averaged and no vote at all counts 0.

    Args:
        counts: [m] samples of each distinct answer.
        values: [m] its value, such as its correctness.
        offsets: [n + 1] the answers of task i are offsets[i] up to offsets[i + 1].
        num_samples: [n] of each task, abstentions included; at least k.
        k: drawn without replacement.

    Returns:
        [n], unbiased for the vote of k new samples.
    """
    n = num_samples.size
    widths = np.diff(offsets)
    if n and (num_samples == k).all():
        return _vote_of_all(counts, values, widths)
    task = np.repeat(np.arange(n), widths)
    # One form for each multiset of (count, value): equal profiles are computed once, and sums do not depend on the order of answers.
    order = np.lexsort((values, -counts, task))
    counts, values = counts[order], values[order]
    width = max(1, int(widths.max(initial=0)))
    place = np.arange(counts.size) - np.repeat(offsets[:-1], widths)
    result = np.empty(n)
    for chosen in _by_width(widths, width):
        wide = max(1, int(widths[chosen].max(initial=0)))
        profile = np.zeros((chosen.size, 2 * wide + 1))
        row = np.full(n, -1)
        row[chosen] = np.arange(chosen.size)
        mine = row[task] >= 0
        profile[row[task[mine]], place[mine]] = counts[mine]
        profile[row[task[mine]], wide + place[mine]] = values[mine]
        profile[:, -1] = num_samples[chosen]
        unique, inverse = np.unique(profile, axis=0, return_inverse=True)
        result[chosen] = _votes(unique, wide, k)[inverse.reshape(-1)]
    return result


def _vote_of_all(counts: Counts, values: Floats, widths: Counts) -> Floats:
    """Where k is all samples there is one subset."""
    owner = np.repeat(np.arange(widths.size), widths)
    most = np.zeros(widths.size, np.int64)
    np.maximum.at(most, owner, counts)
    wins = counts == most[owner]
    total = np.bincount(owner, weights=wins * values, minlength=widths.size)
    return total / np.maximum(np.bincount(owner, weights=wins, minlength=widths.size), 1)


def no_vote_probability(voters: Counts, num_samples: Counts, k: int) -> Floats:
    """The probability that none of k samples has an answer.

    Args:
        voters: [n] samples with one.
        num_samples: [n] at least k.
        k: drawn without replacement.

    Returns:
        [n].
    """
    none = np.ones(num_samples.size)
    for i in range(k):
        none *= np.clip(num_samples - voters - i, 0, None) / (num_samples - i)
    return none


def _by_width(widths: Counts, width: int) -> list[NDArray[np.int64]]:
    """Tasks with few answers apart from tasks with many: padding stays below a factor of two."""
    edges = [0]
    while edges[-1] < width:
        edges.append(max(1, 2 * edges[-1]))
    groups = np.searchsorted(edges, widths)
    return [np.flatnonzero(groups == group) for group in np.unique(groups)]


def _votes(profiles: Floats, width: int, k: int) -> Floats:
    levels, nodes, weights = _levels(k, int(profiles[:, :width].max(initial=0)))
    step = max(1, _BLOCK // max(1, levels.size * (k + 1)))
    parts = [
        _block(profiles[begin : begin + step], width, k, levels, nodes, weights)
        for begin in range(0, len(profiles), step)
    ]
    return np.concatenate(parts)


def _levels(k: int, most: int) -> tuple[Counts, Floats, Floats]:
    """Every number of votes t that may win, with the nodes and weights of its integral over [0, 1]."""
    levels, nodes, weights = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    for t in range(1, min(k, most) + 1):
        x, w = np.polynomial.legendre.leggauss((k // t + 1) // 2)
        levels.append(np.full(x.size, t, np.int64))
        nodes.append((x + 1) / 2)
        weights.append(w / 2)
    return np.concatenate(levels), np.concatenate(nodes), np.concatenate(weights)


def _block(
    profiles: Floats, width: int, k: int, levels: Counts, nodes: Floats, weights: Floats
) -> Floats:
    counts, values = profiles[:, :width].astype(np.int64), profiles[:, width:-1]
    left = profiles[:, -1].astype(np.int64)
    size = (len(profiles), levels.size, k + 1)
    # Probability that r draws remain: without a winner yet, and weighed by the value of one.
    open_, won = np.zeros(size), np.zeros(size)
    open_[:, :, k] = 1.0
    for place in range(width):
        count = counts[:, place]
        most = int(min(count.max(initial=0), levels.max(initial=0)))
        next_open, next_won = np.zeros(size), np.zeros(size)
        for s in range(most + 1):
            chance = _hypergeometric(left, count, k, s)[:, None, s:]
            mark = np.where(s < levels, 1.0, np.where(s == levels, nodes, 0.0))[None, :, None]
            win = np.where(s == levels, 1.0, 0.0)[None, :, None] * values[:, place, None, None]
            kept = open_[:, :, s:] * chance
            next_open[:, :, : k + 1 - s] += mark * kept
            next_won[:, :, : k + 1 - s] += mark * (won[:, :, s:] * chance) + win * kept
        open_, won = next_open, next_won
        left = left - count
    # What remains is drawn from the abstentions, which are just as many or more.
    possible = np.arange(k + 1)[None, :] <= left[:, None]
    total = np.where(possible[:, None, :], won, 0.0).sum(axis=2)
    return total @ weights


def _hypergeometric(left: Counts, count: Counts, k: int, s: int) -> Floats:
    """[b, k + 1] probability that s of r draws, from `left` samples of which `count` are of the answer, are of the answer; by r."""
    r = np.arange(k + 1)[None, :]
    n, c = left[:, None], count[:, None]
    possible = (s <= c) & (s <= r) & (r - s <= n - c) & (r <= n)
    logs = _log_choose(c, np.minimum(s, c)) + _log_choose(
        np.maximum(n - c, 0), np.clip(r - s, 0, np.maximum(n - c, 0))
    )
    logs = logs - _log_choose(n, np.minimum(r, n))
    return np.where(possible, np.exp(logs), 0.0)


def _log_choose(n: NDArray[np.int64], k: NDArray[np.int64]) -> Floats:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
