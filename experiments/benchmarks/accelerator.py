"""Decoding and SMC of a transformer against the memory bandwidth of the device they run on; see `experiments.benchmarks.gpu`."""

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from models.transformer import Transformer, TransformerConfig, random_transformer
from models.transformer.cost import Workload, step_bytes
from models.transformer.published import QWEN_2_5_500M
from theory.generation import Generation, generate
from theory.keys import Role, role_key
from theory.resampling.ancestors import in_place
from theory.resampling.systematic import systematic
from theory.smc import Population, every, smc, start_populations, temperature_proposal
from theory.smc.population import particle_keys

ALPHA = 4.0
LEAST_SHARE, MOST_OVERHEAD = 0.6, 1.1


class Sizes(NamedTuple):
    """What is timed.

    Attributes:
        config: of the model.
        num_rows: side by side.
        prompt_length: tokens of the prompt that all rows share.
        horizon: tokens of each row.
        block: tokens between resamplings.
        copied: bytes of the array that is copied.
        repeats: timings of each program.
    """

    config: TransformerConfig
    num_rows: int
    prompt_length: int
    horizon: int
    block: int
    copied: int
    repeats: int


FULL = Sizes(QWEN_2_5_500M, 64, 512, 128, 16, 2**31, 9)
SMALL = dataclasses.replace(
    QWEN_2_5_500M, vocab_size=2048, width=28, num_layers=2, head_dim=4, hidden=64
)
QUICK = Sizes(SMALL, 8, 5, 8, 2, 2**20, 2)


def measure(sizes: Sizes) -> dict[str, Any]:
    """Run all of it.

    Args:
        sizes: of the problem.

    Returns:
        What is printed.
    """
    started = time.perf_counter()
    say("copying")
    bandwidth = copy_bandwidth(sizes)
    say("making the model")
    key = jax.random.key(0)
    model = random_transformer(key, sizes.config, sizes.horizon, jnp.bfloat16)
    prompt = jnp.arange(sizes.prompt_length, dtype=jnp.int32)[None]
    one = jnp.ones(1, jnp.int32)
    begun = jax.jit(start_populations, static_argnums=4)(
        model, prompt, sizes.prompt_length * one, 0 * one, sizes.num_rows
    )
    steps = every(sizes.horizon, sizes.block)
    resampled = jax.jit(lambda *arguments: _resampled(*arguments, steps=steps))
    plain, bare = jax.jit(_plain), jax.jit(_bare)
    say("compiling and decoding")
    alone = timed(lambda: bare(model, begun.generation), sizes.repeats)
    pairs = [
        (timed(lambda: resampled(key, model, begun), 1), timed(lambda: plain(key, model, begun), 1))
        for _ in range(sizes.repeats)
    ]
    decode = statistics.median(reference for _, reference in pairs)
    overhead = statistics.median(ours / reference for ours, reference in pairs)
    # Places that count in the middle of the run.
    work = Workload(sizes.num_rows, sizes.prompt_length + sizes.horizon // 2)
    least = step_bytes(sizes.config, work) / bandwidth
    share = sizes.horizon * least / decode
    return {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "rows": sizes.num_rows,
        "prompt_length": sizes.prompt_length,
        "new_tokens": sizes.horizon,
        "copy_bytes_per_second": bandwidth,
        "step_bytes": step_bytes(sizes.config, work),
        "tokens_per_second": sizes.num_rows * sizes.horizon / decode,
        "decode_share_of_bandwidth": share,
        "decode_share_without_sampling": sizes.horizon * least / alone,
        "decode_goal_met": share >= LEAST_SHARE,
        "smc_overhead": overhead,
        "smc_resamplings": len(steps),
        "smc_goal_met": overhead <= MOST_OVERHEAD,
        "seconds": time.perf_counter() - started,
    }


def copy_bandwidth(sizes: Sizes) -> float:
    """What the device's memory does, reads and writes together.

    Args:
        sizes: for the array that is copied.

    Returns:
        Bytes per second.
    """
    source = jnp.zeros(sizes.copied // 4, jnp.float32)
    copy = jax.jit(lambda array: array + 1)
    return 2 * sizes.copied / timed(lambda: copy(source), sizes.repeats)


def timed(call: Callable[[], Any], repeats: int) -> float:
    """Median time of a call that has run once before.

    Args:
        call: whose result is waited for and let go.
        repeats: timings.

    Returns:
        Seconds.
    """
    jax.block_until_ready(call())
    times: list[float] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def say(line: str) -> None:
    """Tell a person how far it is.

    Args:
        line: for stderr.
    """
    print(line, file=sys.stderr, flush=True)


def _plain(key: Key[Array, ""], model: Transformer, population: Population) -> Generation:
    """Every row to the horizon, by the model's own law."""
    keys = particle_keys(role_key(key, Role.TOKEN), population)
    limits = jnp.full(keys.shape, model.horizon, jnp.int32)
    return generate(keys, model, (), 1.0, population.generation, limits)


def _bare(model: Transformer, generation: Generation) -> tuple[Any, Array]:
    """As many steps of the model, the token taken from a law without looking at all of it."""
    active = jnp.ones(generation.log_probs.shape[0], bool)

    def step(_: Array, now: tuple[Any, Array]) -> tuple[Any, Array]:
        state, law = now
        return model.step(state, (law[:, 0] < -1).astype(jnp.int32), active)

    begin = (generation.model_state, generation.log_probs)
    return jax.lax.fori_loop(0, model.horizon, step, begin)


def _resampled(
    key: Key[Array, ""], model: Transformer, population: Population, *, steps: tuple[int, ...]
) -> Any:
    """The same rows as one population for p^alpha, resampled at each of these steps."""

    def stay(key: Key[Array, " M"], log_weights: Array) -> tuple[Array, Array]:
        ancestors, carried = systematic(key, log_weights)
        return in_place(ancestors), carried

    rules = temperature_proposal(ALPHA)
    return smc(key, model, rules, ALPHA, population, stay, steps)
