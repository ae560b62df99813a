"""Examples by address: the same in any split, of the right side, and the ones that the task verifies."""

import jax
import numpy as np
import pytest

from models.tasks.registry import task
from models.tasks.task import Sequences
from models.training.demonstrations import batch_at, batch_shape, demonstrations
from theory.errors import InvalidInput

TASK = task("countdown-3")


def rows_of(sequences: Sequences) -> np.ndarray:
    return np.asarray(sequences.tokens)


def test_rows_do_not_depend_on_the_split() -> None:
    whole = demonstrations(TASK, "train", 5, 0, 48)
    parts = [demonstrations(TASK, "train", 5, first, 16) for first in (0, 16, 32)]
    for index in range(2):
        joined = np.concatenate([rows_of(part[index]) for part in parts])
        np.testing.assert_array_equal(rows_of(whole[index]), joined)
    other = demonstrations(TASK, "train", 6, 0, 48)
    assert (rows_of(whole[0]) != rows_of(other[0])).any()


def test_the_same_prompt_is_completed_anew_in_another_pass() -> None:
    # One pass of the training side is 1680 problems.
    prompts, completions = demonstrations(TASK, "train", 0, 0, 2 * 1680)
    keys = [tuple(sorted(row[:3])) + tuple(row[3:]) for row in rows_of(prompts).tolist()]
    assert sorted(keys[:1680]) == sorted(keys[1680:])
    assert np.asarray(TASK.verify(prompts, completions)).all()
    written: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for prompt, completion in zip(
        rows_of(prompts).tolist(), rows_of(completions).tolist(), strict=True
    ):
        written.setdefault(tuple(prompt), set()).add(tuple(completion))
    assert max(map(len, written.values())) == 2


def test_training_never_sees_a_test_problem() -> None:
    def problems(split: str, num: int) -> set[tuple[int, ...]]:
        prompts, _ = demonstrations(TASK, "train" if split == "train" else "test", 0, 0, num)
        return {tuple(sorted(row[:3])) + tuple(row[3:]) for row in rows_of(prompts).tolist()}

    train, test = problems("train", 1680), problems("test", 279)
    assert (len(train), len(test)) == (1680, 279)
    assert not train & test


def test_steps_take_turns_through_the_stream() -> None:
    shape = batch_shape(TASK, 12, 3, 22)
    assert (shape.rows, shape.width) == (2, 22)
    prompts, completions = demonstrations(TASK, "train", 7, 0, 24)
    stream = np.concatenate([rows_of(prompts), rows_of(completions)], axis=1)
    for step in range(2):
        rows = batch_at(TASK, 7, shape, TASK.eos, step)
        assert rows.tokens.shape == (3, 2, 22)
        expected = stream[12 * step : 12 * (step + 1)]
        np.testing.assert_array_equal(rows.tokens.reshape(12, 11), expected[:, :-1])
        np.testing.assert_array_equal(rows.targets.reshape(12, 11), expected[:, 1:])
        counted = np.broadcast_to(np.arange(11) >= 5, (12, 11))
        np.testing.assert_array_equal(rows.counted.reshape(12, 11), counted)
        np.testing.assert_array_equal(rows.segments.reshape(12, 11)[:, 0], [1, 2] * 6)


def test_more_micro_batches_than_rows_leave_some_empty() -> None:
    rows = batch_at(TASK, 0, batch_shape(TASK, 5, 4, None), TASK.eos, 0)
    assert rows.tokens.shape == (4, 2, 11)
    assert rows.counted.sum(axis=(1, 2)).tolist() == [12, 12, 6, 0]


def test_numbers_below_one_are_refused() -> None:
    for examples, parts, message in ((0, 1, "examples 0"), (4, 0, "micro-batches 0")):
        with pytest.raises(InvalidInput, match=message):
            batch_shape(TASK, examples, parts, None)
    with pytest.raises(InvalidInput, match="rows of 10 tokens: an example takes up to 11"):
        batch_shape(TASK, 4, 1, 10)


def test_keys_are_those_of_demonstrations() -> None:
    # Completions drawn with the keys of another seed are others, for the same prompts.
    prompts, completions = demonstrations(TASK, "test", 3, 0, 64)
    others = TASK.targets(jax.random.split(jax.random.key(0), 64), prompts)
    assert (rows_of(completions) != rows_of(others)).any()
