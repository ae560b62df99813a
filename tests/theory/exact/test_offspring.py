"""Exact laws of resampling: probabilities, expected weights, and how far numbers of offspring stray."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.exact.offspring import (
    Offspring,
    OffspringLaw,
    killing_offspring,
    multinomial_offspring,
    residual_offspring,
    ssp_offspring,
    stratified_offspring,
    systematic_offspring,
    when_ess_below,
)

LAWS = [
    multinomial_offspring,
    stratified_offspring,
    systematic_offspring,
    residual_offspring,
    killing_offspring,
    ssp_offspring,
]
weights = st.lists(
    st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(1e-6, 1e6)), min_size=1, max_size=4
).filter(lambda values: max(values) > 0)


def log_of(values: list[float]) -> Float64[np.ndarray, " N"]:
    with np.errstate(divide="ignore"):
        return np.log(np.array(values)) + 700.0  # the scale is no matter


def expected_weights(outcomes: list[Offspring], log_scale: float) -> np.ndarray:
    """Expected total weight of the offspring of each particle."""
    totals = np.zeros(len(outcomes[0].ancestors))
    for outcome in outcomes:
        for ancestor, log_weight in zip(outcome.ancestors, outcome.log_weights, strict=True):
            totals[ancestor] += outcome.probability * math.exp(log_weight - log_scale)
    return totals


def law_of_outcomes(outcomes: list[Offspring]) -> dict[tuple[int, ...], float]:
    totals: dict[tuple[int, ...], float] = {}
    for outcome in outcomes:
        totals[outcome.ancestors] = totals.get(outcome.ancestors, 0.0) + outcome.probability
    return {key: total for key, total in totals.items() if total > 1e-12}


def counts_of(outcome: Offspring) -> np.ndarray:
    return np.bincount(outcome.ancestors, minlength=len(outcome.ancestors))


@pytest.mark.parametrize("law", LAWS)
@given(values=weights)
def test_probabilities_and_expected_weights(law: OffspringLaw, values: list[float]) -> None:
    outcomes = law(log_of(values))
    assert all(outcome.probability >= 0 for outcome in outcomes)
    assert math.fsum(outcome.probability for outcome in outcomes) == pytest.approx(1.0, rel=1e-12)
    found = expected_weights(outcomes, 700.0)
    assert found == pytest.approx(np.array(values), rel=1e-9, abs=1e-12 * max(values))
    assert all(found[i] == 0 for i, value in enumerate(values) if value == 0)


@pytest.mark.parametrize("law", LAWS)
def test_an_ancestor_off_by_one_is_seen(law: OffspringLaw) -> None:
    outcomes = law(log_of([1.0, 2.0, 3.0]))
    shifted = [o._replace(ancestors=tuple((i + 1) % 3 for i in o.ancestors)) for o in outcomes]
    assert np.abs(expected_weights(shifted, 700.0) - [1, 2, 3]).max() > 0.5


@given(weights)
def test_counts_stay_near_their_expectation(values: list[float]) -> None:
    expected = np.array(values) / sum(values) * len(values)
    for law, slack in ((systematic_offspring, 1), (ssp_offspring, 1), (stratified_offspring, 2)):
        gaps = [np.abs(counts_of(outcome) - expected).max() for outcome in law(log_of(values))]
        assert max(gaps) < slack + 1e-9
    lowest = np.min([counts_of(outcome) for outcome in residual_offspring(log_of(values))], axis=0)
    assert (lowest >= np.floor(expected - 1e-9)).all()


def test_variances_of_the_golden_case() -> None:
    # Weights .1, .2, .3, .4 and four particles.
    outcomes = multinomial_offspring(log_of([1.0, 2.0, 3.0, 4.0]))
    expected = np.array([0.4, 0.8, 1.2, 1.6])
    variances = sum(o.probability * (counts_of(o) - expected) ** 2 for o in outcomes)
    assert variances == pytest.approx(np.array([0.36, 0.64, 0.84, 0.96]), rel=1e-12)
    (certain,) = {o.ancestors for o in residual_offspring(log_of([0.0, 0.0, 2.0, 2.0]))}
    assert certain == (2, 2, 3, 3)
    systematic = law_of_outcomes(systematic_offspring(log_of([1.0, 2.0, 3.0, 4.0])))
    points = {(0, 1, 2, 3): 0.2, (0, 2, 2, 3): 0.2, (1, 2, 3, 3): 0.6}
    assert systematic == pytest.approx(points, rel=1e-12)


def test_adaptive_law_fires_below_the_threshold_only() -> None:
    law = when_ess_below(0.75, multinomial_offspring)
    even = log_of([1.0, 1.0])
    assert law(even) == [Offspring(1.0, (0, 1), tuple(even.tolist()))]
    uneven = log_of([1.0, 9.0])
    assert law(uneven) == multinomial_offspring(uneven)
    for size in range(1, 8):  # equal weights are never resampled
        (kept,) = when_ess_below(1.0, multinomial_offspring)(np.full(size, 0.3))
        assert kept.ancestors == tuple(range(size))
    with pytest.raises(InvalidInput, match=r"ESS threshold 1\.5"):
        when_ess_below(1.5, multinomial_offspring)
