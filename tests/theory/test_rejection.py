"""Rejection: exact draws where the bound is one, and refused where none is known or it is not one."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from theory.decoding import TokenRule, temperature
from theory.errors import InvalidInput
from theory.exact import (
    base_law,
    enumerate_sequences,
    log_max_ratio,
    power_law,
    temperature_law,
    unroll,
)
from theory.ledger import totals
from theory.rejection import (
    RejectionState,
    check_complete,
    log_acceptance_rate,
    proven_log_bound,
    rejection_sample,
)

TABLE = toy_e()
MODEL = ContextModel.from_table(TABLE)
LAYERS = unroll(TABLE)
ALPHA = 2.0
POWER = power_law(LAYERS, ALPHA)
LISTED = enumerate_sequences((POWER.law,))
CELL = {tokens: cell for cell, tokens in enumerate(LISTED.sequences)}
NUM = 20_000
# Base and temperature are one compiled program: the temperature is a leaf.
BASE: tuple[TokenRule, ...] = (temperature(1.0),)
HALF: tuple[TokenRule, ...] = (temperature(0.5),)


@jax.jit
def run(
    key: jax.Array,
    rules: tuple[TokenRule, ...],
    log_bound: float,
    rows: jax.Array,
    max_rounds: int = 1000,
) -> RejectionState:
    prompts = jnp.zeros((rows.shape[0], 0), jnp.int32)
    lengths = jnp.zeros(rows.shape[0], jnp.int32)
    return rejection_sample(key, MODEL, rules, ALPHA, log_bound, prompts, lengths, rows, max_rounds)


def counts(state: RejectionState) -> np.ndarray:
    rows = state.generation.trajectories
    tokens, lengths = np.asarray(rows.tokens), np.asarray(rows.lengths)
    cells = [CELL[tuple(row[:n].tolist())] for row, n in zip(tokens, lengths, strict=True)]
    return np.bincount(cells, minlength=len(CELL))


@pytest.mark.parametrize(
    ("rules", "beta", "exact_bound"),
    [
        pytest.param(BASE, 1.0, False, marks=pytest.mark.slow),
        pytest.param(HALF, 2.0, False, marks=pytest.mark.slow),
        pytest.param(BASE, 1.0, True, marks=pytest.mark.slow),
        (HALF, 2.0, True),
    ],
)
def test_draws_are_exact_and_as_many_proposals_are_needed_as_said(
    rules: tuple[TokenRule, ...], beta: float, exact_bound: bool
) -> None:
    law = temperature_law(LAYERS, beta)
    log_bound = proven_log_bound(ALPHA, beta, 3, 4)
    assert log_bound == 0.0
    if exact_bound:
        tight = log_max_ratio(POWER.law, law) + POWER.log_Z
        assert tight < log_bound
        log_bound = tight
    state = run(jax.random.key(int(10 * beta + exact_bound)), rules, log_bound, jnp.arange(NUM))
    check_complete(state)
    assert_counts(counts(state), np.exp(LISTED.log_probs[0]))
    expected = math.exp(-log_acceptance_rate(POWER.log_Z, log_bound))
    assert_mean(np.asarray(state.num_proposals), expected, smallest_bias=0.1 * expected)
    assert int(state.num_proposals.max()) == int(state.num_rounds)
    assert totals(state.generation.ledger)["generated_tokens"] > int(
        state.generation.trajectories.lengths.sum()
    )


def test_too_small_a_bound_is_seen_both_ways() -> None:
    """With half the largest weight for a bound the law is that of min(w, M): rejected, and said so."""
    law = temperature_law(LAYERS, 2.0)
    log_bound = log_max_ratio(POWER.law, law) + POWER.log_Z - math.log(2)
    state = run(jax.random.key(5), HALF, log_bound, jnp.arange(NUM))
    with pytest.raises(InvalidInput, match=r"above the log bound.*--log-bound"):
        check_complete(state)
    assert_rejected(lambda: assert_counts(counts(state), np.exp(LISTED.log_probs[0])))


def test_running_out_of_rounds_is_an_error_that_names_the_row() -> None:
    state = run(jax.random.key(6), BASE, 30.0, jnp.arange(NUM), max_rounds=3)
    assert not bool(state.accepted.any())
    assert np.unique(state.num_proposals).tolist() == [3]
    assert not np.asarray(state.generation.trajectories.lengths).any()
    with pytest.raises(InvalidInput, match="row 0: none of 3 proposals was accepted"):
        check_complete(state)


@pytest.mark.slow
def test_a_row_is_the_same_in_any_batch() -> None:
    whole = run(jax.random.key(7), HALF, 0.0, jnp.arange(NUM))
    part = run(jax.random.key(7), HALF, 0.0, jnp.arange(16, 24))
    a, b = whole.generation.trajectories, part.generation.trajectories
    np.testing.assert_array_equal(np.asarray(a.tokens)[16:24], np.asarray(b.tokens))
    np.testing.assert_array_equal(np.asarray(a.log_p)[16:24], np.asarray(b.log_p))
    # Vectorised exponentials may differ in the last bit between sizes of a batch.
    np.testing.assert_allclose(np.asarray(a.log_q)[16:24], np.asarray(b.log_q), rtol=1e-6)
    np.testing.assert_array_equal(whole.num_proposals[16:24], part.num_proposals)


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 1.0), (4.0, 2.5), (1.0, 0.5), (0.5, 0.5)])
def test_the_proven_bound_is_one(alpha: float, beta: float) -> None:
    power, law = power_law(LAYERS, alpha), temperature_law(LAYERS, beta)
    largest = log_max_ratio(power.law, law) + power.log_Z
    assert largest <= proven_log_bound(alpha, beta, 3, 4) + 1e-12


def test_the_proven_bound_is_reached_by_uniform_tokens() -> None:
    """V equal tokens, alpha = beta = 1/2: z = V^(1/2) at each of T steps, so that the bound is tight."""
    from models.tabular.constructors import geometric_table

    layers = unroll(geometric_table((0.25, 0.25, 0.25, 0.25), eos=(), horizon=3))
    power, law = power_law(layers, 0.5), temperature_law(layers, 0.5)
    assert log_max_ratio(power.law, law) + power.log_Z == pytest.approx(
        proven_log_bound(0.5, 0.5, 4, 3), rel=1e-12
    )


def test_no_bound_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--log-bound"):
        proven_log_bound(2.0, 3.0, 3, 4)
    with pytest.raises(InvalidInput, match="--log-bound"):
        proven_log_bound(0.5, 1.0, 3, 4)
    with pytest.raises(InvalidInput, match="alpha -1"):
        proven_log_bound(-1.0, 1.0, 3, 4)
    # Nor is there one: without eos the ratio p^(alpha - beta) grows without limit as rows get longer.
    ratio = log_max_ratio(power_law(LAYERS, 0.5).law, base_law(LAYERS))
    assert ratio + power_law(LAYERS, 0.5).log_Z > 0


def test_rows_that_have_accepted_draw_nothing_more() -> None:
    """What a batch spends is what its rows spend alone."""
    whole = run(jax.random.key(8), HALF, 0.0, jnp.arange(6))
    alone = [run(jax.random.key(8), HALF, 0.0, jnp.arange(row, row + 1)) for row in range(6)]
    records = [totals(state.generation.ledger) for state in alone]
    together = totals(whole.generation.ledger)
    assert len(np.unique(whole.num_proposals)) > 1
    for name in ("generated_tokens", "row_steps_useful", "rollouts_commit", "rollouts_dropped"):
        assert together[name] == sum(record[name] for record in records), name
