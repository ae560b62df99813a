"""Child twists: the exact one leaves no variance, a wrong one no bias and just the variance of the pair recursion."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.planted_bugs.damage import twists as exact
from tests.planted_bugs.damage.twists import ALPHA, LAYERS, MODEL, POWER
from tests.stat_asserts import assert_rejected
from tests.theory.smc.runs import (
    NEVER,
    begin,
    check_evidence,
    check_records,
    check_variance,
)
from theory.exact.smc_finite_variance import adapted_relative_variance, twisted_relative_variance
from theory.ledger import totals
from theory.resampling.multinomial import multinomial
from theory.smc import (
    ExactTwist,
    Population,
    StepInfo,
    asking_each_child,
    child_twisted_smc,
    every,
    log_evidence,
    no_twist,
)
from theory.smc.child_twist import log_backup

NUM, N = 12_000, 3


@jax.jit
def run(key: jax.Array, twist: ExactTwist) -> tuple[Population, StepInfo]:
    children = asking_each_child(twist, MODEL)
    return child_twisted_smc(
        key, MODEL, children, ALPHA, begin(MODEL, NUM, N), multinomial, every(4)
    )


def test_the_exact_twist_has_no_variance() -> None:
    after, info = run(jax.random.key(1), exact.TWIST)
    np.testing.assert_allclose(np.asarray(log_evidence(after)), POWER.log_Z, atol=1e-5)
    np.testing.assert_allclose(np.asarray(info.ess), N, rtol=1e-5)
    check_records(MODEL, after)


def test_a_wrong_twist_has_the_exact_variance_and_no_bias() -> None:
    after, info = run(jax.random.key(2), exact.WRONG)
    proposal, log_twist = exact.induced_law(exact.WRONG)
    variance = twisted_relative_variance(POWER, proposal, log_twist, N)
    log_Z_hat = log_evidence(after)
    check_evidence(log_Z_hat, POWER.log_Z, smallest_bias=0.05)
    check_variance(log_Z_hat, POWER.log_Z, variance, smallest_bias=0.35)
    # The normaliser of the twisted target after two tokens is another number.
    assert_rejected(lambda: check_evidence(info.log_Z[1], POWER.log_Z, smallest_bias=0.05))


def test_without_a_twist_it_is_the_adapted_filter() -> None:
    """Psi = 1 is no table of zeros for the exact recursion: its backup is z."""
    zero = exact.TWIST._replace(log_lookahead=jnp.zeros_like(exact.TWIST.log_lookahead))
    ours = twisted_relative_variance(POWER, *exact.induced_law(zero), N)
    assert ours == adapted_relative_variance(LAYERS, ALPHA, N)
    after, _ = jax.jit(
        lambda key: child_twisted_smc(
            key, MODEL, no_twist, ALPHA, begin(MODEL, 4, 2), multinomial, NEVER
        )
    )(jax.random.key(3))
    rows = after.generation.trajectories
    # Importance sampling from temperature: log w is the sum of log z.
    log_z = np.asarray(rows.log_z, np.float64).sum(axis=1)
    np.testing.assert_allclose(np.asarray(after.log_weights).ravel(), log_z, rtol=1e-4, atol=1e-5)


def test_a_prefix_is_paid_for_once_a_token_and_once_a_resampling() -> None:
    after, _ = jax.jit(
        lambda key: child_twisted_smc(
            key, MODEL, no_twist, ALPHA, begin(MODEL, 64, 1), multinomial, every(4, block=2)
        )
    )(jax.random.key(4))
    lengths = np.asarray(after.generation.trajectories.lengths)
    calls = totals(after.generation.ledger)["utility_calls"]
    assert calls == lengths.sum() + (lengths > 2).sum()


def test_a_backup_is_the_sum_of_what_is_possible() -> None:
    law = jnp.log(jnp.array([0.5, 0.3, 0.2, 0.0]))
    twist = jnp.array([0.1, -0.2, 0.7, 5.0])
    expected = np.log(np.array([0.5, 0.3, 0.2]) ** 3 @ np.exp([0.1, -0.2, 0.7]))
    assert float(log_backup(law, twist, 3.0)) == np.float32(expected)
    slopes = jax.grad(lambda t: log_backup(law, t, 3.0))(twist)
    assert np.isfinite(np.asarray(slopes)).all() and float(slopes[3]) == 0.0
