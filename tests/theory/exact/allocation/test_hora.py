"""HORA: greedy is the best of all allocations, the worked examples, and the trade of coverage against mixed groups."""

import heapq
from fractions import Fraction
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.allocation.exact_beta import moment
from tests.theory.exact.allocation.populations import flat, law
from theory.errors import InvalidInput
from theory.exact.allocation import hora

BEST = jax.jit(hora.best_allocation, static_argnums=(2, 3))


def utility(a: int, b: int, extra: int) -> Fraction:
    return 1 - moment(Fraction(a), Fraction(b), 0, extra)


@pytest.mark.parametrize(
    ("successes", "total", "extra"),
    [
        ([0, 1, 2, 3, 4], 60, [25, 15, 10, 6, 4]),
        ([0, 0, 0, 1, 2, 3, 4, 4], 96, [21, 20, 20, 13, 8, 6, 4, 4]),
    ],
)
def test_worked_examples(successes: list[int], total: int, extra: list[int]) -> None:
    with jax.enable_x64(True):
        c = jnp.asarray(successes, float)
        found = BEST(1 + c, 5 - c, total, 64)
    np.testing.assert_array_equal(found, extra)


def test_greedy_is_the_best_of_all_allocations() -> None:
    """In fractions, over every way to spend six rollouts on four prompts; and the largest marginals are what greedy picks."""
    posteriors = [(1, 5), (2, 4), (5, 1), (2, 9)]
    total = 6
    with jax.enable_x64(True):
        a, b = (jnp.asarray(column, float) for column in zip(*posteriors, strict=True))
        found = np.asarray(BEST(a, b, total, total))
    assert found.sum() == total

    def value(extra: tuple[int, ...]) -> Fraction:
        pairs = zip(posteriors, extra, strict=True)
        return sum((utility(a, b, int(m)) for (a, b), m in pairs), Fraction(0))

    spent = [extra for extra in product(range(total + 1), repeat=4) if sum(extra) == total]
    assert value(tuple(found)) == max(value(extra) for extra in spent)
    heap = [(-utility(a, b, 1), i) for i, (a, b) in enumerate(posteriors)]
    greedy = [0] * 4
    heapq.heapify(heap)
    for _ in range(total):
        _, i = heapq.heappop(heap)
        greedy[i] += 1
        a_i, b_i = posteriors[i]
        gain = utility(a_i, b_i, greedy[i] + 1) - utility(a_i, b_i, greedy[i])
        heapq.heappush(heap, (-gain, i))
    np.testing.assert_array_equal(found, greedy)


@pytest.mark.slow
def test_probes_tell_nothing_on_average() -> None:
    """Over the outcomes of the probes, equal groups hold a success, or both outcomes, as often as groups without probes: in fractions."""
    a, b, probes, most = Fraction(2), Fraction(3), 3, 5
    extras = (0.0, 2.0, 2.5, 3.0, 5.0)

    @jax.jit
    def outcomes(extra: jax.Array) -> jax.Array:
        kinds = hora.probe_kinds(law(1.0, 2.0, 3.0), probes, most)
        return jnp.stack([jnp.stack(hora.outcome(kinds, each)) for each in extra])

    with jax.enable_x64(True):
        found = np.asarray(outcomes(jnp.tile(jnp.array(extras)[:, None], (1, probes + 1))))
    for (hit, mixed), extra in zip(found, extras, strict=True):
        if extra == int(extra):
            size = probes + int(extra)
            wrong, right = moment(a, b, 0, size), moment(a, b, size, 0)
            np.testing.assert_allclose(
                [hit, mixed], [float(1 - wrong), float(1 - wrong - right)], rtol=1e-13
            )
    # Half a rollout is one for every other prompt.
    np.testing.assert_allclose(found[2], (found[1] + found[3]) / 2, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "uniform", "adaptive"),
    [
        (law(1.0, 0.3, 0.6), (0.689, 0.623), (0.716, 0.614)),
        (law(1.0, 0.15, 0.15), (0.683, 0.362), (0.704, 0.347)),
        (law(1.0, 0.2, 1.0), (0.477, 0.464), (0.490, 0.461)),
    ],
)
def test_coverage_is_bought_with_mixed_groups(
    population: object, uniform: tuple[float, float], adaptive: tuple[float, float]
) -> None:
    """The notes' 600 draws of 64 prompts, against infinitely many prompts: G0 = 4, mean size 16."""
    with jax.enable_x64(True):
        found = hora.large_pool(population, flat(), 4, 16, 60)  # type: ignore[arg-type]
        assert found.hit > found.uniform_hit
        assert found.mixed < found.uniform_mixed
    np.testing.assert_allclose([found.uniform_hit, found.uniform_mixed], uniform, atol=0.007)
    np.testing.assert_allclose([found.hit, found.mixed], adaptive, atol=0.007)


@pytest.mark.slow
def test_a_large_pool_is_many_prompts() -> None:
    """The allocation of 2,000 prompts in the proportions of the law tends to that of the large pool."""
    with jax.enable_x64(True):
        found = hora.large_pool(flat(), flat(), 3, 9, 40)
        # Under the flat prior the four numbers of successes are equally likely.
        c = jnp.repeat(jnp.arange(4.0), 500)
        extra = np.asarray(BEST(1 + c, 4 - c, 2000 * 6, 40)).reshape(4, 500).mean(axis=1)
    np.testing.assert_allclose(found.extra, extra, atol=1e-9)
    np.testing.assert_allclose(np.asarray(found.extra).mean(), 6, rtol=1e-12)


@pytest.mark.parametrize("budget", [0.0, 0.37, 1.0, 2.9, 4.0])
def test_a_filled_budget_is_spent_and_on_the_largest_increments(budget: float) -> None:
    """To the last fraction of a rollout; a kind without prompts costs nothing and gets what its increments earn."""
    marginals = np.array([[0.9, 0.5, 0.3, 0.1], [0.8, 0.7, 0.2, 0.05], [0.6, 0.4, 0.35, 0.01]])
    share = np.array([0.2, 0.5, 0.3])
    with jax.enable_x64(True):
        found = np.asarray(hora.fill(jnp.asarray(share), jnp.asarray(marginals), budget))
        empty = jnp.asarray(np.array([0.2, 0.8, 0.0]))
        with_empty = np.asarray(hora.fill(empty, jnp.asarray(marginals), budget))
    assert share @ found == pytest.approx(budget, abs=1e-12)
    assert with_empty[:2] @ np.array([0.2, 0.8]) == pytest.approx(budget, abs=1e-12)
    kept = np.arange(4) < np.floor(found + 1e-12)[:, None]
    begun = np.arange(4) < np.ceil(found - 1e-12)[:, None]
    assert np.sum(begun & ~kept) <= 1
    if kept.any() and not begun.all():
        assert marginals[kept].min() > marginals[~begun].max()


@pytest.mark.slow
def test_no_budget_and_all_of_it() -> None:
    with jax.enable_x64(True):
        assert np.all(hora.large_pool(flat(), flat(), 4, 4, 10).extra == 0)
        assert np.all(hora.large_pool(flat(), flat(), 4, 14, 10).extra == 10)
        for mean_size in (3, 15):
            with pytest.raises(InvalidInput, match=r"must lie in 4\.\.14"):
                hora.large_pool(flat(), flat(), 4, mean_size, 10)
