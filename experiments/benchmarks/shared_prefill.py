"""One prompt that 64 rollouts continue: read once and handed to all, against read by every row.

A prompt of 512 tokens, the transformer of the overhead benchmarks. Timed is what happens before the first token is drawn: reading, and for the shared
prompt copying its keys and values to every row.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from experiments.benchmarks.pairing import BenchmarkReport, compare
from experiments.benchmarks.random_model import random_model
from theory.generation import Generation, start
from theory.protocols import SequenceModel
from theory.shared_prompts import share_prompts

HORIZON = 64


def run(quick: bool) -> BenchmarkReport:
    """Time both ways of starting a group.

    Args:
        quick: 16 rollouts of a prompt of 128 tokens.

    Returns:
        The report; its note says that both give the same laws.
    """
    num_rows, length = (16, 128) if quick else (64, 512)
    model = random_model(jax.random.key(0), HORIZON)
    prompt = jax.random.randint(jax.random.key(1), (1, length), 0, model.vocab_size)
    prompts = jnp.tile(prompt, (num_rows, 1))
    shared = share_prompts(model, [0] * num_rows, 1)

    def begin(reads: SequenceModel[Any]) -> Generation:
        return jax.block_until_ready(_begin(reads, prompts))

    gap = np.abs(np.asarray(begin(shared).log_probs) - np.asarray(begin(model).log_probs)).max()
    sizes = {"rollouts": num_rows, "prompt": length, "layers": model.config.num_layers}
    result = compare("shared_prefill", lambda: begin(shared), lambda: begin(model), sizes)
    return BenchmarkReport(result, (f"largest difference of the first laws: {gap:.1e}",))


@jax.jit
def _begin(model: SequenceModel[Any], prompts: Int[Array, "B P"]) -> Generation:
    return start(model, prompts, jnp.full(prompts.shape[0], prompts.shape[1], jnp.int32))
