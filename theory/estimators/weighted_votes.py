"""The vote weighted by score: the value of the answer with the largest sum of scores among k samples, its mean over subsets of k.

No polynomial closed form over all subsets is known for real scores, but of one and of two samples the one with the higher score wins, and where there are few subsets all of
them are looked at. For any other k the mean is over random subsets. Which samples are in those follows from the seed, the name of the task and the places of its
samples alone, whatever tasks are computed beside it; the subset at a smaller k is part of that at a larger one.

Source: Li et al. 2022 (arXiv 2206.02336), votes weighted by a verifier; the subsets are of this project.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, UInt64

from theory.errors import InvalidInput
from theory.estimators.best_of_n import best_of_n_at_ks
from theory.estimators.ragged import check_offsets, tasks_by_size
from theory.estimators.subsets import check_subset_size

# Samples of subsets that are looked at together, about.
_BLOCK = 1 << 21


class WeightedMajority(NamedTuple):
    """A vote by sums of scores.

    Attributes:
        value: [n, K] mean over subsets; NaN where a task has fewer than k samples.
        monte_carlo_error: [n, K] its standard error, of the choice of subsets alone; 0 where all were looked at.
    """

    value: Float64[np.ndarray, "n K"]
    monte_carlo_error: Float64[np.ndarray, "n K"]


class _Votes(NamedTuple):
    """Tasks of one size; answers from 0, the last class is that of the samples without any."""

    answers: Int64[np.ndarray, "b n"]
    scores: Float64[np.ndarray, "b n"]
    worth: Float64[np.ndarray, "b c"]


def weighted_majority_at_ks(
    answers: Int64[np.ndarray, " m"],
    scores: Float64[np.ndarray, " m"],
    correct: Float64[np.ndarray, " m"],
    offsets: Int64[np.ndarray, " n1"],
    ks: Sequence[int],
    num_subsets: int,
    seed: int,
    names: Int64[np.ndarray, " n"],
) -> WeightedMajority:
    """The value of the answer with the largest sum of scores among k samples, at several k.

    Exact at k = 1 and 2, and where a task has at most `num_subsets` subsets; else unbiased for the mean over all subsets, hence for the vote among k new
    samples. Ties are shared evenly, and a subset in which nobody votes counts 0.

    Args:
        answers: [m] the class of each sample's answer in its task; -1 has none and does not vote.
        scores: [m] at least 0: with negative scores more votes for an answer can lower its sum.
        correct: [m] verdict of each sample; an answer that was judged both ways takes the mean over its samples in the task, as in `majority_at_k`.
        offsets: [n + 1] where each task's samples begin.
        ks: samples drawn without replacement.
        num_subsets: drawn of each task at most, at least 2.
        seed: of the subsets.
        names: [n] a number of each task, its own.

    Returns:
        Means and their standard errors.

    Raises:
        InvalidInput: a negative score or one that is not finite, a k below 1, fewer than two subsets.
    """
    check_offsets(offsets, answers.size)
    sizes = np.diff(offsets)
    for k in ks:
        check_subset_size(sizes[:0], k)
    if num_subsets < 2:
        raise InvalidInput(f"{num_subsets} subsets: give at least 2, or there is no error to state")
    if not (np.isfinite(scores) & (scores >= 0)).all():
        raise InvalidInput(
            "scores: must be finite and at least 0 for a weighted vote, map them to positive numbers first"
        )
    value, error = (np.full((sizes.size, len(ks)), np.nan) for _ in range(2))
    for tasks, rows in tasks_by_size(offsets):
        size = rows.shape[1]
        step = max(1, _BLOCK // (num_subsets * max(size, 1)))
        for begin in range(0, tasks.size, step):
            some = slice(begin, begin + step)
            votes = _votes_of(answers[rows[some]], scores[rows[some]], correct[rows[some]])
            value[tasks[some]], error[tasks[some]] = _at_ks(
                votes, ks, num_subsets, seed, names[tasks[some]]
            )
    return WeightedMajority(value, error)


def _votes_of(
    answers: Int64[np.ndarray, "b n"],
    scores: Float64[np.ndarray, "b n"],
    correct: Float64[np.ndarray, "b n"],
) -> _Votes:
    votes = answers >= 0
    most = int(answers.max(initial=0))
    first = np.where(votes, answers, most).min(axis=1, keepdims=True, initial=most)
    local = answers - first
    width = int(local.max(initial=-1)) + 1
    local = np.where(votes, local, width)
    place = (np.arange(len(local))[:, None] * (width + 1) + local).ravel()
    cells = len(local) * (width + 1)
    right = np.bincount(place, correct.ravel(), cells).reshape(-1, width + 1)
    members = np.bincount(place, minlength=cells).reshape(-1, width + 1)
    worth = right / np.maximum(members, 1)
    worth[:, width] = 0.0
    return _Votes(local, _summable(scores), worth)


def _summable(scores: Float64[np.ndarray, "b n"]) -> Float64[np.ndarray, "b n"]:
    """Scores of which every sum is finite: over a power of two in tasks with huge ones, which changes no vote."""
    size = scores.shape[1]
    largest = scores.max(axis=1, keepdims=True, initial=0.0)
    return np.where(largest > 1e300, np.ldexp(scores, -size.bit_length()), scores)


def _at_ks(
    votes: _Votes, ks: Sequence[int], num_subsets: int, seed: int, names: Int64[np.ndarray, " b"]
) -> tuple[Float64[np.ndarray, "b K"], Float64[np.ndarray, "b K"]]:
    num_tasks, size = votes.answers.shape
    value, error = np.full((num_tasks, len(ks)), np.nan), np.full((num_tasks, len(ks)), np.nan)
    short = [place for place, k in enumerate(ks) if k <= min(2, size)]
    if short:
        value[:, short], error[:, short] = (
            _of_higher_score(votes, [ks[place] for place in short]),
            0,
        )
    many = {}
    for place, k in enumerate(ks):
        if 2 < k <= size and _at_most(size, k, num_subsets):
            subsets = np.array(list(itertools.combinations(range(size), k)), np.int64)
            chosen = np.broadcast_to(subsets, (num_tasks, *subsets.shape))
            value[:, place], error[:, place] = _winners(votes, chosen).mean(axis=1), 0.0
        elif 2 < k <= size:
            many[place] = k
    if many:
        drawn = _random_orders(names, num_subsets, size, seed)[:, :, : max(many.values())]
        for place, k in many.items():
            found = _winners(votes, drawn[:, :, :k])
            value[:, place] = found.mean(axis=1)
            error[:, place] = found.std(axis=1, ddof=1) / np.sqrt(num_subsets)
    return value, error


def _of_higher_score(votes: _Votes, ks: Sequence[int]) -> Float64[np.ndarray, "b K"]:
    """Of two samples the one with the higher score wins, an equal answer being worth the same; one without an answer loses to any."""
    silent = votes.answers == votes.worth.shape[1] - 1
    worth = np.take_along_axis(votes.worth, votes.answers, axis=1)
    scores = np.where(silent, -1.0, votes.scores)
    offsets = np.arange(len(worth) + 1, dtype=np.int64) * worth.shape[1]
    return best_of_n_at_ks(scores.ravel(), worth.reshape(-1, 1), offsets, ks)[:, :, 0]


def _at_most(size: int, k: int, limit: int) -> bool:
    """Whether C(n, k) is at most the limit, without making it when it is not."""
    number = 1
    for i in range(min(k, size - k)):
        number = number * (size - i) // (i + 1)
        if number > limit:
            return False
    return True


def _winners(votes: _Votes, chosen: Int64[np.ndarray, "b s k"]) -> Float64[np.ndarray, "b s"]:
    """The value of the winner of each subset; 0 where nobody votes."""
    num_tasks, num_subsets, _ = chosen.shape
    width = votes.worth.shape[1]
    row = np.arange(num_tasks)[:, None, None]
    subset = row * num_subsets + np.arange(num_subsets)[None, :, None]
    place = (subset * width + votes.answers[row, chosen]).ravel()
    shape = (num_tasks, num_subsets, width)
    cells = num_tasks * num_subsets * width
    sums = np.bincount(place, votes.scores[row, chosen].ravel(), cells).reshape(shape)
    voted = np.bincount(place, minlength=cells).reshape(shape) > 0
    voted[:, :, -1] = False
    best = np.where(voted, sums, -np.inf).max(axis=2, keepdims=True)
    # Equal sums may differ in the last bits by the order of their terms.
    top = voted & (sums >= best - 1e-12 * np.abs(best))
    value = np.where(top, votes.worth[:, None], 0.0).sum(axis=2)
    return value / np.maximum(top.sum(axis=2), 1)


def _random_orders(
    names: Int64[np.ndarray, " b"], num_subsets: int, size: int, seed: int
) -> Int64[np.ndarray, "b s n"]:
    """The samples of each task in random orders, by a random number for each: the output function of splitmix64 (Steele, Lea & Flood 2014)."""
    task = _scramble(names.astype(np.uint64) + _scramble(np.array([seed], np.uint64)))
    subset = _scramble(task[:, None] + np.arange(num_subsets, dtype=np.uint64))
    return np.argsort(_scramble(subset[:, :, None] + np.arange(size, dtype=np.uint64)), axis=2)


def _scramble(words: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    z = words * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
