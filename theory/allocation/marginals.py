"""The R largest entries of a matrix whose rows decrease, found by a threshold and never written down.

A separable sum of concave utilities under one budget of whole units is largest at the R largest marginals, since each row decreases and the chosen
entries of a row are therefore its first ones; taking the largest marginal again and again finds the same. Here the value of the R-th largest entry is
found by bisection on its bits, and how many entries of a row reach it by bisection on the column.

Equal entries of different rows go to the row that stands first; a row with several of them takes one and waits for the others' turn. Fractions that are equal differ by roundings in floating point, so
entries whose logarithms agree to `TOLERANCE` roundings are taken for equal.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

TOLERANCE = 256
"""Roundings by which logarithms of equal marginals may differ."""

# Column of each row -> natural log of its marginal there: at most 0, decreasing along a row.
LogMarginal = Callable[[Int[Array, " U"]], Float[Array, " U"]]


class Cut(NamedTuple):
    """Where rows are cut.

    Attributes:
        above: [U] entries clearly above the R-th largest.
        reached: [U] entries above or equal to it.
    """

    above: Int[Array, " U"]
    reached: Int[Array, " U"]


def cut_rows(
    log_marginal: LogMarginal,
    caps: Int[Array, " U"],
    multiplicity: Int[Array, " U"],
    budget: Int[Array, ""],
) -> Cut:
    """How many entries of each row are among the R largest.

    Args:
        log_marginal: of all rows, at one column of each.
        caps: [U] entries that a row has.
        multiplicity: [U] how often each row stands in the matrix.
        budget: R, at most sum caps * multiplicity.

    Returns:
        The cut: sum above * multiplicity < R <= sum reached * multiplicity, or both equal where R is 0.
    """

    def costs(columns: Int[Array, " U"]) -> Float[Array, " U"]:
        return jnp.maximum(-log_marginal(columns), 0)

    def total(counts: Int[Array, " U"]) -> Int[Array, ""]:
        return jnp.sum(counts * multiplicity)

    def reach(cost: Float[Array, ""]) -> Int[Array, " U"]:
        return _count(lambda columns: costs(columns) <= cost, caps)

    floats = costs(jnp.zeros_like(caps)).dtype
    bits = jnp.dtype(f"int{floats.itemsize * 8}")

    def as_cost(place: Int[Array, ""]) -> Float[Array, ""]:
        return jax.lax.bitcast_convert_type(place, floats)  # order of bits = order of numbers >= 0

    def halve(
        bounds: tuple[Int[Array, ""], Int[Array, ""]],
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        low, high = bounds
        middle = low + ((high - low) >> 1)
        enough = total(reach(as_cost(middle))) >= budget
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    infinite = jax.lax.bitcast_convert_type(jnp.asarray(jnp.inf, floats), bits)
    low, _ = jax.lax.while_loop(
        lambda bounds: bounds[0] < bounds[1], halve, (jnp.zeros_like(infinite), infinite)
    )
    cost = as_cost(low)
    slack = TOLERANCE * jnp.finfo(floats).eps * jnp.maximum(cost, 1)
    largest = jnp.finfo(floats).max
    above = _count(lambda columns: costs(columns) <= jnp.minimum(cost - slack, largest), caps)
    nothing = budget == 0
    return Cut(
        jnp.where(nothing, 0, jnp.where(jnp.isinf(cost), reach(jnp.asarray(largest)), above)),
        jnp.where(nothing, 0, reach(cost + slack)),
    )


def fill(cut: Cut, budget: Int[Array, ""]) -> Int[Array, " U"]:
    """Spend what is left on the equal entries: one to each row that has some, in order, and again.

    Args:
        cut: of rows that stand once each.
        budget: R, at most sum reached.

    Returns:
        [U] with sum R.
    """
    ties = cut.reached - cut.above
    left = budget - jnp.sum(cut.above)

    def spent(level: Int[Array, ""]) -> Int[Array, ""]:
        return jnp.sum(jnp.minimum(ties, level))

    def halve(
        bounds: tuple[Int[Array, ""], Int[Array, ""]],
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        low, high = bounds
        middle = low + ((high - low + 1) >> 1)
        fits = spent(middle) <= left
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle - 1)

    level, _ = jax.lax.while_loop(
        lambda bounds: bounds[0] < bounds[1],
        halve,
        (jnp.zeros_like(left), jnp.max(ties, initial=0)),
    )
    more = ties > level
    first = jnp.cumsum(more, dtype=ties.dtype) <= left - spent(level)
    return cut.above + jnp.minimum(ties, level) + (more & first).astype(ties.dtype)


def largest(
    log_marginal: LogMarginal, caps: Int[Array, " U"], budget: Int[Array, ""] | int
) -> Int[Array, " U"]:
    """Take the R largest entries of rows that stand once each.

    Args:
        log_marginal: of all rows, at one column of each.
        caps: [U] entries that a row has.
        budget: R; what exceeds sum caps is not spent.

    Returns:
        [U] entries taken of each row.
    """
    total = jnp.minimum(jnp.asarray(budget, caps.dtype), jnp.sum(caps))
    return fill(cut_rows(log_marginal, caps, jnp.ones_like(caps), total), total)


def _count(
    taken: Callable[[Int[Array, " U"]], Bool[Array, " U"]], caps: Int[Array, " U"]
) -> Int[Array, " U"]:
    """Entries of each row, from its start, that are taken: the digits of their number, the largest first.

    Each step asks once. Two bounds that close in would ask twice, and a compiler may round an entry one way for the lower bound and another way
    for the upper one, so that neither moves: without optimisation XLA has been seen to do so.
    """
    most = jnp.max(caps, initial=0)
    digits = caps.dtype.itemsize * 8 - jax.lax.clz(most)

    def add(
        state: tuple[Int[Array, " U"], Int[Array, ""]],
    ) -> tuple[Int[Array, " U"], Int[Array, ""]]:
        counts, digit = state
        more = counts + digit
        return jnp.where((more <= caps) & taken(more - 1), more, counts), digit >> 1

    first = jnp.where(most > 0, jnp.ones_like(most) << jnp.maximum(digits - 1, 0), 0)
    counts, _ = jax.lax.while_loop(lambda state: state[1] > 0, add, (jnp.zeros_like(caps), first))
    return counts
