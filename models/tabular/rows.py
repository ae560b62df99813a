"""What the tabular models share: gathering and choosing rows, and a block as a scan over its steps."""

import math
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, PyTree

from theory.protocols import Reduce

State = TypeVar("State")
Step = Callable[[State, Int[Array, " B"], Bool[Array, " B"]], tuple[State, Float32[Array, "B V"]]]


def take_rows(state: State, rows: Int[Array, " B2"]) -> State:
    """Gather rows of a state.

    Args:
        state: a pytree of arrays [B, ...].
        rows: [B2] indices into 0..B-1.

    Returns:
        The same pytree of arrays [B2, ...].
    """
    return jax.tree.map(lambda leaf: leaf[rows], state)


def select_rows(mask: Bool[Array, " B"], a: State, b: State) -> State:
    """Row-wise choice between two states.

    Args:
        mask: [B]; true takes the row of `a`.
        a: a pytree of arrays [B, ...].
        b: the same.

    Returns:
        A pytree of arrays [B, ...].
    """

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, a, b)


def extend_by_steps(
    step: Step[State],
    state: State,
    log_probs: Float32[Array, "B V"],
    tokens: Int[Array, "B S"],
    lengths: Int[Array, " B"],
    reduce: Reduce,
) -> tuple[State, PyTree, Float32[Array, "B V"]]:
    """A block as a scan over its positions: `SequenceModel.extend` for models whose step is cheap.

    Args:
        step: the model's own step.
        state: of B rows.
        log_probs: [B, V] the law of the next token in `state`.
        tokens: [B, S] right-padded; what stands past a row's length is never read.
        lengths: [B] tokens of the block that each row takes.
        reduce: from the law before a token and the token, a number or a pytree of numbers.

    Returns:
        The new state, the reduced values ([B, S] each, 0 past a row's length), and [B, V] the log law after the block,
        finite for rows with length 0.
    """

    def one(
        carry: tuple[State, Float32[Array, "B V"]],
        column: tuple[Int[Array, " B"], Bool[Array, " B"]],
    ) -> tuple[tuple[State, Float32[Array, "B V"]], PyTree]:
        state, log_probs = carry
        token, active = column
        values = jax.tree.map(
            lambda value: jnp.where(active, value, jnp.zeros_like(value)), reduce(log_probs, token)
        )
        state, following = step(state, token, active)
        return (state, jnp.where(active[:, None], following, log_probs)), values

    carry = (state, log_probs)
    (state, log_probs), values = jax.lax.scan(one, carry, active_columns(tokens, lengths))
    values = jax.tree.map(lambda value: value[:-1].T, values)
    return state, values, jnp.where(lengths[:, None] > 0, log_probs, unused_law(log_probs))


def active_columns(
    tokens: Int[Array, "B S"], lengths: Int[Array, " B"]
) -> tuple[Int[Array, "S1 B"], Bool[Array, "S1 B"]]:
    """A block as a scan wants it: its columns, 0 past a row's length, and which rows have a token there.

    One column without tokens is added, since a scan over nothing has no shape outside of jit.
    """
    columns = jnp.pad(tokens, ((0, 0), (0, 1))).T
    active = jnp.arange(columns.shape[0], dtype=lengths.dtype)[:, None] < lengths[None]
    return jnp.where(active, columns, 0), active


def unused_law(log_probs: Float32[Array, "B V"]) -> Float32[Array, "B V"]:
    """The law returned where none is meant: uniform, so that nothing computed from it is NaN or infinite.

    Args:
        log_probs: [B, V] for the shape.

    Returns:
        [B, V] filled with -log V.
    """
    return jnp.full_like(log_probs, -math.log(log_probs.shape[1]))
