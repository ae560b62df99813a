"""A model's operations, compiled once per class of models and shape, whichever law calls them."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree
from numpy import ndarray

from theory.reductions import at_token

Ints = Int[Array, "..."] | Int[ndarray, "..."]
Bools = Bool[Array, "..."] | Bool[ndarray, "..."]


def token_and_log_prob(
    log_probs: Float[Array, "*batch V"], tokens: Int[Array, "*batch"]
) -> dict[str, Array]:
    """What `extend` is asked to reduce each position to: its token, and the log probability that the law gives it."""
    return {"token": tokens, "log_prob": at_token(log_probs, tokens)}


@jax.jit
def init(model: Any, prompts: Ints, prompt_lengths: Ints) -> tuple[Any, Array]:
    """`SequenceModel.init`."""
    return model.init(jnp.asarray(prompts), jnp.asarray(prompt_lengths))


@jax.jit
def step(model: Any, state: Any, tokens: Ints, active: Bools) -> tuple[Any, Array]:
    """`SequenceModel.step`."""
    return model.step(state, jnp.asarray(tokens), jnp.asarray(active))


@jax.jit
def extend(model: Any, state: Any, tokens: Ints, lengths: Ints) -> tuple[Any, PyTree, Array]:
    """`SequenceModel.extend`."""
    return model.extend(state, jnp.asarray(tokens), jnp.asarray(lengths), token_and_log_prob)


@jax.jit
def take(model: Any, state: Any, rows: Ints) -> Any:
    """`SequenceModel.take`."""
    return model.take(state, jnp.asarray(rows))


@jax.jit
def select(model: Any, mask: Bools, a: Any, b: Any) -> Any:
    """`SequenceModel.select`."""
    return model.select(jnp.asarray(mask), a, b)


@jax.jit
def rewind(model: Any, state: Any, num_generated: Ints, last_tokens: Ints) -> tuple[Any, Array]:
    """`SequenceModel.rewind`."""
    return model.rewind(state, jnp.asarray(num_generated), jnp.asarray(last_tokens))
