"""How many different answers or texts a task's samples hold.

Distinct counts grow with the number of samples, so tasks and logs are compared at one k: rarefaction, the mean over all subsets of k.

Source: Hurlbert 1971, "The nonconcept of species diversity", Ecology 52 (from memory).
"""

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.estimators.ragged import check_offsets, sum_of_tasks, task_of
from theory.estimators.subsets import chance_all_among, check_subset_size, on_grid


def distinct_at_k(
    counts: Int64[np.ndarray, " m"],
    offsets: Int64[np.ndarray, " n1"],
    num_samples: Int64[np.ndarray, " n"],
    k: int,
) -> Float64[np.ndarray, " n"]:
    """Expected number of distinct answers among k samples.

        sum_a (1 - C(n - c_a, k) / C(n, k))

    Unbiased for the expected number among k new samples of the task.

    Args:
        counts: [m] samples that gave each answer, task by task.
        offsets: [n + 1] where each task's answers begin.
        num_samples: [n] of each task, those without an answer included.
        k: samples drawn without replacement.

    Returns:
        [n].

    Raises:
        InvalidInput: k below 1 or above the samples of some task, or counts that do not fit.
    """
    check_offsets(offsets, counts.size)
    check_subset_size(num_samples, k)
    sizes = num_samples[task_of(offsets)]
    if (counts < 0).any() or (sum_of_tasks(counts.astype(np.float64), offsets) > num_samples).any():
        raise InvalidInput("counts: must be at least 0, and in each task no more than its samples")
    found = sum_of_tasks(1 - chance_all_among(sizes - counts, sizes, k), offsets)
    return on_grid(found, num_samples, k)


def unique_rate(
    num_distinct: Int64[np.ndarray, " n"], num_samples: Int64[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    """Distinct answers (or texts) a sample; samples without an answer count in the denominator.

        d / n

    It falls with n: compare logs at equal n, or by `distinct_at_k`.

    Args:
        num_distinct: [n] of each task.
        num_samples: [n] at least 1 and at least the distinct ones.

    Returns:
        [n].

    Raises:
        InvalidInput: a task without samples, or with more distinct answers than samples.
    """
    if (num_samples < 1).any() or (num_distinct > num_samples).any() or (num_distinct < 0).any():
        raise InvalidInput("distinct answers: must be from 0 to the samples of the task")
    return num_distinct / num_samples
