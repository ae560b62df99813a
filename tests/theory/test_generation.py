"""The generation loop: its rows follow their law, its records are right, and nothing else changes them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from tests.stat_asserts import assert_counts, assert_rejected
from theory.decoding.rule import TokenRule
from theory.decoding.temperature import temperature
from theory.decoding.top_k import top_k
from theory.exact import Law, base_law, enumerate_sequences, power_law, temperature_law, unroll
from theory.generation import Generation, cut, generate, select, start, take
from theory.keys import Role, role_key, row_keys
from theory.ledger import totals

TABLE = toy_e()
MODEL = ContextModel.from_table(TABLE)
LAYERS = unroll(TABLE)
ALPHA = 2.0
HALF: tuple[TokenRule, ...] = (temperature(0.5),)


def keys(seed: int, num: int, first: int = 0) -> jax.Array:
    return row_keys(role_key(jax.random.key(seed), Role.TOKEN), jnp.arange(first, first + num))


def tokens_of(done: Generation) -> int:
    return totals(done.ledger)["generated_tokens"]


def begin(num: int) -> Generation:
    return start(MODEL, jnp.zeros((num, 0), jnp.int32), jnp.zeros(num, jnp.int32))


@functools.partial(jax.jit, static_argnums=2)
def run(row: jax.Array, rules: tuple[TokenRule, ...], limit: int) -> Generation:
    num = row.shape[0]
    return generate(row, MODEL, rules, ALPHA, begin(num), jnp.full(num, limit))


@jax.jit
def regenerate(row: jax.Array, done: Generation, kept: jax.Array) -> Generation:
    return generate(row, MODEL, (), ALPHA, cut(MODEL, done, kept), jnp.full(row.shape[0], 4))


def counts(done: Generation, law: Law) -> tuple[np.ndarray, np.ndarray]:
    listed = enumerate_sequences((law,))
    cell = {tokens: index for index, tokens in enumerate(listed.sequences)}
    tokens, lengths = np.asarray(done.trajectories.tokens), np.asarray(done.trajectories.lengths)
    rows = [cell[tuple(row[:n].tolist())] for row, n in zip(tokens, lengths, strict=True)]
    return np.bincount(rows, minlength=len(cell)), np.exp(listed.log_probs[0])


def test_rows_follow_the_law_of_their_rule() -> None:
    assert_counts(*counts(run(keys(0, 20_000), (), 4), base_law(LAYERS)))
    assert_counts(*counts(run(keys(1, 20_000), HALF, 4), temperature_law(LAYERS, ALPHA)))


def test_temperature_is_not_power() -> None:
    done = run(keys(1, 20_000), HALF, 4)
    assert_rejected(lambda: assert_counts(*counts(done, power_law(LAYERS, ALPHA).law)))


def test_rows_with_one_key_are_not_independent() -> None:
    same = jnp.broadcast_to(keys(2, 1), (20_000,))
    assert_rejected(lambda: assert_counts(*counts(run(same, (), 4), base_law(LAYERS))))


def test_records_are_those_of_the_laws() -> None:
    done = run(keys(3, 300), HALF, 4).trajectories
    laws = (base_law(LAYERS), temperature_law(LAYERS, ALPHA), power_law(LAYERS, ALPHA).law)
    listed = enumerate_sequences(laws)
    truth = dict(zip(listed.sequences, listed.log_probs.T, strict=True))
    log_Z = power_law(LAYERS, ALPHA).log_Z
    for row in range(300):
        length = int(done.lengths[row])
        tokens = tuple(np.asarray(done.tokens[row, :length]).tolist())
        base, tempered, power = truth[tokens]
        assert done.log_p[row].sum() == pytest.approx(base, rel=1e-5)
        assert done.log_q[row].sum() == pytest.approx(tempered, rel=1e-5)
        assert done.log_z[row].sum() - log_Z == pytest.approx(power - tempered, abs=1e-5)
        assert bool(done.ended[row]) == (tokens[-1] in TABLE.eos)
        for field in (done.tokens, done.log_p, done.log_q, done.log_z):
            assert not np.asarray(field[row, length:]).any()


def test_log_q_is_that_of_the_truncated_rule() -> None:
    done = run(keys(4, 200), (top_k(1),), 4).trajectories
    assert np.all(np.asarray(done.log_q) == 0.0)
    assert np.all(np.asarray(done.tokens) == np.asarray(done.tokens[0]))


def test_rows_depend_neither_on_the_batch_nor_on_blocks() -> None:
    whole = run(keys(5, 64), HALF, 4)
    for first in (0, 16, 48):
        part = run(keys(5, 16, first), HALF, 4)
        for a, b in zip(whole.trajectories, part.trajectories, strict=True):
            np.testing.assert_array_equal(np.asarray(a)[first : first + 16], np.asarray(b))
    blocks = begin(64)
    for limit in (1, 3, 4):
        blocks = generate(keys(5, 64), MODEL, HALF, ALPHA, blocks, jnp.full(64, limit))
    for a, b in zip(whole.trajectories, blocks.trajectories, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert tokens_of(blocks) == tokens_of(whole) == int(whole.trajectories.lengths.sum())


def test_the_loop_stops_when_every_row_has() -> None:
    done = run(keys(6, 4), (), 4)
    assert totals(done.ledger)["model_calls"] == 1 + int(done.trajectories.lengths.max())
    assert totals(run(keys(6, 4), (), 0).ledger)["model_calls"] == 1


def test_cut_then_generate_is_a_suffix_of_its_own() -> None:
    """Regenerating after a cut gives base draws of the suffix: start from an exact draw, and the law is unchanged."""
    num = 20_000
    done = run(keys(7, num), (), 4)
    uniform = jax.random.uniform(jax.random.key(70), (num,))
    kept = jnp.floor(uniform * done.trajectories.lengths.astype(jnp.float32)).astype(jnp.int32)
    again = regenerate(keys(8, num), done, kept)
    prefix = jnp.arange(4)[None] < kept[:, None]
    same = jnp.where(prefix, again.trajectories.tokens == done.trajectories.tokens, True)
    assert bool(same.all())
    assert tokens_of(again) > tokens_of(done)
    # Conditional on the kept prefix the suffix is fresh: the first regenerated token after an empty prefix is a base draw.
    first = np.asarray(again.trajectories.tokens[:, 0])[np.asarray(kept) == 0]
    assert_counts(np.bincount(first, minlength=3), np.exp(LAYERS[0].log_probs[0]))


def test_cut_keeps_whole_rows_ended() -> None:
    done = run(keys(9, 100), (), 4)
    kept = cut(MODEL, done, done.trajectories.lengths)
    for a, b in zip(done.trajectories, kept.trajectories, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_take_and_select_are_row_wise() -> None:
    a, b = run(keys(10, 8), (), 2), run(keys(11, 8), HALF, 2)
    rows = jnp.array([3, 3, 0])
    taken = take(MODEL, a, rows)
    for whole, part in zip(a.trajectories, taken.trajectories, strict=True):
        np.testing.assert_array_equal(np.asarray(whole)[np.asarray(rows)], np.asarray(part))
    mask = jnp.arange(8) % 2 == 0
    chosen = select(MODEL, mask, a, b)
    finished = generate(keys(12, 8), MODEL, (), ALPHA, chosen, jnp.full(8, 4))
    alone = generate(keys(12, 8), MODEL, (), ALPHA, a, jnp.full(8, 4))
    for x, y in zip(finished.trajectories, alone.trajectories, strict=True):
        np.testing.assert_array_equal(np.asarray(x)[::2], np.asarray(y)[::2])
    np.testing.assert_array_equal(
        np.asarray(chosen.trajectories.tokens)[1::2], np.asarray(b.trajectories.tokens)[1::2]
    )


def test_a_cut_leaves_nothing_behind() -> None:
    """Sums over T stay sums over the row: what was cut off is 0, what was kept is as it was."""
    done = run(keys(13, 64), HALF, 4).trajectories
    num_kept = jnp.minimum(jnp.arange(64) % 4, done.lengths).astype(jnp.int32)
    kept = cut(MODEL, run(keys(13, 64), HALF, 4), num_kept).trajectories
    inside = np.arange(4)[None] < np.asarray(num_kept)[:, None]
    assert (inside.sum(axis=1) < np.asarray(done.lengths)).any()
    np.testing.assert_array_equal(kept.lengths, num_kept)
    for name in ("tokens", "log_p", "log_q", "log_z"):
        before, after = np.asarray(getattr(done, name)), np.asarray(getattr(kept, name))
        np.testing.assert_array_equal(after, np.where(inside, before, 0), err_msg=name)
