"""Keys and values of what has been read, with a length for every row.

What stands past a row's length is stale and never read: going back is a shorter length. Rows are gathered and chosen by copying
only those that change.

On a CPU only the filled part of such a row is copied, chunk by chunk, in place; an accelerator, where every copy is a launch, gathers all rows
at once if any changes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, Int, Int32

from models.transformer.config import TransformerConfig

Layers = tuple[Float[Array, "B K S D"], ...]
# Positions that are copied at a time: few enough that little is copied past a row's end.
CHUNK = 16


class KeyValueCache(NamedTuple):
    """B rows of S places; K heads before places, so that a head's keys are one matrix.

    Attributes:
        layers: keys of the first layer, its values, keys of the second layer, ...: [B, K, S, D] each.
        lengths: [B] places that count.
    """

    layers: Layers
    lengths: Int32[Array, " B"]


def empty_cache(
    config: TransformerConfig, num_rows: int, num_places: int, dtype: DTypeLike
) -> KeyValueCache:
    """Rows that have read nothing.

    Args:
        config: sizes.
        num_rows: B.
        num_places: S.
        dtype: of keys and values.

    Returns:
        A cache of zeros.
    """
    shape = (num_rows, config.num_key_value_heads, num_places, config.head_dim)
    layer = jnp.zeros(shape, dtype)
    return KeyValueCache((layer,) * (2 * config.num_layers), jnp.zeros(num_rows, jnp.int32))


def write(
    layer: Float[Array, "B K S D"],
    entries: Float[Array, "B C K D"],
    places: Int[Array, "B C"],
) -> Float[Array, "B K S D"]:
    """Put entries where they belong.

    Args:
        layer: keys or values.
        entries: [B, C, K, D] new ones.
        places: [B, C] where; S or more writes nowhere.

    Returns:
        The layer.
    """
    rows = jnp.arange(layer.shape[0], dtype=jnp.int32)[:, None]
    return layer.at[rows, :, places].set(entries.astype(layer.dtype), mode="drop")


def take_rows(cache: KeyValueCache, rows: Int[Array, " B2"]) -> KeyValueCache:
    """Gather rows; nothing is copied where every row stays.

    Args:
        cache: of B rows.
        rows: [B2] indices into them.

    Returns:
        B2 rows.
    """
    lengths = cache.lengths[rows]
    if rows.shape != cache.lengths.shape:
        return KeyValueCache(tuple(layer[rows] for layer in cache.layers), lengths)
    layers = jax.lax.platform_dependent(
        cache.layers, rows, cache.lengths, cpu=take_in_place, default=take_whole
    )
    return KeyValueCache(layers, lengths)


def take_whole(layers: Layers, rows: Int[Array, " B"], lengths: Int32[Array, " B"]) -> Layers:
    """Gather all rows if any changes.

    Args:
        layers: of B rows.
        rows: [B] indices into them.
        lengths: not read.

    Returns:
        The gathered layers.
    """
    del lengths
    moves = (rows != jnp.arange(rows.shape[0], dtype=rows.dtype)).any()
    return jax.lax.cond(moves, lambda: tuple(layer[rows] for layer in layers), lambda: layers)


def take_in_place(layers: Layers, rows: Int[Array, " B"], lengths: Int32[Array, " B"]) -> Layers:
    """Copy rows that change into their places, if none of those is copied from; else gather all.

    Args:
        layers: of B rows.
        rows: [B] indices into them.
        lengths: [B] places that count, before.

    Returns:
        The gathered layers; past a row's length anything may stand.
    """
    own = jnp.arange(rows.shape[0], dtype=rows.dtype)
    in_place = (rows[rows] == rows).all()

    def gather(moved: tuple[Layers, Array]) -> tuple[Layers, Array]:
        return tuple(layer[rows] for layer in moved[0]), jnp.ones((), bool)

    # A loop of at most one round and not a cond: the rounds of a loop share their buffers.
    gathered, _ = jax.lax.while_loop(lambda moved: ~moved[1], gather, (layers, in_place))
    changed = in_place & (rows != own)
    return copy_rows(gathered, gathered, changed, rows, lengths)


def select_rows(mask: Bool[Array, " B"], a: KeyValueCache, b: KeyValueCache) -> KeyValueCache:
    """Row-wise choice; on a CPU in place of `b`.

    Args:
        mask: [B] true takes the row of `a`.
        a: B rows.
        b: B rows.

    Returns:
        B rows.
    """
    layers = jax.lax.platform_dependent(
        mask, a.layers, b.layers, a.lengths, cpu=select_in_place, default=select_whole
    )
    return KeyValueCache(layers, jnp.where(mask, a.lengths, b.lengths))


def select_whole(
    mask: Bool[Array, " B"], a: Layers, b: Layers, lengths: Int32[Array, " B"]
) -> Layers:
    """Choose in one pass over both.

    Args:
        mask: [B].
        a: B rows.
        b: B rows.
        lengths: not read.

    Returns:
        B rows.
    """
    del lengths
    chosen = mask[:, None, None, None]
    return tuple(jnp.where(chosen, x, y) for x, y in zip(a, b, strict=True))


def select_in_place(
    mask: Bool[Array, " B"], a: Layers, b: Layers, lengths: Int32[Array, " B"]
) -> Layers:
    """Copy the chosen rows of `a` over those of `b`.

    Args:
        mask: [B].
        a: B rows.
        b: B rows.
        lengths: [B] places that count in `a`.

    Returns:
        B rows.
    """
    return copy_rows(b, a, mask, jnp.arange(mask.shape[0], dtype=jnp.int32), lengths)


def copy_rows(
    to: Layers,
    source: Layers,
    mask: Bool[Array, " B"],
    rows: Int[Array, " B"],
    lengths: Int32[Array, " B"],
) -> Layers:
    """Copy the filled part of some rows, chunk by chunk; a compiler can write this in place of `to`.

    Args:
        to: what is written.
        source: what is read; may be `to` itself if no row that is read is written.
        mask: [B] rows to write.
        rows: [B] where each comes from.
        lengths: [B] places of each source row that count.

    Returns:
        `to` with these rows.
    """
    num_rows, num_heads, num_places, depth = to[0].shape
    chunk = min(CHUNK, num_places)
    (where,) = jnp.nonzero(mask, size=num_rows, fill_value=0)
    same = to is source

    def copy_row(i: Array, now: Layers) -> Layers:
        row = where[i]
        origin = rows[row]

        def copy_chunk(j: Array, now: Layers) -> Layers:
            def one(write: Array, read: Array) -> Array:
                size = (1, num_heads, chunk, depth)
                # Past the end both slices are moved back alike.
                part = jax.lax.dynamic_slice(read, (origin, 0, j * chunk, 0), size)
                return jax.lax.dynamic_update_slice(write, part, (row, 0, j * chunk, 0))

            return tuple(one(w, r) for w, r in zip(now, now if same else source, strict=True))

        num_chunks = (lengths[origin] + chunk - 1) // chunk
        return jax.lax.fori_loop(0, num_chunks, copy_chunk, now)

    return jax.lax.fori_loop(0, mask.sum(dtype=jnp.int32), copy_row, to)
