"""Is ours faster than the reference? Paired timings in one run.

A machine's speed drifts while a benchmark runs. So the two are timed in pairs, in the order AB BA AB BA ..., where a
drift that is linear over two pairs falls on both alike, and each pair gives one ratio. The median of the ratios is
reported with an interval that assumes nothing about their distribution but independence.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Float64
from scipy import stats

SLOW_PAIR_S = 4.0
FEWEST_PAIRS = 6  # the fewest whose range covers the median with 95 %
USUAL_PAIRS = 15
SAMPLE_S = 0.05  # a timing repeats its call until it lasts about this long

Clock = Callable[[], float]

# Number of calls -> seconds per call, as measured by whoever makes them.
Timer = Callable[[int], float]


class Result(NamedTuple):
    """What a benchmark found; `ratio` below 1 is faster than the reference.

    Attributes:
        name: of the benchmark.
        ratio: median over pairs of time(ours) / time(reference).
        numerator: median time of ours, in `unit`.
        denominator: median time of the reference, in `unit`.
        unit: "second per call".
        sizes: of the problem, by name.
        runs: number of pairs.
        low: lower end of the 95 % interval of the median ratio.
        high: its upper end.
    """

    name: str
    ratio: float
    numerator: float
    denominator: float
    unit: str
    sizes: dict[str, int]
    runs: int
    low: float
    high: float


class BenchmarkReport(NamedTuple):
    """A result and what a person should see beside it.

    Attributes:
        result: the machine-readable part.
        notes: lines of text.
        tables: title -> table, such as the growth of cost with size.
    """

    result: Result
    notes: tuple[str, ...] = ()
    tables: Mapping[str, pa.Table] = MappingProxyType({})


def compare(
    name: str,
    ours: Callable[[], object],
    reference: Callable[[], object],
    sizes: Mapping[str, int],
    clock: Clock = time.perf_counter,
) -> Result:
    """Time two callables against each other.

    Args:
        name: of the benchmark.
        ours: returns when its work is done (`block_until_ready` is the caller's business).
        reference: the same.
        sizes: of the problem, for the record.
        clock: seconds.

    Returns:
        The result, from 15 pairs, or 6 where a pair takes over 4 s. Each callable has run twice before the first pair, so
        compilation and cold caches are not in it.
    """
    return compare_timers(name, timer(ours, clock), timer(reference, clock), sizes)


def timer(call: Callable[[], object], clock: Clock = time.perf_counter) -> Timer:
    """Time a callable of this process.

    Args:
        call: returns when its work is done.
        clock: seconds.

    Returns:
        What `compare_timers` asks.
    """

    def seconds_per_call(calls: int) -> float:
        start = clock()
        for _ in range(calls):
            call()
        return (clock() - start) / calls

    return seconds_per_call


def compare_timers(name: str, ours: Timer, reference: Timer, sizes: Mapping[str, int]) -> Result:
    """Compare two timers, one of which may belong to another process.

    Args:
        name: of the benchmark.
        ours: makes calls and says how long one took.
        reference: the same.
        sizes: of the problem, for the record.

    Returns:
        The result; see `compare`.
    """
    both = (ours, reference)
    for warm_up in both:
        warm_up(1)
    seconds = [measured(1) for measured in both]
    pairs = FEWEST_PAIRS if sum(seconds) > SLOW_PAIR_S else USUAL_PAIRS
    calls = [max(1, math.ceil(SAMPLE_S / max(s, 1e-9))) for s in seconds]
    times = np.empty((pairs, 2))
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            times[pair, which] = both[which](calls[which])
    ratios = times[:, 0] / times[:, 1]
    low, high = median_interval(ratios)
    numerator, denominator = np.median(times, axis=0)
    return Result(
        name=name,
        ratio=float(np.median(ratios)),
        numerator=float(numerator),
        denominator=float(denominator),
        unit="second per call",
        sizes=dict(sizes),
        runs=pairs,
        low=low,
        high=high,
    )


def median_interval(
    values: Float64[np.ndarray, " n"] | Sequence[float], level: float = 0.95
) -> tuple[float, float]:
    """Distribution-free interval of a median: two order statistics of an independent sample.

    With n values in order, the r-th smallest and the r-th largest enclose the median of a continuous law with
    probability 1 - 2 P(Binomial(n, 1/2) < r); r is the largest for which that is at least `level`.

    Args:
        values: [n] independent, from one law; n >= 6 for a level of 0.95.
        level: the least probability of covering the median.

    Returns:
        Lower and upper end.

    Raises:
        ValueError: too few values for the level.
    """
    in_order = np.sort(values)
    num_values = len(in_order)
    rank = interval_rank(num_values, level)
    if rank < 1:
        raise ValueError(f"{num_values} values are too few for an interval of level {level}")
    return float(in_order[rank - 1]), float(in_order[num_values - rank])


def interval_rank(num_values: int, level: float) -> int:
    """The rank r of `median_interval`.

    Args:
        num_values: n.
        level: the least probability of covering the median.

    Returns:
        r; 0 where even the whole range covers with less.
    """
    tails = 2 * stats.binom.cdf(
        np.arange(num_values), num_values, 0.5
    )  # at r - 1, for r = 1, 2, ...
    return int(np.sum(tails <= 1 - level))
