"""Verdicts: what is biased, what could not have seen its limit, and what is neither."""

import math

import numpy as np
import pytest

from experiments.validation.findings import (
    BIASED,
    OK,
    UNDERPOWERED,
    Finding,
    exact_finding,
    judge,
    law_finding,
    mean_finding,
    positive_finding,
    row_level,
    worst_mean_finding,
)

LEVEL = 1e-6


def verdict(finding: Finding) -> str:
    return judge("family", "kernel", "case", finding, LEVEL).verdict


def normal(n: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n) + shift


def test_the_level_is_shared_by_all_rows() -> None:
    assert row_level(3) == row_level(1000) == pytest.approx(1e-6)
    assert row_level(4000) * 4000 == pytest.approx(1e-3)


def test_exact_numbers_have_a_tolerance() -> None:
    assert verdict(exact_finding("q", 1.0 + 1e-13, 1.0, 1e-12)) == OK
    assert verdict(exact_finding("q", 1.0 + 1e-11, 1.0, 1e-12)) == BIASED
    assert verdict(exact_finding("q", math.nan, 1.0, 1e-12)) == BIASED
    assert exact_finding("q", 0.0, 1.0, 0.1).z == -math.inf


@pytest.mark.parametrize("value", [0.0, -0.1, math.nan])
def test_a_gap_must_be_positive(value: float) -> None:
    assert verdict(positive_finding("gap", value)) == BIASED
    assert verdict(positive_finding("gap", 0.3)) == OK


def test_a_mean_is_ok_biased_or_underpowered() -> None:
    assert verdict(mean_finding("q", normal(10_000), 0.0, 0.1)) == OK
    assert verdict(mean_finding("q", normal(10_000, 0.1), 0.0, 0.1)) == BIASED
    assert verdict(mean_finding("q", normal(1_000), 0.0, 0.1)) == UNDERPOWERED
    found = mean_finding("q", normal(10_000, 0.1), 0.0, 0.1)
    assert found.z == pytest.approx((found.estimate - found.truth) / found.standard_error)


def test_skewed_replicates_are_underpowered_rather_than_trusted() -> None:
    values = np.zeros(1_000)
    values[0] = 1_000.0
    assert verdict(mean_finding("q", values, 0.5, 10.0)) == UNDERPOWERED


def test_equal_replicates_are_compared_exactly() -> None:
    assert verdict(mean_finding("q", np.full(10, 2.0), 2.0, 0.1)) == OK
    assert verdict(mean_finding("q", np.full(10, 2.1), 2.0, 0.1)) == BIASED
    assert verdict(mean_finding("q", np.array([1.0, math.nan]), 1.0, 0.1)) == BIASED


def test_the_worst_cell_speaks() -> None:
    values = np.stack([normal(10_000), normal(10_000, 0.2), np.zeros(10_000)], axis=1)
    found = worst_mean_finding("q", values, np.zeros(3), 0.2)
    assert found.note == "cell 1"
    assert verdict(found) == BIASED
    assert verdict(worst_mean_finding("q", values[:, ::2], np.zeros(2), 0.2)) == OK
    values[:, 2] = 1e-3  # a particle of weight 0 with offspring
    assert verdict(worst_mean_finding("q", values[:, ::2], np.zeros(2), 0.2)) == BIASED


def test_draws_are_compared_with_their_law() -> None:
    law = np.array([0.5, 0.3, 0.2])
    cells = np.random.default_rng(1).choice(3, 20_000, p=law)
    found = law_finding("law", cells, law, 0.05)
    assert verdict(found) == OK
    assert found.estimate == pytest.approx(found.truth, abs=5 * found.standard_error)
    assert verdict(law_finding("law", cells, np.array([0.4, 0.4, 0.2]), 0.05)) == BIASED
    assert verdict(law_finding("law", cells[:100], law, 0.05)) == UNDERPOWERED
    cells[0] = 7  # no sequence of the model
    impossible = law_finding("law", cells, law, 0.05)
    assert verdict(impossible) == BIASED
    assert impossible.z == math.inf


def test_what_is_no_law_is_biased() -> None:
    cells = np.zeros(1_000, int)
    assert verdict(law_finding("law", cells, np.array([1.2, -0.2]), 0.05)) == BIASED
    assert verdict(law_finding("law", cells, np.array([0.5, 0.2]), 0.05)) == BIASED
    assert verdict(law_finding("law", cells, np.array([1.0, 0.0]), 0.05)) == OK
