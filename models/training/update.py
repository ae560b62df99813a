"""One step of training: gradients of micro-batches added up, then one move of the optimiser."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int32, PyTree

from models.training.loss import loss_sums
from models.training.packing import PackedRows
from models.transformer.model import Transformer


class TrainingState(NamedTuple):
    """What the next step needs.

    Attributes:
        params: of the transformer.
        optimiser_state: moments and counts.
        step: steps taken; the address of the next step's examples.
    """

    params: PyTree
    optimiser_state: PyTree
    step: Int32[Array, ""]


class StepInfo(NamedTuple):
    """What a step shows, of the parameters before it.

    Attributes:
        loss: mean negative log likelihood of a completion's token, natural log.
        num_tokens: tokens that it is the mean of.
        gradient_norm: global norm of its gradient, before clipping.
    """

    loss: Float32[Array, ""]
    num_tokens: Int32[Array, ""]
    gradient_norm: Float32[Array, ""]


Update = Callable[[TrainingState, PackedRows], tuple[TrainingState, StepInfo]]


def initial_state(model: Transformer, optimiser: optax.GradientTransformation) -> TrainingState:
    """Before the first step.

    Args:
        model: whose parameters to start from; they are copied, since a step consumes its state.
        optimiser: of the training.

    Returns:
        The state.
    """
    params = jax.tree.map(jnp.copy, model.params)
    return TrainingState(params, optimiser.init(params), jnp.zeros((), jnp.int32))


def training_step(
    optimiser: optax.GradientTransformation,
    model: Transformer,
    state: TrainingState,
    batches: PackedRows,
) -> tuple[TrainingState, StepInfo]:
    """Take a step on micro-batches that are read one after the other.

    Numerators, denominators and gradients of numerators are added up and divided once, so that a batch gives the same step, up to
    rounding, however it is cut: a micro-batch with few tokens weighs little.

    Args:
        optimiser: of the training.
        model: structure; its parameters are not read.
        state: before the step.
        batches: [A, R, S] micro-batches; not all of them empty.

    Returns:
        The state after the step, and what it shows.
    """
    gradient = jax.value_and_grad(loss_sums, has_aux=True)

    def add(sums: PyTree, rows: PackedRows) -> tuple[PyTree, None]:
        (loss, num_tokens), slope = gradient(state.params, model, rows)
        return jax.tree.map(jnp.add, sums, (loss, num_tokens, slope)), None

    zeros = jax.tree.map(jnp.zeros_like, state.params)
    start = (jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32), zeros)
    (loss, num_tokens, slope), _ = jax.lax.scan(add, start, batches)
    count = num_tokens.astype(jnp.float32)
    slope = jax.tree.map(lambda leaf: leaf / count, slope)
    moves, optimiser_state = optimiser.update(slope, state.optimiser_state, state.params)
    after = TrainingState(optax.apply_updates(state.params, moves), optimiser_state, state.step + 1)
    return after, StepInfo(loss / count, num_tokens, optax.tree.norm(slope))


def compile_update(optimiser: optax.GradientTransformation, model: Transformer) -> Update:
    """`training_step` as one program; the state that it is given is consumed.

    Args:
        optimiser: of the training.
        model: structure.

    Returns:
        From a state and micro-batches to the next state.
    """

    def update(state: TrainingState, batches: PackedRows) -> tuple[TrainingState, StepInfo]:
        return training_step(optimiser, model, state, batches)

    return jax.jit(update, donate_argnums=0)
