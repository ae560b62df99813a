"""Majority votes of k samples of a task: the mean over all subsets of k, ties shared evenly.

The answers of a task are classes of an equivalence relation. A sample without an answer is drawn like any other and does not vote: "no answer" is no
class that could win. A subset in which nobody votes scores 0, and how often that happens is said (`no_vote_probability`).

Source: Wang et al. 2022 (arXiv 2203.11171), self-consistency; the mean over subsets is a hypergeometric dynamic program of this project.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.stats import binom

from theory.errors import InvalidInput
from theory.estimators.ragged import check_offsets, distinct_profiles, sum_of_tasks
from theory.estimators.subsets import chance_all_among, check_subset_size

Counts = Int64[np.ndarray, " n"]
Offsets = Int64[np.ndarray, " n1"]

# Numbers that the dynamic program holds at a time.
_BLOCK = 1 << 22


class WeightedMajority(NamedTuple):
    """A vote by sums of scores, estimated from some subsets.

    Attributes:
        value: [n] mean over the subsets that were drawn.
        monte_carlo_error: [n] its standard error, of the choice of subsets alone; 0 where all subsets are the same.
    """

    value: Float64[np.ndarray, " n"]
    monte_carlo_error: Float64[np.ndarray, " n"]


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
    _check(counts, values, offsets, num_samples, k)
    silent = num_samples - sum_of_tasks(counts.astype(np.float64), offsets).astype(np.int64)
    first, kind = distinct_profiles(counts, values, offsets, num_samples)
    result = np.empty(first.size)
    sizes, widths = num_samples[first], np.diff(offsets)[first]
    # Tasks of one size share the weights; answers of few and of many are kept apart, so that little is padded.
    group = sizes * 64 + np.ceil(np.log2(np.maximum(widths, 1))).astype(np.int64)
    for label in np.unique(group):
        members = np.flatnonzero(group == label)
        width = int(max(widths[members].max(), 1))
        step = max(1, _BLOCK // ((k + 1) * (k + 2) + width))
        for begin in range(0, members.size, step):
            some = members[begin : begin + step]
            tasks = first[some]
            places = offsets[tasks][:, None] + np.arange(width)[None]
            real = places < offsets[tasks + 1][:, None]
            places = np.minimum(places, max(counts.size - 1, 0))
            result[some] = (
                _votes(
                    np.where(real, counts[places], 0),
                    np.where(real, values[places], 0.0),
                    silent[tasks],
                    int(sizes[some[0]]),
                    k,
                )
                if counts.size
                else 0.0
            )
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
    _check(counts, np.zeros(counts.size), offsets, num_samples, k)
    voting = sum_of_tasks(counts.astype(np.float64), offsets).astype(np.int64)
    return chance_all_among(num_samples - voting, num_samples, k)


def weighted_majority_at_k(
    answers: Int64[np.ndarray, " m"],
    scores: Float64[np.ndarray, " m"],
    correct: Float64[np.ndarray, " m"],
    offsets: Offsets,
    k: int,
    num_subsets: int,
    rng: np.random.Generator,
) -> WeightedMajority:
    """The value of the answer with the largest sum of scores among k samples.

    No polynomial closed form is known for real scores: the mean is over subsets drawn at random, each without replacement. Unbiased for the
    mean over all subsets, hence for the vote among k new samples. At k = n there is one subset and no Monte Carlo error. Ties are shared evenly.

    Args:
        answers: [m] the class of each sample's answer, from 0; -1 has none and does not vote.
        scores: [m] at least 0: with negative scores more votes for an answer can lower its sum.
        correct: [m] verdict of each sample; an answer that was judged both ways takes the mean over its samples in the task, as in `majority_at_k`.
        offsets: [n + 1] where each task's samples begin.
        k: samples drawn without replacement.
        num_subsets: drawn of each task, at least 2.
        rng: advanced.

    Returns:
        Means and their standard errors.

    Raises:
        InvalidInput: a negative score or one that is not finite, k above the samples of some task, fewer than two subsets.
    """
    check_offsets(offsets, answers.size)
    sizes = np.diff(offsets)
    check_subset_size(sizes, k)
    if num_subsets < 2:
        raise InvalidInput(f"{num_subsets} subsets: give at least 2, or there is no error to state")
    if not (np.isfinite(scores) & (scores >= 0)).all():
        raise InvalidInput(
            "scores: must be finite and at least 0 for a weighted vote, map them to positive numbers first"
        )
    value, error = np.zeros(sizes.size), np.zeros(sizes.size)
    for task, (begin, end) in enumerate(pairwise(offsets)):
        here = slice(int(begin), int(end))
        _, classes = np.unique(answers[here], return_inverse=True)
        votes = answers[here] >= 0
        worth = np.bincount(classes, correct[here]) / np.bincount(classes)
        size, is_whole = int(end - begin), k == end - begin
        rows = 1 if is_whole else num_subsets
        # The k smallest of n uniform numbers are a uniform subset.
        drawn = np.argpartition(rng.random((rows, size)), k - 1, axis=1)[:, :k]
        found = _weighted_votes(
            classes[drawn], votes[drawn], scores[here][drawn], worth[classes][drawn]
        )
        value[task] = found.mean()
        error[task] = 0.0 if is_whole else found.std(ddof=1) / np.sqrt(rows)
    return WeightedMajority(value, error)


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


def _weighted_votes(
    classes: Int64[np.ndarray, "r k"],
    votes: Bool[np.ndarray, "r k"],
    scores: Float64[np.ndarray, "r k"],
    correct: Float64[np.ndarray, "r k"],
) -> Float64[np.ndarray, " r"]:
    """The value of the winner of each row; 0 where nobody votes."""
    rows, width = classes.shape[0], int(classes.max()) + 1
    place = np.arange(rows)[:, None] * width + classes

    def per_class(numbers: Float64[np.ndarray, "r k"]) -> Float64[np.ndarray, "r c"]:
        return np.bincount(
            place.ravel(), np.where(votes, numbers, 0.0).ravel(), rows * width
        ).reshape(rows, width)

    members, sums, right = per_class(np.ones_like(scores)), per_class(scores), per_class(correct)
    voted = members > 0
    best = np.where(voted, sums, -np.inf).max(axis=1, keepdims=True)
    # Equal sums may differ in the last bits by the order of their terms.
    top = voted & (sums >= best - 1e-12 * np.abs(best))
    value = np.where(top, right / np.maximum(members, 1), 0.0).sum(axis=1)
    return value / np.maximum(top.sum(axis=1), 1)


def _check(
    counts: Int64[np.ndarray, " m"],
    values: Float64[np.ndarray, " m"],
    offsets: Offsets,
    num_samples: Counts,
    k: int,
) -> None:
    check_offsets(offsets, counts.size)
    check_subset_size(num_samples, k)
    if (counts < 1).any():
        raise InvalidInput("counts of answers: must be at least 1, leave out answers nobody gave")
    if not np.isfinite(values).all():
        raise InvalidInput("values of answers: must be finite")
    if (sum_of_tasks(counts.astype(np.float64), offsets) > num_samples).any():
        raise InvalidInput("counts of answers: more of them than samples in some task")
