"""The jitted kernels follow their exact matrices, from every state and after any number of steps."""

import importlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e, toy_f
from tests.planted_bugs import mcmc as planted
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.mcmc.certify import (
    Outcome,
    assert_steps_follow,
    cells_of,
    chains_at,
    empty_prompts,
    one_step,
)
from theory.errors import InvalidInput
from theory.exact.context_table import with_horizon
from theory.exact.markov_chain import laws_after
from theory.exact.sequence_space import SequenceSpace, proposal_law, sequence_space, target_law
from theory.exact.transition import (
    Transition,
    blockwise_law,
    multiple_try_transition,
    suffix_transition,
)
from theory.generation import take
from theory.ledger import totals
from theory.mcmc import (
    Chains,
    block_cut,
    blockwise,
    check_starts,
    entropy_cut,
    independence,
    make_design,
    multiple_try,
    num_stages,
    reward_tilted,
    start_chains_at,
    suffix_regeneration,
    uniform_cut,
)
from theory.mcmc.chains import Design, no_reward, start_chains
from theory.mcmc.cuts import start_cut
from theory.mcmc.suffix import suffix_move
from theory.protocols import Kernel

TABLE = with_horizon(toy_e(), 3)
MODEL = ContextModel.from_table(TABLE)
ALPHA = 4.0
# 225 pairs of states: enough draws of each to see every planted bug below.
NUM = 32_768


class Certified(NamedTuple):
    """A jitted step, its exact matrix, and what it does from everywhere."""

    space: SequenceSpace
    design: Design
    step: Any
    shrinking: Any
    transition: Transition
    outcome: Outcome


def outcome_of(kernel: Kernel, design: Design, space: SequenceSpace) -> Outcome:
    chains, start = chains_at(MODEL, space, design, NUM, seed=1)
    return one_step(jax.jit(kernel.step), MODEL, space, chains, start)


@pytest.fixture(scope="module")
def suffix() -> Certified:
    """The move itself, its limits an argument: one compilation serves the right and the wrong ones."""
    space, design = sequence_space(TABLE, ALPHA), make_design(ALPHA, ALPHA, uniform_cut())

    @jax.jit
    def step(key: jax.Array, model: ContextModel, chains: Chains, limits: jax.Array) -> Any:
        return suffix_move(key, model, chains, design, limits)

    def whole(key: jax.Array, model: ContextModel, chains: Chains) -> Any:
        return step(key, model, chains, jnp.full(chains.rows.shape, model.horizon, jnp.int32))

    def shrinking(key: jax.Array, model: ContextModel, chains: Chains) -> Any:
        return step(key, model, chains, planted.shrinking_limits(chains))

    chains, start = chains_at(MODEL, space, design, NUM, seed=1)
    transition = suffix_transition(space, ALPHA, uniform_cut())
    outcome = one_step(whole, MODEL, space, chains, start)
    return Certified(space, design, whole, shrinking, transition, outcome)


def test_suffix_moves_from_the_temperature_proposal(suffix: Certified) -> None:
    assert_steps_follow(suffix.outcome, suffix.transition)


def test_what_a_move_says_it_did(suffix: Certified) -> None:
    before, after, info = suffix.outcome
    accepted, moved = np.asarray(info.accepted), np.asarray(info.moved)
    np.testing.assert_array_equal(moved, before != after)
    assert np.all(accepted[moved])
    same = accepted & ~moved
    assert same.any()
    np.testing.assert_allclose(np.asarray(info.log_ratio)[same], 0, atol=1e-5)
    rate = float(suffix.transition.acceptance.mean())
    assert_counts([int(accepted.sum()), int((~accepted).sum())], [rate, 1 - rate])
    lengths, cuts = suffix.space.records.lengths[before], np.asarray(info.cuts)
    assert np.all((cuts >= 0) & (cuts < lengths))
    drawn = cuts + np.asarray(info.num_tokens)
    assert np.all((drawn > cuts) & (drawn <= TABLE.horizon))
    np.testing.assert_array_equal(drawn[accepted], suffix.space.records.lengths[after][accepted])
    assert not np.asarray(info.num_scored_tokens).any()


def run(suffix: Certified, after: tuple[int, ...], damage: Any = None) -> dict[int, Chains]:
    """Chains after some numbers of steps from one draw of the proposal."""
    key = jax.random.key(2)
    chains = jax.jit(start_chains, static_argnums=3)(key, MODEL, empty_prompts(NUM), suffix.design)
    states: dict[int, Chains] = {}
    for count in range(max(after) + 1):
        if count in after:
            states[count] = chains
        chains, _ = suffix.step(key, MODEL, damage(chains) if damage else chains)
    return states


def counts_of(space: SequenceSpace, chains: Chains) -> np.ndarray:
    now = chains.generation.trajectories
    cells = cells_of(space, now.tokens, now.lengths)
    return np.bincount(cells, minlength=len(space.sequences) + 1)


def test_laws_after_some_steps(suffix: Certified) -> None:
    start = proposal_law(suffix.space)
    states = run(suffix, (0, 1, 2, 5))
    for count, chains in states.items():
        law = laws_after(suffix.transition.matrix, start, count)[-1]
        assert_counts(counts_of(suffix.space, chains), np.append(law, 0))
    assert int(states[5].iteration) == 6
    target = np.append(target_law(suffix.space, ALPHA), 0)
    assert_rejected(lambda: assert_counts(counts_of(suffix.space, states[5]), target))


def test_iterations_use_different_noise(suffix: Certified) -> None:
    """A chain that draws the same numbers at every move is stuck or cycles, and its law after five is another."""
    law = np.append(laws_after(suffix.transition.matrix, proposal_law(suffix.space), 5)[-1], 0)
    frozen = run(suffix, (5,), planted.frozen_iteration)[5]
    assert_rejected(lambda: assert_counts(counts_of(suffix.space, frozen), law))


def test_chains_use_different_noise(suffix: Certified) -> None:
    chains, start = chains_at(MODEL, suffix.space, suffix.design, NUM, seed=3)
    unseeded = planted.unseeded_rows(chains)
    outcome = one_step(suffix.step, MODEL, suffix.space, unseeded, start)
    assert_rejected(lambda: assert_steps_follow(outcome, suffix.transition))


def test_work_is_counted(suffix: Certified) -> None:
    chains, _ = chains_at(MODEL, suffix.space, suffix.design, NUM, seed=4)
    after, info = suffix.step(jax.random.key(4), MODEL, chains)
    before, now = totals(chains.generation.ledger), totals(after.generation.ledger)
    grown = now["generated_tokens"] - before["generated_tokens"]
    assert grown == int(info.num_tokens.sum())
    assert now["rollouts_branch"] == now["rollouts_dropped"] == chains.rows.size
    assert before["row_steps_useful"] <= before["row_steps_executed"]


def test_chains_do_not_depend_on_the_batch(suffix: Certified) -> None:
    """Two steps of some of the chains are some of two steps of all, bit for bit."""
    key = jax.random.key(5)
    whole, _ = chains_at(MODEL, suffix.space, suffix.design, NUM, seed=5)
    some = jnp.arange(NUM - 100, NUM)
    part = Chains(
        take(MODEL, whole.generation, some),
        whole.entropies[some],
        whole.log_rewards[some],
        whole.rows[some],
        whole.iteration,
    )
    for _ in range(2):
        whole, _ = suffix.step(key, MODEL, whole)
        part, _ = suffix.step(key, MODEL, part)
    trajectories = whole.generation.trajectories, part.generation.trajectories
    for a, b in zip(*trajectories, strict=True):
        np.testing.assert_array_equal(np.asarray(a)[-100:], np.asarray(b))


def test_accept_and_cut_have_keys_of_their_own(
    suffix: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From (b, eos) the wrong law is .035 away: chains that cut at the start are refused too often."""
    short = suffix.space.sequences.index((1, 2))
    probs = np.append(suffix.transition.matrix[short], 0)
    states, _ = chains_at(MODEL, suffix.space, suffix.design, NUM, seed=9, only=short)

    def check(step: Any) -> None:
        chains, _ = step(jax.random.key(9), MODEL, states)
        assert_counts(counts_of(suffix.space, chains), probs)

    check(suffix.step)
    monkeypatch.setattr("theory.mcmc.suffix.keys_of", planted.accept_reuses_cut_key)
    wrong = suffix_regeneration(ALPHA, ALPHA, uniform_cut())
    assert_rejected(lambda: check(jax.jit(wrong.step)))


def test_a_shrinking_horizon_is_seen(suffix: Certified) -> None:
    chains, start = chains_at(MODEL, suffix.space, suffix.design, NUM, seed=8)
    wrong = one_step(suffix.shrinking, MODEL, suffix.space, chains, start)
    assert_rejected(lambda: assert_steps_follow(wrong, suffix.transition))


def test_suffix_moves_from_the_base_proposal_with_entropy_cuts() -> None:
    law = entropy_cut(8.0)
    space, design = sequence_space(TABLE, 1.0), make_design(ALPHA, 1.0, law)
    transition = suffix_transition(space, ALPHA, law)
    kernel = suffix_regeneration(ALPHA, 1.0, law)
    outcome = outcome_of(kernel, design, space)
    assert_steps_follow(outcome, transition)
    uniform = suffix_transition(space, ALPHA, uniform_cut())
    assert_rejected(lambda: assert_steps_follow(outcome, uniform))
    info = outcome.info
    np.testing.assert_array_equal(info.num_scored_tokens, info.cuts + info.num_tokens)


def test_independence() -> None:
    space, design = sequence_space(TABLE, 2.0), make_design(ALPHA, 2.0, start_cut())
    transition = suffix_transition(space, ALPHA, start_cut())
    outcome = outcome_of(independence(ALPHA, 2.0), design, space)
    assert_steps_follow(outcome, transition)
    assert not np.asarray(outcome.info.cuts).any()


def test_multiple_try() -> None:
    space, design = sequence_space(TABLE, ALPHA), make_design(ALPHA, ALPHA, uniform_cut())
    transition = multiple_try_transition(space, ALPHA, uniform_cut(), 2)
    outcome = outcome_of(multiple_try(ALPHA, ALPHA, uniform_cut(), 2), design, space)
    assert_steps_follow(outcome, transition)
    single = suffix_transition(space, ALPHA, uniform_cut())
    assert_rejected(lambda: assert_steps_follow(outcome, single))
    info = outcome.info
    assert np.all(np.asarray(info.num_tokens) >= 2)
    np.testing.assert_array_equal(info.moved, outcome.before != outcome.after)


@pytest.mark.slow
def test_three_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try has noise of its own: two tries cannot tell a third that is one of them."""
    space, design = sequence_space(TABLE, ALPHA), make_design(ALPHA, ALPHA, uniform_cut())
    transition = multiple_try_transition(space, ALPHA, uniform_cut(), 3)
    outcome = outcome_of(multiple_try(ALPHA, ALPHA, uniform_cut(), 3), design, space)
    assert_steps_follow(outcome, transition)
    # Not by its dotted name, under which the package has the function.
    module = importlib.import_module("theory.mcmc.multiple_try")
    monkeypatch.setattr(module, "fold_rows", planted.third_try_is_the_first)
    wrong = outcome_of(multiple_try(ALPHA, ALPHA, uniform_cut(), 3), design, space)
    assert_rejected(lambda: assert_steps_follow(wrong, transition))


def count_b(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """One for every b, and no sequence that starts with b twice."""
    inside = jnp.arange(tokens.shape[1])[None] < lengths[:, None]
    is_b = inside & (tokens == 1)
    return jnp.where(is_b[:, 0] & is_b[:, 1], -jnp.inf, is_b.sum(axis=1).astype(jnp.float32))


def test_reward_tilted() -> None:
    def log_reward(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        return count_b(tokens, lengths) / 0.5

    space = sequence_space(
        TABLE, 1.0, lambda each: -np.inf if each[:2] == (1, 1) else each.count(1) / 0.5
    )
    transition = suffix_transition(space, 1.0, block_cut(2))
    design = make_design(1.0, 1.0, block_cut(2), log_reward)
    kernel = reward_tilted(count_b, 0.5, 1.0, block_cut(2))
    step = jax.jit(kernel.step)
    # Forbidden sequences are no start; here they are taken as starts all the same, to see that chains leave them.
    chains, start = chains_at(MODEL, space, design._replace(log_reward=no_reward), NUM, seed=6)
    rewards = jnp.asarray(space.records.log_rewards, jnp.float32)[jnp.asarray(start)]
    outcome = one_step(step, MODEL, space, chains._replace(log_rewards=rewards), start)
    assert_steps_follow(outcome, transition)
    forbidden = space.records.log_rewards == -np.inf
    assert forbidden.any() and not forbidden[outcome.after[~forbidden[outcome.before]]].any()


def test_blockwise() -> None:
    table, moves = toy_f(), 2
    model = ContextModel.from_table(table)
    kernel = blockwise(2.0, 2.0, uniform_cut(), 2, moves)
    key, step = jax.random.key(7), jax.jit(kernel.step)
    stages = jax.jit(kernel.init)(key, model, empty_prompts(NUM))
    assert num_stages(table.horizon, 2) == 2
    stages, _ = step(key, model, stages)
    stages, info = step(key, model, stages)
    sequences, law = blockwise_law(table, 2.0, 2.0, uniform_cut(), 2, moves)
    space = sequence_space(table, 2.0)
    assert sequences == space.sequences
    assert_counts(counts_of(space, stages.chains), np.append(law, 0))
    assert info.accepted.shape == (moves, NUM)
    target = np.append(target_law(space, 2.0), 0)
    assert_rejected(lambda: assert_counts(counts_of(space, stages.chains), target))


def test_impossible_starts_are_refused() -> None:
    design = make_design(2.0, 2.0, uniform_cut())
    prompts = empty_prompts(2, first=7)
    log_half = np.log(0.5)
    certain = np.tile([log_half, -np.inf, log_half], (TABLE.log_probs.shape[0], 1))
    zero = ContextModel.from_table(TABLE._replace(log_probs=certain))
    with pytest.raises(InvalidInput, match="chain 8: its first sequence has probability 0"):
        tokens = jnp.array([[0, 2, 0], [1, 2, 0]])
        start_chains_at(zero, prompts, tokens, jnp.array([2, 2]), design)
    for tokens, lengths in (
        ([[0, 2, 0]] * 2, [2, 1]),
        ([[2, 2, 0]] * 2, [2, 2]),
        ([[0, 1, 0]] * 2, [0, 3]),
    ):
        with pytest.raises(InvalidInput, match="must end with its first eos or at the horizon"):
            start_chains_at(MODEL, prompts, jnp.array(tokens), jnp.array(lengths), design)
    chains = start_chains_at(MODEL, prompts, jnp.full((2, 3), 1), jnp.full(2, 3), design)
    check_starts(chains, design)
    forbidden = chains._replace(log_rewards=jnp.array([0.0, -jnp.inf]))
    with pytest.raises(InvalidInput, match="chain 8"):
        check_starts(forbidden, design)


def test_parameters_outside_their_domain_are_refused() -> None:
    for alpha in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="alpha"):
            suffix_regeneration(alpha, 1.0, uniform_cut())
        with pytest.raises(InvalidInput, match="alpha"):
            independence(1.0, alpha)
        with pytest.raises(InvalidInput, match="reward scale"):
            reward_tilted(count_b, alpha, 1.0, uniform_cut())
    with pytest.raises(InvalidInput, match="0 tries"):
        multiple_try(1.0, 1.0, uniform_cut(), 0)
    multiple_try(1.0, 1.0, uniform_cut(), 1)  # one try is a plain move
    with pytest.raises(InvalidInput, match="block of 0 tokens"):
        blockwise(1.0, 1.0, uniform_cut(), 0, 1)
    with pytest.raises(InvalidInput, match="-1 moves"):
        blockwise(1.0, 1.0, uniform_cut(), 1, -1)
