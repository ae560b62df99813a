"""What holds for every filter on every law."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.decoding.laws import NUM_ROWS, VOCAB_SIZE, law_under, random_pmfs
from theory.decoding import (
    TokenRule,
    epsilon,
    eta,
    joint,
    min_p,
    temperature,
    top_k,
    top_n_sigma,
    top_p,
    typical,
)
from theory.decoding.rule import Filter

Make = Callable[[jnp.ndarray], Filter]


def whole(make: Callable[[jnp.ndarray], Filter]) -> Make:
    """A strength in 0..1 as a number of tokens."""
    return lambda strength: make(1 + jnp.floor(strength * VOCAB_SIZE))


FILTERS: dict[str, Make] = {
    "top_k": whole(top_k),
    "top_p": top_p,
    "min_p": min_p,
    "typical": typical,
    "epsilon": epsilon,
    "eta": eta,
    "top_n_sigma": lambda strength: top_n_sigma(3 * strength),
}
# Larger parameters keep more, or less.
GROWING = ("top_k", "top_p", "typical", "top_n_sigma")
SHRINKING = ("min_p", "epsilon", "eta")
# Cutting again changes nothing, because the kept tokens pass the same test after renormalisation.
IDEMPOTENT = ("top_k", "min_p", "epsilon")

seeds = st.integers(0, 2**32 - 1)
by_filter = pytest.mark.parametrize("name", FILTERS)
few = settings(max_examples=15)


def strengths(seed: int) -> jnp.ndarray:
    """One parameter a row."""
    return jnp.asarray(np.random.default_rng(seed).random(NUM_ROWS), jnp.float32)


@by_filter
@few
@given(seed=seeds)
def test_a_filter_restricts_and_renormalises(name: str, seed: int) -> None:
    """Sums to 1, never empty, zeros stay zeros, ratios of what is kept stay."""
    p = random_pmfs(seed)
    q = law_under((FILTERS[name](strengths(seed)),), p)
    np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-5)
    assert (q[p == 0] == 0).all()
    kept_mass = (p * (q > 0)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(q * kept_mass, p * (q > 0), atol=2e-6)


@by_filter
@few
@given(seed=seeds)
def test_permuting_the_vocabulary_permutes_the_law(name: str, seed: int) -> None:
    """Up to ties, which these laws do not have."""
    p = random_pmfs(seed, zeros=False)
    permutation = np.random.default_rng(seed).permutation(VOCAB_SIZE)
    rule = FILTERS[name](strengths(seed))
    np.testing.assert_allclose(
        law_under((rule,), p[:, permutation]), law_under((rule,), p)[:, permutation], atol=2e-6
    )


@by_filter
@few
@given(seed=seeds)
def test_filters_are_monotone_in_their_parameter(name: str, seed: int) -> None:
    p = random_pmfs(seed)
    low = strengths(seed)
    high = low + (1 - low) * strengths(seed + 1)
    fewer, more = (law_under((FILTERS[name](values),), p) > 0 for values in (low, high))
    if name in SHRINKING:
        fewer, more = more, fewer
    else:
        assert name in GROWING
    assert (fewer <= more).all()


@pytest.mark.parametrize("name", IDEMPOTENT)
@few
@given(seed=seeds)
def test_cutting_twice_is_cutting_once(name: str, seed: int) -> None:
    p = random_pmfs(seed)
    rule: TokenRule = FILTERS[name](strengths(seed))
    np.testing.assert_allclose(law_under((rule, rule), p), law_under((rule,), p), atol=2e-6)


@few
@given(seed=seeds)
def test_top_p_keeps_just_enough_mass(seed: int) -> None:
    p, mass = random_pmfs(seed), strengths(seed)
    kept = law_under((top_p(mass),), p) > 0
    kept_mass = (p * kept).sum(axis=1)
    least = np.where(kept, p, np.inf).min(axis=1)
    assert (kept_mass >= np.asarray(mass) - 1e-6).all()
    assert (kept_mass - least < np.asarray(mass) + 1e-6).all()


@few
@given(seed=seeds)
def test_joint_filters_do_not_know_their_order(seed: int) -> None:
    p = random_pmfs(seed)
    filters = [FILTERS[name](strengths(seed + i)) for i, name in enumerate(FILTERS)]
    filters = [rule for rule in filters if rule.keeps_mode]
    forth, back = joint(*filters), joint(*reversed(filters))
    law = law_under((forth,), p)
    np.testing.assert_array_equal(law, law_under((back,), p))
    each = [law_under((rule,), p) > 0 for rule in filters]
    np.testing.assert_array_equal(law > 0, np.logical_and.reduce(each))


@few
@given(seed=seeds)
def test_entropy_grows_with_the_temperature(seed: int) -> None:
    p, low = random_pmfs(seed), strengths(seed) + 0.1
    cold, hot = (law_under((temperature(t),), p) for t in (low, low + 0.3))

    def entropy(q: np.ndarray) -> np.ndarray:
        return -(q * np.log(np.where(q > 0, q, 1.0))).sum(axis=1)

    assert (entropy(cold) <= entropy(hot) + 1e-5).all()
    np.testing.assert_array_equal(cold.argmax(axis=1), p.argmax(axis=1))
