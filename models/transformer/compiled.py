"""Compiled entry points for loops that are written in Python, such as those of a server: one program a shape.

Inside compiled code call the model's own methods. Here the state of a decode step is donated: its memory becomes that of the next state, and the
old one cannot be read again. A chain that may have to go back to it keeps it and calls `Transformer.step`.
"""

import jax
from jaxtyping import Array, Bool, Float32, Int

from models.transformer.model import Transformer, TransformerState


def _prefill(
    model: Transformer, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
) -> tuple[TransformerState, Float32[Array, "B V"]]:
    """Read prompts; see `SequenceModel.init`. Pad P to one of few widths: every width is compiled anew."""
    return model.init(prompts, prompt_lengths)


def _decode_step(
    model: Transformer,
    state: TransformerState,
    tokens: Int[Array, " B"],
    active: Bool[Array, " B"],
) -> tuple[TransformerState, Float32[Array, "B V"]]:
    """Read one token a row, in place of the state; see `SequenceModel.step`."""
    return model.step(state, tokens, active)


prefill = jax.jit(_prefill)
decode_step = jax.jit(_decode_step, donate_argnums=1)
