"""Chains that do not wait for each other are, bit for bit, the chains of the lockstep kernel."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.constructors import order_k_markov_table
from models.tabular.context_model import ContextModel
from theory.errors import InvalidInput
from theory.keys import Role
from theory.ledger import totals
from theory.mcmc import (
    Chains,
    Design,
    MoveInfo,
    Prompts,
    asynchronous,
    asynchronous_suffix,
    entropy_cut,
    make_design,
    uniform_cut,
)
from theory.mcmc.asynchronous import asynchronous_kernel
from theory.mcmc.chains import keys_of
from theory.mcmc.suffix import suffix_kernel
from theory.protocols import Kernel

# Tokens a, b, eos. Laws read two tokens, so that a wrong past shows; the power makes rows of a's long, and b ends others.
HORIZON, MOVES, NUM = 10, 10, 64
MODEL = ContextModel.from_table(
    order_k_markov_table(
        {
            (): (0.6, 0.2, 0.2),
            (0,): (0.7, 0.2, 0.1),
            (1,): (0.3, 0.3, 0.4),
            (0, 0): (0.8, 0.15, 0.05),
            (0, 1): (0.2, 0.3, 0.5),
            (1, 0): (0.4, 0.4, 0.2),
            (1, 1): (0.6, 0.1, 0.3),
        },
        2,
        3,
        eos=(2,),
        horizon=HORIZON,
    )
)
KEY = jax.random.key(3)
Run = Callable[[ContextModel, Chains], tuple[Chains, MoveInfo]]


def prompts() -> Prompts:
    """Of two lengths; ids that are not places."""
    lengths = jnp.arange(NUM, dtype=jnp.int32) % 3
    return Prompts(jnp.tile(jnp.array([[1, 0]]), (NUM, 1)), lengths, 5 + 2 * jnp.arange(NUM))


def count_b(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """A reward of one for every token 1."""
    inside = jnp.arange(tokens.shape[1])[None] < lengths[:, None]
    return (inside & (tokens == 1)).sum(axis=1).astype(jnp.float32)


def lockstep(design: Design) -> Run:
    kernel = suffix_kernel(design)

    def run(model: ContextModel, chains: Chains) -> tuple[Chains, MoveInfo]:
        def move(now: Chains, _: None) -> tuple[Chains, MoveInfo]:
            return kernel.step(KEY, model, now)

        return jax.lax.scan(move, chains, None, length=MOVES)

    return jax.jit(run)


def ours(kernel: Kernel) -> Run:
    return jax.jit(lambda model, chains: kernel.step(KEY, model, chains))


def start(design: Design) -> Chains:
    return jax.jit(suffix_kernel(design).init)(KEY, MODEL, prompts())


def same(a: Any, b: Any) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def assert_same_chains(want: tuple[Chains, MoveInfo], got: tuple[Chains, MoveInfo]) -> None:
    """Sequences with all that is recorded of them, laws, ids, iterations and what every move did."""
    for field in ("entropies", "log_rewards", "rows", "iteration"):
        same(getattr(want[0], field), getattr(got[0], field))
    same(want[0].generation.trajectories, got[0].generation.trajectories)
    same(want[0].generation.log_probs, got[0].generation.log_probs)
    same(want[1]._replace(num_scored_tokens=()), got[1]._replace(num_scored_tokens=()))


PLAIN = make_design(3.0, 1.5, uniform_cut())
BASE = make_design(2.0, 1.0, entropy_cut(2.0), count_b)


@pytest.fixture(scope="module")
def chains() -> Chains:
    return start(PLAIN)


@pytest.fixture(scope="module")
def want(chains: Chains) -> tuple[Chains, MoveInfo]:
    return lockstep(PLAIN)(MODEL, chains)


def run(chains: Chains, fewest_rows: int) -> tuple[Chains, MoveInfo]:
    return ours(asynchronous_kernel(PLAIN, MOVES, fewest_rows))(MODEL, chains)


@pytest.mark.slow  # bit for bit: compiled to be fast, as make test-slow does
def test_every_chain_is_that_of_the_lockstep_kernel(
    chains: Chains, want: tuple[Chains, MoveInfo]
) -> None:
    """The batch is halved on the way."""
    got = run(chains, NUM // 2)
    assert_same_chains(want, got)
    # The case has what could go wrong: refusals, cuts at the start, rows that end early and at the horizon.
    accepted, cuts = np.asarray(want[1].accepted), np.asarray(want[1].cuts)
    assert accepted.any() and not accepted.all()
    assert (cuts == 0).any() and (cuts > 1).any()
    lengths = np.asarray(want[0].generation.trajectories.lengths)
    assert lengths.min() < HORIZON == lengths.max()
    before = totals(chains.generation.ledger)
    lockstep_spent, spent = (
        {name: total - before[name] for name, total in totals(each[0].generation.ledger).items()}
        for each in (want, got)
    )
    for name in ("generated_tokens", "rollouts_branch", "rollouts_dropped"):
        assert spent[name] == lockstep_spent[name] > 0
    # The last kept tokens are read again, and nothing idles but rows that wait for the batch to be halved.
    assert spent["prefill_tokens"] == int((cuts > 0).sum())
    assert spent["row_steps_useful"] == spent["generated_tokens"] + spent["prefill_tokens"]
    assert spent["row_steps_executed"] <= NUM * spent["model_calls"]
    assert spent["row_steps_executed"] < lockstep_spent["row_steps_executed"]


@pytest.mark.slow  # bit for bit: compiled to be fast, as make test-slow does
def test_a_step_goes_on_where_the_last_one_stopped(
    chains: Chains, want: tuple[Chains, MoveInfo]
) -> None:
    """The noise of a move is addressed by the moves of all steps, not by those of its own."""
    step = ours(asynchronous_kernel(PLAIN, MOVES // 2, NUM))
    halfway, first = step(MODEL, chains)
    after, second = step(MODEL, halfway)
    assert_same_chains(
        want, (after, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second))
    )


@pytest.mark.slow
def test_rewards_and_entropies_are_those_of_the_lockstep_kernel() -> None:
    """Entropies are recorded when a token is drawn; lockstep moves read the sequences again."""
    chains = start(BASE)
    got = ours(asynchronous_kernel(BASE, MOVES, NUM))(MODEL, chains)
    assert_same_chains(lockstep(BASE)(MODEL, chains), got)
    assert np.asarray(got[0].entropies).any() and np.asarray(got[0].log_rewards).any()
    assert not np.asarray(got[1].num_scored_tokens).any()
    # Not halved, the whole batch is run and rewarded whenever the model is called, rows that idle too.
    before, after = (totals(each.generation.ledger) for each in (chains, got[0]))
    num_calls = after["model_calls"] - before["model_calls"]
    for name in ("row_steps_executed", "utility_calls"):
        assert after[name] - before[name] == NUM * num_calls > 0


def one_iteration_for_all_moves(key: jax.Array, role: Role, slots: asynchronous.Slots) -> jax.Array:
    """In the place of `asynchronous._keys`: a chain does not count its own moves."""
    return keys_of(key, role, slots.current)


def slot_as_it_was(model: Any, mask: jax.Array, slots: asynchronous.Slots) -> asynchronous.Slots:
    """In the place of `asynchronous._restore`: the next proposal starts from one that was refused."""
    return slots


def works_until_all_have_finished(slots: asynchronous.Slots) -> jax.Array:
    """In the place of `asynchronous._working`: chains that are done take the steps that others need."""
    num_moves = slots.num_moves
    return jnp.broadcast_to((num_moves < slots.info.cuts.shape[0]).any(), num_moves.shape)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("_keys", one_iteration_for_all_moves),
        ("_restore", slot_as_it_was),
        ("_working", works_until_all_have_finished),
    ],
)
def test_a_planted_bug_makes_other_chains(
    name: str,
    bug: Any,
    chains: Chains,
    want: tuple[Chains, MoveInfo],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asynchronous, name, bug)
    with pytest.raises(AssertionError, match="not equal"):
        assert_same_chains(want, run(chains, NUM))


def test_counts_below_one_are_refused() -> None:
    with pytest.raises(InvalidInput, match="0 moves: must be at least 1"):
        asynchronous_suffix(2.0, 2.0, uniform_cut(), 0)
    with pytest.raises(InvalidInput, match="batches of 0 rows"):
        asynchronous_suffix(2.0, 2.0, uniform_cut(), 1, fewest_rows=0)
