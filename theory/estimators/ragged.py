"""Numbers of tasks of different sizes, side by side: flat arrays in the order of the tasks, and offsets where each task begins."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped, UInt64

from theory.errors import InvalidInput


def check_offsets(offsets: Int64[np.ndarray, " n1"], size: int) -> None:
    """Refuse offsets that do not cut an array into tasks.

    Args:
        offsets: [n + 1] where each task begins, then the end.
        size: of the flat array.

    Raises:
        InvalidInput: they do not ascend from 0 to the size.
    """
    if offsets.size < 1 or offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
        raise InvalidInput(f"offsets: must ascend from 0 to {size}, the number of entries")


def sum_of_tasks(
    values: Float64[np.ndarray, " m"], offsets: Int64[np.ndarray, " n1"]
) -> Float64[np.ndarray, " n"]:
    """Sums of the entries of each task; 0 for a task without any.

    Args:
        values: [m] in the order of the tasks.
        offsets: [n + 1].

    Returns:
        [n].
    """
    # Without any entry bincount counts in integers.
    sums = np.bincount(task_of(offsets), values, minlength=offsets.size - 1)
    return sums.astype(np.float64)


def mean_of_tasks(
    values: Float64[np.ndarray, " m"], offsets: Int64[np.ndarray, " n1"]
) -> Float64[np.ndarray, " n"]:
    """The mean of the entries of each task: that of equal entries is the entry, and none is infinite.

    Args:
        values: [m] finite, in the order of the tasks.
        offsets: [n + 1], which fit (`check_offsets`).

    Returns:
        [n]; 0 for a task without any.
    """
    sizes, unit = np.maximum(np.diff(offsets), 1), unit_of_tasks(values, offsets)
    task = task_of(offsets)
    scaled = values / unit[task]
    mean = reduce_tasks(np.add, scaled, offsets, 0.0) / sizes
    # One step of refinement: three times .1 sums to more than .3.
    mean += reduce_tasks(np.add, scaled - mean[task], offsets, 0.0) / sizes
    return mean * unit


def unit_of_tasks(
    values: Float64[np.ndarray, " m"], offsets: Int64[np.ndarray, " n1"]
) -> Float64[np.ndarray, " n"]:
    """What the entries of each task are divided by so that their sums and squares are finite: 1 unless they are huge.

    Args:
        values: [m] finite.
        offsets: [n + 1], which fit (`check_offsets`).

    Returns:
        [n] powers of two, so that the division is exact.
    """
    largest = reduce_tasks(np.maximum, np.abs(values), offsets, 0.0)
    return np.where(largest > 1e100, np.ldexp(1.0, np.frexp(largest)[1] - 1), 1.0)


def reduce_tasks(
    operation: np.ufunc,
    values: Float64[np.ndarray, " m"],
    offsets: Int64[np.ndarray, " n1"],
    empty: float,
) -> Float64[np.ndarray, " n"]:
    """Reduce the entries of each task, in a tenth of the time that counting by task takes.

    Args:
        operation: such as `np.maximum`.
        values: [m].
        offsets: [n + 1], which fit (`check_offsets`).
        empty: the number of a task without entries.

    Returns:
        [n].
    """
    # For an empty task reduceat gives the entry that follows it; the starts of the others cut the entries all the same.
    filled = offsets[1:] > offsets[:-1]
    reduced = np.full(filled.size, empty)
    if filled.any():
        reduced[filled] = operation.reduceat(values, offsets[:-1][filled])
    return reduced


def keep_rows(
    offsets: Int64[np.ndarray, " n1"], mask: Bool[np.ndarray, " m"]
) -> Int64[np.ndarray, " n1"]:
    """The offsets of the rows that stay.

    Args:
        offsets: [n + 1].
        mask: [m] rows that stay.

    Returns:
        [n + 1].
    """
    return np.concatenate([[0], np.cumsum(mask)]).astype(np.int64)[offsets]


def task_of(offsets: Int64[np.ndarray, " n1"]) -> Int64[np.ndarray, " m"]:
    """Which task an entry belongs to.

    Args:
        offsets: [n + 1].

    Returns:
        [m].
    """
    return np.repeat(np.arange(offsets.size - 1, dtype=np.int64), np.diff(offsets))


def tasks_by_size(
    offsets: Int64[np.ndarray, " n1"],
) -> Iterator[tuple[Int64[np.ndarray, " b"], Int64[np.ndarray, "b s"]]]:
    """Tasks of one size side by side, so that they can be computed as a table.

    Args:
        offsets: [n + 1].

    Yields:
        [b] the tasks of a size s, and [b, s] the places of their entries; sizes ascend.
    """
    sizes = np.diff(offsets)
    for size in np.unique(sizes):
        tasks = np.flatnonzero(sizes == size).astype(np.int64)
        yield tasks, offsets[tasks][:, None] + np.arange(size, dtype=np.int64)


def order_within(
    keys: Shaped[np.ndarray, " m"], offsets: Int64[np.ndarray, " n1"]
) -> Int64[np.ndarray, " m"]:
    """Sort the entries of each task; tasks of one size side by side, several times as fast.

    Args:
        keys: [m] task by task.
        offsets: [n + 1].

    Returns:
        [m] places of the entries, task by task and ascending by key, equal keys in the order they stand in.
    """
    sizes = np.diff(offsets)
    if sizes.size and sizes.min() == sizes.max():
        inside = np.argsort(keys.reshape(sizes.size, -1), axis=1, kind="stable")
        return (inside + np.arange(sizes.size)[:, None] * sizes[0]).ravel()
    return np.lexsort((keys, task_of(offsets)))


def distinct_profiles(
    keys: Int64[np.ndarray, " m"],
    values: Float64[np.ndarray, " m"],
    offsets: Int64[np.ndarray, " n1"],
    sizes: Int64[np.ndarray, " n"],
) -> tuple[Int64[np.ndarray, " u"], Int64[np.ndarray, " n"]]:
    """Tasks that hold the same entries, in whatever order, and are of one size.

    Two sums of 64-bit mixes of the entries stand for a task: among 10^6 tasks, some two that differ agree with probability below 1e-26.

    Args:
        keys: [m] of the entries.
        values: [m] of the entries.
        offsets: [n + 1].
        sizes: [n] of the tasks.

    Returns:
        [u] one task of each kind, and [n] the kind of each task.
    """
    sums = np.empty((sizes.size, 2), np.uint64)
    for place, seed in enumerate((0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)):
        code = _mixed(keys, values, seed)
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(code, dtype=np.uint64)])
        own = _mixed(~sizes, np.zeros(sizes.size), seed)
        sums[:, place] = running[offsets[1:]] - running[offsets[:-1]] + own
    order = np.lexsort((sums[:, 1], sums[:, 0]))
    ordered = sums[order]
    same = np.append(False, (ordered[1:] == ordered[:-1]).all(axis=1))
    begins = begins_of_runs(same[: sizes.size])  # no task, no run
    kind = np.empty(sizes.size, np.int64)
    kind[order] = np.repeat(np.arange(begins.size), np.diff(np.append(begins, sizes.size)))
    return order[begins].astype(np.int64), kind


def _mixed(
    keys: Int64[np.ndarray, " m"], values: Float64[np.ndarray, " m"], seed: int
) -> UInt64[np.ndarray, " m"]:
    """The finaliser of SplitMix64 on both words of an entry."""
    code = keys.astype(np.uint64) + np.uint64(seed)
    for word in ((values + 0.0).view(np.uint64), np.uint64(seed)):
        code = code ^ word
        code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        code = code ^ (code >> np.uint64(31))
    return code


def begins_of_runs(same_as_before: Bool[np.ndarray, " m"]) -> Int64[np.ndarray, " r"]:
    """Where runs of equal entries begin.

    Args:
        same_as_before: [m] the first is not read.

    Returns:
        [r].
    """
    begins = ~same_as_before
    begins[:1] = True
    return np.flatnonzero(begins).astype(np.int64)
