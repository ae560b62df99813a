"""Exact transition matrices: the reference's, invariant for their target, and with the golden numbers of the toys."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.tabular.files import read_model
from models.tabular.toys import toy_b, toy_d, toy_e, toy_f
from tests.theory.exact.tables import Recipe, recipes
from tests.theory.mcmc.certify import assert_invariant
from theory.errors import InvalidInput
from theory.exact import power_law, unroll
from theory.exact.context_table import ContextTable, with_horizon
from theory.exact.enumeration import enumerate_sequences
from theory.exact.markov_chain import laws_after, spectral_gap, stationary_law
from theory.exact.sequence_space import Sequence, proposal_law, sequence_space, target_law
from theory.exact.transition import (
    Transition,
    blockwise_law,
    multiple_try_transition,
    suffix_transition,
)
from theory.mcmc.cuts import CutLaw, block_cut, entropy_cut, start_cut, uniform_cut

FOLDER = Path(__file__).resolve().parents[2] / "data" / "reference"
CUT_LAWS = {
    "uniform": uniform_cut(),
    "block": block_cut(2),
    "start": start_cut(),
    "entropy": entropy_cut(),
}


def table_of(number: int) -> ContextTable:
    return read_model(FOLDER / f"case-{number}.json").table


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.abs(p - q).sum() / 2)


def check_against_reference(
    entry: dict[str, Any], transition: Transition, start: np.ndarray, target: np.ndarray
) -> None:
    np.testing.assert_allclose(transition.matrix, entry["transition"], rtol=1e-9, atol=1e-13)
    accepted, moved = target @ transition.acceptance, 1 - target @ np.diag(transition.matrix)
    assert accepted == pytest.approx(entry["stationary_acceptance_rate"], rel=1e-9)
    assert moved == pytest.approx(entry["stationary_move_rate"], rel=1e-9, abs=1e-13)
    for steps, law in entry["law_after_n_steps_from_proposal"].items():
        expected = [law[" ".join(map(str, each))] for each in entry["states"]]
        np.testing.assert_allclose(
            laws_after(transition.matrix, start, int(steps))[-1], expected, rtol=1e-9, atol=1e-13
        )
    curve = [
        total_variation(laws_after(transition.matrix, start, steps)[-1], target)
        for steps in range(len(entry["tv_to_power_after_n_steps_from_proposal"]))
    ]
    assert curve == pytest.approx(
        entry["tv_to_power_after_n_steps_from_proposal"], rel=1e-9, abs=1e-13
    )


# Cases without chains, and those whose chains are of one try only.
NO_CHAINS, ONE_TRY_ONLY = {5}, {2, 8, 9}


@pytest.mark.parametrize("number", range(10))
def test_matrices_of_the_reference(number: int, reference_cases: list[dict[str, Any]]) -> None:
    case, table = reference_cases[number], table_of(number)
    entries = case.get("mh", []) + case.get("multiple_try_mh", [])
    assert len(entries) == (0 if number in NO_CHAINS else 3 if number in ONE_TRY_ONLY else 4)
    for entry in entries:
        alpha = float(entry["alpha"])
        space = sequence_space(table, float(entry["proposal_alpha"]))
        assert [" ".join(map(str, each)) for each in space.sequences] == entry["sequences"]
        target = target_law(space, alpha)
        transition = (
            suffix_transition(space, alpha, uniform_cut())
            if entry["tries"] == 1
            else multiple_try_transition(space, alpha, uniform_cut(), entry["tries"])
        )
        entry = {**entry, "states": space.sequences}
        check_against_reference(entry, transition, proposal_law(space), target)


@pytest.mark.parametrize("number", range(10))
def test_blockwise_laws_of_the_reference(
    number: int, reference_cases: list[dict[str, Any]]
) -> None:
    table = table_of(number)
    entries = reference_cases[number].get("blockwise_mcmc", [])
    assert len(entries) == (0 if number in NO_CHAINS else 10)
    for entry in entries:
        alpha = float(entry["alpha"])
        sequences, law = blockwise_law(
            table, alpha, alpha, uniform_cut(), entry["block"], entry["moves_per_block"]
        )
        expected = [entry["output_law"][" ".join(map(str, each))] for each in sequences]
        np.testing.assert_allclose(law, expected, rtol=1e-9, atol=1e-13)
        target = target_law(sequence_space(table, alpha), alpha)
        assert total_variation(law, target) == pytest.approx(
            entry["tv_to_power"], rel=1e-9, abs=1e-13
        )


@given(
    recipe=recipes,
    alpha=st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0]),
    proposal_alpha=st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    cut=st.sampled_from(sorted(CUT_LAWS)),
    tries=st.sampled_from([1, 2]),
)
@settings(max_examples=40)
def test_every_kernel_leaves_its_target_invariant(
    recipe: Recipe, alpha: float, proposal_alpha: float, cut: str, tries: int
) -> None:
    table = recipe.build()
    table = with_horizon(table, min(table.horizon, 3))
    space = sequence_space(table, proposal_alpha)
    target, cut_law = target_law(space, alpha), CUT_LAWS[cut]
    suffix = suffix_transition(space, alpha, cut_law)
    assert_invariant(suffix, target)
    if len(space.sequences) > 1:
        assert spectral_gap(suffix.matrix, target).absolute > 0
    if len(space.sequences) <= 20:
        several = multiple_try_transition(space, alpha, cut_law, tries)
        assert_invariant(several, target)
        if tries == 1:
            np.testing.assert_allclose(several.matrix, suffix.matrix, atol=1e-13)


def test_target_is_the_power_law() -> None:
    for table, alpha in ((toy_e(), 4.0), (toy_f(), 0.5), (toy_d(), 2.0)):
        listed = enumerate_sequences((power_law(unroll(table), alpha).law,))
        space = sequence_space(table, 2.0)
        assert space.sequences == listed.sequences
        np.testing.assert_allclose(
            target_law(space, alpha), np.exp(listed.log_probs[0]), atol=1e-14
        )


def ends_in_b(sequence: Sequence) -> float:
    return 2.0 * sequence.count(1) if len(sequence) < 4 else -np.inf


@pytest.mark.parametrize("cut", sorted(CUT_LAWS))
def test_reward_tilts_the_target(cut: str) -> None:
    space = sequence_space(toy_e(), 1.0, ends_in_b)
    target = target_law(space, 1.0)
    base = np.exp(space.records.log_p.sum(axis=1))
    weights = base * np.exp([ends_in_b(each) for each in space.sequences])
    np.testing.assert_allclose(target, weights / weights.sum(), atol=1e-14)
    assert target[space.records.lengths == 4].sum() == 0
    assert_invariant(suffix_transition(space, 1.0, CUT_LAWS[cut]), target)
    assert_invariant(multiple_try_transition(space, 1.0, CUT_LAWS[cut], 2), target)


def test_power_is_a_tilted_base() -> None:
    """With r = log p and b = 1 / (alpha - 1), p exp(r / b) is p^alpha and the two kernels are one."""
    plain = sequence_space(toy_e(), 1.0)
    log_p = dict(zip(plain.sequences, plain.records.log_p.sum(axis=1), strict=True))
    tilted = sequence_space(toy_e(), 1.0, lambda sequence: 3.0 * log_p[sequence])
    np.testing.assert_allclose(
        suffix_transition(tilted, 1.0, uniform_cut()).matrix,
        suffix_transition(plain, 4.0, uniform_cut()).matrix,
        atol=1e-13,
    )


@pytest.mark.parametrize(
    ("table", "alpha", "gap", "curve"),
    [
        (
            toy_e(),
            4.0,
            0.02197,
            {0: 0.7542, 1: 0.7045, 2: 0.6580, 5: 0.5356, 10: 0.4174, 20: 0.3203, 50: 0.1706},
        ),
        (toy_f(), 2.0, 0.08212, {10: 0.157336}),
        (toy_f(), 4.0, 0.011288, {}),
    ],
)
def test_golden_gaps_and_curves(
    table: ContextTable, alpha: float, gap: float, curve: dict[int, float]
) -> None:
    space = sequence_space(table, alpha)
    target, transition = target_law(space, alpha), suffix_transition(space, alpha, uniform_cut())
    assert spectral_gap(transition.matrix, target).absolute == pytest.approx(gap, abs=6e-6)
    for steps, expected in curve.items():
        law = laws_after(transition.matrix, proposal_law(space), steps)[-1]
        assert total_variation(law, target) == pytest.approx(expected, abs=6e-5)


def test_gap_of_independence_is_the_largest_ratio() -> None:
    """Gap 1 / max(pi / q); on toy B at alpha 4 .300802 from temperature and .692979 from the model itself."""
    for proposal_alpha, gap in ((4.0, 0.300802), (1.0, 0.692979)):
        space = sequence_space(toy_b(), proposal_alpha)
        target = target_law(space, 4.0)
        transition = suffix_transition(space, 4.0, start_cut())
        assert spectral_gap(transition.matrix, target).absolute == pytest.approx(gap, abs=1e-6)
        assert gap == pytest.approx(1 / np.max(target / proposal_law(space)), abs=1e-6)


def test_exact_proposals_are_always_accepted() -> None:
    """At alpha = 1 from the model itself, and wherever temperature is power, only the cut can be refused."""
    space = sequence_space(toy_e(), 1.0)
    np.testing.assert_allclose(suffix_transition(space, 1.0, start_cut()).acceptance, 1, atol=1e-13)
    fixed_length = sequence_space(toy_d(), 1.0)
    law: CutLaw
    for law in CUT_LAWS.values():
        acceptance = suffix_transition(fixed_length, 1.0, law).acceptance
        if law.reads_entropies:
            assert acceptance.min() < 1 - 1e-6
        else:
            np.testing.assert_allclose(acceptance, 1, atol=1e-13)


def test_more_tries_mix_faster_than_one_on_toy_e() -> None:
    space = sequence_space(toy_e(), 4.0)
    target = target_law(space, 4.0)
    gaps = [
        spectral_gap(
            multiple_try_transition(space, 4.0, uniform_cut(), tries).matrix, target
        ).absolute
        for tries in (1, 2)
    ]
    assert gaps[1] > gaps[0]


def test_stationary_law_is_found_without_knowing_the_target() -> None:
    space = sequence_space(toy_e(), 4.0)
    transition = suffix_transition(space, 4.0, uniform_cut())
    np.testing.assert_allclose(
        stationary_law(transition.matrix), target_law(space, 4.0), atol=1e-13
    )


def test_too_much_to_enumerate_is_refused() -> None:
    with pytest.raises(InvalidInput, match="sequences"):
        sequence_space(with_horizon(toy_d(), 20), 1.0)
    with pytest.raises(InvalidInput, match="3 tries on 511 sequences"):
        multiple_try_transition(
            sequence_space(with_horizon(toy_e(), 8), 1.0), 1.0, uniform_cut(), 3
        )
    with pytest.raises(InvalidInput, match="every sequence is forbidden"):
        target_law(sequence_space(toy_e(), 1.0, lambda _: -np.inf), 1.0)
