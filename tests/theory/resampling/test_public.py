"""The resamplers as they are called: from keys, in batches, adaptively, in place."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planted_bugs import resampling as planted
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.resampling.laws import SCHEMES, Scheme, outcomes
from tests.theory.resampling.test_conditional import CONDITIONAL as CONDITIONAL_SCHEMES
from theory import resampling
from theory.errors import InvalidInput
from theory.log_weights import log_mean_weight
from theory.protocols import Resampler
from theory.resampling.ancestors import from_counts, num_not_above
from theory.resampling.noise import draw_uniforms
from theory.resampling.running_sum import running_count, running_sum

UNCONDITIONAL: dict[str, Any] = {
    "multinomial": resampling.multinomial,
    "stratified": resampling.stratified,
    "systematic": resampling.systematic,
    "residual": resampling.residual,
    "ssp": resampling.ssp,
    "killing": resampling.killing,
    "chopthin 5.83": resampling.chopthin,
}
CONDITIONAL: dict[str, Any] = {
    "multinomial": resampling.conditional_multinomial,
    "stratified": resampling.conditional_stratified,
    "systematic": resampling.conditional_systematic,
    "killing": resampling.conditional_killing,
}
ALL = [*UNCONDITIONAL.values(), *CONDITIONAL.values()]
WEIGHTS = (0.5, 0.2, 1.1)
NUM_DRAWS = 20_000

# Programs that run once are compiled quickly.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def count_cells(ancestors: np.ndarray) -> np.ndarray:
    """[M] a number for each multiset of ancestors."""
    size = ancestors.shape[1]
    return np.sort(ancestors, axis=1) @ size ** np.arange(size)


def draw(resampler: Resampler, keys: jax.Array) -> np.ndarray:
    """[M, N] ancestors of M populations with the same weights; a few of them are drawn again alone."""
    rows = jnp.tile(jnp.log(jnp.array(WEIGHTS)), (NUM_DRAWS, 1))
    ancestors, after = quick_jit(resampler)(keys, rows)
    alone = quick_jit(resampler)
    for row in (0, 1, NUM_DRAWS - 1):
        row_ancestors, row_after = alone(keys[row], rows[row])
        np.testing.assert_array_equal(row_ancestors, ancestors[row])
        np.testing.assert_allclose(row_after, after[row], rtol=0, atol=1e-6)
    return np.asarray(ancestors)


def check_law(scheme: Scheme, ancestors: np.ndarray) -> None:
    """Independent populations follow the scheme's exact law."""
    exact, _, probs = outcomes(scheme, WEIGHTS)
    size = len(WEIGHTS) ** len(WEIGHTS)
    law = np.bincount(count_cells(exact), probs, minlength=size)
    assert_counts(np.bincount(count_cells(ancestors), minlength=size), law)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_draws_follow_the_exact_law(scheme: Scheme) -> None:
    keys = jax.random.split(jax.random.key(11), NUM_DRAWS)
    check_law(scheme, draw(UNCONDITIONAL[scheme.name], keys))


@pytest.mark.parametrize("scheme", [s for s, _ in CONDITIONAL_SCHEMES], ids=lambda s: s.name)
def test_conditional_draws_follow_the_exact_law(scheme: Scheme) -> None:
    keys = jax.random.split(jax.random.key(12), NUM_DRAWS)
    check_law(scheme, draw(CONDITIONAL[scheme.name], keys))


def test_one_key_for_two_populations_is_rejected() -> None:
    keys = jax.random.split(jax.random.key(11), NUM_DRAWS)
    multinomial = SCHEMES[0]
    few = jnp.repeat(keys[: NUM_DRAWS // 100], 100)
    assert_rejected(lambda: check_law(multinomial, draw(resampling.multinomial, few)))


def test_unsorted_spacings_are_rejected() -> None:
    """Sorted points that are not uniform: the last spacing forgotten, so that the largest point is always 1."""

    def without_last_spacing(key: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        uniforms = draw_uniforms(key, log_weights.shape[:-1], (3,), log_weights.dtype)
        sums = jnp.cumsum(-jnp.log1p(-uniforms), axis=-1)
        points = sums / sums[..., -1:]
        return resampling.multinomial_from_uniforms(points, log_weights), log_weights

    keys = jax.random.split(jax.random.key(11), NUM_DRAWS)
    assert_rejected(lambda: check_law(SCHEMES[0], draw(without_last_spacing, keys)))


@pytest.mark.parametrize("resampler", ALL, ids=lambda resampler: resampler.__name__)
def test_shapes_and_types(resampler: Resampler) -> None:
    assert isinstance(resampler, Resampler)
    key = jax.random.key(0)
    for shape in ((1,), (5,), (2, 3, 5), (0, 4)):
        log_weights = jax.ShapeDtypeStruct(shape, jnp.float32)
        ancestors, after = jax.eval_shape(resampler, key, log_weights)
        assert (ancestors.shape, ancestors.dtype) == (shape, jnp.int32)
        assert (after.shape, after.dtype) == (shape, jnp.float32)


def test_compiled_is_the_same_as_not() -> None:
    log_weights = jnp.asarray(np.random.default_rng(7).normal(size=(2, 3, 5)), jnp.float32)
    key = jax.random.key(3)
    compiled = jax.jit(resampling.systematic)(key, log_weights)
    plain = resampling.systematic(key, log_weights)
    np.testing.assert_array_equal(compiled[0], plain[0])
    np.testing.assert_allclose(compiled[1], plain[1], rtol=0, atol=1e-6)


def test_a_single_key_gives_every_population_its_own_numbers() -> None:
    key = jax.random.key(3)
    uniforms = draw_uniforms(key, (2, 3), (4,), jnp.float32)
    for row, place in enumerate(np.ndindex(2, 3)):
        alone = draw_uniforms(jax.random.fold_in(key, row), (), (4,), jnp.float32)
        np.testing.assert_array_equal(uniforms[place], alone)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(6)).reshape(2, 3)
    np.testing.assert_array_equal(draw_uniforms(keys, (2, 3), (4,), jnp.float32), uniforms)


def test_golden_positions() -> None:
    log_weights = jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4]))
    ancestors = quick_jit(resampling.systematic_from_uniforms)(jnp.array(0.5), log_weights)
    np.testing.assert_array_equal(ancestors, [1, 2, 3, 3])


def test_a_million_particles_in_float32() -> None:
    """Every number of offspring is its expectation rounded up or down, where a float32 sum resolves sixteenths only."""
    size = 2**20
    log_weights = np.random.default_rng(9).normal(scale=2.0, size=size).astype(np.float32)
    weights = np.exp(log_weights.astype(np.float64))
    expected = size * weights / weights.sum()
    run = jax.jit(resampling.systematic_from_uniforms)
    ancestors = np.asarray(run(jnp.float32(0.37), jnp.asarray(log_weights)))
    counts = np.bincount(ancestors, minlength=size)
    assert counts.size == size
    assert np.abs(counts - expected).max() < 1 + 1e-3
    # Whole stretches of particles keep their share, to half an offspring beside the one from rounding.
    assert np.abs(np.cumsum(counts - expected)).max() < 1.5
    after = jax.jit(log_mean_weight)(jnp.asarray(log_weights))
    assert float(after) == pytest.approx(np.log(weights.mean()), abs=1e-5)


@given(st.lists(st.integers(0, 6), min_size=7, max_size=7))
def test_in_place_keeps_survivors_and_the_multiset(ancestors: list[int]) -> None:
    placed = np.asarray(IN_PLACE(jnp.array(ancestors, jnp.int32)))
    assert sorted(placed.tolist()) == sorted(ancestors)
    survivors = np.array(sorted(set(ancestors)))
    np.testing.assert_array_equal(placed[survivors], survivors)
    # The offspring of slot i are read from slot i, which is never written: a copy in place needs no second buffer.
    written = placed != np.arange(7)
    assert not written[placed[written]].any()


IN_PLACE = quick_jit(resampling.in_place)


def test_in_place_in_batches() -> None:
    ancestors = np.random.default_rng(1).integers(0, 7, (2, 3, 7)).astype(np.int32)
    batch = np.asarray(quick_jit(resampling.in_place)(jnp.asarray(ancestors)))
    for place in np.ndindex(2, 3):
        np.testing.assert_array_equal(batch[place], IN_PLACE(jnp.asarray(ancestors[place])))


def test_adaptive_resamples_where_it_is_needed() -> None:
    dead = [-np.inf] * 4
    rows = jnp.array([[0.0, 0, 0, 0], [0.0, -9, -9, -9], [0.0, 0, 0, np.nan], dead], jnp.float32)
    key = jax.random.key(1)
    adaptive = resampling.ess_adaptive(resampling.systematic, 0.5)
    ancestors, after = quick_jit(adaptive)(key, rows)
    drawn, drawn_after = quick_jit(resampling.systematic)(key, rows)
    np.testing.assert_array_equal(
        resampling.needs_resampling(rows, 0.5), [False, True, False, False]
    )
    for row in (0, 2, 3):
        np.testing.assert_array_equal(ancestors[row], np.arange(4))
    np.testing.assert_array_equal(after[0], rows[0])
    np.testing.assert_array_equal(after[2], [0.0, 0.0, 0.0, -np.inf])
    np.testing.assert_array_equal(ancestors[1], drawn[1])
    np.testing.assert_array_equal(after[1], drawn_after[1])
    np.testing.assert_allclose(log_mean_weight(after), log_mean_weight(rows), atol=1e-6)


def test_adaptive_decides_outside() -> None:
    """One conditional around everything, so that a step at which nobody resamples costs no resampling."""
    adaptive = resampling.ess_adaptive(resampling.multinomial, 0.5)
    program = jax.make_jaxpr(adaptive)(jax.random.key(0), jnp.zeros((5, 8)))
    names = [equation.primitive.name for equation in program.jaxpr.eqns]
    assert names.count("cond") == 1
    assert not {"random_bits", "random_fold_in", "scan", "while"} & set(names)


@pytest.mark.parametrize(("threshold", "needed"), [(0.0, False), (0.99, False), (1.0, True)])
def test_thresholds_at_the_ends(threshold: float, needed: bool) -> None:
    nearly_equal = jnp.array([0.0, 0.01, 0.0], jnp.float32)
    assert bool(resampling.needs_resampling(nearly_equal, threshold)) == needed
    assert not bool(resampling.needs_resampling(jnp.zeros(3), threshold))


def test_the_threshold_is_a_share_of_the_particles() -> None:
    """Sizes 1.0, 1.2, 1.5 and 2.2 of four, against a share of one half; the twin waits for a size below one half."""
    lightest = np.array([0.005, 0.05, 0.1, 0.3])
    weights = np.stack([np.ones(4), lightest, lightest, lightest], axis=1)
    sizes = weights.sum(axis=1) ** 2 / np.square(weights).sum(axis=1)
    rows = jnp.asarray(np.log(weights), jnp.float32)
    np.testing.assert_array_equal(resampling.needs_resampling(rows, 0.5), sizes < 2)
    assert not np.asarray(planted.resamples_below_one_particle(rows, 0.5)).any()


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_thresholds_outside_are_refused(threshold: float) -> None:
    with pytest.raises(InvalidInput, match="a share"):
        resampling.ess_adaptive(resampling.systematic, threshold)


@pytest.mark.parametrize("size", [1, 2, 7, 9, 1000])
def test_running_sums_never_decrease_nor_move_where_nothing_is_added(size: int) -> None:
    generator = np.random.default_rng(size)
    values = generator.exponential(size=(3, size)).astype(np.float32)
    values[generator.random((3, size)) < 0.4] = 0
    exact = np.cumsum(values.astype(np.float64), axis=1)
    sums = np.asarray(quick_jit(running_sum)(jnp.asarray(values)))
    whole, fraction = (np.asarray(part) for part in quick_jit(running_count)(jnp.asarray(values)))
    np.testing.assert_allclose(sums, exact, rtol=1e-6)
    np.testing.assert_allclose(whole + fraction.astype(np.float64), exact, atol=2e-5)
    assert ((fraction >= 0) & (fraction < 1)).all()
    for steps in (np.diff(sums), np.diff(whole.astype(np.float64) + fraction)):
        assert (steps >= 0).all()
        assert (steps[values[:, 1:] == 0] == 0).all()


@pytest.mark.parametrize("size", [1, 2, 3, 8, 37])
def test_search_is_searchsorted(size: int) -> None:
    generator = np.random.default_rng(size)
    values = np.sort(generator.integers(0, 6, (4, size)).astype(np.float32))
    points = generator.integers(-1, 7, (4, 11)).astype(np.float32)
    found = np.asarray(quick_jit(num_not_above)(jnp.asarray(values), jnp.asarray(points)))
    for row in range(4):
        expected = np.searchsorted(values[row], points[row], side="right")
        np.testing.assert_array_equal(found[row], expected)


def test_ancestors_from_counts() -> None:
    counts = jnp.array([[0, 3, 0, 1, 0], [1, 1, 1, 1, 1]], jnp.int32)
    counts = counts.at[0, 4].set(1)
    np.testing.assert_array_equal(
        quick_jit(from_counts)(counts), [[1, 1, 1, 3, 4], [0, 1, 2, 3, 4]]
    )
