"""SARA: its predictor's examples, its stopping sizes, and the two forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.allocation.loops import play, updates
from theory.allocation.beta_binomial import probability_effective
from theory.allocation.policies import sara
from theory.allocation.priors import beta, mixture
from theory.allocation.records import Decision
from theory.errors import InvalidInput

FLAT = beta(1.0, 1.0)
ALLOCATE, EFFECTIVE = jax.jit(sara.allocate), jax.jit(probability_effective)


def test_predictor_of_the_notes() -> None:
    """.778, .778, .667 ... .111 after 0 to 7 equal outcomes at n = 8."""
    m = jnp.arange(8)
    found = ALLOCATE(FLAT, m, 0 * m, 100, 8).score
    np.testing.assert_allclose(
        found, [7 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9], rtol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group_size", "tau", "expected"),
    [
        *[(8, 0.45, 4), (16, 0.45, 9), (4, 0.45, 2), (32, 0.45, 18)],
        *[(8, 0.25, 6), (8, 0.35, 5), (8, 0.56, 3), (8, 0.67, 2)],
        # Thresholds that a fraction meets exactly, where a rounding would decide.
        *[(7, 0.5, 3), (8, 4 / 9, 4), (9, 0.3, 6), (9, 0.7, 2)],
    ],
)
def test_stopping_size(group_size: int, tau: float, expected: int) -> None:
    """m* of the tables, in both precisions."""
    assert sara.stopping_size(group_size, tau) == expected
    with jax.enable_x64(True):
        assert sara.stopping_size(group_size, tau) == expected


def test_one_step() -> None:
    """Mixed groups commit, hopeless ones are left, the rest get one more; a short budget leaves decisions standing."""
    s, f = jnp.array([1, 4, 0, 8, 5, 0]), jnp.array([2, 0, 3, 0, 5, 0])
    found = ALLOCATE(FLAT, s, f, 6, 8)
    names = [Decision(int(each)).name for each in found.decision]
    assert names == ["COMMIT", "ABANDON", "CONTINUE", "ABANDON", "COMMIT", "CONTINUE"]
    assert found.additional.tolist() == [5, 0, 1, 0, 0, 0]


@settings(max_examples=12)
@given(st.sampled_from([2, 9]), st.floats(0, 0.99), st.floats(0.1, 5), st.floats(0.1, 5))
def test_the_table_is_the_rule(group_size: int, tau: float, a: float, b: float) -> None:
    """At every point of the lattice that the rule can reach."""
    with jax.enable_x64(True):
        prior = beta(a, b)
        table = sara.table(prior, group_size, tau)
        inside = [(s, f) for s in range(group_size + 1) for f in range(group_size + 1 - s)]
        s, f = (np.array(counts) for counts in zip(*inside, strict=True))
        step = ALLOCATE(prior, jnp.asarray(s), jnp.asarray(f), 10**6, group_size, tau)
        chance = np.asarray(EFFECTIVE(prior, jnp.asarray(s), jnp.asarray(f), group_size))
    decision = np.asarray(table.decision)[s, f]
    np.testing.assert_array_equal(decision, step.decision)
    np.testing.assert_array_equal(np.asarray(table.additional)[s, f], step.additional)
    mixed = (s > 0) & (f > 0)
    assert (decision[mixed] == Decision.COMMIT).all()
    clear = ~mixed & (abs(chance - tau) > 1e-9)
    gives_up = (chance < tau) | (s + f == group_size)
    np.testing.assert_array_equal((decision == Decision.ABANDON)[clear], gives_up[clear])


def test_an_upper_threshold_commits_early() -> None:
    """Below 1 it takes groups that are not mixed yet; what they end as decides what is trained on."""
    table = sara.table(FLAT, 16, 0.3, 0.8)
    assert int(table.decision[0, 0]) == Decision.COMMIT and int(table.additional[0, 0]) == 16
    assert int(table.decision[16, 0]) == Decision.ABANDON


@pytest.mark.parametrize(
    "arguments", [(1, 0.4, 1.0), (8, 1.4, 1.0), (8, 0.5, 0.5), (8, float("nan"), 1.0)]
)
def test_bad_thresholds(arguments: tuple[int, float, float]) -> None:
    """One line each."""
    with pytest.raises(InvalidInput):
        sara.table(FLAT, *arguments)
    with pytest.raises(InvalidInput):
        sara.probe_table(8, 9)


def test_likelihood_ratio_by_enumeration() -> None:
    """P(data | mixed) / P(data | unmixed), over all ways in which the group can end."""
    n = 6
    with jax.enable_x64(True):
        prior = mixture([(0.6, 0.7, 2.0)], [(0.3, 0.0), (0.1, 0.6)])
        start = float(EFFECTIVE(prior, jnp.array(0), jnp.array(0), n))
        for s, f in ((3, 0), (0, 2), (1, 0)):
            chance = float(EFFECTIVE(prior, jnp.array(s), jnp.array(f), n))
            ratio = chance / start / ((1 - chance) / (1 - start))
            found = sara.log_likelihood_ratio(prior, jnp.array(s), jnp.array(f), n)
            assert float(found) == pytest.approx(np.log(ratio), rel=1e-10)
        assert np.isinf(sara.log_likelihood_ratio(prior, jnp.array(1), jnp.array(1), n))


def test_wald_thresholds_keep_the_errors() -> None:
    """P(abandon | mixed) <= missed / (1 - false commit) for the rule with those thresholds, by exact expectation."""
    n, prior = 16, beta(0.3, 0.3)
    with jax.enable_x64(True):
        prior = beta(0.3, 0.3)
        low, high = sara.wald_thresholds(prior, n, 0.05, 0.2)
        table = sara.table(prior, n, low, min(high, 1.0))
        rates = np.linspace(0.0005, 0.9995, 2000)
        weights = rates**-0.7 * (1 - rates) ** -0.7
        weights /= weights.sum()
        abandoned = np.zeros(rates.size)
        reach = {(0, 0): np.ones(rates.size)}
        for total in range(n):
            for s in range(total + 1):
                here = reach.pop((s, total - s), None)
                if here is None:
                    continue
                decision = int(table.decision[s, total - s])
                if decision == Decision.ABANDON:
                    left = n - total
                    ends_equal = (rates**left if s else 0) + (
                        (1 - rates) ** left if total - s else 0
                    )
                    abandoned += here * (1 - ends_equal)
                elif decision == Decision.CONTINUE:
                    for to, chance in (
                        ((s + 1, total - s), rates),
                        ((s, total - s + 1), 1 - rates),
                    ):
                        reach[to] = reach.get(to, 0) + here * chance
        mixed = 1 - rates**n - (1 - rates) ** n
        assert weights @ abandoned / (weights @ mixed) <= 0.2 / 0.95 + 1e-3


def test_batches_are_mixed_and_waste_is_bounded() -> None:
    """Every group trained on is mixed, and no abandoned prompt cost more than m*."""
    rates = np.concatenate([np.zeros(40), np.ones(40), np.linspace(0.1, 0.9, 20)])
    for allocator in (sara.allocator(4, 8), sara.probe_allocator(4, 8)):
        complete = updates(play(allocator, rates, 240))  # about 57 rounds an update
        assert complete
        for update in complete:
            last = update[-1].groups
            assert (last.successes[last.ready] > 0).all() and (last.failures[last.ready] > 0).all()
            assert ((last.successes + last.failures)[last.ready] == 8).all()
            for each in update:
                assert set(each.groups.dropped[each.groups.dropped > 0].tolist()) <= {4}
