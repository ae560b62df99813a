"""HORA: the greedy rule against exhaustive search, a heap, and the examples by hand."""

import heapq
import itertools
from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.allocation.loops import play, updates
from theory.allocation.policies import hora
from theory.allocation.priors import BetaMixture, beta, mixture
from theory.allocation.records import Decision

Counts = list[tuple[int, int]]


def marginal(a: Fraction, b: Fraction, column: int) -> Fraction:
    """E[p (1 - p)^l] under Beta(a, b), exactly."""
    value = a / (a + b)
    for failure in range(column):
        value *= (b + failure) / (a + b + 1 + failure)
    return value


def greedy(rows: Sequence[Sequence[Fraction]], budget: int) -> list[int]:
    """The rule as it is told: always the largest next marginal, the first of equals."""
    heap = [(-row[0], place) for place, row in enumerate(rows) if row]
    heapq.heapify(heap)
    counts = [0] * len(rows)
    for _ in range(budget):
        if not heap:
            break
        _, place = heapq.heappop(heap)
        counts[place] += 1
        if counts[place] < len(rows[place]):
            heapq.heappush(heap, (-rows[place][counts[place]], place))
    return counts


def rows_of(counts: Counts, budget: int, cap: int | None, aware: bool) -> list[list[Fraction]]:
    """The marginal matrix under the flat prior."""
    rows: list[list[Fraction]] = []
    for s, f in counts:
        most = budget if cap is None else max(min(budget, cap - s - f), 0)
        start = s + f if aware else 0
        a, b = Fraction(1 + s), Fraction(1 + f)
        rows.append([marginal(a, b, start + column) for column in range(most)])
    return rows


PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=6, max_size=6)
PLAIN, AWARE = jax.jit(hora.allocate), jax.jit(hora.allocate_mass_aware)


@settings(max_examples=10)
@given(PAIRS, st.integers(0, 40), st.sampled_from([1, 5, 8, 12, 10**6]), st.booleans())
def test_greedy_in_exact_arithmetic(counts: Counts, budget: int, cap: int, aware: bool) -> None:
    """Every form gives what a heap over fractions gives, ties included."""
    truth = greedy(rows_of(counts, budget, cap, aware), budget)
    with jax.enable_x64(True):
        s, f = jnp.asarray(counts).T
        rule = AWARE if aware else PLAIN
        plain = rule(beta(1.0, 1.0), s, f, jnp.asarray(budget), jnp.asarray(cap))
        many = hora.allocate_many(beta(1.0, 1.0), s, f, budget, cap, aware)
    assert plain.additional.tolist() == truth
    assert many.additional.tolist() == truth
    assert plain.decision.tolist() == [Decision.COMMIT if more else Decision.NONE for more in truth]
    np.testing.assert_allclose(many.score, plain.score)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=4),
    st.integers(0, 6),
)
def test_greedy_is_exhaustive_search(counts: Counts, budget: int) -> None:
    """No other way to spend the budget has a larger total hit utility."""
    rows = rows_of(counts, budget, None, aware=False)
    utilities = [[sum(row[:m], Fraction(0)) for m in range(budget + 1)] for row in rows]
    best = max(
        sum(utilities[place][m] for place, m in enumerate(split))
        for split in itertools.product(range(budget + 1), repeat=len(counts))
        if sum(split) == budget
    )
    with jax.enable_x64(True):
        s, f = jnp.asarray(counts).T
        found = PLAIN(beta(1.0, 1.0), s, f, jnp.asarray(budget)).additional.tolist()
    assert sum(found) == budget
    assert sum(utilities[place][m] for place, m in enumerate(found)) == best


@pytest.mark.parametrize(
    ("wins", "budget", "expected"),
    [
        ([0, 1, 2, 3, 4], 60, [25, 15, 10, 6, 4]),
        ([0, 0, 0, 1, 2, 3, 4, 4], 96, [21, 20, 20, 13, 8, 6, 4, 4]),
    ],
)
def test_examples(wins: list[int], budget: int, expected: list[int]) -> None:
    """The examples of the notes, in single precision as well."""
    s = jnp.asarray(wins)
    assert PLAIN(beta(1.0, 1.0), s, 4 - s, budget).additional.tolist() == expected
    assert (
        hora.allocate_betas(
            jnp.asarray(wins, float) + 1, 5 - jnp.asarray(wins, float), budget
        ).tolist()
        == expected
    )


PRIORS = {
    "mixture": mixture([(0.4, 0.5, 2.0), (0.3, 3.0, 3.0)], [(0.2, 0.0), (0.1, 1.0)]),
    "points": mixture([], [(0.5, 0.0), (0.25, 0.3), (0.25, 1.0)]),
    "hopeless": mixture([], [(1.0, 0.0)]),
}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("budget", [0, 7, 100])
def test_mixtures_against_a_heap(name: str, budget: int) -> None:
    """Atoms included: where nothing can be gained the budget is still spent, evenly."""
    prior = PRIORS[name]
    with jax.enable_x64(True):
        prior = BetaMixture(*(jnp.asarray(np.asarray(part), jnp.float64) for part in prior))
        f = jnp.array([0, 2, 3, 3, 0])
        s = jnp.zeros_like(f) if name != "mixture" else jnp.array([0, 1, 0, 0, 2])
        marginals = jax.jit(hora.hit_rows(prior, s, f, 0 * s))
        matrix = [np.asarray(marginals(jnp.full_like(s, column))) for column in range(budget)]
        rows = [[Fraction(float(np.exp(column[place]))) for column in matrix] for place in range(5)]
        found = PLAIN(prior, s, f, jnp.asarray(budget)).additional
        many = np.asarray(hora.allocate_many(prior, s, f, budget).additional)
        found = np.asarray(found)
    assert many.tolist() == found.tolist()
    assert int(found.sum()) == budget
    gained = sum(sum(row[: int(m)], Fraction(0)) for row, m in zip(rows, found, strict=True))
    best = sum(sum(row[:m], Fraction(0)) for row, m in zip(rows, greedy(rows, budget), strict=True))
    assert float(gained) == pytest.approx(float(best), rel=1e-12)
    if name == "hopeless":
        assert max(found.tolist()) - min(found.tolist()) <= 1


@pytest.mark.parametrize(("size", "share"), [(3, 200.0), (3000, 0.3), (40_000, 0.3), (40_000, 5.0)])
def test_distinct_betas_take_the_largest(size: int, share: float) -> None:
    """The chosen entries are the R largest: the least one chosen is no smaller than the greatest one left."""
    rng = np.random.default_rng(size)
    a, b = rng.gamma(0.5, 1.0, size) + 1e-3, rng.gamma(1.0, 3.0, size) + 1e-3
    budget = int(share * size)
    budget = min(budget, 10**6)
    with jax.enable_x64(True):
        counts = np.asarray(hora.allocate_betas(jnp.asarray(a), jnp.asarray(b), budget))
        prior = BetaMixture(
            jnp.zeros((size, 1)),
            jnp.asarray(a)[:, None],
            jnp.asarray(b)[:, None],
            jnp.zeros((size, 0)),
            jnp.zeros((size, 0)),
        )
        zero = jnp.zeros(size, jnp.int64)
        rows = hora.hit_rows(prior, zero, zero, zero)
        following = np.asarray(rows(jnp.asarray(counts)))
        chosen = np.asarray(rows(jnp.maximum(jnp.asarray(counts) - 1, 0)))[counts > 0]
    assert counts.sum() == budget
    assert chosen.min() >= following.max() - 1e-10


def test_every_prior_of_its_own_in_one_call() -> None:
    """A leading axis of the prior's arrays is one prior a prompt."""
    a, b = np.array([0.3, 2.0, 1.0]), np.array([4.0, 1.0, 1.0])
    with jax.enable_x64(True):
        prior = BetaMixture(
            jnp.zeros((3, 1)),
            jnp.asarray(a)[:, None],
            jnp.asarray(b)[:, None],
            jnp.zeros((3, 0)),
            jnp.zeros((3, 0)),
        )
        zero = jnp.zeros(3, jnp.int64)
        found = hora.allocate(prior, zero, zero, 50).additional
        assert found.tolist() == hora.allocate_betas(jnp.asarray(a), jnp.asarray(b), 50).tolist()


@pytest.mark.parametrize("budget", [pytest.param(2**30, marks=pytest.mark.slow), 19])
def test_an_update_spends_what_uniform_allocation_spends(budget: int) -> None:
    """B n rollouts, G0 of each prompt first; every group is trained on, whole."""
    rates = np.linspace(0, 1, 30)
    for update in updates(play(hora.allocator(5, 8), rates, 60, budget=budget)):
        assert sum(each.requests.additional.sum() for each in update) == 40
        last = update[-1].groups
        sizes = (last.successes + last.failures)[last.ready]
        assert last.ready.sum() == 5 and sizes.sum() == 40 and sizes.min() >= 4
        if budget > 40:
            assert len(update) == 2
            s, f = update[0].results.successes[last.ready], update[0].results.failures[last.ready]
            shares = PLAIN(beta(1.0, 1.0), jnp.asarray(s), jnp.asarray(f), 20).additional
            assert shares.tolist() == update[1].requests.additional[last.ready].tolist()


def test_caps_bind() -> None:
    """No group passes the cap, and the budget is spent elsewhere."""
    s, f = jnp.array([0, 4, 4]), jnp.array([4, 0, 0])
    found = PLAIN(beta(1.0, 1.0), s, f, 30, cap=16).additional
    assert found.tolist() == [12, 9, 9]
    assert PLAIN(beta(1.0, 1.0), s, f, 90, cap=16).additional.tolist() == [12, 12, 12]
