"""Uniforms for populations: each population has its own key, so that its numbers do not depend on those beside it."""

import math

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Key

from theory.keys import row_keys


def draw_uniforms(
    key: Key[Array, "*#batch"], batch: tuple[int, ...], shape: tuple[int, ...], dtype: DTypeLike
) -> Float[Array, "..."]:
    """Independent uniforms in [0, 1).

    Args:
        key: one for each population [...], or a single one, from which population r (its position in row-major order)
            takes fold_in(key, r). Consumed.
        batch: sizes of the leading axes.
        shape: of the numbers of one population.
        dtype: floating type.

    Returns:
        [*batch, *shape].
    """
    if not batch:
        return jax.random.uniform(key, shape, dtype)
    num_rows = math.prod(batch)
    keys = key.reshape(num_rows) if key.ndim else row_keys(key, jnp.arange(num_rows))
    rows = jax.vmap(lambda row_key: jax.random.uniform(row_key, shape, dtype))(keys)
    return rows.reshape(*batch, *shape)
