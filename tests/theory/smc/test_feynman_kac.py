"""The bare filter: unbiased by exact enumeration of all its randomness, and on a hidden Markov model against the forward recursion."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.stat_asserts import assert_mean, assert_rejected
from theory.errors import InvalidInput
from theory.protocols import Resampler
from theory.resampling import ess_adaptive, multinomial, systematic
from theory.smc.alias import AliasTable, alias_table, draw
from theory.smc.feynman_kac import feynman_kac
from theory.smc.hidden_markov import HiddenMarkovModel, bootstrap_filter, forward_log_evidence

MODEL = HiddenMarkovModel(
    np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.35, 0.65]]), np.array([[0.8, 0.2], [0.15, 0.85]])
)
SYMBOLS = np.array([0, 1, 0], np.int32)


def brute_force(model: HiddenMarkovModel, symbols: np.ndarray) -> float:
    """Log of the sum over all paths."""
    total = 0.0
    for path in itertools.product(range(model.initial.size), repeat=symbols.size):
        p = model.initial[path[0]] * model.emission[path[0], symbols[0]]
        for before, state, symbol in zip(path, path[1:], symbols[1:].tolist(), strict=False):
            p *= model.transition[before, state] * model.emission[state, symbol]
        total += p
    return math.log(total)


def test_the_forward_recursion_sums_over_all_paths() -> None:
    assert forward_log_evidence(MODEL, SYMBOLS) == pytest.approx(brute_force(MODEL, SYMBOLS))
    assert forward_log_evidence(MODEL._replace(emission=np.eye(2)), np.array([0, 1, 0])) > -np.inf
    certain = HiddenMarkovModel(np.array([1.0, 0.0]), np.eye(2), np.eye(2))
    assert forward_log_evidence(certain, np.array([0, 1])) == -np.inf


def test_two_particles_are_unbiased_over_all_that_can_happen() -> None:
    """Populations side by side, one for each outcome of all mutations and resamplings; the sum of probability times Z_hat is Z."""
    states = np.array([*itertools.product(itertools.product((0, 1), repeat=2), repeat=3)])
    parents = np.array([*itertools.product(itertools.product((0, 1), repeat=2), repeat=2)])
    path = np.repeat(states, len(parents), axis=0)  # [M, T, N]
    ancestors = np.tile(parents, (len(states), 1, 1))  # [M, T - 1, N]
    assert path.shape[0] == 1024
    with jax.enable_x64(True):
        moves, chosen = jnp.asarray(path, jnp.int32), jnp.asarray(ancestors, jnp.int32)
        log_emission = jnp.log(jnp.asarray(MODEL.emission))
        calls: list[int] = []

        def tape(key: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
            t = len(calls) - 1
            mean = jax.nn.logsumexp(log_weights, axis=1, keepdims=True) - math.log(2)
            return chosen[:, t], jnp.broadcast_to(mean, log_weights.shape)

        def mutate(keys: jax.Array, before: jax.Array, t: jax.Array) -> jax.Array:
            np.testing.assert_array_equal(
                before, np.take_along_axis(path[:, int(t) - 1], ancestors[:, int(t) - 1], axis=1)
            )
            return moves[:, t]

        def log_potential(now: jax.Array, t: jax.Array) -> jax.Array:
            calls.append(int(t))
            return log_emission[now, int(SYMBOLS[int(t)])]

        with jax.disable_jit():
            last, info = feynman_kac(
                jax.random.key(0), lambda keys: moves[:, 0], mutate, log_potential, 3, tape,
                jnp.arange(1024),
            )  # fmt: skip
        log_Z = np.asarray(info.log_Z)
        np.testing.assert_array_equal(last.particles, path[:, 2])
    probability = MODEL.initial[path[:, 0]].prod(axis=1)
    weights = MODEL.emission[path[:, 0], SYMBOLS[0]]
    product = weights.mean(axis=1)
    for t in (1, 2):
        shares = weights / weights.sum(axis=1, keepdims=True)
        probability *= np.take_along_axis(shares, ancestors[:, t - 1], axis=1).prod(axis=1)
        before = np.take_along_axis(path[:, t - 1], ancestors[:, t - 1], axis=1)
        probability *= MODEL.transition[before, path[:, t]].prod(axis=1)
        weights = MODEL.emission[path[:, t], SYMBOLS[t]]
        product *= weights.mean(axis=1)
    np.testing.assert_allclose(np.exp(log_Z[2]), product, rtol=1e-12)
    np.testing.assert_allclose(probability.sum(), 1.0, rtol=1e-12)
    for t in range(3):
        truth = math.exp(forward_log_evidence(MODEL, SYMBOLS[: t + 1]))
        np.testing.assert_allclose(probability @ np.exp(log_Z[t]), truth, rtol=1e-12)


@functools.partial(jax.jit, static_argnames=("resampler", "num_populations"))
def run(
    key: jax.Array, resampler: Resampler, num_populations: int = 12_000, first: int = 0
) -> tuple[jax.Array, jax.Array, jax.Array]:
    ids = first + jnp.arange(num_populations)
    last, info = bootstrap_filter(key, MODEL, jnp.tile(jnp.asarray(SYMBOLS), 3), 8, resampler, ids)
    return last.particles, info.ess, info.log_Z


@pytest.mark.parametrize("resampler", [multinomial, ess_adaptive(systematic, 0.6)])
def test_the_bootstrap_filter_is_unbiased_at_every_step(resampler: Resampler) -> None:
    _, ess, log_Z = run(jax.random.key(1), resampler)
    for t in (0, 4, 8):
        truth = forward_log_evidence(MODEL, np.tile(SYMBOLS, 3)[: t + 1])
        ratios = np.exp(np.asarray(log_Z[t], np.float64) - truth)
        assert_mean(ratios, 1.0, smallest_bias=0.12)
        assert_rejected(lambda ratios=ratios: assert_mean(1.15 * ratios, 1.0, smallest_bias=0.14))
    assert ess.shape == (9, 12_000) and float(ess.min()) >= 1.0 and float(ess.max()) <= 8.0


def test_a_population_is_the_same_in_any_batch() -> None:
    whole = run(jax.random.key(2), multinomial, 64)
    part = run(jax.random.key(2), multinomial, 16, 48)
    np.testing.assert_array_equal(whole[0][48:], part[0])
    np.testing.assert_array_equal(whole[2][:, 48:], part[2])
    assert len({row.tobytes() for row in np.asarray(whole[0])}) > 20


def test_a_potential_that_kills_everything_is_visible() -> None:
    def nothing(states: jax.Array, t: jax.Array) -> jax.Array:
        return jnp.where(t == 1, -jnp.inf, jnp.zeros(states.shape))

    _, info = feynman_kac(
        jax.random.key(0),
        lambda keys: jnp.zeros((2, 3)),
        lambda keys, states, t: states,
        nothing,
        3,
        multinomial,
        jnp.arange(2),
    )
    assert np.isneginf(np.asarray(info.log_Z)).tolist() == [[False] * 2, [True] * 2, [True] * 2]
    assert (np.asarray(info.ess) == [[3.0] * 2, [0.0] * 2, [0.0] * 2]).all()


def test_no_noise_serves_two_steps() -> None:
    keys: list[bytes] = []

    def seen(key: jax.Array) -> jax.Array:
        keys.append(np.asarray(jax.random.key_data(key)).tobytes())
        return jnp.zeros((2, 3))

    def resampler(key: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        return seen(key).astype(jnp.int32), log_weights

    with jax.disable_jit():
        feynman_kac(
            jax.random.key(0),
            seen,
            lambda key, states, t: seen(key),
            lambda states, t: states,
            4,
            resampler,
            jnp.arange(2),
        )
    assert len(set(keys)) == len(keys) == 4 + 3


def test_no_steps_are_refused() -> None:
    with pytest.raises(InvalidInput, match="steps 0"):
        feynman_kac(
            jax.random.key(0),
            lambda keys: jnp.zeros((1, 1)),
            lambda keys, states, t: states,
            lambda states, t: states,
            0,
            multinomial,
            jnp.arange(1),
        )


def implied(table: AliasTable) -> np.ndarray:
    """The law that a table draws from, were all words equally likely."""
    own = np.asarray(table.threshold, np.float64) / 2**32
    num_laws, size = own.shape
    law = own / size
    for row in range(num_laws):
        np.add.at(law[row], np.asarray(table.alias[row]), (1 - own[row]) / size)
    return law


@pytest.mark.parametrize("size", [1, 2, 3, 32, 257])
def test_alias_tables_hold_their_laws(size: int) -> None:
    rng = np.random.default_rng(size)
    laws = rng.dirichlet(np.full(size, 0.3), 5)
    laws[0] = np.eye(size)[size - 1]
    laws[1] = 1 / size
    found = implied(alias_table(laws))
    np.testing.assert_allclose(found, laws, atol=size * 2.0**-32)
    assert (found[laws == 0] == 0).all()


def test_words_fall_into_columns_by_their_product_with_the_size() -> None:
    """Exactly: the column is floor(V bits / 2^32), the place in it the remainder."""
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(7), 3)
    table = alias_table(laws)
    # The first and the last word of every column: a carry between the halves decides.
    edges = np.array([-(-column * 2**32 // 7) for column in range(8)])
    bits = np.concatenate([rng.integers(0, 2**32, 500), edges[:-1], edges[1:] - 1])
    rows = rng.integers(0, 3, bits.size)
    found = draw(table, jnp.asarray(rows, jnp.int32), jnp.asarray(bits, jnp.uint32))
    column, place = np.divmod(7 * bits, 2**32)
    keeps = place < np.asarray(table.threshold, np.int64)[rows, column]
    np.testing.assert_array_equal(found, np.where(keeps, column, table.alias[rows, column]))


def test_what_is_no_law_is_refused() -> None:
    with pytest.raises(InvalidInput, match="law 1: must be"):
        alias_table(np.array([[0.5, 0.5], [0.5, 0.6]]))
    with pytest.raises(InvalidInput, match="law 0: must be"):
        alias_table(np.array([[1.5, -0.5]]))
    with pytest.raises(InvalidInput, match="65537 outcomes"):
        alias_table(np.full((1, 65537), 1 / 65537))
