"""Fitted twists against exact log zeta, and what the head on laws sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.twists.fit import Schedule, TwistLoss, fit_twist
from models.twists.law_head import LawHead, init_law_head, law_features
from tests.planted_bugs.damage import twists as exact
from tests.planted_bugs.damage.twists import ALPHA, LAYERS, MODEL, POWER, TWIST
from tests.theory.smc.runs import begin
from theory.exact.smc_finite_variance import adapted_relative_variance, twisted_relative_variance
from theory.resampling.multinomial import multinomial
from theory.smc import (
    ChildTwist,
    Prefixes,
    asking_each_child,
    child_twisted_smc,
    contrastive_loss_of_draws,
    every,
    log_evidence,
    smc,
    soft_bellman_loss,
    temperature_proposal,
    twist_rows,
)
from theory.smc.twist_losses import TwistRows

# Heads are trained.
pytestmark = pytest.mark.slow


def soft_bellman(values: jax.Array, rows: TwistRows) -> jax.Array:
    return soft_bellman_loss(values, rows, ALPHA)


def table_twist(log_lookahead: jax.Array) -> ChildTwist:
    return asking_each_child(TWIST._replace(log_lookahead=log_lookahead), MODEL)


def itself(head: LawHead) -> ChildTwist:
    return head


@pytest.fixture(scope="module")
def rows() -> TwistRows:
    """Drawn from temperature."""

    @jax.jit
    def draw(key: jax.Array) -> TwistRows:
        rules, start = temperature_proposal(ALPHA), begin(MODEL, 2048, 1)
        after, _ = smc(key, MODEL, rules, ALPHA, start, multinomial, ())
        empty = jnp.zeros((2048, 0), jnp.int32), jnp.zeros(2048, jnp.int32)
        return twist_rows(MODEL, *empty, after.generation.trajectories, ALPHA)

    return draw(jax.random.key(0))


@pytest.mark.parametrize(
    ("loss", "schedule", "tolerance", "share"),
    [
        (soft_bellman, Schedule(300, 256, 0.1), 1e-4, 1e-6),
        (contrastive_loss_of_draws, Schedule(300, 512, 0.1), 0.05, 1e-3),
    ],
)
def test_one_number_a_context_learns_log_zeta(
    loss: TwistLoss, schedule: Schedule, tolerance: float, share: float, rows: TwistRows
) -> None:
    """From psi = 1, and the exact variance of Z_hat falls to a small share of that without a twist."""
    start = jnp.zeros_like(TWIST.log_lookahead)
    found, _ = fit_twist(jax.random.key(1), start, table_twist, loss, MODEL, rows, schedule)
    for depth in range(1, len(LAYERS)):
        size = LAYERS[depth].contexts.size
        truth = POWER.log_lookahead[depth]
        np.testing.assert_allclose(np.asarray(found[depth, :size]), truth, atol=tolerance)
    twist = TWIST._replace(log_lookahead=found)
    with_twist = twisted_relative_variance(POWER, *exact.induced_law(twist), 4)
    assert with_twist < share * adapted_relative_variance(LAYERS, ALPHA, 4)


def test_a_head_on_laws_lowers_the_variance_without_bias(rows: TwistRows) -> None:
    start = init_law_head(jax.random.key(2), MODEL.vocab_size, MODEL.horizon, 32, 1)
    schedule = Schedule(300, 128, 0.03)
    head, losses = fit_twist(jax.random.key(1), start, itself, soft_bellman, MODEL, rows, schedule)
    assert float(losses[-1]) < 1e-3 * float(losses[0])

    @jax.jit
    def deviations(twist: LawHead) -> jax.Array:
        begun = begin(MODEL, 500, 4)
        after, _ = child_twisted_smc(
            jax.random.key(3), MODEL, twist, ALPHA, begun, multinomial, every(MODEL.horizon)
        )
        return log_evidence(after) - POWER.log_Z

    assert np.square(deviations(head)).mean() < 0.01 * np.square(deviations(start)).mean()


def test_a_new_head_says_nothing() -> None:
    head = init_law_head(jax.random.key(0), 3, 4, 5, 2)
    laws = jax.nn.log_softmax(jax.random.normal(jax.random.key(1), (6, 3)))
    prefixes = Prefixes(jnp.zeros((6, 4), jnp.int32), jnp.zeros(6, jnp.int32), laws)
    np.testing.assert_array_equal(head(prefixes), 0.0)
    draws = jax.random.normal(jax.random.key(0), (3 * 3 + 4 + 3, 5))
    np.testing.assert_allclose(head.hidden, draws / 4, rtol=1e-6)  # of 16 features


def test_features_are_of_the_law_the_last_tokens_and_the_position() -> None:
    law = np.array([0.5, 0.25, 0.25, 0.0])
    with np.errstate(divide="ignore"):
        laws = jnp.asarray(np.log(np.tile(law, (4, 1))), jnp.float32)
    tokens = jnp.array([[3, 3, 3], [3, 2, 0], [1, 2, 0], [1, 2, 0]], jnp.int32)
    lengths = jnp.array([0, 1, 2, 3], jnp.int32)
    found = np.asarray(law_features(Prefixes(tokens, lengths, laws), 2))
    summary = [1.5 * np.log(2), np.log(0.375), np.log(0.5)]
    none, token = np.zeros(4), np.eye(4)
    expected = [
        [*law, *summary, *none, *none, 1.0, 0.0, 0.0],
        # What stands past the length is not read; at the horizon there is no place left.
        [*law, *summary, *token[3], *none, 0.0, 1.0, 0.0],
        [*law, *summary, *token[2], *token[1], 0.0, 0.0, 1.0],
        [*law, *summary, *token[0], *token[2], 0.0, 0.0, 0.0],
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_first_step_is_the_rate(rows: TwistRows) -> None:
    """Adam's, whatever the slope; contexts that no row reaches stay where they are."""
    start = jnp.zeros_like(TWIST.log_lookahead)
    after, losses = fit_twist(
        jax.random.key(1), start, table_twist, soft_bellman, MODEL, rows, Schedule(1, 64, 0.1)
    )
    moved = np.abs(np.asarray(after))
    np.testing.assert_allclose(moved[moved > 0], 0.1, rtol=1e-3)
    assert losses.shape == (1,) and (moved > 0).any()
