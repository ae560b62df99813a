"""What a decode step holds beside weights and cache, as the compiler counts it."""

import jax
import jax.numpy as jnp

from models.transformer import Transformer
from models.transformer.compiled import decode_step


def decode_memory(model: Transformer, num_rows: int, prompt_length: int) -> str:
    """Temporaries of one decode step, its state donated, against weights and cache.

    Args:
        model: the transformer.
        num_rows: B.
        prompt_length: P; the cache holds P + horizon places.

    Returns:
        A line with megabytes and their ratio; the goal is 0.2.
    """
    prompts = jnp.zeros((num_rows, prompt_length), jnp.int32)
    lengths = jnp.full(num_rows, prompt_length, jnp.int32)
    state, _ = jax.eval_shape(Transformer.init, model, prompts, lengths)
    tokens = jax.ShapeDtypeStruct((num_rows,), jnp.int32)
    active = jax.ShapeDtypeStruct((num_rows,), jnp.bool_)
    compiled = decode_step.lower(model, state, tokens, active).compile()
    analysis = compiled.memory_analysis()
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((model, state)))
    if analysis is None:
        return "decode step: this platform does not say how much memory it takes"
    temporaries = analysis.temp_size_in_bytes
    return (
        f"decode step: {temporaries / 1e6:.2f} MB of temporaries beside {held / 1e6:.1f} MB of weights and cache: "
        f"{temporaries / held:.3f} (goal 0.2)"
    )
