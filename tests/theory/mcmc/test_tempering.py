"""Parallel tempering: its exact joint matrix, and draws of the jitted kernel against the law it gives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_c, toy_e
from tests.planted_bugs import mcmc as planted
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.mcmc.certify import (
    Outcome,
    assert_steps_follow,
    cells_of,
    chains_at,
    empty_prompts,
)
from theory.errors import InvalidInput
from theory.exact.context_table import with_horizon
from theory.exact.sequence_space import proposal_law, sequence_space, target_law
from theory.exact.transition import Transition, tempering_matrix
from theory.mcmc import density, entropy_cut, make_design, parallel_tempering, uniform_cut
from theory.protocols import Kernel

TABLE = with_horizon(toy_e(), 2)
LADDER = (1.0, 4.0)
NUM = 32_768
SPACES = [sequence_space(TABLE, alpha) for alpha in LADDER]


@pytest.mark.parametrize("ladder", [(1.0, 4.0), (0.5, 1.0, 3.0)])
@pytest.mark.parametrize("cut_law", [uniform_cut(), entropy_cut()])
def test_the_product_of_the_targets_is_invariant(ladder: tuple[float, ...], cut_law: Any) -> None:
    _, matrix, invariant = tempering_matrix(TABLE, ladder, cut_law)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(invariant @ matrix, invariant, rtol=0, atol=1e-12)
    # Moves and swaps together are not reversible, so the eigenvalues may be complex.
    moduli = np.sort(np.abs(np.linalg.eigvals(matrix)))
    assert moduli[-1] == pytest.approx(1) and moduli[-2] < 1 - 1e-6
    joint = invariant.reshape((len(SPACES[0].sequences),) * len(ladder))
    last = joint.sum(axis=tuple(range(len(ladder) - 1)))
    target = target_law(sequence_space(TABLE, ladder[-1]), ladder[-1])
    np.testing.assert_allclose(last, target, atol=1e-13)


def test_a_swap_with_the_wrong_sign_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density, "swap_log_ratio", planted.swap_with_the_wrong_sign)
    _, matrix, invariant = tempering_matrix(TABLE, LADDER, uniform_cut())
    damage = np.abs(np.linalg.matrix_power(matrix, 4000)[0] - invariant).sum() / 2
    assert damage == pytest.approx(0.554657, abs=1e-6)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(invariant @ matrix, invariant, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_jitted_kernel_follows_the_joint_law() -> None:
    model, key = ContextModel.from_table(TABLE), jax.random.key(0)
    kernel = parallel_tempering(LADDER, uniform_cut())
    step = jax.jit(kernel.step)
    rungs = jax.jit(kernel.init)(key, model, empty_prompts(NUM))
    _, matrix, invariant = tempering_matrix(TABLE, LADDER, uniform_cut())
    law = np.kron(*(proposal_law(space) for space in SPACES))
    size = len(SPACES[0].sequences)
    joint = np.zeros(size**2, np.int64)
    for count in range(3):
        cells = [
            cells_of(
                space, rung.generation.trajectories.tokens, rung.generation.trajectories.lengths
            )
            for space, rung in zip(SPACES, rungs, strict=True)
        ]
        joint = np.bincount(cells[0] * size + cells[1], minlength=size**2)
        assert_counts(joint, law)
        for space, rung, cell in zip(SPACES, rungs, cells, strict=True):
            now = rung.generation.trajectories
            np.testing.assert_allclose(now.log_p, space.records.log_p[cell], atol=1e-5)
            np.testing.assert_allclose(now.log_q, space.records.log_q[cell], atol=1e-5)
        if count < 2:
            rungs, info = step(key, model, rungs)
            assert info.swapped.shape == (NUM, 1) and bool(info.swapped.any())
            law = law @ matrix
    assert_rejected(lambda: assert_counts(joint, invariant))


# Three sequences, so that three rungs have 27 joint states, and every pair of them a probability of its own.
SMALL = toy_c((0.8,), 0.2, 2)
THREE = (0.5, 2.0, 5.0)


def one_step_from_everywhere(kernel: Kernel) -> Outcome:
    """Joint states before and after one jitted step; each rung starts anywhere."""
    model = ContextModel.from_table(SMALL)
    rungs, before, after = [], 0, 0
    for place, alpha in enumerate(THREE):
        space, design = sequence_space(SMALL, alpha), make_design(alpha, alpha, uniform_cut())
        chains, start = chains_at(model, space, design, NUM, seed=place)
        rungs.append(chains._replace(rows=jnp.arange(NUM) * len(THREE) + place))
        before = before * len(space.sequences) + start
    moved, info = jax.jit(kernel.step)(jax.random.key(3), model, tuple(rungs))
    for rung in moved:
        now, space = rung.generation.trajectories, sequence_space(SMALL, 1.0)
        after = after * len(space.sequences) + cells_of(space, now.tokens, now.lengths)
    return Outcome(np.asarray(before), np.asarray(after), info)


@pytest.mark.slow
def test_three_rungs_follow_the_joint_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of two exchanges, each with noise of its own: two rungs cannot show that."""
    _, matrix, _ = tempering_matrix(SMALL, THREE, uniform_cut())
    transition = Transition(matrix, np.ones(len(matrix)))
    outcome = one_step_from_everywhere(parallel_tempering(THREE, uniform_cut()))
    assert_steps_follow(outcome, transition)
    assert np.asarray(outcome.info.swapped).any(axis=0).all()
    monkeypatch.setattr("theory.mcmc.tempering.keys_of", planted.swaps_share_noise)
    wrong = one_step_from_everywhere(parallel_tempering(THREE, uniform_cut()))
    assert_rejected(lambda: assert_steps_follow(wrong, transition))


def test_ladders_that_do_not_climb_are_refused() -> None:
    for ladder in ((2.0,), (2.0, 1.0), (1.0, 1.0)):
        with pytest.raises(InvalidInput, match="ladder"):
            parallel_tempering(ladder, uniform_cut())
    with pytest.raises(InvalidInput, match="alpha"):
        parallel_tempering((0.0, 1.0), uniform_cut())
    with pytest.raises(InvalidInput, match="4 rungs on 7 sequences: 2401 joint states"):
        tempering_matrix(TABLE, (1.0, 2.0, 3.0, 4.0), uniform_cut())
