"""Problems come in a shuffled order that can be entered anywhere, and no problem is on both sides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Int, UInt64

from models.tasks.problems import Problems, Split, num_problems, permute, problem_rows
from tests.stat_asserts import assert_counts, assert_rejected


def numbered(*sizes: int) -> Problems:
    """Problems that are written as their kind, number and low variant bits."""

    def write(
        kinds: Int[np.ndarray, " B"],
        indices: UInt64[np.ndarray, " B"],
        variants: UInt64[np.ndarray, " B"],
    ) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]]:
        low = (variants % np.uint64(1000)).astype(int)
        tokens = np.stack([kinds, indices.astype(int), low], axis=1)
        return tokens, np.full(len(kinds), 3)

    return Problems(sizes, write)


@given(
    st.integers(1, 3000),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6),
)
def test_a_permutation_meets_every_number_once(size: int, round_keys: list[int]) -> None:
    values = np.arange(size, dtype=np.uint64)
    images = permute(values, size, np.array(round_keys, np.uint64))
    np.testing.assert_array_equal(np.sort(images), values)


def test_every_number_goes_by_its_own_round_keys() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(0, 300, 40).astype(np.uint64)
    keys = rng.integers(0, 2**64, (6, 40), np.uint64)
    alone = [permute(values[row : row + 1], 300, keys[:, row])[0] for row in range(40)]
    np.testing.assert_array_equal(permute(values, 300, keys), alone)


def test_numbers_of_many_bits_stay_below_the_size_and_apart() -> None:
    size = 2**41 + 12345
    values = np.arange(size - 5000, size, dtype=np.uint64)
    images = permute(values, size, np.array([3, 1, 4, 1, 5, 9], np.uint64))
    assert images.max() < size
    assert len(np.unique(images)) == 5000
    # The high half is shuffled as well as the low one.
    assert images.min() < size // 100


def image_counts(num_rounds: int) -> Int[np.ndarray, " K"]:
    """Pairs of images of (0, 1) in {0, .., 4}, over random round keys."""
    counts = np.zeros(25, int)
    generator = np.random.default_rng(5)
    for round_keys in generator.integers(0, 2**64, (1500, num_rounds), np.uint64):
        first, second = permute(np.array([0, 1], np.uint64), 5, round_keys).astype(int)
        counts[5 * first + second] += 1
    return counts


def test_every_pair_of_places_is_equally_likely() -> None:
    law = (1 - np.eye(5)).ravel() / 20
    assert_counts(image_counts(6), law)
    assert_rejected(lambda: assert_counts(image_counts(1), law))


@pytest.mark.parametrize("sizes", [(100,), (40, 100, 7)])
def test_a_pass_has_every_problem_of_its_side_once(sizes: tuple[int, ...]) -> None:
    problems = numbered(*sizes)
    seen: dict[Split, set[tuple[int, int]]] = {"train": set(), "test": set()}
    for split in seen:
        rows = len(sizes) * max(sizes)
        kinds, indices, _ = problem_rows(problems, split, rows, seed=3, first=0)
        np.testing.assert_array_equal(kinds, np.arange(rows) % len(sizes))
        for kind, size in enumerate(sizes):
            side = indices[kinds == kind].astype(int)
            num = size // 7 if split == "test" else size - size // 7
            assert len(set(side[:num])) == num
            # The next pass has the same problems in another order.
            assert set(side[:num]) == set(side)
            if num > 10:
                assert side[:num].tolist() != side[num : 2 * num].tolist()
            seen[split] |= {(kind, int(index)) for index in side}
    assert not seen["train"] & seen["test"]
    assert len(seen["train"] | seen["test"]) == sum(sizes)
    assert len(seen["train"]) == num_problems(problems, "train")
    assert len(seen["test"]) == num_problems(problems, "test")


def test_the_sides_do_not_depend_on_the_seed_and_the_order_does() -> None:
    problems = numbered(70)
    orders = [problem_rows(problems, "test", 10, seed, 0)[1].tolist() for seed in range(3)]
    assert set(orders[0]) == set(orders[1]) == set(orders[2])
    assert orders[0] != orders[1] != orders[2]


def test_test_problems_are_spread_over_the_numbers() -> None:
    indices = problem_rows(numbered(7000), "test", 1000, 0, 0)[1]
    halves = np.histogram(indices.astype(int), bins=4, range=(0, 7000))[0]
    assert halves.min() > 200


@settings(max_examples=20)
@given(st.integers(0, 300), st.integers(0, 200), st.integers(0, 200))
def test_a_stream_is_the_same_in_any_split(first: int, left: int, right: int) -> None:
    problems = numbered(20, 50)
    whole = problem_rows(problems, "train", left + right, 1, first)
    parts = [
        problem_rows(problems, "train", left, 1, first),
        problem_rows(problems, "train", right, 1, first + left),
    ]
    for index, expected in enumerate(whole):
        joined = np.concatenate([part[index] for part in parts])
        np.testing.assert_array_equal(joined, expected)


def test_variants_of_one_problem_differ_between_passes() -> None:
    _, indices, variants = problem_rows(numbered(7), "train", 600, 0, 0)
    of_one = variants[indices == indices[0]]
    assert len(of_one) == 100
    assert len(np.unique(of_one)) == 100
    np.testing.assert_array_less(15, np.bincount((of_one % np.uint64(2)).astype(int)))
