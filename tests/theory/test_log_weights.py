"""What -inf, NaN and all -inf mean, and the sizes of the weights."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory import log_weights as lw
from theory.log_weights import ParetoSmoothed

INF = math.inf
QUANTITIES = (lw.ess, lw.log_ess_fraction, lw.largest_share, lw.log_mean_weight)

# Dead particles, ordinary ones, and ones far apart; multiples of 1/8, so that shifting them rounds nothing.
numbers = st.one_of(st.just(-INF), st.integers(-2000, 2000).map(lambda i: i / 8))
populations = st.lists(numbers, min_size=5, max_size=5)


@jax.jit
def everything(log_weights: jax.Array) -> dict[str, jax.Array]:
    """All quantities by name, in one program."""
    found = {quantity.__name__: quantity(log_weights) for quantity in QUANTITIES}
    log_probs, dead = lw.normalise(log_weights)
    return found | {
        "log_probs": log_probs,
        "dead": dead,
        "relative": lw.relative_weights(log_weights),
    }


def float32(values: list[float]) -> jax.Array:
    """A population."""
    return jnp.array(values, jnp.float32)


@given(populations)
def test_against_plain_float64(values: list[float]) -> None:
    found = everything(float32(values))
    weights = np.array(values)
    if np.isneginf(weights).all():
        assert found["ess"] == 0 and found["largest_share"] == 0 and bool(found["dead"])
        assert found["log_ess_fraction"] == -INF and found["log_mean_weight"] == -INF
        assert np.isneginf(found["log_probs"]).all() and (np.asarray(found["relative"]) == 0).all()
        return
    probs = np.exp(weights - weights.max())
    probs /= probs.sum()
    assert not bool(found["dead"])
    np.testing.assert_allclose(found["ess"], 1 / (probs**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(found["largest_share"], probs.max(), rtol=1e-5)
    np.testing.assert_allclose(np.exp(found["log_probs"]), probs, atol=1e-6)
    total = np.logaddexp.reduce(weights)
    np.testing.assert_allclose(found["log_mean_weight"], total - np.log(5), rtol=1e-6, atol=1e-4)


@given(populations, st.integers(-100, 100))
def test_shifting_the_log_weights_changes_the_evidence_only(values: list[float], by: int) -> None:
    here, there = everything(float32(values)), everything(float32([v + by for v in values]))
    for name in ("ess", "log_ess_fraction", "largest_share", "relative", "dead"):
        np.testing.assert_array_equal(here[name], there[name], err_msg=name)
    np.testing.assert_allclose(here["log_probs"], there["log_probs"], atol=1e-4)
    shifted = np.asarray(here["log_mean_weight"]) + by
    np.testing.assert_allclose(shifted, there["log_mean_weight"], atol=1e-4)


@given(populations)
def test_bounds(values: list[float]) -> None:
    found = everything(float32(values))
    if not found["dead"]:
        assert 1 <= found["ess"] <= 5
        assert found["log_ess_fraction"] <= 0
        assert 0.2 <= found["largest_share"] <= 1
        assert np.max(found["relative"]) == 1


def test_golden_effective_sample_size() -> None:
    assert float(lw.ess(jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4])))) == pytest.approx(
        10 / 3, rel=1e-6
    )


@pytest.mark.parametrize("size", [1, 3, 49, 1000])
def test_equal_weights_are_exact(size: int) -> None:
    """At alpha 1 every log weight is 0, and nothing may be lost to rounding."""
    found = everything(jnp.full(size, -7.25, jnp.float32))
    assert found["ess"] == size and found["log_ess_fraction"] == 0
    assert found["log_mean_weight"] == -7.25
    assert (np.asarray(found["relative"]) == 1).all()


@pytest.mark.parametrize("no_weight", [math.nan, INF])
def test_what_is_no_weight_is_dead_and_counted(no_weight: float) -> None:
    rows = jnp.array([[0.5, no_weight, -INF], [0.5, 1.0, 2.0], [no_weight] * 3], jnp.float32)
    cleaned, num_no_weight = lw.clean(rows)
    np.testing.assert_array_equal(num_no_weight, [1, 0, 3])
    np.testing.assert_array_equal(cleaned, [[0.5, -INF, -INF], [0.5, 1.0, 2.0], [-INF] * 3])
    np.testing.assert_array_equal(lw.all_dead(rows), [False, False, True])
    dirty, clean = everything(rows), everything(cleaned)
    for name in clean:
        np.testing.assert_array_equal(dirty[name], clean[name], err_msg=name)


def test_batched_is_one_by_one_and_keeps_the_type() -> None:
    rows = np.random.default_rng(0).normal(scale=5.0, size=(2, 3, 5)).astype(np.float32)
    rows[0, 1] = -INF
    batch = everything(jnp.asarray(rows))
    for place in np.ndindex(2, 3):
        for name, value in everything(jnp.asarray(rows[place])).items():
            np.testing.assert_array_equal(batch[name][place], value, err_msg=name)
    assert all(v.dtype in (jnp.float32, jnp.bool_) for v in batch.values())
    with jax.enable_x64(True):
        assert lw.log_mean_weight(jnp.zeros(3, jnp.float64)).dtype == jnp.float64


def test_gradient_of_the_evidence() -> None:
    """The normalised weights; and nothing where all are dead, instead of NaN."""
    gradient = jax.grad(lambda log_weights: lw.log_mean_weight(log_weights))
    weights = np.array([0.1, 0.2, 0.0, 0.7], np.float32)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(gradient(jnp.asarray(np.log(weights))), weights, rtol=1e-5)
    np.testing.assert_array_equal(gradient(jnp.full(4, -INF)), np.zeros(4))


def heavy_tail(size: int, index: float) -> np.ndarray:
    """Log weights at the quantiles of a Pareto law with this index, wobbled."""
    levels = (np.arange(size) + 0.5) / size
    return -np.log1p(-levels) / index + 0.1 * np.sin(7 * levels)


@pytest.mark.parametrize(
    ("size", "index", "k", "log_probs"),
    [
        # Last, fifth-last and first normalised log weight; by an independent implementation (ArviZ 0.x, psislw).
        (
            1000,
            1.5,
            0.6317168407604492,
            (-2.9228306088196514, -4.3267970929175315, -7.957550830489224),
        ),
        (
            200,
            3.0,
            0.3318565824590279,
            (-3.6443679612257047, -4.351881018561883, -5.703307861259823),
        ),
        (
            30,
            1.0,
            0.5790386350991652,
            (-1.2087781414421295, -3.079097732024891, -4.905725552604217),
        ),
    ],
)
def test_pareto_smoothing_against_another_implementation(
    size: int, index: float, k: float, log_probs: tuple[float, float, float]
) -> None:
    smoothed = lw.pareto_smooth(heavy_tail(size, index))
    assert float(smoothed.pareto_k) == pytest.approx(k, rel=1e-10)
    normalised = smoothed.log_weights - np.logaddexp.reduce(smoothed.log_weights)
    np.testing.assert_allclose(normalised[[-1, -5, 0]], log_probs, rtol=1e-10)


@pytest.mark.parametrize("size", [1, 3, 5, 50, 51, 997])
def test_the_tail_needs_only_the_largest(size: int) -> None:
    rng = np.random.default_rng(size)
    for values in (rng.standard_t(2, size), np.round(rng.normal(size=size), 1), np.zeros(size)):
        largest = rng.permutation(np.sort(values)[-lw.num_tail_weights(size) - 1 :])
        assert lw.pareto_k_of_largest(largest, size) == float(lw.pareto_k(values))
    assert lw.num_tail_weights(10_000) == 300 and lw.num_tail_weights(100) == 20
    assert lw.pareto_k_of_largest(np.full(3, -INF), 5) == INF


def test_fit_recovers_the_shape_of_exact_quantiles() -> None:
    """Up to the shrinkage towards 1/2, which is known."""
    levels = (np.arange(5000) + 0.5) / 5000
    for shape in (-0.3, 0.2, 0.7, 1.2):
        excesses = 2.0 * np.expm1(-shape * np.log1p(-levels)) / shape
        fitted, scale = lw.fit_generalised_pareto(excesses)
        unshrunk = (fitted * 5010 - 5) / 5000
        assert unshrunk == pytest.approx(shape, abs=0.02)
        assert scale == pytest.approx(2.0, rel=0.02)


def test_equal_excesses_at_which_the_grid_holds_an_exponential_law() -> None:
    """Size 100 gives a grid of 40 points, of which the third is theta = 0 exactly when all excesses are equal."""
    shape, scale = lw.fit_generalised_pareto(np.full(100, 2.0))
    assert math.isfinite(shape) and scale > 0


def smooth(values: np.ndarray) -> ParetoSmoothed:
    return lw.pareto_smooth(values)


def test_smoothing_keeps_the_body_the_order_and_the_scale() -> None:
    raw = heavy_tail(400, 1.2)
    raw[:7] = -INF
    raw[7] = math.nan
    smoothed = smooth(raw)
    num_tail = math.ceil(min(400 / 5, 3 * math.sqrt(400)))
    np.testing.assert_array_equal(smoothed.log_weights[:8], -INF)
    np.testing.assert_array_equal(smoothed.log_weights[8:-num_tail], raw[8:-num_tail])
    assert (np.diff(smoothed.log_weights[8:]) >= -1e-12).all()
    assert smoothed.log_weights.max() <= raw[8:].max()
    shifted = smooth(raw + 300.0)
    assert float(shifted.pareto_k) == pytest.approx(float(smoothed.pareto_k), rel=1e-9)
    np.testing.assert_allclose(shifted.log_weights[8:] - 300, smoothed.log_weights[8:], atol=1e-9)


def test_k_says_when_it_cannot_say() -> None:
    assert lw.pareto_k(np.zeros(1000)) == -INF
    assert lw.pareto_k(np.array([0.0, 1.0, 5.0])) == INF
    assert lw.pareto_k(np.full(1000, -INF)) == INF
    assert lw.pareto_k(np.array([0.0])) == INF
    one_alive = np.full(1000, -INF)
    one_alive[3] = 0.0
    assert lw.pareto_k(one_alive) == INF
    np.testing.assert_array_equal(smooth(one_alive).log_weights, one_alive)


def test_k_in_batches_and_float32() -> None:
    rows = np.stack([heavy_tail(100, 1.0), heavy_tail(100, 4.0)])[None].astype(np.float32)
    together = smooth(rows)
    assert together.pareto_k.shape == (1, 2) and together.log_weights.dtype == np.float64
    for row in range(2):
        alone = smooth(rows[0, row])
        assert float(alone.pareto_k) == together.pareto_k[0, row]
        np.testing.assert_array_equal(alone.log_weights, together.log_weights[0, row])
