"""Running sums for laws: sums that never decrease, and do not move where nothing is added.

A tree-shaped cumulative sum, which is what compilers make of `cumsum`, adds the same numbers in a different order for each
entry. In floating point it can therefore decrease, and can grow across a weight of zero, whose particle is then
drawn. Here the numbers are added from left to right: inside blocks, then over the blocks' totals, so that the rounding error
grows like sqrt(N) and not like N.

`running_count` writes a sum as a whole number and a fraction. The fraction keeps its absolute precision however large
the sum is, where a float32 sum near 2^20 could no longer tell sixteenths apart.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Shaped


def running_sum(values: Shaped[Array, "*batch N"]) -> Shaped[Array, "*batch N"]:
    """v_1 + ... + v_i for every i.

    Args:
        values: [..., N] floats or integers, not negative.

    Returns:
        [..., N] never decreasing, with equal neighbours wherever a 0 is added.
    """
    within = _within_blocks(values)
    totals = jnp.moveaxis(within[..., -1], -1, 0)

    def advance(before: Array, total: Array) -> tuple[Array, Array]:
        return before + total, before

    _, offsets = jax.lax.scan(advance, jnp.zeros_like(totals[0]), totals)
    sums = jnp.moveaxis(offsets, 0, -1)[..., None] + within
    return _joined(sums, values.shape[-1])


def running_count(
    values: Float[Array, "*batch N"],
) -> tuple[Int32[Array, "*batch N"], Float[Array, "*batch N"]]:
    """v_1 + ... + v_i for every i, as a whole number and a fraction.

    Args:
        values: [..., N] not negative.

    Returns:
        [..., N] whole part and [..., N] fraction in [0, 1); lexicographically never decreasing, with equal neighbours
        wherever a 0 is added.
    """
    within = _within_blocks(values)
    totals = jnp.moveaxis(within[..., -1], -1, 0)

    def advance(
        before: tuple[Array, Array], total: Array
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        return _add(before, total), before

    start = (jnp.zeros(totals.shape[1:], jnp.int32), jnp.zeros_like(totals[0]))
    _, offsets = jax.lax.scan(advance, start, totals)
    whole, fraction = (jnp.moveaxis(offset, 0, -1)[..., None] for offset in offsets)
    whole, fraction = _add((whole, fraction), within)
    size = values.shape[-1]
    return _joined(whole, size), _joined(fraction, size)


def end_at(
    counts: Int32[Array, "*batch N"],
    positive: Bool[Array, "*batch N"],
    total: Int32[Array, "*batch"],
) -> Int32[Array, "*batch N"]:
    """Running counts whose exact end is known: rounding is not left to decide it.

    Args:
        counts: [..., N] never decreasing.
        positive: [..., N] where something positive is added.
        total: [...] the end.

    Returns:
        [..., N] `total` from the last positive entry on, and nowhere more than that.
    """
    index = positions(counts.shape)
    last = jnp.max(jnp.where(positive, index, -1), axis=-1, keepdims=True)
    end = total[..., None]
    return jnp.where((last >= 0) & (index >= last), end, jnp.minimum(counts, end))


def positions(shape: tuple[int, ...]) -> Int32[Array, "*batch N"]:
    """0..N-1 along the last axis.

    Args:
        shape: [..., N].

    Returns:
        [..., N].
    """
    return jax.lax.broadcasted_iota(jnp.int32, shape, len(shape) - 1)


def _add(before: tuple[Array, Array], value: Array) -> tuple[Array, Array]:
    """(whole, fraction) + value."""
    whole, fraction = before
    total = fraction + value
    carry = jnp.floor(total)
    return whole + carry.astype(jnp.int32), total - carry


def _within_blocks(values: Shaped[Array, "*batch N"]) -> Shaped[Array, "*batch M L"]:
    """Running sums inside M blocks of about sqrt(N) values, padded with zeros."""
    size = values.shape[-1]
    length = max(1, math.isqrt(size))
    num_blocks = -(-size // length)
    padding = [(0, 0)] * (values.ndim - 1) + [(0, num_blocks * length - size)]
    blocks = jnp.pad(values, padding).reshape(*values.shape[:-1], num_blocks, length)
    columns = jnp.moveaxis(blocks, -1, 0)

    def advance(before: Array, value: Array) -> tuple[Array, Array]:
        after = before + value
        return after, after

    _, sums = jax.lax.scan(advance, jnp.zeros_like(columns[0]), columns)
    return jnp.moveaxis(sums, 0, -1)


def _joined(blocks: Shaped[Array, "*batch M L"], size: int) -> Shaped[Array, "*batch N"]:
    """The blocks one after the other, without the padding."""
    return jax.lax.collapse(blocks, blocks.ndim - 2)[..., :size]
