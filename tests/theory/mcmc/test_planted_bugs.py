"""Each planted ratio fails the check that certifies the right one, and what exactly it does to the toys is on record."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from models.tabular.toys import toy_b, toy_d, toy_e, toy_f
from tests.planted_bugs import mcmc as planted
from tests.theory.mcmc.certify import assert_invariant
from theory.exact.context_table import ContextTable, with_horizon
from theory.exact.markov_chain import laws_after, stationary_law
from theory.exact.sequence_space import SequenceSpace, proposal_law, sequence_space, target_law
from theory.exact.transition import (
    Transition,
    multiple_try_transition,
    suffix_transition,
)
from theory.mcmc import density
from theory.mcmc.cuts import CutLaw, entropy_cut, start_cut, uniform_cut


class Setting(NamedTuple):
    """Where a bug is looked at."""

    table: ContextTable
    alpha: float
    proposal_alpha: float
    cut_law: CutLaw


E4 = Setting(toy_e(), 4.0, 4.0, uniform_cut())
F2 = Setting(toy_f(), 2.0, 2.0, uniform_cut())
F4 = Setting(toy_f(), 4.0, 4.0, uniform_cut())
E4_ENTROPY = Setting(toy_e(), 4.0, 4.0, entropy_cut())
E4_BASE = Setting(toy_e(), 4.0, 1.0, uniform_cut())
B4_START = Setting(toy_b(), 4.0, 4.0, start_cut())


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.abs(p - q).sum() / 2)


def matrix(setting: Setting) -> tuple[SequenceSpace, Transition, np.ndarray]:
    space = sequence_space(setting.table, setting.proposal_alpha)
    transition = suffix_transition(space, setting.alpha, setting.cut_law)
    return space, transition, target_law(space, setting.alpha)


RATIOS: list[tuple[Callable[..., Any], Setting, float]] = [
    (planted.length_ratio_missing, E4, 0.183801),
    (planted.length_ratio_missing, F2, 0.244474),
    (planted.length_ratio_missing, F4, 0.212851),
    (planted.length_ratio_missing, E4_ENTROPY, 0.171748),
    (planted.clipped_tail, F2, 0.0000242),
    (planted.clipped_tail, F4, 0.012402),
    (planted.clipped_tail_and_no_length_ratio, F4, 0.225460),
    (planted.wrong_hastings_sign, B4_START, 0.498590),
    (planted.wrong_hastings_sign, E4, 0.785763),
    (planted.proposal_term_missing, E4_BASE, 0.053336),
    (planted.log_z_dropped, E4, 0.754189),
    (planted.mean_instead_of_sum, E4, 0.801796),
    (planted.eos_probability_omitted, E4, 0.452002),
    (planted.never_rejects, E4, 0.840478),
]


@pytest.mark.parametrize(("bug", "setting", "damage"), RATIOS)
def test_wrong_ratios_fail_and_their_damage_is_known(
    bug: Callable[..., Any],
    setting: Setting,
    damage: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, right, target = matrix(setting)
    assert_invariant(right, target)
    monkeypatch.setattr(density, "log_ratio", bug)
    _, wrong, target = matrix(setting)
    with pytest.raises(AssertionError):
        assert_invariant(wrong, target)
    assert total_variation(stationary_law(wrong.matrix), target) == pytest.approx(damage, abs=6e-7)


def test_no_proposal_term_under_a_base_proposal_samples_the_next_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The invariant law is p(y)^(alpha + 1) exactly."""
    monkeypatch.setattr(density, "log_ratio", planted.proposal_term_missing)
    space, wrong, _ = matrix(E4_BASE)
    assert_invariant(wrong, target_law(space, E4_BASE.alpha + 1))


def test_the_wrong_sign_samples_p_to_the_alpha_q_squared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density, "log_ratio", planted.wrong_hastings_sign)
    space, wrong, target = matrix(B4_START)
    tilted = target * proposal_law(space) ** 2
    assert_invariant(wrong, tilted / tilted.sum())
    law = dict(zip(space.sequences, stationary_law(wrong.matrix), strict=True))
    assert law[(0, 2)] == pytest.approx(0.116598, abs=1e-6)


def test_forgotten_normalisers_sample_the_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without log z every whole proposal looks right: the chain samples token temperature."""
    monkeypatch.setattr(density, "log_ratio", planted.log_z_dropped)
    space, wrong, _ = matrix(E4)
    assert_invariant(wrong, proposal_law(space))


def test_multiple_try_weights_need_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights pi / q are right at a fixed length only."""
    monkeypatch.setattr(density, "log_move_weight", planted.move_weight_without_cut)
    for table, alpha, damage in ((toy_e(), 4.0, 0.183801), (toy_d(), 2.0, 0.0)):
        table = with_horizon(table, 4)
        space = sequence_space(table, alpha)
        wrong = multiple_try_transition(space, alpha, uniform_cut(), 2)
        target = target_law(space, alpha)
        if damage:
            with pytest.raises(AssertionError):
                assert_invariant(wrong, target)
        assert total_variation(stationary_law(wrong.matrix), target) == pytest.approx(
            damage, abs=6e-7
        )


def test_a_chosen_try_is_not_a_single_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate was chosen by weight: against the current sequence stand the others too."""
    space = sequence_space(E4.table, E4.alpha)
    target = target_law(space, E4.alpha)
    assert_invariant(multiple_try_transition(space, E4.alpha, E4.cut_law, 2), target)
    monkeypatch.setattr(density, "multiple_try_log_ratio", planted.single_try_ratio)
    wrong = multiple_try_transition(space, E4.alpha, E4.cut_law, 2)
    with pytest.raises(AssertionError):
        assert_invariant(wrong, target)
    assert total_variation(stationary_law(wrong.matrix), target) == pytest.approx(
        0.0377356, abs=1e-7
    )


def test_an_average_counts_rejections() -> None:
    """A state that is seldom left is likelier than the number of arrivals says."""
    _, right, target = matrix(E4)
    accepted = planted.averages_accepted_states(target, right)
    assert total_variation(target @ right.matrix, target) < 1e-14
    assert total_variation(accepted, target) == pytest.approx(0.493859, abs=1e-6)


def test_without_the_length_ratio_sequences_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariant law is len(y) p(y)^alpha, normalised."""
    space, _, target = matrix(E4)
    assert target @ space.records.lengths == pytest.approx(1.631432, abs=1e-6)
    monkeypatch.setattr(density, "log_ratio", planted.length_ratio_missing)
    space, wrong, _ = matrix(E4)
    longer = target * space.records.lengths
    assert_invariant(wrong, longer / longer.sum())
    assert stationary_law(wrong.matrix) @ space.records.lengths == pytest.approx(1.957, abs=6e-4)


@pytest.mark.parametrize(
    ("setting", "after_10", "after_2000"),
    [(E4, 0.816, 0.978), (F2, 0.75639, 0.89474), (F4, 0.84659, 0.97784)],
)
def test_a_shrinking_horizon_swallows_the_chain(
    setting: Setting, after_10: float, after_2000: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the clipped tail and without the length ratio, the chain ends in short unfinished sequences."""
    limits, log_ratio = planted.three_defects_of_a_public_sampler()
    assert limits is planted.shrinking_limits  # whose matrix this is
    monkeypatch.setattr(density, "log_ratio", log_ratio)
    states, wrong = planted.shrinking_horizon_transition(
        setting.table, setting.alpha, setting.cut_law
    )
    space = sequence_space(setting.table, setting.alpha)
    start, target = np.zeros((2, len(states)))
    places = [states.index(sequence) for sequence in space.sequences]
    start[places], target[places] = proposal_law(space), target_law(space, setting.alpha)
    for steps, expected in ((10, after_10), (2000, after_2000)):
        law = laws_after(wrong.matrix, start, steps)[-1]
        assert total_variation(law, target) == pytest.approx(expected, abs=6e-4)
    assert laws_after(wrong.matrix, start, 2000)[-1][places].sum() < 0.2


def test_a_shrinking_horizon_alone_leaves_the_target() -> None:
    """Even with the right ratio: unfinished sequences can be reached and not left."""
    states, wrong = planted.shrinking_horizon_transition(E4.table, E4.alpha, E4.cut_law)
    space = sequence_space(E4.table, E4.alpha)
    target = np.zeros(len(states))
    places = [states.index(sequence) for sequence in space.sequences]
    target[places] = target_law(space, E4.alpha)
    with pytest.raises(AssertionError):
        assert_invariant(wrong, target)
    assert total_variation(laws_after(wrong.matrix, target, 10)[-1], target) == pytest.approx(
        0.893181, abs=1e-6
    )
