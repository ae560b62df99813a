"""Gathering and choosing rows of a cache: the ways of an accelerator and of a CPU agree on all that counts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.transformer.cache import (
    CHUNK,
    KeyValueCache,
    copy_rows,
    select_in_place,
    select_rows,
    select_whole,
    take_in_place,
    take_rows,
    take_whole,
    write,
)

ROWS, HEADS, PLACES, DEPTH = 5, 2, 2 * CHUNK + 7, 3
SHAPE = (ROWS, HEADS, PLACES, DEPTH)
KEYS = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE) + 1
LAYERS = (KEYS, -KEYS)
OTHERS = (KEYS + 0.5, -KEYS - 0.5)

rows_of = st.lists(st.integers(0, ROWS - 1), min_size=ROWS, max_size=ROWS)
masks = st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)
fillings = st.lists(
    st.sampled_from([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, PLACES - 1, PLACES]),
    min_size=ROWS,
    max_size=ROWS,
)

TAKE = {True: jax.jit(take_in_place), False: jax.jit(take_whole)}
SELECT = {True: jax.jit(select_in_place), False: jax.jit(select_whole)}


def as_layers(values: tuple[np.ndarray, ...]) -> tuple[jax.Array, ...]:
    return tuple(map(jnp.asarray, values))


def check(got: Any, expected: np.ndarray, filled: np.ndarray, stays: np.ndarray) -> None:
    """The filled part of every row, and all of those that stay."""
    for layer, sign in zip(map(np.asarray, got), (1, -1), strict=True):
        for row in range(ROWS):
            end = PLACES if stays[row] else filled[row]
            np.testing.assert_array_equal(layer[row, :, :end], sign * expected[row, :, :end])


@pytest.mark.parametrize("in_place", [True, False])
@given(rows=rows_of, lengths=fillings)
@example(rows=[1, 2, 3, 4, 0], lengths=[PLACES] * ROWS)  # a cycle
@example(rows=[1, 0, 2, 3, 4], lengths=[3] * ROWS)
@example(rows=[2, 2, 2, 2, 2], lengths=[1, 2, CHUNK + 1, 4, 5])  # one row for all, in place
@example(rows=[0, 0, 1, 3, 4], lengths=[9] * ROWS)  # a row that is copied from and written
@settings(max_examples=40, deadline=None)
def test_rows_are_gathered(in_place: bool, rows: list[int], lengths: list[int]) -> None:
    which, filled = np.array(rows, np.int32), np.array(lengths, np.int32)
    got = TAKE[in_place](as_layers(LAYERS), jnp.asarray(which), jnp.asarray(filled))
    stays = (which == np.arange(ROWS)) if in_place else np.ones(ROWS, bool)
    check(got, KEYS[which], filled[which], stays)


@pytest.mark.parametrize("in_place", [True, False])
@given(mask=masks, lengths=fillings)
@settings(max_examples=30, deadline=None)
def test_rows_are_chosen(in_place: bool, mask: list[bool], lengths: list[int]) -> None:
    chosen, filled = np.array(mask), np.array(lengths, np.int32)
    got = SELECT[in_place](
        jnp.asarray(chosen), as_layers(OTHERS), as_layers(LAYERS), jnp.asarray(filled)
    )
    expected = np.where(chosen[:, None, None, None], OTHERS[0], KEYS)
    check(got, expected, filled, ~chosen | (not in_place))


def test_only_whole_chunks_of_the_filled_part_are_copied() -> None:
    """Else a copy would cost as much as the whole row."""
    lengths = jnp.array([0, 1, CHUNK, CHUNK + 1, 0], jnp.int32)
    own = jnp.arange(ROWS, dtype=jnp.int32)
    mask = jnp.ones(ROWS, bool)
    got, _ = jax.jit(copy_rows)(as_layers(LAYERS), as_layers(OTHERS), mask, own, lengths)
    written = (np.asarray(got) == OTHERS[0]).all(axis=(1, 3)).sum(axis=1)
    np.testing.assert_array_equal(written, [0, CHUNK, CHUNK, 2 * CHUNK, 0])


def test_lengths_go_with_their_rows() -> None:
    lengths = jnp.array([3, 1, 4, 1, 5], jnp.int32)
    cache = KeyValueCache(as_layers(LAYERS), lengths)
    other = KeyValueCache(as_layers(OTHERS), 10 * lengths)
    same = take_rows(cache, jnp.array([2, 2, 0, 4, 4], jnp.int32))
    np.testing.assert_array_equal(same.lengths, [4, 4, 3, 5, 5])
    np.testing.assert_array_equal(same.layers[1][3, :, :5], LAYERS[1][4, :, :5])
    more = take_rows(cache, jnp.array([4, 0, 0, 1, 2, 3, 4], jnp.int32))
    np.testing.assert_array_equal(more.lengths, [5, 3, 3, 1, 4, 1, 5])
    np.testing.assert_array_equal(more.layers[0], KEYS[[4, 0, 0, 1, 2, 3, 4]])
    mask = jnp.array([True, False, True, False, False])
    chosen = select_rows(mask, cache, other)
    np.testing.assert_array_equal(chosen.lengths, [3, 10, 4, 10, 50])
    np.testing.assert_array_equal(chosen.layers[0][0, :, :3], KEYS[0, :, :3])
    np.testing.assert_array_equal(chosen.layers[0][1], OTHERS[0][1])
    # As much is copied as the chosen row has, however short the row that it replaces.
    longer = select_rows(mask, other, cache)
    np.testing.assert_array_equal(longer.lengths, [30, 1, 40, 1, 5])
    np.testing.assert_array_equal(longer.layers[0][0, :, :30], OTHERS[0][0, :, :30])
    np.testing.assert_array_equal(longer.layers[0][1], KEYS[1])


@given(
    places=st.lists(
        st.lists(st.integers(0, PLACES + 3), min_size=2, max_size=2, unique=True),
        min_size=ROWS,
        max_size=ROWS,
    )
)
@settings(max_examples=20, deadline=None)
def test_entries_go_where_they_belong_and_nowhere_past_the_end(places: list[list[int]]) -> None:
    entries = -np.arange(ROWS * 2 * HEADS * DEPTH, dtype=np.float32).reshape(ROWS, 2, HEADS, DEPTH)
    expected = KEYS.copy()
    for row, pair in enumerate(places):
        for entry, place in enumerate(pair):
            if place < PLACES:
                expected[row, :, place] = entries[row, entry]
    got = write(jnp.asarray(KEYS), jnp.asarray(entries), jnp.asarray(places, jnp.int32))
    np.testing.assert_array_equal(got, expected)


def test_entries_take_the_precision_of_the_cache() -> None:
    layer = jnp.zeros((1, 1, 2, 1), jnp.bfloat16)
    got = write(layer, jnp.full((1, 1, 1, 1), 1 / 3), jnp.array([[1]]))
    assert got.dtype == jnp.bfloat16
    assert float(got[0, 0, 1, 0]) == float(jnp.bfloat16(1 / 3)) and float(got[0, 0, 0, 0]) == 0
