"""Positions as rotations: frequencies and their application."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int

from models.transformer.config import Llama3Scaling, Rotary


def frequencies(rotary: Rotary, head_dim: int) -> Float32[np.ndarray, " D2"]:
    """Radians per position of each pair of coordinates.

        f_i = theta^(-2 i / D),    i = 0..D/2 - 1,

    divided by a linear factor, or stretched as Llama 3.1 does.

    Args:
        rotary: base and scaling.
        head_dim: D.

    Returns:
        [D / 2].
    """
    base = rotary.theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if isinstance(rotary.scaling, Llama3Scaling):
        base = _llama3(base, rotary.scaling)
    elif rotary.scaling is not None:
        base = base / rotary.scaling
    return base.astype(np.float32)


def _llama3(base: np.ndarray, scaling: Llama3Scaling) -> np.ndarray:
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    turns = scaling.original_context * base / (2 * math.pi)  # in the context of pre-training
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1 - share) * base / scaling.factor + share * base


def rotate(
    x: Float[Array, "B S *heads D"],
    positions: Int[Array, "B S"],
    radians: Float32[np.ndarray, " D2"],
) -> Float[Array, "B S *heads D"]:
    """Rotate coordinate i against coordinate i + D/2 by position times frequency.

    Args:
        x: [B, S, ..., D] queries or keys.
        positions: [B, S].
        radians: [D / 2] of `frequencies`.

    Returns:
        [B, S, ..., D] in the precision of `x`; the angles are float32.
    """
    angles = positions.astype(jnp.float32)[..., None] * jnp.asarray(radians)[None, None]
    shape = angles.shape[:2] + (1,) * (x.ndim - 3) + angles.shape[2:]
    cosine, sine = jnp.cos(angles).reshape(shape), jnp.sin(angles).reshape(shape)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )
    return turned.astype(x.dtype)
