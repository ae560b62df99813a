"""Particle Gibbs: its exact matrices leave p^alpha invariant, and the jitted kernel follows them from every state."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_c, toy_e, toy_f
from tests.planted_bugs import particle_gibbs as planted
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.exact.tables import Recipe, recipes
from tests.theory.mcmc.certify import (
    Outcome,
    assert_invariant,
    assert_steps_follow,
    cells_of,
    empty_prompts,
)
from theory import resampling
from theory.errors import InvalidInput
from theory.exact import (
    ContextTable,
    OffspringLaw,
    Transition,
    conditional_killing_offspring,
    conditional_multinomial_offspring,
    conditional_stratified_offspring,
    conditional_systematic_offspring,
    laws_after,
    multinomial_offspring,
    particle_gibbs_transition,
    proposal_law,
    sequence_space,
    spectral_gap,
    stationary_law,
    systematic_offspring,
    target_law,
    unroll,
    when_ess_below,
    with_horizon,
)
from theory.exact import particle_gibbs as exact_sweeps
from theory.generation import start, take
from theory.ledger import totals
from theory.mcmc import (
    Prompts,
    References,
    make_design,
    particle_gibbs,
    start_chains_at,
    uniform_cut,
)
from theory.mcmc.scoring import score_sequences
from theory.protocols import Kernel, Resampler
from theory.smc import every

ALPHA = 2.0
TABLE = with_horizon(toy_e(), 3)
MODEL = ContextModel.from_table(TABLE)
SPACE = sequence_space(TABLE, ALPHA)
NUM = 32_768
SCHEMES: dict[str, tuple[Resampler, OffspringLaw]] = {
    "multinomial": (resampling.conditional_multinomial, conditional_multinomial_offspring),
    "systematic": (resampling.conditional_systematic, conditional_systematic_offspring),
    "stratified": (resampling.conditional_stratified, conditional_stratified_offspring),
    "killing": (resampling.conditional_killing, conditional_killing_offspring),
}
TOYS = {"C": toy_c((0.7, 0.1), 0.2, 4), "E": toy_e(), "F": toy_f()}


def as_transition(matrix: np.ndarray) -> Transition:
    return Transition(matrix, np.ones(len(matrix)))


def check_gibbs(
    table: ContextTable,
    alpha: float,
    proposal_alpha: float,
    num_particles: int,
    resample_after: tuple[int, ...],
    offspring: OffspringLaw,
) -> None:
    """Stochastic, pi K = pi, reversible, no eigenvalue below 0, and it forgets."""
    space = sequence_space(table, proposal_alpha)
    target = target_law(space, alpha)
    matrix = particle_gibbs_transition(space, alpha, num_particles, resample_after, offspring)
    assert_invariant(as_transition(matrix), target)
    assert matrix.min() > 0
    gap = spectral_gap(matrix, target)
    assert gap.absolute > 0
    assert gap.absolute == pytest.approx(gap.spectral, abs=1e-12)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("toy", sorted(TOYS))
def test_the_power_law_is_invariant(toy: str, scheme: str) -> None:
    for alpha, proposal_alpha in ((2.0, 2.0), (4.0, 1.0)):
        check_gibbs(TOYS[toy], alpha, proposal_alpha, 2, every(4), SCHEMES[scheme][1])


@settings(max_examples=20)
@given(
    recipe=recipes,
    alpha=st.sampled_from([0.5, 1.0, 3.0]),
    proposal_alpha=st.sampled_from([1.0, 2.0]),
    scheme=st.sampled_from(sorted(SCHEMES)),
    num_particles=st.sampled_from([2, 3]),
    fraction=st.sampled_from([0.0, 0.7, 1.0]),
)
def test_any_model_any_number_of_particles_any_moment_of_resampling(
    recipe: Recipe,
    alpha: float,
    proposal_alpha: float,
    scheme: str,
    num_particles: int,
    fraction: float,
) -> None:
    table = recipe.build()
    table = with_horizon(table, min(table.horizon, 5 - num_particles))
    offspring = when_ess_below(fraction, SCHEMES[scheme][1])
    check_gibbs(table, alpha, proposal_alpha, num_particles, every(table.horizon), offspring)


def test_without_resampling_it_is_conditional_importance_sampling() -> None:
    """K(x, y) = q(y) w(y) / (w(x) + w(y)) for y != x and two particles: in closed form."""
    target, proposal = target_law(SPACE, ALPHA), proposal_law(SPACE)
    weights = target / proposal
    expected = proposal * weights / (weights[:, None] + weights)
    np.fill_diagonal(expected, 0)
    expected += np.diag(1 - expected.sum(axis=1))
    matrix = particle_gibbs_transition(SPACE, ALPHA, 2, (), conditional_multinomial_offspring)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-14)


def test_more_particles_forget_faster() -> None:
    target = target_law(SPACE, ALPHA)
    gaps = [
        spectral_gap(
            particle_gibbs_transition(SPACE, ALPHA, num, every(3), conditional_killing_offspring),
            target,
        ).absolute
        for num in (2, 3, 4)
    ]
    assert gaps[0] < gaps[1] < gaps[2]


def references_at(num: int, seed: int) -> tuple[References, np.ndarray]:
    """Chains whose current sequences are drawn uniformly from all, and which they are."""
    size = len(SPACE.sequences)
    tokens, lengths = jnp.asarray(SPACE.tokens), jnp.asarray(SPACE.records.lengths)
    design = make_design(ALPHA, ALPHA, uniform_cut())
    states = start_chains_at(MODEL, empty_prompts(size), tokens, lengths, design)
    where = np.random.default_rng(seed).integers(size, size=num)
    generation = take(MODEL, states.generation, jnp.asarray(where))
    return References(generation, jnp.arange(num), jnp.ones((), jnp.int32)), where


def outcome_of(step: Any, references: References, start: np.ndarray, seed: int = 11) -> Outcome:
    after, info = step(jax.random.key(seed), MODEL, references)
    now = after.generation.trajectories
    return Outcome(start, cells_of(SPACE, now.tokens, now.lengths), info)


def gibbs(resampler: Resampler, schedule: tuple[int, ...] = every(3), num: int = 2) -> Kernel:
    return particle_gibbs(ALPHA, ALPHA, num, schedule, resampler)


@pytest.fixture(scope="module")
def systematic_step() -> Any:
    return jax.jit(gibbs(resampling.conditional_systematic).step)


@pytest.mark.parametrize(
    ("scheme", "num", "schedule"), [("multinomial", 2, (2,)), ("stratified", 3, (1, 2))]
)
def test_sweeps_follow_the_matrix(scheme: str, num: int, schedule: tuple[int, ...]) -> None:
    resampler, offspring = SCHEMES[scheme]
    kernel = gibbs(resampler, schedule, num)
    outcome = outcome_of(jax.jit(kernel.step), *references_at(NUM, seed=1))
    matrix = particle_gibbs_transition(SPACE, ALPHA, num, schedule, offspring)
    assert_steps_follow(outcome, as_transition(matrix))


def test_what_a_sweep_says_it_did(systematic_step: Any) -> None:
    references, start = references_at(NUM, seed=2)
    outcome = outcome_of(systematic_step, references, start)
    matrix = particle_gibbs_transition(SPACE, ALPHA, 2, every(3), conditional_systematic_offspring)
    assert_steps_follow(outcome, as_transition(matrix))
    info = outcome.info
    np.testing.assert_array_equal(info.moved, outcome.before != outcome.after)
    assert info.ess.shape == (3, NUM)
    assert np.all((np.asarray(info.ess) >= 1 - 1e-5) & (np.asarray(info.ess) <= 2 + 1e-5))
    # Of two particles the other one is either equal to the reference or not.
    renewed = np.asarray(info.renewed)
    assert set(np.unique(renewed).tolist()) == {0.0, 1.0}
    assert np.all(renewed[np.asarray(info.moved)] == 1)


def counts_of(references: References) -> np.ndarray:
    now = references.generation.trajectories
    cells = cells_of(SPACE, now.tokens, now.lengths)
    return np.bincount(cells, minlength=len(SPACE.sequences) + 1)


def run(kernel: Kernel, num_steps: int, damage: Callable[[References], References]) -> References:
    key = jax.random.key(3)
    references = jax.jit(kernel.init)(key, MODEL, empty_prompts(NUM))
    step = jax.jit(kernel.step)
    for _ in range(num_steps):
        references, _ = step(key, MODEL, damage(references))
    return references


def test_sweeps_use_fresh_numbers() -> None:
    """A chain that reuses its numbers stays at the law after one sweep: .141112 from the target, and not .046342 after four."""
    kernel = gibbs(resampling.conditional_multinomial, ())
    matrix = particle_gibbs_transition(SPACE, ALPHA, 2, (), conditional_multinomial_offspring)
    laws = laws_after(matrix, proposal_law(SPACE), 4)
    after = run(kernel, 4, lambda references: references)
    assert_counts(counts_of(after), np.append(laws[4], 0))
    assert int(after.iteration) == 5
    frozen = counts_of(run(kernel, 4, planted.frozen_iteration))
    assert_counts(frozen, np.append(laws[1], 0))
    assert_rejected(lambda: assert_counts(frozen, np.append(laws[4], 0)))
    distances = np.abs(laws - target_law(SPACE, ALPHA)).sum(axis=1) / 2
    assert distances[[1, 4]] == pytest.approx([0.141112, 0.046342], abs=6e-7)


def test_chains_do_not_depend_on_their_neighbours(systematic_step: Any) -> None:
    """Two steps of the chains in another order are the same chains in that order, bit for bit."""
    key, (chains, _) = jax.random.key(5), references_at(NUM, seed=5)
    order = jnp.asarray(np.random.default_rng(5).permutation(NUM))
    mixed = chains._replace(generation=take(MODEL, chains.generation, order), rows=order)
    for _ in range(2):
        chains, _ = systematic_step(key, MODEL, chains)
        mixed, _ = systematic_step(key, MODEL, mixed)
    for a, b in zip(chains.generation.trajectories, mixed.generation.trajectories, strict=True):
        np.testing.assert_array_equal(np.asarray(a)[np.asarray(order)], np.asarray(b))


def test_particles_go_on_from_the_prompt_of_their_chain() -> None:
    """What is recorded of a row is what the model says after that prompt; with three particles two may be new."""
    tokens, lengths = jnp.tile(jnp.array([[1, 0]]), (64, 1)), jnp.arange(64, dtype=jnp.int32) % 3
    kernel = particle_gibbs(ALPHA, 1.0, 3, (1,), resampling.conditional_multinomial)
    key, prompts = jax.random.key(9), Prompts(tokens, lengths, jnp.arange(64))
    after, info = jax.jit(kernel.step)(key, MODEL, kernel.init(key, MODEL, prompts))
    rows, read = after.generation.trajectories, start(MODEL, tokens, lengths)
    scores = score_sequences(MODEL, read, rows.tokens, rows.lengths, ALPHA).scores
    np.testing.assert_allclose(rows.log_p, scores.log_p, atol=1e-6)
    np.testing.assert_allclose(rows.log_z, scores.log_z, atol=1e-6)
    assert np.asarray(info.moved).any() and len(np.unique(read.log_probs, axis=0)) == 3
    assert set(np.unique(info.renewed).tolist()) == {0.0, 0.5, 1.0}


def test_work_is_counted(systematic_step: Any) -> None:
    """Of every row that is begun one a chain is alive; the reference is cut at each stage that it outlives."""
    references, start = references_at(NUM, seed=6)
    before = totals(references.generation.ledger)
    after, _ = systematic_step(jax.random.key(6), MODEL, references)
    now = totals(after.generation.ledger)
    grown = {name: now[name] - before[name] for name in now}
    assert grown["rollouts_commit"] == NUM
    assert grown["rollouts_dropped"] == NUM + grown["rollouts_branch"]
    assert grown["rollouts_branch"] > 0
    lengths = SPACE.records.lengths[start]
    assert grown["prefill_tokens"] == sum(int((lengths > end).sum()) for end in (1, 2, 3))
    num_cuts = sum(bool((lengths > end).any()) for end in (1, 2, 3))
    assert grown["model_calls"] == 3 + num_cuts
    assert NUM < grown["generated_tokens"] < 3 * NUM
    useful = grown["generated_tokens"] + grown["prefill_tokens"]
    assert grown["row_steps_useful"] == useful < grown["row_steps_executed"]


E4 = (sequence_space(toy_e(), 2.0), target_law(sequence_space(toy_e(), 2.0), 2.0))


def damage_of(matrix: np.ndarray) -> float:
    """Distance of the invariant law from the target, of a matrix that fails the certificate."""
    with pytest.raises(AssertionError):
        assert_invariant(as_transition(matrix), E4[1])
    return float(np.abs(stationary_law(matrix) - E4[1]).sum() / 2)


def test_the_weight_of_the_whole_row_has_no_place(
    monkeypatch: pytest.MonkeyPatch, systematic_step: Any
) -> None:
    references, start = references_at(NUM, seed=7)
    wrong = outcome_of(systematic_step, planted.weighing_the_whole_row(references, ALPHA), start)
    right = particle_gibbs_transition(SPACE, ALPHA, 2, every(3), conditional_systematic_offspring)
    assert_rejected(lambda: assert_steps_follow(wrong, as_transition(right)))
    monkeypatch.setattr(exact_sweeps, "reference_gain", planted.gain_of_the_whole_row)
    bug = particle_gibbs_transition(SPACE, ALPHA, 2, every(3), conditional_systematic_offspring)
    assert_steps_follow(wrong, as_transition(bug))
    for offspring, damage in (
        (conditional_multinomial_offspring, 0.183636),
        (conditional_systematic_offspring, 0.036186),
    ):
        matrix = particle_gibbs_transition(E4[0], 2.0, 2, every(4), offspring)
        assert damage_of(matrix) == pytest.approx(damage, abs=6e-7)


def test_unconditional_resampling_is_seen() -> None:
    """Exactly: .070588 from the target with multinomial and .088097 with systematic resampling."""
    for offspring, damage in ((multinomial_offspring, 0.070588), (systematic_offspring, 0.088097)):
        matrix = particle_gibbs_transition(E4[0], 2.0, 2, every(4), offspring)
        assert damage_of(matrix) == pytest.approx(damage, abs=6e-7)


def test_strata_that_begin_with_the_reference_are_seen() -> None:
    """From three particles on; .001769 from the target on toy E with at most three tokens."""
    target = target_law(SPACE, ALPHA)
    matrix = particle_gibbs_transition(
        SPACE, ALPHA, 3, every(3), planted.strata_begin_with_the_reference
    )
    with pytest.raises(AssertionError):
        assert_invariant(as_transition(matrix), target)
    damage = float(np.abs(stationary_law(matrix) - target).sum() / 2)
    assert damage == pytest.approx(0.001769, abs=6e-7)


def test_a_reference_that_is_not_kept_is_seen() -> None:
    matrix = planted.forgotten_reference(unroll(toy_e()), 2.0, every(4), multinomial_offspring)
    assert damage_of(matrix) == pytest.approx(0.296184, abs=6e-7)


def test_parameters_outside_their_domain_are_refused() -> None:
    resampler, offspring = SCHEMES["multinomial"]
    for alpha in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="alpha"):
            particle_gibbs(alpha, 1.0, 2, (), resampler)
        with pytest.raises(InvalidInput, match="alpha"):
            particle_gibbs(1.0, alpha, 2, (), resampler)
        with pytest.raises(InvalidInput, match="alpha"):
            particle_gibbs_transition(SPACE, alpha, 2, (), offspring)
    with pytest.raises(InvalidInput, match="1 particles"):
        particle_gibbs(1.0, 1.0, 1, (), resampler)
    with pytest.raises(InvalidInput, match="1 particles"):
        particle_gibbs_transition(SPACE, 1.0, 1, (), offspring)
    with pytest.raises(InvalidInput, match="resampling after 3 tokens"):
        particle_gibbs_transition(SPACE, 1.0, 2, (3,), offspring)
    with pytest.raises(InvalidInput, match="resampling after 3 tokens"):
        gibbs(resampler, (3,)).step(jax.random.key(0), MODEL, references_at(2, seed=0)[0])
    with pytest.raises(InvalidInput, match="8 particles over 15 sequences"):
        particle_gibbs_transition(SPACE, 1.0, 8, (), offspring)
