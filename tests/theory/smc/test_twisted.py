"""Twists: the optimal one leaves no variance, a wrong one no bias."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.smc.runs import (
    ALPHA,
    LAYERS,
    MODEL,
    POWER,
    as_law,
    begin,
    check_draws,
    check_evidence,
    check_records,
)
from theory.exact.enumeration import enumerate_prefixes
from theory.generation import Generation
from theory.ledger import totals
from theory.resampling.multinomial import multinomial
from theory.smc import (
    ExactTwist,
    Population,
    StepInfo,
    draw_one,
    every,
    exact_twist,
    temperature_proposal,
    twisted_smc,
    twisted_targets_smc,
)
from theory.smc.twisted import TwistRule

NUM = 8000
TWIST = exact_twist(POWER)
# Any finite numbers will do; these are wrong in both directions.
WRONG = TWIST._replace(
    log_lookahead=TWIST.log_lookahead * 0.5
    + jax.random.uniform(jax.random.key(0), TWIST.log_lookahead.shape, minval=-0.5, maxval=0.5)
)


@jax.jit
def induced(
    key: jax.Array, twist: ExactTwist
) -> tuple[Population, StepInfo, Generation, jax.Array]:
    after, info = twisted_smc(key, MODEL, twist, ALPHA, begin(MODEL, NUM, 2), multinomial, every(4))
    return after, info, *draw_one(key, MODEL, after)


@jax.jit
def targets(key: jax.Array, twist: ExactTwist) -> tuple[Population, StepInfo]:
    return twisted_targets_smc(
        key,
        MODEL,
        temperature_proposal(ALPHA),
        twist,
        ALPHA,
        begin(MODEL, NUM, 2),
        multinomial,
        every(4, block=2),
    )


def test_the_exact_twist_is_log_zeta_of_every_prefix() -> None:
    prefixes = enumerate_prefixes(LAYERS)
    tokens = np.zeros((len(prefixes), 4), np.int32)
    for row, prefix in enumerate(prefixes):
        tokens[row, : prefix.depth] = prefix.tokens
    lengths = jnp.asarray([prefix.depth for prefix in prefixes], jnp.int32)
    expected = [POWER.log_lookahead[prefix.depth][prefix.row] for prefix in prefixes]
    np.testing.assert_allclose(TWIST(jnp.asarray(tokens), lengths), expected, rtol=1e-6)
    # Over: by eos, with pads behind it, and at the horizon.
    over = jnp.asarray([[0, 2, 0, 0], [0, 0, 1, 0]], jnp.int32)
    assert TWIST(over, jnp.asarray([2, 4], jnp.int32)).tolist() == [0.0, 0.0]


def test_the_exact_twist_has_no_variance_and_draws_from_the_power_law() -> None:
    after, info, drawn, log_Z = induced(jax.random.key(1), TWIST)
    np.testing.assert_allclose(np.asarray(log_Z), POWER.log_Z, atol=1e-5)
    np.testing.assert_allclose(np.asarray(info.ess), 2.0, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(info.log_Z), POWER.log_Z, atol=1e-5)
    check_draws(drawn.trajectories, as_law(POWER.law))
    check_records(MODEL, after)


def test_a_wrong_twist_leaves_the_evidence_unbiased() -> None:
    _, info, _, log_Z = induced(jax.random.key(2), WRONG)
    check_evidence(log_Z, POWER.log_Z, smallest_bias=0.05)
    assert np.asarray(info.ess).min() < 1.99


@pytest.mark.parametrize("twist", [TWIST, WRONG])
def test_twisted_targets_with_any_proposal_are_unbiased(twist: ExactTwist) -> None:
    after, _ = targets(jax.random.key(3), twist)
    log_Z = jax.nn.logsumexp(after.log_weights, axis=1) - jnp.log(2.0)
    check_evidence(log_Z, POWER.log_Z, smallest_bias=0.08)


def test_a_twist_is_paid_for_by_the_child() -> None:
    """All children of every prefix that goes on, and a particle at its resampling; one particle alone is always its own child."""
    after, _ = jax.jit(
        lambda key: twisted_smc(
            key, MODEL, TWIST, ALPHA, begin(MODEL, 64, 1), multinomial, every(4, block=2)
        )
    )(jax.random.key(4))
    record, lengths = (
        totals(after.generation.ledger),
        np.asarray(after.generation.trajectories.lengths),
    )
    assert record["generated_tokens"] == lengths.sum()
    assert record["utility_calls"] == MODEL.vocab_size * lengths.sum() + (lengths > 2).sum()
    assert 0 < (lengths > 2).sum() < 64


def test_a_twist_that_forbids_truncates() -> None:
    assert not TwistRule(2.0, jnp.zeros((1, 3))).truncates()
    assert TwistRule(2.0, jnp.zeros((1, 3)).at[0, 1].set(-jnp.inf)).truncates()
