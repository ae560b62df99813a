"""The examples of each step, by address: what a step trains on depends on the seed and its number and on nothing that came before."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from models.tasks.problems import Split
from models.tasks.task import Sequences, Task
from models.training.packing import PackedRows, num_packed_rows, pack
from theory.errors import InvalidInput
from theory.keys import Role, role_key, row_keys


class BatchShape(NamedTuple):
    """How many examples a step has, and how they are laid out.

    Attributes:
        num_examples: B.
        num_micro_batches: A, read one after the other.
        rows: R of each micro-batch.
        width: S places in a row.
    """

    num_examples: int
    num_micro_batches: int
    rows: int
    width: int


def batch_shape(
    task: Task, num_examples: int, num_micro_batches: int, row_tokens: int | None
) -> BatchShape:
    """Lay the examples of a task out.

    Args:
        task: whose longest example must fit into a row.
        num_examples: of a step, B.
        num_micro_batches: A.
        row_tokens: S; by default as long as the longest example.

    Returns:
        The shape, with room for any B examples.

    Raises:
        InvalidInput: a number below 1, or rows that are too short.
    """
    for name, number in (("examples", num_examples), ("micro-batches", num_micro_batches)):
        if number < 1:
            raise InvalidInput(f"{name} {number}: must be at least 1")
    longest = task.max_prompt_length + task.horizon - 1
    width = longest if row_tokens is None else row_tokens
    rows = num_packed_rows(num_examples, longest, width)
    return BatchShape(num_examples, num_micro_batches, -(-rows // num_micro_batches), width)


def demonstrations(
    task: Task, split: Split, seed: int, first: int, num: int
) -> tuple[Sequences, Sequences]:
    """Examples first .. first + num - 1 of an endless stream.

    Args:
        task: of the prompts, and of the law of their completions.
        split: "train" or "test".
        seed: of the order of prompts and of the completions.
        first: global id of the first row.
        num: rows.

    Returns:
        Prompts and completions; the same rows in any split into calls.
    """
    prompts = task.prompts(split, num, seed, first)
    keys = _demonstration_keys(jax.random.key(seed), jnp.arange(first, first + num))
    return prompts, task.targets(keys, prompts)


def batch_at(task: Task, seed: int, shape: BatchShape, start_token: int, step: int) -> PackedRows:
    """The micro-batches of one step.

    Args:
        task: see `demonstrations`.
        seed: see `demonstrations`.
        shape: of the batches.
        start_token: of the model.
        step: its number, from 0.

    Returns:
        [A, R, S].
    """
    prompts, completions = demonstrations(
        task, "train", seed, step * shape.num_examples, shape.num_examples
    )
    num_rows = shape.num_micro_batches * shape.rows
    packed = pack(prompts, completions, start_token, num_rows, shape.width)
    new = (shape.num_micro_batches, shape.rows, shape.width)
    return PackedRows(*(part.reshape(new) for part in packed))


@jax.jit
def _demonstration_keys(key: Key[Array, ""], rows: Int[Array, " B"]) -> Key[Array, " B"]:
    return row_keys(role_key(key, Role.DEMONSTRATION), rows)
