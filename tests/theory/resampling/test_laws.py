"""Every scheme keeps the laws of resampling, and each planted bug breaks one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import resampling as planted
from tests.theory.resampling import laws
from tests.theory.resampling.laws import (
    EQUAL_SCHEMES,
    SCHEMES,
    WEIGHTS,
    Scheme,
    counts_of,
    outcomes,
)

BY_NAME = {scheme.name: scheme for scheme in SCHEMES}


def name_of(value: object) -> str:
    """Of a scheme, a check or a bug."""
    return getattr(value, "name", None) or getattr(value, "__name__", str(value))


every_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=name_of)
every_equal_scheme = pytest.mark.parametrize("scheme", EQUAL_SCHEMES, ids=name_of)


@every_scheme
def test_expected_weight_is_conserved(scheme: Scheme) -> None:
    laws.check_unbiased(scheme)


@every_scheme
def test_evidence_is_conserved(scheme: Scheme) -> None:
    laws.check_evidence(scheme)


@every_scheme
@pytest.mark.parametrize(
    "check",
    [laws.check_zero_weights, laws.check_nan_is_dead, laws.check_all_dead, laws.check_range],
    ids=name_of,
)
def test_in_float32(scheme: Scheme, check: Callable[[Scheme], None]) -> None:
    check(scheme)


@every_scheme
def test_equal_weights_are_left_alone(scheme: Scheme) -> None:
    """Where every particle has exactly one expected offspring there is nothing to draw, but for multinomial resampling."""
    ancestors, after = laws.run_at_edges(scheme, np.full(laws.SIZE, -3.0))
    alone = (ancestors == np.arange(laws.SIZE)).all()
    assert alone == (scheme.name != "multinomial")
    np.testing.assert_allclose(after, -3.0, rtol=0, atol=1e-6)


def test_one_particle_is_its_own_ancestor() -> None:
    def all_schemes(uniforms: jax.Array, log_weights: jax.Array) -> list[Any]:
        return [s.run(uniforms[:, : s.num_uniforms(1)], log_weights) for s in SCHEMES]

    below_one = np.nextafter(np.float32(1), np.float32(0))
    log_weights = jnp.array([[2.5], [-np.inf]], jnp.float32)
    for u in (0.0, below_one):
        found = laws.compiled(all_schemes, True)(jnp.full((2, 2), u, jnp.float32), log_weights)
        for scheme, (ancestors, after) in zip(SCHEMES, found, strict=True):
            np.testing.assert_array_equal(ancestors, [[0], [0]], err_msg=scheme.name)
            np.testing.assert_allclose(after, log_weights, rtol=1e-6, err_msg=scheme.name)


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        (planted.ancestor_off_by_one, laws.check_unbiased_once),
        (planted.weights_ignored, laws.check_unbiased_once),
        (planted.first_particle_always_kept, laws.check_unbiased_once),
        (planted.first_particle_always_kept, laws.check_zero_weights),
        (planted.zero_weight_chosen_at_zero, laws.check_zero_weights),
        (planted.float32_cumulative_end, laws.check_range),
        (planted.nan_weight_as_largest, laws.check_nan_is_dead),
        (planted.evidence_lost, laws.check_unbiased_once),
        (planted.evidence_lost, laws.check_evidence_once),
        (planted.sum_instead_of_mean, laws.check_evidence_once),
        (planted.all_dead_collapses, laws.check_all_dead),
        (planted.weights_kept, laws.check_unbiased_once),
        (planted.weights_inherited, laws.check_unbiased_once),
        (planted.residual_without_the_remainder, laws.check_unbiased_once),
    ],
    ids=name_of,
)
def test_planted_bug_is_rejected(bug: planted.Bug, check: Callable[[Scheme], None]) -> None:
    with pytest.raises(AssertionError):
        check(laws.planted_scheme(bug))


def test_a_remainder_drawn_by_the_weights_is_rejected() -> None:
    laws.check_unbiased_once(BY_NAME["residual"])
    bug = planted.residual_drawn_by_the_weights
    with pytest.raises(AssertionError):
        laws.check_unbiased_once(Scheme(bug.__name__, int, bug, laws.multinomial_cuts))


def test_one_uniform_for_all_draws_is_seen_in_the_variance() -> None:
    """It is unbiased; but a particle has N offspring or none, and their number varies N times too much."""
    weights = (0.45, 0.0, 0.35, 2.2)
    one = laws.planted_scheme(planted.one_uniform_for_all_draws)
    one = one._replace(cuts=lambda values: laws.multinomial_cuts(values)[:1])
    laws.check_unbiased(one, (weights,))
    right, wrong = moments(BY_NAME["multinomial"], weights), moments(one, weights)
    np.testing.assert_allclose(wrong, 4 * right, atol=1e-12)


@every_equal_scheme
def test_offspring_lie_where_the_scheme_allows(scheme: Scheme) -> None:
    for weights in WEIGHTS:
        expected = len(weights) * np.array(weights) / sum(weights)
        counts = counts_of(outcomes(scheme, weights).ancestors, len(weights))
        assert (counts.sum(axis=1) == len(weights)).all()
        if scheme.name in ("systematic", "ssp"):
            assert (np.abs(counts - expected) < 1).all()
        if scheme.name == "stratified":
            assert (np.abs(counts - expected) < 2).all()
        if scheme.name == "residual":
            assert (counts >= np.floor(expected + 1e-12)).all()


def moments(scheme: Scheme, weights: tuple[float, ...]) -> np.ndarray:
    """[N, N] exact covariance of the numbers of offspring."""
    ancestors, _, probs = outcomes(scheme, weights)
    counts = counts_of(ancestors, len(weights))
    mean = probs @ counts
    return (counts - mean).T @ (probs[:, None] * (counts - mean))


def test_variance_of_the_number_of_offspring() -> None:
    weights = (0.1, 0.2, 0.3, 0.4)
    variance = {s.name: np.diag(moments(s, weights)) for s in EQUAL_SCHEMES}
    np.testing.assert_allclose(variance["multinomial"], [0.36, 0.64, 0.84, 0.96], rtol=1e-12)
    # Two draws with probabilities (.2, .4, .1, .3) beside the certain copies (0, 0, 1, 1).
    np.testing.assert_allclose(variance["residual"], [0.32, 0.48, 0.18, 0.42], rtol=1e-12)
    # Fractions (.4, .8, .2, .6) rounded to 0 or 1.
    bernoulli = [0.24, 0.16, 0.16, 0.24]
    np.testing.assert_allclose(variance["systematic"], bernoulli, rtol=1e-12)
    np.testing.assert_allclose(variance["ssp"], bernoulli, rtol=1e-12)
    # Slots are independent: particle i holds its own unless it is killed and does not draw itself, and others when killed.
    share = np.array(weights)
    killed = 1 - share / 0.4
    own = 1 - killed * (1 - share)
    others = (killed * share[:, None]) * (1 - killed * share[:, None])
    expected = own * (1 - own) + others.sum(axis=1) - np.diag(others)
    np.testing.assert_allclose(variance["killing"], expected, rtol=1e-12)


def test_ssp_offspring_are_negatively_correlated() -> None:
    for weights in WEIGHTS:
        covariance = moments(BY_NAME["ssp"], weights)
        assert (covariance[~np.eye(len(weights), dtype=bool)] <= 1e-12).all()


@pytest.mark.parametrize("name", ["multinomial", "residual", "killing"])
def test_law_does_not_depend_on_the_order_of_the_particles(name: str) -> None:
    weights = np.array((0.5, 0.2, 1.1))
    for order in ([1, 0, 2], [2, 0, 1]):
        straight = count_law(BY_NAME[name], tuple(weights))
        permuted = count_law(BY_NAME[name], tuple(weights[order]))
        back = {tuple(np.array(k)[np.argsort(order)]): v for k, v in permuted.items()}
        assert set(back) == set(straight)
        for counts, probability in straight.items():
            assert back[counts] == pytest.approx(probability, abs=1e-12)


def count_law(scheme: Scheme, weights: tuple[float, ...]) -> dict[tuple[int, ...], float]:
    """Probability of each vector of offspring numbers."""
    ancestors, _, probs = outcomes(scheme, weights)
    law: dict[tuple[int, ...], float] = {}
    for counts, probability in zip(counts_of(ancestors, len(weights)), probs, strict=True):
        key = tuple(int(count) for count in counts)
        law[key] = law.get(key, 0.0) + float(probability)
    return law
