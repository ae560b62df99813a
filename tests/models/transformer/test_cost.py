"""The paper reckons with what the models really hold and the compiler really counts."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from models.transformer import Transformer, random_transformer
from models.transformer.cache import empty_cache
from models.transformer.cost import (
    H200,
    Device,
    Workload,
    cache_bytes,
    most_rows,
    num_parameters,
    num_parameters_read,
    prefill_flops,
    resampling_bytes,
    resampling_seconds,
    step_bytes,
    step_flops,
    step_seconds,
)
from models.transformer.published import LLAMA_3_1_8B, LLAMA_3_1_70B, QWEN_2_5_500M
from tests.models.transformer.families import CONFIGS, tiny
from tests.models.transformer.scaling_tables import many_particles, sizes, speeds

SCALING = Path(__file__).resolve().parents[3] / "docs" / "scaling.md"
# Large enough that matrix products are nearly all of the work, and never allocated.
CONFIG = dataclasses.replace(LLAMA_3_1_8B, num_layers=2, vocab_size=8192)


@pytest.mark.parametrize("family", CONFIGS)
def test_parameters_are_counted(family: str) -> None:
    model = jax.eval_shape(lambda: tiny(family))
    held = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model.params))
    assert num_parameters(model.config) == held


def test_published_models_have_the_parameters_that_are_published() -> None:
    assert num_parameters(QWEN_2_5_500M) == 494_032_768
    assert num_parameters(LLAMA_3_1_8B) == 8_030_261_248
    assert num_parameters(LLAMA_3_1_70B) == 70_553_706_496


def test_a_step_reads_all_but_the_tables_that_are_looked_up() -> None:
    untied, tied = CONFIGS["llama2"], CONFIGS["gpt2"]
    assert num_parameters(untied) - num_parameters_read(untied) == 11 * 16  # the embedding
    assert num_parameters(tied) - num_parameters_read(tied) == 64 * 16  # the positions


@pytest.mark.parametrize("family", CONFIGS)
def test_cache_bytes_are_those_of_a_cache(family: str) -> None:
    config = CONFIGS[family]
    cache = jax.eval_shape(lambda: empty_cache(config, 3, 7, jnp.bfloat16))
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in cache.layers)
    assert 3 * cache_bytes(config, Workload(3, 7)) == held


def counted(function: object, *arguments: object) -> float:
    """Operations of a program as XLA counts them before it optimises."""
    analysis = jax.jit(function).lower(*arguments).cost_analysis()  # pyright: ignore[reportArgumentType]
    assert analysis is not None
    return float(analysis["flops"])


def test_operations_are_those_that_the_compiler_counts() -> None:
    model = jax.eval_shape(
        lambda: random_transformer(jax.random.key(0), CONFIG, 3072, jnp.bfloat16)
    )
    prompts, row = jax.ShapeDtypeStruct((1, 1024), jnp.int32), jax.ShapeDtypeStruct((1,), jnp.int32)
    read = counted(Transformer.init, model, prompts, row)
    assert read == pytest.approx(prefill_flops(CONFIG, 1024), rel=0.01)
    state, _ = jax.eval_shape(Transformer.init, model, prompts, row)
    step = counted(Transformer.step, model, state, row, jax.ShapeDtypeStruct((1,), bool))
    assert step == pytest.approx(step_flops(CONFIG, Workload(1, 4096)), rel=0.01)
    # Attention is more than the tolerance.
    assert step_flops(CONFIG, Workload(1, 0)) < 0.95 * step


def test_a_step_takes_as_long_as_what_is_slowest() -> None:
    slow_memory = Device(1e9, 1e9, 1e30, 1e30, 0.0)
    slow_sums = Device(1e9, 1e30, 1e9, 1e30, 0.0)
    slow_links = Device(1e9, 1e30, 1e30, 1e6, 0.5)
    alone, four = Workload(6, 100), Workload(6, 100, num_head_shards=4)
    by_bytes, by_flops = step_bytes(CONFIG, alone) / 1e9, step_flops(CONFIG, alone) / 1e9
    assert step_seconds(CONFIG, alone, slow_memory) == pytest.approx(by_bytes)
    assert step_seconds(CONFIG, alone, slow_sums) == pytest.approx(by_flops)
    assert step_seconds(CONFIG, four, slow_memory) == pytest.approx(by_bytes / 4)
    # Two sums a layer; a ring of four sends 6/4 of 6 rows of 4096 numbers of 2 bytes.
    each = 1.5 * 6 * 4096 * 2 / 1e6 + 0.5
    assert step_seconds(CONFIG, four, slow_links) == pytest.approx(2 * 2 * each)
    assert step_seconds(CONFIG, alone, slow_links) < 1e-9


def test_memory_and_resampling_go_by_rows() -> None:
    work = Workload(10, 100, num_head_shards=2)
    assert resampling_bytes(CONFIG, work) == 2 * 10 * cache_bytes(CONFIG, work)
    assert resampling_seconds(CONFIG, work, H200) == resampling_bytes(CONFIG, work) / 2 / 4.8e12
    weights, row = 2 * num_parameters(CONFIG), cache_bytes(CONFIG, work)
    fits = Device((weights + 10.5 * row) / 2 / 0.9, 1.0, 1.0, 1.0, 0.0)
    assert most_rows(CONFIG, work, fits) == 10
    assert most_rows(CONFIG, work, fits._replace(memory=weights / 4)) == 0


@pytest.mark.parametrize("made", [sizes, speeds, many_particles])
def test_the_document_has_the_tables_that_the_functions_give(made: Callable[[], str]) -> None:
    assert made() in SCALING.read_text()
