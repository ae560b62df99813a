"""The prompts of a pool in the order of an epoch: a permutation and a place in it.

When the permutation is used up a new one is drawn, addressed by the number of the epoch.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from theory.keys import Role, role_key


class Stream(NamedTuple):
    """Where an epoch stands.

    Attributes:
        key: of all permutations.
        order: [P] prompts in the order of this epoch.
        position: entries of `order` that have been passed.
        epoch: from 0.
    """

    key: Key[Array, ""]
    order: Int[Array, " P"]
    position: Int[Array, ""]
    epoch: Int[Array, ""]


def start_stream(key: Key[Array, ""], num_prompts: int) -> Stream:
    """The first epoch.

    Args:
        key: of the run.
        num_prompts: P.

    Returns:
        Its start.
    """
    of_order = role_key(key, Role.ORDER)
    zero = jnp.zeros((), jnp.int32)
    return Stream(of_order, _order(of_order, zero, num_prompts), zero, zero)


def take(
    stream: Stream, count: Int[Array, ""] | int, eligible: Bool[Array, " P"]
) -> tuple[Stream, Int[Array, " P"]]:
    """The next prompts. One that is not eligible is passed over.

    Args:
        stream: where the epoch stands.
        count: how many are wanted.
        eligible: [P] which may be taken.

    Returns:
        The stream after them and [P] their places: 1 for the first taken, 0 for those that were not. At most one new epoch is begun,
        so fewer than `count` come back only where fewer are eligible.
    """
    wanted = jnp.asarray(count, jnp.int32)
    first, position = _next(stream.order, stream.position, wanted, eligible)
    num_first = jnp.max(first, initial=0)

    def same_epoch() -> tuple[Stream, Int[Array, " P"]]:
        return stream._replace(position=position), first

    def next_epoch() -> tuple[Stream, Int[Array, " P"]]:
        epoch = stream.epoch + 1
        order = _order(stream.key, epoch, eligible.size)
        second, there = _next(
            order, jnp.zeros_like(position), wanted - num_first, eligible & (first == 0)
        )
        places = first + jnp.where(second > 0, second + num_first, 0)
        return Stream(stream.key, order, there, epoch), places

    # A permutation is the dear part, and is drawn only when it is needed.
    return jax.lax.cond(num_first < wanted, next_epoch, same_epoch)


def _order(key: Key[Array, ""], epoch: Int[Array, ""], num_prompts: int) -> Int[Array, " P"]:
    return jax.random.permutation(jax.random.fold_in(key, epoch), num_prompts).astype(jnp.int32)


def _next(
    order: Int[Array, " P"],
    position: Int[Array, ""],
    count: Int[Array, ""],
    eligible: Bool[Array, " P"],
) -> tuple[Int[Array, " P"], Int[Array, ""]]:
    """Places (from 1) of the next eligible ones in this order, and the position after the last of them."""
    index = jnp.arange(order.size, dtype=jnp.int32)
    may = eligible[order] & (index >= position)
    place = jnp.cumsum(may, dtype=jnp.int32)
    taken = may & (place <= count)
    enough = jnp.sum(may, dtype=jnp.int32) >= count
    last = jnp.max(jnp.where(taken, index + 1, position), initial=0)
    places = jnp.zeros_like(order).at[order].set(jnp.where(taken, place, 0))
    return places, jnp.where(enough, last, order.size).astype(position.dtype)
