"""Coupled chains: the exact joint matrix, the jitted kernel against it, and what meeting times say."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e, toy_f
from tests.planted_bugs import coupled as planted
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from tests.theory.mcmc.certify import cells_of, empty_prompts
from theory.errors import InvalidInput
from theory.exact import (
    SequenceSpace,
    coupled_transition,
    laws_after,
    laws_apart,
    proposal_law,
    sequence_space,
    suffix_transition,
    target_law,
    total_variation_curve,
    with_horizon,
)
from theory.exact.coupled import maximal_coupling, shared_noise_law
from theory.generation import take
from theory.ledger import totals
from theory.mcmc import (
    Chains,
    CoupledChains,
    CutLaw,
    coupled_suffix_regeneration,
    entropy_cut,
    make_design,
    start_chains_at,
    suffix_regeneration,
    total_variation_estimates,
    unbiased_estimates,
    uniform_cut,
)
from theory.mcmc import meeting_times as meeting_module
from theory.mcmc.coupled import couple_indices
from theory.mcmc.meeting_times import correction_weights

ALPHA = 2.0
LAG = 3
NUM = 8192
NUM_STEPS = 120
SPACE = sequence_space(with_horizon(toy_e(), 3), ALPHA)
MODEL = ContextModel.from_table(with_horizon(toy_e(), 3))
LENGTHS = SPACE.records.lengths.astype(float)


class Exact(NamedTuple):
    """Coupled chains from the proposal: laws of the one ahead, and laws [s, x, y] of the pair after L + s moves while apart."""

    target: np.ndarray
    matrix: np.ndarray
    start: np.ndarray
    laws: np.ndarray
    apart: np.ndarray


def exact_chains(space: SequenceSpace, alpha: float, lag: int, num_steps: int) -> Exact:
    matrix, start = suffix_transition(space, alpha, uniform_cut()).matrix, proposal_law(space)
    laws = laws_after(matrix, start, num_steps)
    joint = coupled_transition(space, alpha, uniform_cut())
    apart = laws_apart(joint, np.outer(laws[lag], start), num_steps - lag)
    return Exact(target_law(space, alpha), matrix, start, laws, apart)


@functools.cache
def exact() -> Exact:
    return exact_chains(SPACE, ALPHA, LAG, NUM_STEPS)


def tails(chains: Exact, lag: int) -> np.ndarray:
    """P(tau > t) for t = 0, 1, ..."""
    return np.concatenate([np.ones(lag), chains.apart.sum(axis=(1, 2))])


def expected_bound(tail: np.ndarray, lag: int, num_steps: int) -> np.ndarray:
    """sum_{j >= 1} P(tau > t + jL), without what lies beyond the last time: at most the bound."""
    return np.array([tail[t + lag :: lag].sum() for t in range(num_steps + 1)])


@pytest.mark.parametrize("cut_law", [uniform_cut(), entropy_cut(2.0)], ids=["uniform", "entropy"])
@pytest.mark.parametrize("proposal_alpha", [1.0, 4.0])
def test_each_chain_alone_is_the_suffix_chain_and_who_has_met_stays(
    cut_law: CutLaw, proposal_alpha: float
) -> None:
    space = sequence_space(toy_e(), proposal_alpha)
    joint = coupled_transition(space, 4.0, cut_law)
    matrix, size = suffix_transition(space, 4.0, cut_law).matrix, len(space.sequences)
    assert joint.min() >= -1e-15
    own = np.broadcast_to(matrix[:, None, :], joint.shape[:3])
    np.testing.assert_allclose(joint.sum(axis=3), own, rtol=0, atol=1e-13)
    own = np.broadcast_to(matrix[None, :, :], joint.shape[:3])
    np.testing.assert_allclose(joint.sum(axis=2), own, rtol=0, atol=1e-13)
    together = np.arange(size)
    stays = joint[together, together][:, together, together].sum(axis=1)
    np.testing.assert_allclose(stays, 1, rtol=0, atol=1e-13)


def test_uniforms_of_their_own_let_pairs_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theory.exact.coupled.jointly_accepted", planted.uniforms_of_their_own)
    joint = coupled_transition(SPACE, ALPHA, uniform_cut())
    np.testing.assert_allclose(
        joint.sum(axis=3)[:, 0], suffix_transition(SPACE, ALPHA, uniform_cut()).matrix, atol=1e-13
    )
    together = np.arange(len(LENGTHS))
    stays = joint[together, together][:, together, together].sum(axis=1)
    assert target_law(SPACE, ALPHA) @ (1 - stays) == pytest.approx(0.139387, abs=6e-7)


@pytest.mark.parametrize("alpha", [2.0, 4.0])
@pytest.mark.parametrize("toy", [toy_e, toy_f])
def test_the_bound_is_above_the_distance(toy: Any, alpha: float) -> None:
    """And a lag of 20 makes it sharper than one of 1; with one term less it is no bound."""
    space = sequence_space(with_horizon(toy(), 3), alpha)
    for lag in (1, 20):
        chains = exact_chains(space, alpha, lag, 400)
        curve = total_variation_curve(chains.matrix, chains.start, chains.target, 60)
        bounds = expected_bound(tails(chains, lag), lag, 60)
        assert (bounds >= curve).all()
        if lag == 20:
            less = bounds - tails(chains, lag)[lag : lag + 61]
            assert (less < curve).any()


def test_estimates_are_unbiased_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """E[H_{k:m}] over the joint law of the chains is E_pi of the length, to rounding; the twins are off by what they say."""
    chains = exact()
    truth = float(chains.target @ LENGTHS)
    differences = chains.apart.sum(axis=2) @ LENGTHS - chains.apart.sum(axis=1) @ LENGTHS
    times = np.arange(LAG, NUM_STEPS + 1)

    def expectation(weigh: Any, first: int, last: int) -> float:
        plain = (chains.laws[first : last + 1] @ LENGTHS).sum()
        return float((plain + weigh(times, LAG, first, last) @ differences) / (last - first + 1))

    for first, last in ((0, 0), (0, 1), (2, 2), (1, 9), (5, 30)):
        assert expectation(correction_weights, first, last) == pytest.approx(truth, abs=1e-9)
    for bug, damage in (
        (planted.no_correction, 0.376756),
        (planted.correction_at_every_time, -0.635079),
    ):
        assert expectation(bug, 0, 1) - truth == pytest.approx(damage, abs=6e-7)


def test_weights_of_the_differences_are_the_double_sum() -> None:
    for lag, first, last in ((1, 0, 0), (1, 2, 5), (3, 0, 4), (4, 3, 3), (2, 1, 8)):
        times = np.arange(0, 30)
        expected = np.zeros(30, np.int64)
        for start in range(first, last + 1):
            expected[start + lag :: lag] += 1
        np.testing.assert_array_equal(correction_weights(times, lag, first, last), expected)
    np.testing.assert_array_equal(
        correction_weights(np.arange(3, 9), 1, 2, 4), np.minimum(np.arange(3, 9) - 2, 3)
    )


def test_estimates_by_hand() -> None:
    ahead, behind = np.array([[1.0, 2.0, 4.0, 8.0, 16.0]]), np.array([[32.0, 64.0, 128.0]])
    met = np.array([4])
    # Lag 2, tau 4: times 2 and 3 have differences 4 - 32 and 8 - 64.
    for (first, last), expected in {
        (0, 0): 1 + (4 - 32),
        (1, 1): 2 + (8 - 64),
        (0, 1): (1 + 2 - 28 - 56) / 2,
        (2, 3): (4 + 8) / 2,
    }.items():
        found = unbiased_estimates(ahead, behind, met, 2, first, last)
        assert found == pytest.approx([expected], abs=1e-12)
    # The last difference that there is may count: at time 4, of a pair that meets at 5.
    found = unbiased_estimates(ahead, behind, np.array([5]), 2, 0, 0)
    assert found == pytest.approx([1 + (4 - 32) + (16 - 128)], abs=1e-12)
    bounds = total_variation_estimates(np.array([7, 2]), 2, 6)
    np.testing.assert_array_equal(bounds, [[3, 2, 2, 1, 1, 0, 0], [0] * 7])
    wrong = planted.one_term_less(np.array([7, 2]), 2, 6)
    assert (wrong[0] != bounds[0]).any()


def test_shared_noise() -> None:
    """Both marginals; equal laws give equal winners; and the law itself on a case by hand."""
    rng = np.random.default_rng(0)
    for size in (2, 3, 5):
        p, q = rng.dirichlet(np.ones(size), size=2)
        p[0] = 0.0
        p /= p.sum()
        joint = shared_noise_law(p, q)
        np.testing.assert_allclose(joint.sum(axis=1), p, atol=1e-14)
        np.testing.assert_allclose(joint.sum(axis=0), q, atol=1e-14)
        np.testing.assert_allclose(shared_noise_law(q, q), np.diag(q), atol=1e-15)
        # Which law is called the first says nothing: a token may be missing in either.
        np.testing.assert_allclose(shared_noise_law(q, p), joint.T, atol=1e-14)
    # E_0 / .5 < E_1 / .5 and E_1 / .8 < E_0 / .2: between E_1 / 4 < E_0 < E_1.
    law = shared_noise_law(np.array([0.5, 0.5]), np.array([0.2, 0.8]))
    np.testing.assert_allclose(law, [[0.2, 0.3], [0.0, 0.5]], atol=1e-15)


def test_coupled_indices_meet_as_often_as_they_can() -> None:
    # The second has more of the first index and of the third: its own noise decides which.
    p, q = np.array([0.1, 0.5, 0.2, 0.2]), np.array([0.4, 0.1, 0.5, 0.0])
    with np.errstate(divide="ignore"):
        log_p, log_q = (jnp.tile(jnp.log(jnp.asarray(x, jnp.float32)), (NUM, 1)) for x in (p, q))
    keys = jax.random.split(jax.random.key(0), 2 * NUM)
    i, j = couple_indices(keys[:NUM], keys[NUM:], log_p, log_q)
    cells = np.bincount(np.asarray(i * 4 + j), minlength=16)
    assert_counts(cells, maximal_coupling(p, q).ravel())
    i, j = couple_indices(keys[:NUM], keys[NUM:], log_q, log_q)
    np.testing.assert_array_equal(i, j)


SMALL = sequence_space(with_horizon(toy_e(), 2), 4.0)
SMALL_MODEL = ContextModel.from_table(with_horizon(toy_e(), 2))


def test_common_moves_follow_the_joint_matrix() -> None:
    """From every pair of states, pairs of equal ones included, which here are not told that they have met."""
    size, num = len(SMALL.sequences), 32_768
    tokens, lengths = jnp.asarray(SMALL.tokens), jnp.asarray(SMALL.records.lengths)
    design = make_design(4.0, 4.0, uniform_cut())
    states = start_chains_at(SMALL_MODEL, empty_prompts(size), tokens, lengths, design)
    where = np.random.default_rng(1).integers(size, size=(2, num))

    def chains_at(places: np.ndarray) -> Chains:
        at = jnp.asarray(places)
        generation = take(SMALL_MODEL, states.generation, at)
        return Chains(
            generation, states.entropies[at], states.log_rewards[at], jnp.arange(num), jnp.int32(2)
        )

    pairs = CoupledChains(chains_at(where[0]), chains_at(where[1]), jnp.zeros(num, jnp.int32))
    kernel = coupled_suffix_regeneration(4.0, 4.0, uniform_cut(), 1)
    after, info = jax.jit(kernel.step)(jax.random.key(1), SMALL_MODEL, pairs)
    ends = [
        cells_of(SMALL, now.tokens, now.lengths)
        for now in (c.generation.trajectories for c in (after.ahead, after.behind))
    ]
    places = (where[0] * size + where[1]) * size**2 + ends[0] * size + ends[1]
    joint = coupled_transition(SMALL, 4.0, uniform_cut())
    counts = np.bincount(places, minlength=size**4)
    assert_counts(counts, joint.ravel() / size**2)
    np.testing.assert_array_equal(ends[0] == ends[1], info.together)
    assert (ends[0] == ends[1])[where[0] == where[1]].all()
    matrix = suffix_transition(SMALL, 4.0, uniform_cut()).matrix
    apart = np.einsum("xa,yb->xyab", matrix, matrix)
    assert_rejected(lambda: assert_counts(counts, apart.ravel() / size**2))


class Run(NamedTuple):
    """What pairs did: tokens of X_0..X_n and Y_0..Y_n (the latter waits until time L), and the end."""

    ahead: Any
    behind: Any
    pairs: CoupledChains
    info: Any


@pytest.fixture(scope="module")
def coupled_run() -> Run:
    kernel = coupled_suffix_regeneration(ALPHA, ALPHA, uniform_cut(), LAG)

    @jax.jit
    def run(key: jax.Array, model: ContextModel) -> Run:
        def step(pairs: CoupledChains, _: None) -> Any:
            pairs, info = kernel.step(key, model, pairs)
            now = pairs.ahead.generation.trajectories, pairs.behind.generation.trajectories
            seen = [(each.tokens, each.lengths) for each in now]
            behind = info.behind
            took = behind.accepted | (behind.cuts > 0) | (behind.log_ratio != 0)
            work = behind.num_tokens.sum(), info.together, behind.moved, took
            return pairs, (*seen, work)

        pairs = kernel.init(key, model, empty_prompts(NUM))
        first = pairs.ahead.generation.trajectories, pairs.behind.generation.trajectories
        pairs, (ahead, behind, work) = jax.lax.scan(step, pairs, None, length=NUM_STEPS)
        ahead, behind = (
            jax.tree.map(
                lambda one, rest: jnp.concatenate([one[None], rest]),
                (each.tokens, each.lengths),
                rest,
            )
            for each, rest in zip(first, (ahead, behind), strict=True)
        )
        return Run(ahead, behind, pairs, work)

    return run(jax.random.key(2), MODEL)


@pytest.mark.slow
def test_the_chain_ahead_is_the_plain_chain_bit_for_bit(coupled_run: Run) -> None:
    kernel, key = suffix_regeneration(ALPHA, ALPHA, uniform_cut()), jax.random.key(2)
    chains = jax.jit(kernel.init)(key, MODEL, empty_prompts(NUM))
    step = jax.jit(kernel.step)
    for time in range(8):
        tokens = chains.generation.trajectories.tokens
        np.testing.assert_array_equal(tokens, coupled_run.ahead[0][time])
        chains, _ = step(key, MODEL, chains)


def cells(run: tuple[Any, Any], time: int) -> np.ndarray:
    return cells_of(SPACE, run[0][time], run[1][time])


def test_the_chain_behind_has_the_law_of_the_plain_chain(coupled_run: Run) -> None:
    size = len(LENGTHS)
    for steps in (0, 1, 4):
        counts = np.bincount(cells(coupled_run.behind, LAG + steps), minlength=size + 1)
        assert_counts(counts, np.append(exact().laws[steps], 0))
    waiting = [np.asarray(coupled_run.behind[0][time]) for time in range(LAG + 1)]
    assert all((each == waiting[0]).all() for each in waiting)


def test_meeting_times(coupled_run: Run) -> None:
    times = np.asarray(coupled_run.pairs.meeting_times)
    equal = np.stack(
        [cells(coupled_run.ahead, t) == cells(coupled_run.behind, t) for t in range(LAG, 40)]
    )
    first = np.where(equal.any(axis=0), LAG + equal.argmax(axis=0), 0)
    np.testing.assert_array_equal(np.where(times < 40, times, 0), first)
    stays = np.maximum.accumulate(equal, axis=0) == equal
    assert stays.all()
    tail = tails(exact(), LAG)[: 30 + 1]
    law = np.append(-np.diff(tail), tail[-1])
    counts = np.bincount(np.minimum(times, 31), minlength=32)[1:]
    assert_counts(counts, law)
    off = np.append(0, law)[:-1]
    assert_rejected(lambda: assert_counts(counts, off / off.sum()))


def test_work_stops_where_pairs_have_met(coupled_run: Run) -> None:
    pairs = coupled_run.pairs
    times = np.asarray(pairs.meeting_times)
    behind, ahead = (totals(c.generation.ledger) for c in (pairs.behind, pairs.ahead))
    assert ahead["rollouts_branch"] == NUM * NUM_STEPS
    assert behind["rollouts_branch"] == behind["rollouts_dropped"] == int((times - LAG).sum())
    drawn, together, moved, took = coupled_run.info
    start = int(np.asarray(coupled_run.behind[1][0]).sum())
    assert behind["generated_tokens"] == start + int(np.asarray(drawn).sum())
    assert not np.asarray(moved)[np.arange(NUM_STEPS)[:, None] >= times[None, :]].any()
    np.testing.assert_array_equal(together, np.arange(1, NUM_STEPS + 1)[:, None] >= times[None, :])
    # A chain that waits or has met reports no move, not even one that changes nothing.
    time = np.arange(NUM_STEPS)[:, None]
    took, own = np.asarray(took), (time >= LAG) & (time < times[None, :])
    assert not took[~own].any() and took[own].any()
    assert int(pairs.behind.iteration) == int(pairs.ahead.iteration) - LAG


def test_estimates_from_draws(coupled_run: Run) -> None:
    """Unbiased for the mean length under the target."""
    times = np.asarray(coupled_run.pairs.meeting_times)
    ahead, behind = (
        np.asarray(run[1], np.float64).T for run in (coupled_run.ahead, coupled_run.behind)
    )
    truth = float(exact().target @ LENGTHS)

    def estimates() -> np.ndarray:
        return unbiased_estimates(ahead, behind[:, LAG:], times, LAG, 0, 1)

    assert_mean(estimates(), truth, smallest_bias=0.25)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meeting_module, "correction_weights", planted.no_correction)
        assert_rejected(lambda: assert_mean(estimates(), truth, smallest_bias=0.25))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="lag 0"):
        coupled_suffix_regeneration(2.0, 2.0, uniform_cut(), 0)
    with pytest.raises(InvalidInput, match="alpha"):
        coupled_suffix_regeneration(0.0, 2.0, uniform_cut(), 1)
    with pytest.raises(InvalidInput, match="63 sequences"):
        coupled_transition(sequence_space(with_horizon(toy_e(), 5), 1.0), 1.0, uniform_cut())
    ahead, behind = np.zeros((2, 5)), np.zeros((2, 4))
    for times, lag, first, last, match in (
        ([3, 0], 1, 0, 0, "pair 1: has not met"),
        ([3, 1], 2, 0, 0, "pair 1: meeting time 1 before the lag 2"),
        ([3, 2], 0, 0, 0, "lag 0"),
        ([3, 2], 1, 2, 1, "times 2..1"),
        ([3, 2], 1, 0, 5, "times 0..5"),
        ([3, 2], 2, 0, 0, "must have 3"),
        ([3, 6], 1, 0, 0, "pair 1: met at 6"),
    ):
        with pytest.raises(InvalidInput, match=match):
            unbiased_estimates(ahead, behind, np.array(times), lag, first, last)
    with pytest.raises(InvalidInput, match="-1 steps"):
        total_variation_estimates(np.array([1]), 1, -1)
    with pytest.raises(InvalidInput, match="no pair"):
        total_variation_estimates(np.zeros(0, np.int64), 1, 3)
