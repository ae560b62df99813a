"""Identical sequences inside a task, beyond what independent draws give.

Short answers repeat by chance; a sequence of a hundred tokens that occurs twice was most likely copied: a cache, a seed that was used again, a file read twice.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.estimators.ragged import check_offsets, sum_of_tasks, task_of


class Duplicates(NamedTuple):
    """Pairs of equal sequences inside tasks.

    Attributes:
        pairs: that are equal.
        expected: unbiased estimate of how many independent draws give.
        p_value: that independent draws hold an equal pair as improbable as the least probable one found; 1 without any.
    """

    pairs: int
    expected: float
    p_value: float


class DuplicateSums(NamedTuple):
    """What is added up over tasks, [n] each.

    Attributes:
        pairs: that are equal.
        expected: of them, among independent draws.
        possible: pairs of all samples.
        least_log_prob: of a sequence that occurs twice; 0 where none does.
    """

    pairs: Float64[np.ndarray, " n"]
    expected: Float64[np.ndarray, " n"]
    possible: Float64[np.ndarray, " n"]
    least_log_prob: Float64[np.ndarray, " n"]


def duplicate_sums(
    codes: Int64[np.ndarray, " m"],
    log_probs: Float64[np.ndarray, " m"],
    offsets: Int64[np.ndarray, " n1"],
) -> DuplicateSums:
    """Equal pairs of each task, and what independent draws give.

    Args:
        codes: [m] equal for equal sequences, task by task; of exact texts, or of hashes whose collisions are rarer than the p value that is acted on.
        log_probs: [m] natural log of the probability of the whole sequence under the law that drew it, at most 0.
        offsets: [n + 1] of the tasks.

    Returns:
        The sums, for `duplicate_test`.

    Raises:
        InvalidInput: offsets that do not cut the rows, or log probabilities that are missing or above 0.
    """
    check_offsets(offsets, codes.size)
    if not (log_probs <= 0).all():
        raise InvalidInput(
            "log probabilities: must be at most 0, of whole sequences; leave out rows without one"
        )
    task, sizes = task_of(offsets), np.diff(offsets)
    order = np.lexsort((codes, task))
    code, owner, log_prob = codes[order], task[order], log_probs[order]
    new = np.append(True, (code[1:] != code[:-1]) | (owner[1:] != owner[:-1]))[: codes.size]
    begins = np.flatnonzero(new)
    counts = np.diff(np.append(begins, codes.size))
    repeated = np.repeat(counts, counts) > 1
    least = np.zeros(sizes.size)
    np.minimum.at(least, owner[repeated], log_prob[repeated])
    pairs = np.bincount(owner[begins], counts * (counts - 1) // 2, minlength=sizes.size)
    expected = sum_of_tasks((sizes[task] - 1) * np.exp(log_probs) / 2, offsets)
    return DuplicateSums(
        pairs.astype(np.float64), expected, (sizes * (sizes - 1) / 2).astype(np.float64), least
    )


def duplicate_test(sums: DuplicateSums) -> Duplicates:
    """Equal pairs of all tasks against the law that the sequences were drawn from.

        expected = sum_i (n - 1) p(y_i) / 2,    p value = min(1, number of pairs times the least p(y) of a sequence that occurs twice)

    For independent draws both sides of pairs = expected have one mean, since P(y_j = y_i | y_i) = p(y_i). The p value is a union bound over pairs,
    P(y_j = y_i and p(y_i) <= e) <= e, valid at every size; it says nothing of sequences that are probable.

    Args:
        sums: of the tasks.

    Returns:
        The numbers.
    """
    pairs, expected = int(sums.pairs.sum()), float(sums.expected.sum())
    if not pairs:
        return Duplicates(0, expected, 1.0)
    twice = sums.least_log_prob[sums.pairs > 0]
    log_p_value = float(np.log(sums.possible.sum()) + twice.min())
    return Duplicates(pairs, expected, float(np.exp(min(0.0, log_p_value))))


def duplicates(
    codes: Int64[np.ndarray, " m"],
    log_probs: Float64[np.ndarray, " m"],
    offsets: Int64[np.ndarray, " n1"],
) -> Duplicates:
    """`duplicate_test` of `duplicate_sums`.

    Args:
        codes: [m].
        log_probs: [m].
        offsets: [n + 1].

    Returns:
        The numbers.

    Raises:
        InvalidInput: as `duplicate_sums`.
    """
    return duplicate_test(duplicate_sums(codes, log_probs, offsets))
