"""The vote weighted by score over random subsets, because no closed form over all subsets is known.

Which rows of a task are in its subsets follows from the seed, the rank of the task and the place of the row alone, whatever tasks are computed beside it.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_SUBSETS = 500
_WORK = 1 << 22  # random numbers drawn for a chunk of tasks, about


def weighted_majority_at_k(
    answers: Counts,
    scores: Floats,
    values: Floats,
    offsets: Counts,
    codes: Counts,
    k: int,
    seed: int,
    subsets: int,
) -> tuple[Floats, Floats]:
    """The expected value of the answer with the greatest sum of scores among k samples; ties are averaged.

    Args:
        answers: [m] answer of each sample as a place in `values`, -1 without one.
        scores: [m] at least 0.
        values: of each answer.
        offsets: [n + 1] of the samples of each task, at least k.
        codes: [n] a number that names each task.
        k: drawn without replacement.
        seed: of the subsets.
        subsets: of each task, at least 2 and at most `MOST_SUBSETS`.

    Returns:
        [n] means over subsets, unbiased for the vote of k new samples, and [n] the variance of those means; exact, with variance 0, where k is 1 or all samples.
    """
    sizes = np.diff(offsets)
    if k == 1:
        return _single_votes(answers, values, offsets), np.zeros(sizes.size)
    value, variance = np.empty(sizes.size), np.zeros(sizes.size)
    for n in np.unique(sizes):
        tasks = np.flatnonzero(sizes == n)
        num_subsets = 1 if n == k else subsets
        step = max(1, _WORK // (num_subsets * max(int(n), 1)))
        for begin in range(0, tasks.size, step):
            chosen = tasks[begin : begin + step]
            rows = offsets[chosen][:, None] + np.arange(n)
            votes = _votes(answers[rows], scores[rows], values, codes[chosen], k, num_subsets, seed)
            value[chosen] = votes.mean(axis=1)
            if n > k:
                variance[chosen] = votes.var(axis=1, ddof=1) / num_subsets
    return value, variance


def _single_votes(answers: Counts, values: Floats, offsets: Counts) -> Floats:
    """Exact: a sample alone wins, and without an answer counts 0."""
    sizes = np.diff(offsets)
    worth = np.zeros(answers.size)
    worth[answers >= 0] = values[answers[answers >= 0]]
    owner = np.repeat(np.arange(sizes.size), sizes)
    return np.bincount(owner, weights=worth, minlength=sizes.size) / np.maximum(sizes, 1)


def _votes(
    answers: Counts,
    scores: Floats,
    values: Floats,
    codes: Counts,
    k: int,
    num_subsets: int,
    seed: int,
) -> Floats:
    """[b, S] the value of the vote of each subset."""
    b, n = answers.shape
    if n == k:
        chosen = np.broadcast_to(np.arange(n), (b, 1, n))
    else:
        subset = codes.astype(np.uint64)[:, None] * np.uint64(MOST_SUBSETS) + np.arange(
            num_subsets, dtype=np.uint64
        )
        keys = _scramble(
            subset[:, :, None] * np.uint64(2**20) + np.arange(n, dtype=np.uint64), seed
        )
        chosen = np.argpartition(keys, k - 1, axis=2)[:, :, :k]
        chosen = np.sort(chosen, axis=2)
    rows = np.arange(b)[:, None, None]
    answer, score = answers[rows, chosen], scores[rows, chosen]
    order = np.argsort(answer, axis=2, kind="stable")
    answer = np.take_along_axis(answer, order, axis=2)
    score = np.take_along_axis(score, order, axis=2)
    # Sums of runs of equal answers, at the end of each run.
    total = np.cumsum(score, axis=2)
    last = np.ones(answer.shape, np.bool_)
    last[:, :, :-1] = answer[:, :, 1:] != answer[:, :, :-1]
    at_end = np.where(last, total, -np.inf)
    before = np.concatenate(
        [np.zeros((*answer.shape[:2], 1)), np.maximum.accumulate(at_end, axis=2)[:, :, :-1]], axis=2
    )
    sums = np.where(last & (answer >= 0), total - np.maximum(before, 0.0), -np.inf)
    best = sums.max(axis=2, keepdims=True)
    # Equal sums differ in their last bits where they were added in another order.
    wins = np.isfinite(sums) & (sums >= best - 1e-12 * np.maximum(total[:, :, -1:], 1e-300))
    worth = np.where(wins, values[np.maximum(answer, 0)] if values.size else 0.0, 0.0)
    return worth.sum(axis=2) / np.maximum(wins.sum(axis=2), 1)


def _scramble(words: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """A random number for each word: the output function of splitmix64 (Steele, Lea & Flood 2014)."""
    with np.errstate(over="ignore"):
        z = (words + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
