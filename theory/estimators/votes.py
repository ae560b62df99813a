"""Majority votes of k samples of a task: the mean over all subsets of k, ties shared evenly.

The answers of a task are classes of an equivalence relation. A sample without an answer is drawn like any other and does not vote: "no answer" is no
class that could win. A subset in which nobody votes scores 0, and how often that happens is said (`no_vote_probability`).

Source: Wang et al. 2022 (arXiv 2203.11171), self-consistency; the mean over subsets is a hypergeometric dynamic program of this project.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64
from scipy.stats import binom

from theory.errors import InvalidInput
from theory.estimators.ragged import check_offsets, distinct_profiles, sum_of_tasks
from theory.estimators.subsets import chance_all_among, check_subset_size

Counts = Int64[np.ndarray, " n"]
Offsets = Int64[np.ndarray, " n1"]

# Numbers that the dynamic program holds at a time.
_BLOCK = 1 << 22


def majority_at_k(
    counts: Int64[np.ndarray, " m"],
    values: Float64[np.ndarray, " m"],
    offsets: Offsets,
    num_samples: Counts,
    k: int,
) -> Float64[np.ndarray, " n"]:
    """The value of the answer that most of k samples give.

        sum_S (1 / |top(S)|) sum_{a in top(S)} v_a / C(n, k), over subsets S of k samples, top(S) the answers with most votes in S

    Unbiased for the same vote among k new samples of the task. With values 0 and 1 it is the accuracy of the vote; an answer that was judged
    correct in some of its samples only takes their mean.

    One pass for each number j of winning votes: over the answers, the polynomial in x (samples drawn) and y (answers that have exactly j) is the product of
    sum_{i < j} C(c, i) x^i + y C(c, j) x^j. All terms are positive; binomial weights of probability k/n stand in for C(c, i), so nothing overflows.

    Args:
        counts: [m] samples that gave each answer, task by task.
        values: [m] of each answer, such as its correctness.
        offsets: [n + 1] where each task's answers begin.
        num_samples: [n] of each task, those without an answer included; at least k.
        k: samples drawn without replacement.

    Returns:
        [n].

    Raises:
        InvalidInput: k below 1 or above the samples of some task, a count below 1, more answers than samples, values that are not finite.
    """
    check_subset_size(num_samples, k)
    return majority_at_ks(counts, values, offsets, num_samples, (k,))[:, 0]


def majority_at_ks(
    counts: Int64[np.ndarray, " m"],
    values: Float64[np.ndarray, " m"],
    offsets: Offsets,
    num_samples: Counts,
    ks: Sequence[int],
) -> Float64[np.ndarray, "n K"]:
    """`majority_at_k` at several k; tasks of equal counts and values are found once for all of them.

    Args:
        counts: [m] samples that gave each answer, task by task.
        values: [m] of each answer, such as its correctness.
        offsets: [n + 1] where each task's answers begin.
        num_samples: [n] of each task, those without an answer included.
        ks: samples drawn without replacement.

    Returns:
        [n, K]; NaN where a task has fewer than k samples.

    Raises:
        InvalidInput: a k below 1, a count below 1, more answers than samples, values that are not finite.
    """
    for k in ks:
        check_subset_size(np.zeros(0, np.int64), k)
    _check(counts, values, offsets, num_samples)
    silent = num_samples - sum_of_tasks(counts.astype(np.float64), offsets).astype(np.int64)
    first, kind = distinct_profiles(counts, values, offsets, num_samples)
    result = np.full((first.size, len(ks)), np.nan)
    sizes, widths = num_samples[first], np.diff(offsets)[first]
    # Tasks of one size share the weights; answers of few and of many are kept apart, so that little is padded.
    group = sizes * 64 + np.ceil(np.log2(np.maximum(widths, 1))).astype(np.int64)
    for label in np.unique(group):
        members = np.flatnonzero(group == label)
        width, size = int(max(widths[members].max(), 1)), int(sizes[members[0]])
        most = max((k for k in ks if k <= size), default=0)
        step = max(1, _BLOCK // ((most + 1) * (most + 2) + width))
        for begin in range(0, members.size, step):
            some = members[begin : begin + step]
            tasks = first[some]
            places = offsets[tasks][:, None] + np.arange(width)[None]
            real = places < offsets[tasks + 1][:, None]
            places = np.minimum(places, max(counts.size - 1, 0))
            given = np.where(real, counts[places], 0) if counts.size else np.zeros_like(places)
            worth = np.where(real, values[places], 0.0) if counts.size else np.zeros(places.shape)
            for place, k in enumerate(ks):
                if k <= size:
                    result[some, place] = _votes(given, worth, silent[tasks], size, k)
    return result[kind]


def no_vote_probability(
    counts: Int64[np.ndarray, " m"], offsets: Offsets, num_samples: Counts, k: int
) -> Float64[np.ndarray, " n"]:
    """Chance that none of k samples has an answer.

        C(n - sum_a c_a, k) / C(n, k)

    Args:
        counts: [m] samples that gave each answer.
        offsets: [n + 1].
        num_samples: [n] at least k.
        k: samples drawn without replacement.

    Returns:
        [n].

    Raises:
        InvalidInput: as `majority_at_k`.
    """
    check_subset_size(num_samples, k)
    _check(counts, np.zeros(counts.size), offsets, num_samples)
    voting = sum_of_tasks(counts.astype(np.float64), offsets).astype(np.int64)
    return chance_all_among(num_samples - voting, num_samples, k)


def _votes(
    counts: Int64[np.ndarray, "u a"],
    values: Float64[np.ndarray, "u a"],
    silent: Int64[np.ndarray, " u"],
    num_samples: int,
    k: int,
) -> Float64[np.ndarray, " u"]:
    """`majority_at_k` of tasks of one size, padded with answers that nobody gave."""
    # Values count from the greatest of the task, and chances are shares of what the program itself adds up: equal values give that value.
    greatest = np.where(counts > 0, values, -np.inf).max(axis=1, initial=-np.inf)
    greatest = np.where(np.isfinite(greatest), greatest, 0.0)
    values = values - greatest[:, None]
    share = k / num_samples
    drawn = np.arange(k + 1)
    largest = int(max(counts.max(initial=0), silent.max(initial=0)))
    table = np.asarray(binom.pmf(drawn[None], np.arange(largest + 1)[:, None], share))
    total, voted = np.zeros(counts.shape[0]), np.zeros(counts.shape[0])
    for most in range(1, min(k, int(counts.max(initial=0))) + 1):
        ties = k // most
        # ways[u, t, x]: weight of x samples among the answers so far, t of which have `most`; worth: the same times the sum of their values.
        ways = np.zeros((counts.shape[0], ties + 1, k + 1))
        ways[:, 0, 0] = 1.0
        worth = np.zeros_like(ways)
        for answer in range(counts.shape[1]):
            law = table[counts[:, answer]][:, :, None]
            value = values[:, answer][:, None, None]
            below, above = np.zeros_like(ways), np.zeros_like(worth)
            for i in range(min(most, k + 1)):
                below[:, :, i:] += law[:, i, None] * ways[:, :, : k + 1 - i]
                above[:, :, i:] += law[:, i, None] * worth[:, :, : k + 1 - i]
            tie = law[:, most, None]
            below[:, 1:, most:] += tie * ways[:, :-1, : k + 1 - most]
            above[:, 1:, most:] += tie * (
                worth[:, :-1, : k + 1 - most] + value * ways[:, :-1, : k + 1 - most]
            )
            ways, worth = below, above
        rest = table[silent][:, ::-1]  # weight of k - x silent samples
        shared = worth[:, 1:] / np.arange(1, ties + 1)[None, :, None]
        total += (shared.sum(axis=1) * rest).sum(axis=1)
        voted += (ways[:, 1:].sum(axis=1) * rest).sum(axis=1)
    everything = voted + table[counts, 0].prod(axis=1) * table[silent, k]
    return greatest * (voted / everything) + total / everything


def _check(
    counts: Int64[np.ndarray, " m"],
    values: Float64[np.ndarray, " m"],
    offsets: Offsets,
    num_samples: Counts,
) -> None:
    check_offsets(offsets, counts.size)
    if (counts < 1).any():
        raise InvalidInput("counts of answers: must be at least 1, leave out answers nobody gave")
    if not np.isfinite(values).all():
        raise InvalidInput("values of answers: must be finite")
    if (sum_of_tasks(counts.astype(np.float64), offsets) > num_samples).any():
        raise InvalidInput("counts of answers: more of them than samples in some task")
