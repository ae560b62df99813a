"""Sampling from GPT-2 against the transformers package, the same random weights on the same cores in one run.

64 prompts of 8 tokens, 128 new tokens each, temperature 1. The peer makes the weights and saves them, ours reads them from its folder: the logits of one
prompt have to agree, or there is nothing to compare. Both read the prompts, fill a cache and draw token by token.
"""

import dataclasses
import functools
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from experiments.benchmarks import transformers_program
from experiments.benchmarks.memory import decode_memory
from experiments.benchmarks.pairing import BenchmarkReport, compare_timers, timer
from experiments.benchmarks.peers import peer_python, running_peer
from models.pretrained.load import load_folder
from models.transformer import Transformer, full_log_probs
from theory.generation import generate, start
from theory.keys import Role, fold_rows, role_key, row_keys

REQUIREMENTS = ("torch==2.13.0", "transformers==5.24.0")
NUM_ROWS, PROMPT_LENGTH, NEW_TOKENS = 64, 8, 128

SMALL = {"vocab_size": 64, "n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 256}
LARGE = {"vocab_size": 32_000, "n_embd": 512, "n_layer": 8, "n_head": 8, "n_positions": 256}


def run_small(quick: bool) -> BenchmarkReport:
    """0.8 million parameters.

    Args:
        quick: 32 new tokens.

    Returns:
        The report.
    """
    return _run("decode_vs_transformers", SMALL, quick)


def run_large(quick: bool) -> BenchmarkReport:
    """42 million parameters, a vocabulary of 32,000.

    Args:
        quick: 16 rows and 8 new tokens.

    Returns:
        The report.
    """
    return _run("decode_vs_transformers_50m", LARGE, quick)


def _run(name: str, config: dict[str, int], quick: bool) -> BenchmarkReport:
    is_large = config is LARGE
    num_rows = 16 if quick and is_large else NUM_ROWS
    new_tokens = (8 if is_large else 32) if quick else NEW_TOKENS
    prompts = np.random.default_rng(0).integers(1, config["vocab_size"], (num_rows, PROMPT_LENGTH))
    eos = {"eos_token_id": 0, "bos_token_id": 0}
    python = peer_python("transformers", REQUIREMENTS)
    with tempfile.TemporaryDirectory() as folder:
        problem: dict[str, Any] = {
            "config": {**config, **eos},
            "folder": folder,
            "prompts": prompts.tolist(),
            "new_tokens": new_tokens,
        }
        answers: list[dict[str, Any]] = []
        with running_peer(python, Path(transformers_program.__file__), problem) as ask:

            def theirs(calls: int) -> float:
                answers.append(ask(calls))
                return answers[-1]["seconds"]

            theirs(1)
            model = without_eos(load_folder(folder, new_tokens).model)
            tokens = jnp.asarray(prompts, jnp.int32)
            key = jax.random.key(0)
            result = compare_timers(
                name,
                timer(lambda: jax.block_until_ready(_sample(key, model, tokens))),
                theirs,
                {"rows": num_rows, "prompt": PROMPT_LENGTH, "new_tokens": new_tokens, **config},
            )
    last = answers[-1]
    versions = "transformers {}, torch {}".format(*last["versions"])
    return BenchmarkReport(
        result,
        (
            f"{versions}; both drew {last['shape'][1] - PROMPT_LENGTH} tokens in {last['shape'][0]} rows",
            f"largest difference of log probabilities after a prompt: {_gap(model, tokens, last['logits']):.1e}",
            decode_memory(model, num_rows, PROMPT_LENGTH),
        ),
    )


def without_eos(model: Transformer) -> Transformer:
    """The same weights, but no token ends a row: as many steps for everybody.

    Args:
        model: any.

    Returns:
        The model.
    """
    config = dataclasses.replace(model.config, eos=())
    return dataclasses.replace(model, config=config)


@jax.jit
def _sample(
    key: Key[Array, ""], model: Transformer, prompts: Int[Array, "B P"]
) -> Int[Array, "B T"]:
    num_rows, width = prompts.shape
    keys = fold_rows(row_keys(role_key(key, Role.TOKEN), jnp.arange(num_rows)), 0)
    begin = start(model, prompts, jnp.full(num_rows, width, jnp.int32))
    limits = jnp.full(num_rows, model.horizon, jnp.int32)
    return generate(keys, model, (), 1.0, begin, limits).trajectories.tokens


@functools.partial(jax.jit, static_argnums=2)
def _law(model: Transformer, prompts: Int[Array, "B P"], row: int) -> Array:
    lengths = jnp.full(1, prompts.shape[1], jnp.int32)
    return full_log_probs(model, prompts[row : row + 1], lengths)[0, -1]


def _gap(model: Transformer, prompts: Int[Array, "B P"], logits: list[float]) -> float:
    theirs = jax.nn.log_softmax(jnp.asarray(logits, jnp.float32))
    return float(jnp.abs(_law(model, prompts, 0) - theirs).max())
