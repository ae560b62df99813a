"""Abandonment with a guarantee that needs no prior: sup over p of P(abandoned and a full group would have been mixed) <= delta.

A rule that abandons after m1 successes and no failure, or m0 failures and no success, has

    g(p) = p^m1 - p^n + (1 - p)^m0 - (1 - p)^n

and any rule has a polynomial of degree n whose Bernstein coefficients are shares of orders, so in [0, 1]. Its largest value on [0, 1] is enclosed
by subdivision: on every interval it lies between its values at the ends and its largest coefficient there (de Casteljau), and
the gap closes with the square of the length. The bound is certified up to rounding, n units in the last place, and no grid over p is involved.

The guarantee is dear. One side alone has its maximum at p = (m / n)^(1 / (n - m)), (1 - m / n) (m / n)^(m / (n - m)): 1/4 at n = 2 m for every n.
Per visited prompt, not per abandoned one: no rule bounds P(effective | abandoned) for all p.

Derived here.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64, Int

from theory.errors import InvalidInput
from theory.exact.allocation.lattice import SequentialRule
from theory.exact.allocation.objective import abandoned_shares

# Widest enclosure of a maximum, and how often an interval may be halved for it.
TOLERANCE = 1e-12
MOST_HALVINGS = 60


class Enclosure(NamedTuple):
    """Where a maximum lies.

    Attributes:
        low: a value that is attained.
        high: a value that is not exceeded.
        at: p where `low` is attained.
    """

    low: float
    high: float
    at: float


class Frontier(NamedTuple):
    """Rules that keep the guarantee and of which none stops earlier on both sides.

    Attributes:
        after_successes: m1 of each.
        after_failures: m0 of each.
        worst: certified upper bound of sup over p.
    """

    after_successes: Int[np.ndarray, " K"]
    after_failures: Int[np.ndarray, " K"]
    worst: Float64[np.ndarray, " K"]


def one_sided_worst(stop: int, group_size: int) -> float:
    """Largest p^m - p^n: the worst case of abandoning after m successes alone.

    Args:
        stop: m in 1..n.
        group_size: n.

    Returns:
        (1 - m / n) (m / n)^(m / (n - m)); 0 for m = n.
    """
    if stop == group_size:
        return 0.0
    share = stop / group_size
    return (1 - share) * share ** (stop / (group_size - stop))


def wrong_abandonment(rule: SequentialRule, full_size: int) -> Float64[np.ndarray, "*K N"]:
    """Bernstein coefficients of P(abandoned and a full group would have been mixed | p).

    Args:
        rule: [..., T, S], T <= n + 1.
        full_size: n.

    Returns:
        [..., n + 1] in [0, 1], the two ends 0.
    """
    with jax.enable_x64(True):
        shares = np.array(abandoned_shares(rule, full_size, jnp.zeros((), jnp.float64)))
    shares[..., [0, -1]] = 0
    return shares


def largest_value(coefficients: Float64[np.ndarray, " N"]) -> Enclosure:
    """The maximum over [0, 1] of a polynomial in Bernstein form.

    Args:
        coefficients: [d + 1].

    Returns:
        An enclosure no wider than 1e-12 of the largest coefficient, up to rounding.
    """
    pieces = np.asarray(coefficients, np.float64)[None, :]
    starts, width = np.zeros(1), 1.0
    scale = max(float(np.abs(pieces).max()), np.finfo(np.float64).tiny)
    best, at, high = -np.inf, 0.0, np.inf
    for _ in range(MOST_HALVINGS):
        ends = np.concatenate([pieces[:, 0], pieces[:, -1]])
        place = int(ends.argmax())
        if ends[place] > best:
            best, at = float(ends[place]), float(np.concatenate([starts, starts + width])[place])
        tops = pieces.max(axis=1)
        high = max(float(tops.max()), best)
        if high - best <= TOLERANCE * scale:
            break
        alive = tops > best
        pieces, starts = pieces[alive], starts[alive]
        left, right = _halves(pieces)
        width /= 2
        pieces = np.concatenate([left, right])
        starts = np.concatenate([starts, starts + width])
    return Enclosure(best, high, at)


def smallest_stop(group_size: int, delta: float) -> int:
    """Earliest m at which both sides may be abandoned: sup over p of g <= delta for m1 = m0 = m.

    Args:
        group_size: n.
        delta: largest probability of a wrong abandonment for any p.

    Returns:
        m in 1..n; n abandons nothing that could have been mixed.

    Raises:
        InvalidInput: delta is below 0.
    """
    _check(delta)
    for stop in range(1, group_size):
        if _worst(group_size, stop, stop).high <= delta:
            return stop
    return group_size


def frontier(group_size: int, delta: float) -> Frontier:
    """All pairs (m1, m0) that keep the guarantee and of which none is earlier on both sides.

    Args:
        group_size: n.
        delta: largest probability of a wrong abandonment for any p.

    Returns:
        In order of m1; m0 falls as m1 grows.

    Raises:
        InvalidInput: delta is below 0.
    """
    _check(delta)
    rows: list[tuple[int, int, float]] = []
    after_failures = group_size
    for after_successes in range(1, group_size + 1):
        worst = _worst(group_size, after_successes, after_failures).high
        if worst > delta:
            continue
        # Later on one side is never worse, so the other side may only move earlier from here.
        while after_failures > 1:
            earlier = _worst(group_size, after_successes, after_failures - 1).high
            if earlier > delta:
                break
            after_failures, worst = after_failures - 1, earlier
        if not rows or after_failures < rows[-1][1]:
            rows.append((after_successes, after_failures, worst))
    successes, failures, worst = zip(*rows, strict=True)
    return Frontier(np.array(successes), np.array(failures), np.array(worst))


def keeps(rule: SequentialRule, full_size: int, delta: float) -> Bool[np.ndarray, "*K"]:
    """Whether rules keep the guarantee, whatever they look like.

    Args:
        rule: [..., T, S].
        full_size: n.
        delta: largest probability of a wrong abandonment for any p.

    Returns:
        [...] True only where it is certified.
    """
    coefficients = wrong_abandonment(rule, full_size)
    rows = coefficients.reshape(-1, coefficients.shape[-1])
    verdicts = [largest_value(row).high <= delta for row in rows]
    return np.array(verdicts).reshape(coefficients.shape[:-1])


def _worst(group_size: int, after_successes: int, after_failures: int) -> Enclosure:
    """Of one run-length rule, from the closed form of its coefficients."""
    return largest_value(_coefficients(group_size, after_successes, after_failures))


def _coefficients(group_size: int, after_successes: int, after_failures: int) -> np.ndarray:
    """p^m1 has the Bernstein coefficients C(X, m1) / C(n, m1): the share of orders that begin with m1 successes."""
    count = np.arange(group_size + 1.0)
    after = np.ones(group_size + 1), np.ones(group_size + 1)
    for shares, stop, left in (
        (after[0], after_successes, count),
        (after[1], after_failures, group_size - count),
    ):
        for step in range(stop):
            shares *= np.maximum(left - step, 0) / (group_size - step)
    coefficients = after[0] + after[1]
    coefficients[[0, -1]] = 0
    return coefficients


def _halves(pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the polynomials on the two halves of their intervals: de Casteljau at the middle."""
    left, right = np.empty_like(pieces), np.empty_like(pieces)
    row = pieces
    for step in range(pieces.shape[1]):
        left[:, step], right[:, -1 - step] = row[:, 0], row[:, -1]
        row = (row[:, 1:] + row[:, :-1]) / 2
    return left, right


def _check(delta: float) -> None:
    if not delta >= 0:
        raise InvalidInput(f"delta {delta:g}: a probability is at least 0")
