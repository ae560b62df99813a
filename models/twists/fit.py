"""Fits a twist to rows by Adam: the losses are those of `theory.smc.twist_losses`."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Float32, Key, PyTree

from theory.protocols import SequenceModel
from theory.smc.child_twist import ChildTwist
from theory.smc.twist_losses import TwistRows, children_along

ParametersT = TypeVar("ParametersT")

# From the values along rows and the rows to a number.
TwistLoss = Callable[[Float[Array, "B T V"], TwistRows], Float[Array, ""]]


class Schedule(NamedTuple):
    """How long and how fast.

    Attributes:
        num_steps: of Adam.
        batch_size: rows a step, drawn anew with replacement.
        learning_rate: at the start; it falls to 0 as a cosine.
    """

    num_steps: int
    batch_size: int
    learning_rate: float


def fit_twist(
    key: Key[Array, ""],
    parameters: ParametersT,
    as_twist: Callable[[ParametersT], ChildTwist],
    loss: TwistLoss,
    model: SequenceModel,
    rows: TwistRows,
    schedule: Schedule,
) -> tuple[ParametersT, Float32[Array, " steps"]]:
    """Minimise a loss over rows that were drawn once.

    Args:
        key: of the batches; consumed.
        parameters: where to start.
        as_twist: the twist of some parameters.
        loss: of the values along rows.
        model: for its eos and horizon.
        rows: to learn from.
        schedule: how long and how fast.

    Returns:
        The parameters after the last step and the loss before each.
    """
    return _fit(key, parameters, model, rows, as_twist, loss, schedule)


@partial(jax.jit, static_argnums=(4, 5, 6))
def _fit(
    key: Key[Array, ""],
    parameters: PyTree,
    model: SequenceModel,
    rows: TwistRows,
    as_twist: Callable[[PyTree], ChildTwist],
    loss: TwistLoss,
    schedule: Schedule,
) -> tuple[PyTree, Float32[Array, " steps"]]:
    rate = optax.cosine_decay_schedule(schedule.learning_rate, schedule.num_steps)
    optimiser = optax.adam(rate)

    def value(parameters: PyTree, batch: TwistRows) -> Float[Array, ""]:
        return loss(children_along(as_twist(parameters), model, batch), batch)

    def step(loop: tuple[PyTree, PyTree], number: Array) -> tuple[tuple[PyTree, PyTree], Array]:
        parameters, memory = loop
        shape = (schedule.batch_size,)
        picked = jax.random.randint(jax.random.fold_in(key, number), shape, 0, rows.lengths.size)
        batch = jax.tree.map(lambda leaf: leaf[picked], rows)
        found, slopes = jax.value_and_grad(value)(parameters, batch)
        # Adam raises its decay to the power of an integer count.
        with jax.numpy_dtype_promotion("standard"):
            updates, memory = optimiser.update(slopes, memory, parameters)
        return (optax.apply_updates(parameters, updates), memory), found

    start = (parameters, optimiser.init(parameters))
    (parameters, _), losses = jax.lax.scan(step, start, jnp.arange(schedule.num_steps))
    return parameters, losses
