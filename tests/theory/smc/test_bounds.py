"""Bounds on log Z from both sides: exact expectations sandwich it, and the runs have those expectations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.toys import toy_b, toy_d, toy_e
from tests.stat_asserts import assert_mean, assert_rejected
from tests.theory.smc.runs import ALPHA, LAYERS, MODEL, POWER, TABLE, begin
from theory.errors import InvalidInput
from theory.exact import (
    ContextTable,
    Law,
    base_law,
    enumerate_sequences,
    kl_divergence,
    power_law,
    temperature_law,
    unroll,
)
from theory.exact.sampling import draw_sequences
from theory.exact.smc_log_evidence import (
    expected_conditional_log_evidence,
    expected_log_evidence,
)
from theory.exact.smc_population import plain_filter
from theory.importance import trajectory_log_weights
from theory.rejection import RejectionState
from theory.resampling.conditional import conditional_multinomial
from theory.resampling.multinomial import multinomial
from theory.smc import (
    EvidenceBounds,
    ExactDraw,
    conditional_evidence,
    every,
    exact_draw_from_layers,
    exact_draw_from_rejection,
    log_evidence,
    log_evidence_interval,
    proposal_divergence_bounds,
    smc,
    smc_divergence_bounds,
    start_populations,
    temperature_proposal,
)
from theory.smc.bounds import check_reference, read_reference

NUM = 6000
RULES = temperature_proposal(ALPHA)
EVERY = every(4)
PROPOSAL = temperature_law(LAYERS, ALPHA)
LOWER = expected_log_evidence(ALPHA, PROPOSAL, EVERY)
UPPER = expected_conditional_log_evidence(ALPHA, PROPOSAL, POWER.law, EVERY)


@pytest.mark.parametrize("table", [toy_b(), toy_d(), toy_e()])
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_the_expectations_sandwich_log_z(table: ContextTable, alpha: float) -> None:
    layers = unroll(table)
    power, proposal = power_law(layers, alpha), temperature_law(layers, alpha)
    for schedule in ((), tuple(range(1, len(layers)))):
        low = expected_log_evidence(alpha, proposal, schedule)
        high = expected_conditional_log_evidence(alpha, proposal, power.law, schedule)
        assert low + 1e-3 < power.log_Z < high - 1e-3
        # A reference from the proposal bounds nothing: below log Z here, and without resampling it is the ordinary run.
        wrong = expected_conditional_log_evidence(alpha, proposal, proposal, schedule)
        assert wrong < power.log_Z - 1e-3
        if not schedule:
            assert wrong == pytest.approx(low, rel=1e-12)


def test_an_optimal_proposal_leaves_no_gap() -> None:
    """Without resampling: every weight is then Z. The weights of prefixes are not, and resampling by them opens one."""
    low = expected_log_evidence(ALPHA, POWER.law, ())
    high = expected_conditional_log_evidence(ALPHA, POWER.law, POWER.law, ())
    assert (low, high) == pytest.approx((POWER.log_Z, POWER.log_Z), abs=1e-12)
    low = expected_log_evidence(ALPHA, POWER.law, EVERY)
    high = expected_conditional_log_evidence(ALPHA, POWER.law, POWER.law, EVERY)
    assert low + 1e-3 < POWER.log_Z < high - 1e-3


def two_rows(law: Law) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities of all sequences under the target and a proposal, and their weights."""
    log_p, log_pi, log_q = enumerate_sequences((base_law(LAYERS), POWER.law, law)).log_probs
    return np.exp(log_pi), np.exp(log_q), np.exp(ALPHA * log_p - log_q)


def test_without_resampling_the_expectations_are_double_sums() -> None:
    pi, q, weights = two_rows(PROPOSAL)
    log_mean = np.log((weights[:, None] + weights[None, :]) / 2)
    assert expected_log_evidence(ALPHA, PROPOSAL, ()) == pytest.approx(q @ log_mean @ q)
    high = expected_conditional_log_evidence(ALPHA, PROPOSAL, POWER.law, ())
    assert high == pytest.approx(pi @ log_mean @ q)


def test_the_gap_holds_both_divergences_of_a_final_draw() -> None:
    """KL(q_smc || pi) <= log Z - low, KL(pi || q_smc) <= high - log Z, with the exact law of a final draw."""
    run = plain_filter(ALPHA, PROPOSAL, 2, EVERY)
    pi = np.exp(enumerate_sequences((POWER.law,)).log_probs[0])
    ratio = np.log(run.final_draw / pi)
    to_target, from_target = float(run.final_draw @ ratio), float(-pi @ ratio)
    assert 0 < to_target <= POWER.log_Z - LOWER
    assert 0 < from_target <= UPPER - POWER.log_Z
    assert to_target + from_target < UPPER - LOWER


@pytest.mark.parametrize("proposal", [PROPOSAL, base_law(LAYERS)])
def test_the_intervals_of_a_final_draw_hold_its_divergences(proposal: Law) -> None:
    """Without resampling all expectations are double sums, that around an own draw too."""
    pi, q, weights = two_rows(proposal)
    final_draw = plain_filter(ALPHA, proposal, 2, ()).final_draw
    log_mean = np.log((weights[:, None] + weights[None, :]) / 2)
    # The law of a final draw is its power times the mean of 1 / Z_hat around it.
    np.testing.assert_allclose(final_draw, weights * q * (np.exp(-log_mean) @ q), rtol=1e-9)
    low, high, own = (float(law @ log_mean @ q) for law in (q, pi, final_draw))
    exact = EvidenceBounds(jnp.array([low]), jnp.array([high]))
    forward = float(final_draw @ np.log(final_draw / pi))
    backward = float(pi @ np.log(pi / final_draw))
    known = smc_divergence_bounds(exact, jnp.array([own]), (POWER.log_Z, POWER.log_Z))
    assert known.to_target[0] < forward < known.to_target[1]
    assert 0 == known.from_target[0] < backward < known.from_target[1]
    below = max(POWER.log_Z - own, 0.0)
    assert (below > 0) == (proposal is PROPOSAL)
    assert known.to_target == pytest.approx((below, POWER.log_Z - low), abs=1e-6)
    assert known.from_target[1] == pytest.approx(high - POWER.log_Z, abs=1e-6)
    interval = log_evidence_interval(exact)
    assert interval == pytest.approx((low, high), abs=1e-6)
    blind = smc_divergence_bounds(exact, jnp.array([own]), interval)
    assert blind.to_target == blind.from_target == (0.0, pytest.approx(high - low, abs=1e-6))


def test_means_in_the_wrong_order_give_no_negative_bounds() -> None:
    crossed = EvidenceBounds(jnp.array([1.0]), jnp.array([0.5]))
    found = smc_divergence_bounds(crossed, jnp.array([0.0]), log_evidence_interval(crossed))
    assert found == ((0.0, 0.0), (0.0, 0.0))
    straight = EvidenceBounds(jnp.array([0.5]), jnp.array([1.0]))
    found = smc_divergence_bounds(straight, jnp.array([-2.0]), (0.5, 0.75))
    assert found == ((0.25, 0.25), (0.0, 0.5))


def test_a_proposals_divergences_lie_in_their_intervals() -> None:
    pi, q, weights = two_rows(PROPOSAL)
    of_q, of_pi = (jnp.array([law @ np.log(weights)]) for law in (q, pi))
    found = proposal_divergence_bounds((LOWER, UPPER), of_q, of_pi)
    forward, backward = kl_divergence(PROPOSAL, POWER.law), kl_divergence(POWER.law, PROPOSAL)
    for (low, high), truth in ((found.to_target, forward), (found.from_target, backward)):
        assert low < truth < high
        assert high - low == pytest.approx(UPPER - LOWER, rel=1e-5)
    assert found.to_target[1] - forward == pytest.approx(UPPER - POWER.log_Z, abs=1e-5)
    assert found.from_target[1] - backward == pytest.approx(POWER.log_Z - LOWER, abs=1e-5)


@jax.jit
def ordinary(key: jax.Array) -> jax.Array:
    return log_evidence(smc(key, MODEL, RULES, ALPHA, begin(MODEL, NUM, 2), multinomial, EVERY)[0])


@jax.jit
def around(key: jax.Array, tokens: jax.Array, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
    after, log_Z = conditional_evidence(
        key,
        MODEL,
        RULES,
        ExactDraw(tokens, lengths, ALPHA),
        begin(MODEL, NUM, 2),
        conditional_multinomial,
        EVERY,
    )
    return after.generation.trajectories.tokens, log_Z


@functools.cache
def reference() -> ExactDraw:
    return exact_draw_from_layers(jax.random.key(1), LAYERS, ALPHA, NUM)


def test_runs_have_the_exact_expectations() -> None:
    assert_mean(np.asarray(ordinary(jax.random.key(2))), LOWER, smallest_bias=0.1)
    tokens, log_Z = around(jax.random.key(3), reference().tokens, reference().lengths)
    assert_mean(np.asarray(log_Z), UPPER, smallest_bias=0.1)
    np.testing.assert_array_equal(tokens[::2], reference().tokens)


def test_a_reference_from_the_proposal_is_seen() -> None:
    drawn = draw_sequences(jax.random.key(1), PROPOSAL, NUM)
    _, log_Z = around(jax.random.key(3), jnp.asarray(drawn.tokens), jnp.asarray(drawn.lengths))
    values = np.asarray(log_Z)
    assert_rejected(lambda: assert_mean(values, UPPER, smallest_bias=0.1))
    assert values.mean() < POWER.log_Z
    truth = expected_conditional_log_evidence(ALPHA, PROPOSAL, PROPOSAL, EVERY)
    assert_mean(values, truth, smallest_bias=0.1)


def test_a_reference_is_read_as_the_rules_would_have_drawn_it() -> None:
    some = ExactDraw(reference().tokens[:50], reference().lengths[:50], ALPHA)
    paid, rows = read_reference(MODEL, RULES, some, begin(MODEL, 50, 3))
    listed = enumerate_sequences((base_law(LAYERS), PROPOSAL))
    index = {tokens: i for i, tokens in enumerate(listed.sequences)}
    got = rows.trajectories
    for row in range(50):
        i = index[tuple(np.asarray(got.tokens)[row, : int(got.lengths[row])].tolist())]
        for found, truth in ((got.log_p, 0), (got.log_q, 1)):
            assert float(found[row].sum()) == pytest.approx(listed.log_probs[truth][i], abs=1e-5)
        assert bool(got.ended[row]) == (int(got.tokens[row, int(got.lengths[row]) - 1]) == 2)
    np.testing.assert_allclose(trajectory_log_weights(got, ALPHA), got.log_z.sum(axis=1), atol=1e-5)
    spent = np.asarray(paid.generation.ledger.prefill_tokens)[1]
    assert spent == int(some.lengths.sum())
    _, plain = read_reference(MODEL, (), some, begin(MODEL, 50, 3))
    np.testing.assert_array_equal(plain.trajectories.log_q, plain.trajectories.log_p)


def test_a_reference_is_read_after_the_prompt_of_its_population() -> None:
    prompts, lengths = jnp.array([[0], [1], [0]], jnp.int32), jnp.array([1, 1, 0], jnp.int32)
    ids, read = jnp.arange(3), jnp.tile(jnp.array([[1, 0, 2, 0]], jnp.int32), (3, 1))

    def log_p(rows: slice) -> np.ndarray:
        some = start_populations(MODEL, prompts[rows], lengths[rows], ids[rows], 2)
        draws = ExactDraw(read[rows], jnp.full(some.ids.shape, 3, jnp.int32), ALPHA)
        return np.asarray(read_reference(MODEL, RULES, draws, some)[1].trajectories.log_p)

    together = log_p(slice(0, 3))
    alone = np.concatenate([log_p(slice(row, row + 1)) for row in range(3)])
    np.testing.assert_array_equal(together, alone)
    assert len({row.tobytes() for row in alone}) == 3


def test_exact_draws_have_global_ids() -> None:
    key = jax.random.key(4)
    whole, part = (exact_draw_from_layers(key, LAYERS, ALPHA, 9 - first, first) for first in (0, 4))
    np.testing.assert_array_equal(whole.tokens[4:], part.tokens)
    assert len(np.unique(whole.tokens, axis=0)) > 3


def test_expectations_that_do_not_exist_are_refused() -> None:
    elsewhere = power_law(unroll(TABLE), ALPHA).law
    first = np.array([0.0, -np.inf, -np.inf])
    narrow = PROPOSAL._replace(
        log_conditional=lambda depth: PROPOSAL.log_conditional(depth) + first
    )
    for alpha, proposal, reference, says in (
        (0.0, PROPOSAL, POWER.law, "alpha 0"),
        (ALPHA, narrow, POWER.law, "support"),
        (ALPHA, PROPOSAL, elsewhere, "different layers"),
    ):
        with pytest.raises(InvalidInput, match=says):
            expected_conditional_log_evidence(alpha, proposal, reference, EVERY)


def test_only_exact_draws_are_taken() -> None:
    population = begin(MODEL, 2, 3)
    with pytest.raises(InvalidInput, match="reference of type tuple"):
        check_reference(tuple(reference()), population)
    with pytest.raises(InvalidInput, match="6000 references for 2 populations"):
        check_reference(reference(), population)
    generation = population.generation
    zeros = jnp.zeros(6, jnp.int32)
    state = RejectionState(generation, zeros > 0, zeros, zeros, jnp.zeros((), jnp.int32))
    with pytest.raises(InvalidInput, match="was accepted"):
        exact_draw_from_rejection(state, ALPHA)
    kept = exact_draw_from_rejection(state._replace(accepted=zeros == 0), ALPHA)
    assert kept.tokens.shape == (6, 4) and kept.alpha == ALPHA
