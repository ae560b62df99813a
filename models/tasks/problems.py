"""The problems of a task, split into train and test, in an order that can be entered anywhere.

A problem has a number, 0 <= i < n. A keyed bijection of {0, .., n-1} shuffles n numbers without ever listing them:
a Feistel network permutes the smallest even number of bits that hold n, and is applied again while it leads outside
(cycle walking), which keeps it a bijection of what is inside (Black and Rogaway, Ciphers with arbitrary finite domains,
2002, method 2; here with a fast mixing function, which is no cipher). One fixed bijection says which problems are for tests,
another for each seed and pass says in which order they come.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, UInt64

from theory.keys import Role, role_key

Split = Literal["train", "test"]

# One problem in so many is for tests.
TEST_SHARE = 7
_SPLIT_SEED = 0
_NUM_ROUNDS = 6


class Problems(NamedTuple):
    """All problems of a task, by kind and number.

    Prompts that ask the same (the same numbers in another order) belong to one problem, so that no test problem is seen
    in training in another guise.

    Attributes:
        sizes: problems of each kind. Kinds take turns in the stream: every len(sizes) rows hold one of each.
        write: (kinds [B], indices [B], variants [B]) -> tokens [B, P] and lengths [B]: the prompts. A variant is a random
            number of 64 bits that chooses among the guises of a problem.
    """

    sizes: tuple[int, ...]
    write: Callable[
        [Int[np.ndarray, " B"], UInt64[np.ndarray, " B"], UInt64[np.ndarray, " B"]],
        tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]],
    ]


def num_problems(problems: Problems, split: Split) -> int:
    """How many problems one side has, over all kinds.

    Args:
        problems: of a task.
        split: "train" or "test".

    Returns:
        Their number.
    """
    return sum(_num_of_kind(size, split) for size in problems.sizes)


def problem_rows(
    problems: Problems, split: Split, num: int, seed: int, first: int
) -> tuple[Int[np.ndarray, " B"], UInt64[np.ndarray, " B"], UInt64[np.ndarray, " B"]]:
    """Which problem stands in each row of the stream.

    Args:
        problems: of a task.
        split: "train" or "test".
        num: rows.
        seed: of the order.
        first: row to begin with.

    Returns:
        Kind, number within the kind, and variant of each row.
    """
    rows = np.arange(first, first + num)
    kinds = rows % len(problems.sizes)
    places = rows // len(problems.sizes)
    indices = np.zeros(num, np.uint64)
    variants = np.zeros(num, np.uint64)
    for kind, size in enumerate(problems.sizes):
        here = kinds == kind
        if not here.any():
            continue
        size_of_side = _num_of_kind(size, split)
        passes, position = np.divmod(places[here], size_of_side)
        position = position.astype(np.uint64)
        keys = _round_keys(seed, split, kind, int(passes[0]), int(passes[-1] - passes[0]) + 1)
        keys = keys[:, passes - passes[0]]
        # Test problems are the first ones of the fixed order.
        offset = 0 if split == "test" else size - size_of_side
        place = permute(position, size_of_side, keys[1:]) + np.uint64(offset)
        indices[here] = permute(place, size, _round_keys(_SPLIT_SEED, "split", kind, 0, 1)[1:])
        variants[here] = mix(position + keys[0])
    return kinds, indices, variants


def permute(
    values: UInt64[np.ndarray, " B"], size: int, round_keys: UInt64[np.ndarray, "*rounds"]
) -> UInt64[np.ndarray, " B"]:
    """A keyed bijection of {0, .., size-1}, evaluated where it is asked for.

    Args:
        values: [B] below size.
        size: at least 1, at most 2^62.
        round_keys: [R, B] 64 random bits for each round, or [R, 1] or [R] those of all values.

    Returns:
        [B] below size; different values with the same bits have different images.
    """
    num_rounds = len(round_keys)
    all_keys = np.broadcast_to(round_keys.reshape(num_rounds, -1), (num_rounds, len(values)))
    half = np.uint64(max(1, (int(size - 1).bit_length() + 1) // 2))
    mask = (np.uint64(1) << half) - np.uint64(1)
    result = values
    outside = np.ones(values.shape, bool)
    while outside.any():
        left, right = result[outside] >> half, result[outside] & mask
        for round_key in all_keys[:, outside]:
            left, right = right, left ^ (mix(right ^ round_key) & mask)
        result = result.copy()
        result[outside] = (left << half) | right
        outside = result >= np.uint64(size)
    return result


def _num_of_kind(size: int, split: Split) -> int:
    num_test = size // TEST_SHARE
    return num_test if split == "test" else size - num_test


@lru_cache(maxsize=64)
def _round_keys(
    seed: int, use: str, kind: int, first: int, num_passes: int
) -> UInt64[np.ndarray, "R passes"]:
    """64 random bits for the variants and for each round of some shuffles, one for each pass."""
    key = role_key(jax.random.key(seed), Role.PROMPT)
    for index in (("train", "test", "split").index(use), kind):
        key = jax.random.fold_in(key, index)
    # In one of few shapes, so that few programs are compiled.
    passes = first + np.arange(1 << (num_passes - 1).bit_length(), dtype=np.uint32)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, passes)
    shape = (2, _NUM_ROUNDS + 1)
    bits = jax.vmap(lambda each: jax.random.bits(each, shape, np.uint32))(keys)
    high, low = np.asarray(bits[:num_passes]).astype(np.uint64).transpose(1, 2, 0)
    return (high << np.uint64(32)) | low


def mix(values: UInt64[np.ndarray, "*batch"]) -> UInt64[np.ndarray, "*batch"]:
    """Every bit of the result depends on every bit of the argument: the finaliser of splitmix64 (Steele, Lea and Flood 2014).

    Args:
        values: [...] 64 bits each.

    Returns:
        [...] different for different arguments.
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
