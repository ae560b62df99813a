"""The R largest hit marginals of very many prompts, each with a Beta law of its own. On the host, in NumPy.

The marginals of a row follow from each other by M(l + 1) = M(l) (b + l) / (a + b + 1 + l), so that one pass over the entries above a threshold,
with the rows that have fallen below it left behind, costs a few operations an entry. A sample of the rows says where the threshold is;
one pass over all rows, a little below, leaves few entries to sort.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

_SAMPLE = 1 << 14
_MARGIN = 6.0  # standard errors of the sample's total on either side of the threshold
_TOLERANCE = 1e-12  # relative: marginals that are closer are equal


class _Pass(NamedTuple):
    """Entries of all rows that are at least `low`.

    Attributes:
        above: [U] of each row, those at least `high`.
        rows: of the entries in between, in order of columns.
        values: their marginals.
    """

    above: Int64[np.ndarray, " U"]
    rows: Int64[np.ndarray, " m"]
    values: Float64[np.ndarray, " m"]


class Rows(NamedTuple):
    """The marginal matrix, one row for each different prompt.

    Attributes:
        first: [U] marginal at column 0, in (0, 1].
        a: [U] above 0.
        b: [U] above 0.
        caps: [U] entries that a row has.
        multiplicity: [U] how often the row stands in the matrix.
    """

    first: Float64[np.ndarray, " U"]
    a: Float64[np.ndarray, " U"]
    b: Float64[np.ndarray, " U"]
    caps: Int64[np.ndarray, " U"]
    multiplicity: Int64[np.ndarray, " U"]


def cut_beta_rows(
    rows: Rows, budget: int
) -> tuple[Int64[np.ndarray, " U"], Int64[np.ndarray, " U"]]:
    """How many entries of each row are among the R largest; see `theory.allocation.marginals.Cut`.

    Args:
        rows: the matrix.
        budget: R, at most sum caps * multiplicity.

    Returns:
        Entries clearly above the R-th largest, and entries above or equal to it (to 1e-12).
    """
    if budget == 0:
        return np.zeros_like(rows.caps), np.zeros_like(rows.caps)
    if budget == int((rows.caps * rows.multiplicity).sum()):
        return rows.caps, rows.caps
    low, high = _bracket(rows, budget)
    while True:
        found = _entries(rows, low, high)
        missing = budget - int((found.above * rows.multiplicity).sum())
        if missing <= 0:
            high = high * 2 if high <= 1 else np.inf
            continue
        weights = rows.multiplicity[found.rows]
        order = np.argsort(-found.values)
        reached = np.cumsum(weights[order])
        if reached.size == 0 or reached[-1] < missing:
            low = low / 2
            continue
        last = float(found.values[order[np.searchsorted(reached, missing)]])
        if low <= last * (1 - _TOLERANCE) and last * (1 + _TOLERANCE) < high:
            break
        low, high = min(low, last * (1 - 1e-6)), max(high, last * (1 + 1e-6))
    size = rows.caps.size
    clear = found.values > last * (1 + _TOLERANCE)
    equal = ~clear & (found.values >= last * (1 - _TOLERANCE))
    above = found.above + np.bincount(found.rows[clear], minlength=size)
    return above, above + np.bincount(found.rows[equal], minlength=size)


def fill_rows(
    above: Int64[np.ndarray, " P"], reached: Int64[np.ndarray, " P"], budget: int
) -> Int64[np.ndarray, " P"]:
    """Spend what is left on the equal entries: one to each row that has some, in order, and again.

    Args:
        above: [P] see `cut_beta_rows`, now of rows that stand once each.
        reached: [P] the same.
        budget: R, at most sum reached.

    Returns:
        [P] with sum R.
    """
    ties, left = reached - above, budget - int(above.sum())
    counts = above.copy()
    while left > 0:
        open_rows = np.flatnonzero(ties > 0)
        level = int(ties[open_rows].min())
        rounds = min(level, left // open_rows.size)
        if rounds == 0:
            counts[open_rows[:left]] += 1
            break
        counts[open_rows] += rounds
        ties[open_rows] -= rounds
        left -= rounds * open_rows.size
    return counts


def _bracket(rows: Rows, budget: int) -> tuple[float, float]:
    """Thresholds that very likely enclose the R-th largest entry, from a sample of the rows."""
    num_rows = rows.first.size
    whole = num_rows <= _SAMPLE
    sample = rows if whole else Rows(*(part[_scattered(num_rows)] for part in rows))
    scale = num_rows / sample.first.size

    def seen(threshold: float) -> Int64[np.ndarray, " u"]:
        return _entries(sample, threshold, threshold).above * sample.multiplicity

    low, high = float(rows.first.max()), np.inf
    while scale * seen(low).sum() < budget:
        low, high = low / 4, low
    while high > low * (1 + 1e-3):
        middle = float(np.sqrt(low * min(high, 1.0)))
        if not low < middle < high:
            break
        if scale * seen(middle).sum() < budget:
            high = middle
        else:
            low = middle
    if whole:
        return low, high
    spread = _MARGIN * scale * np.sqrt(sample.first.size) * float(seen(low).std())
    while low > 0 and scale * seen(low).sum() < budget + spread:
        low *= 0.98
    while high <= 1 and scale * seen(high).sum() > budget - spread:
        high *= 1.02
    return low, high


def _scattered(size: int) -> Int64[np.ndarray, " u"]:
    """Rows of a sample: chosen once and for all, without regard to what the rows hold."""
    return np.random.default_rng(0).integers(0, size, _SAMPLE)


def _entries(matrix: Rows, low: float, high: float) -> _Pass:
    """One pass over the entries that are at least `low`."""
    first, a, b, caps, _ = matrix
    above = np.zeros(first.size, np.int64)
    rows = np.flatnonzero((first >= low) & (caps > 0))
    value, numerator = first[rows], b[rows]
    denominator, left = a[rows] + numerator + 1, caps[rows]
    limited = bool((caps < np.iinfo(np.int32).max).any())
    band_rows: list[Int64[np.ndarray, " m"]] = []
    band_values: list[Float64[np.ndarray, " m"]] = []
    column = 0
    while rows.size:
        between = value < high
        if between.any():
            band_rows.append(rows[between])
            band_values.append(value[between])
            above[rows[~between]] = column + 1
        else:
            above[rows] = column + 1
        value = value * (numerator / denominator)
        column += 1
        stays = (value >= low) & (left > column) if limited else value >= low
        if not stays.all():
            rows, value, numerator = rows[stays], value[stays], numerator[stays]
            denominator, left = denominator[stays], left[stays]
        numerator, denominator = numerator + 1, denominator + 1
    return _Pass(
        above,
        np.concatenate([np.zeros(0, np.int64), *band_rows]),
        np.concatenate([np.zeros(0), *band_values]),
    )
