"""Rows and weights over four virtual devices give what one device gives."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from models.transformer import Transformer, full_token_log_probs
from models.transformer.sharding import (
    device_mesh,
    gather_rows,
    parameter_specs,
    place_rows,
    shard_parameters,
    shard_rows,
)
from tests.models.transformer.families import CONFIGS, tiny
from tests.models.transformer.sharded import KEY, ROWS, Rows, ancestral, divisible, in_batches
from theory.errors import InvalidInput
from theory.generation import Trajectories
from theory.ledger import totals
from theory.mcmc import Prompts, suffix_regeneration, uniform_cut
from theory.resampling.systematic import systematic
from theory.smc import every, log_evidence, smc, start_populations, temperature_proposal

# Every program is compiled for several meshes.
pytestmark = pytest.mark.slow


def full_log_p(model: Transformer, drawn: Trajectories) -> np.ndarray:
    """The log probs of generated tokens by one forward pass without a cache, on one device."""
    begin = np.maximum(ROWS.lengths, 1)
    tokens = np.zeros((8, 3 + model.horizon), np.int32)
    for b in range(8):
        prompt = ROWS.prompts[b, : ROWS.lengths[b]] if ROWS.lengths[b] else [3]
        row = [*prompt, *np.asarray(drawn.tokens)[b, : drawn.lengths[b]]]
        tokens[b, : len(row)] = row
    scores = jax.jit(full_token_log_probs)(model, tokens, begin + np.asarray(drawn.lengths))
    return np.take_along_axis(np.asarray(scores), begin[:, None] + np.arange(model.horizon), 1)


def is_spec(leaf: Any) -> bool:
    return isinstance(leaf, PartitionSpec)


def assert_same(a: Any, b: Any) -> None:
    """The same bits in every leaf."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_rows_over_four_devices_are_four_batches_bit_for_bit() -> None:
    model, mesh = divisible(), device_mesh()
    rows = place_rows(mesh, ROWS)
    done = shard_rows(mesh, ancestral)(KEY, shard_parameters(mesh, model), rows)
    alone = in_batches(lambda *a: ancestral(*a).trajectories, 4, model, ROWS)
    assert_same(gather_rows(done.trajectories), alone)
    np.testing.assert_allclose(alone.log_p, full_log_p(model, alone), atol=1e-5)
    # Each device stops when its own rows have ended, and all of them are counted.
    assert totals(done.ledger)["generated_tokens"] == alone.lengths.sum()
    longest = alone.lengths.reshape(4, 2).max(axis=1)
    assert len(set(longest.tolist())) > 1
    assert totals(done.ledger)["row_steps_executed"] == 2 * longest.sum()


@pytest.mark.parametrize("num_head_shards", [2, 4])
def test_weights_over_devices_give_the_same_laws(num_head_shards: int) -> None:
    model, mesh = divisible(), device_mesh(num_head_shards)
    sharded = shard_parameters(mesh, model)
    done = shard_rows(mesh, ancestral)(KEY, sharded, ROWS)
    drawn = done.trajectories
    np.testing.assert_allclose(drawn.log_p, full_log_p(model, drawn), atol=1e-5)
    # The same noise on laws that differ in their last bits.
    single = jax.jit(ancestral)(KEY, model, ROWS).trajectories
    np.testing.assert_array_equal(drawn.tokens, single.tokens)
    np.testing.assert_allclose(drawn.log_z, single.log_z, atol=1e-5)
    # A device holds its key heads of the cache, and of its rows only.
    for layer in done.model_state.cache.layers:
        shape = (8 * num_head_shards // 4, 4 // num_head_shards, *layer.shape[2:])
        assert {shard.data.shape for shard in layer.addressable_shards} == {shape}


def test_a_step_moves_no_weights() -> None:
    """Sums over devices are all that the compiler puts in, no weight is put together."""
    model, mesh = divisible(), device_mesh(4)
    sharded = shard_parameters(mesh, model)
    state, _ = jax.jit(Transformer.init)(sharded, ROWS.prompts, ROWS.lengths)
    step = jax.jit(Transformer.step).lower(
        sharded, state, jnp.zeros(8, jnp.int32), jnp.ones(8, bool)
    )
    program = step.compile().as_text()
    assert program is not None
    assert "all-reduce(" in program
    assert [
        line for line in program.splitlines() if "all-gather(" in line or "all-to-all(" in line
    ] == []


def test_one_forward_pass_over_divided_weights_gives_the_same_laws() -> None:
    model = divisible(num_layers=2)
    tokens, lengths = np.arange(40, dtype=np.int32).reshape(4, 10) % 12, np.array([10, 7, 1, 9])
    whole = jax.jit(full_token_log_probs)
    np.testing.assert_allclose(
        whole(shard_parameters(device_mesh(4), model), tokens, lengths),
        whole(model, tokens, lengths),
        atol=1e-5,
    )


def populations(key: jax.Array, model: Any, rows: Rows) -> Any:
    """SMC with three particles in each population."""
    population = start_populations(model, rows.prompts, rows.lengths, rows.ids, 3)
    steps = every(model.horizon, 2)
    population, _ = smc(key, model, temperature_proposal(2.0), 2.0, population, systematic, steps)
    return population.generation.trajectories, population.log_weights, log_evidence(population)


def chains(key: jax.Array, model: Any, rows: Rows) -> Any:
    """Three suffix moves of each chain."""
    kernel = suffix_regeneration(2.0, 1.0, uniform_cut())
    first = kernel.init(key, model, Prompts(*rows))
    last = jax.lax.fori_loop(0, 3, lambda _, now: kernel.step(key, model, now)[0], first)
    return last.generation.trajectories, last.rows


@pytest.mark.parametrize("sampler", [populations, pytest.param(chains, marks=pytest.mark.slow)])
def test_a_kernel_on_shards_is_the_kernel_on_batches_bit_for_bit(sampler: Any) -> None:
    model, mesh = divisible(horizon=4), device_mesh()
    done = shard_rows(mesh, sampler)(KEY, model, ROWS)
    assert_same(done, in_batches(sampler, 4, model, ROWS))


@pytest.mark.parametrize("sampler", [chains, pytest.param(populations, marks=pytest.mark.slow)])
def test_on_a_table_shards_are_one_batch_bit_for_bit(sampler: Any) -> None:
    model = ContextModel.from_table(toy_e())
    none = ROWS._replace(prompts=ROWS.prompts[:, :0], lengths=0 * ROWS.lengths)
    done = shard_rows(device_mesh(), sampler)(KEY, model, none)
    assert_same(done, in_batches(sampler, 1, model, none))


@pytest.mark.parametrize("family", CONFIGS)
def test_every_parameter_of_every_family_has_its_place(family: str) -> None:
    model = jax.eval_shape(lambda: tiny(family))
    mesh = device_mesh(2)
    if family in {"qwen3", "gemma"}:
        with pytest.raises(
            InvalidInput, match=r"num_key_value_heads 1: must be a multiple .* 2 head"
        ):
            parameter_specs(mesh, model)
        return
    specs = jax.tree.leaves(parameter_specs(mesh, model), is_leaf=is_spec)
    # What grows with heads or hidden units is divided; what is whole is as wide as the stream, or V = 11, which 2 does not divide.
    for leaf, spec in zip(jax.tree.leaves(model.params), specs, strict=True):
        held = NamedSharding(mesh, spec).shard_shape(leaf.shape)
        share = 1 if set(leaf.shape) <= {16, 11, 64} else 2
        assert share * math.prod(held) == math.prod(leaf.shape), leaf.shape


def test_a_divisible_vocabulary_is_divided() -> None:
    mesh = device_mesh(2)
    model = jax.eval_shape(divisible)
    specs = jax.tree.leaves(parameter_specs(mesh, model), is_leaf=is_spec)
    halves = [
        NamedSharding(mesh, spec).shard_shape(leaf.shape)
        for leaf, spec in zip(jax.tree.leaves(model.params), specs, strict=True)
        if leaf.shape == (12, 16)
    ]
    assert halves == [(6, 16)] * 2  # embedding and head


def test_hidden_units_that_do_not_divide_are_refused() -> None:
    model = jax.eval_shape(divisible)
    model = replace(model, config=replace(model.config, hidden=22))
    with pytest.raises(InvalidInput, match="hidden 22: must be a multiple of the mesh's 4 head"):
        parameter_specs(device_mesh(4), model)


def test_what_does_not_divide_is_refused() -> None:
    with pytest.raises(InvalidInput, match="head shards 3: must be at least 1 and divide the 4"):
        device_mesh(3)
    with pytest.raises(InvalidInput, match="head shards 0"):
        device_mesh(0)
    mesh = device_mesh()
    six = jax.tree.map(lambda leaf: leaf[:6], ROWS)
    with pytest.raises(InvalidInput, match="6 rows: must be a multiple of the mesh's 4 row shards"):
        place_rows(mesh, six)
    with pytest.raises(InvalidInput, match="6 rows"):
        shard_rows(mesh, ancestral)(KEY, divisible(), six)
