"""Losses of twists: log zeta is where they are least, and their gradients are those of what they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.planted_bugs import twists as planted
from tests.planted_bugs.damage import twists as exact
from tests.planted_bugs.damage.twists import ALPHA, MODEL, POWER
from tests.theory.smc.runs import begin
from theory.importance import token_log_weights
from theory.resampling.multinomial import multinomial
from theory.smc import (
    ExactTwist,
    Prefixes,
    asking_each_child,
    children_along,
    contrastive_loss,
    contrastive_loss_of_draws,
    smc,
    soft_bellman_loss,
    temperature_proposal,
    twist_rows,
)
from theory.smc.child_twist import log_backup
from theory.smc.twist_losses import TwistRows, along_rows

_, ROWS = exact.all_rows(1.0)


def values_of(twist: ExactTwist, rows: TwistRows) -> jax.Array:
    return children_along(asking_each_child(twist, MODEL), MODEL, rows)


def test_values_along_rows_are_those_of_their_prefixes() -> None:
    own = np.asarray(along_rows(values_of(exact.WRONG, ROWS), ROWS))
    for place in range(MODEL.horizon):
        prefixes = jnp.where(jnp.arange(MODEL.horizon) <= place, ROWS.tokens, 0)
        lengths = jnp.full(len(own), place + 1, jnp.int32)
        expected = np.where(ROWS.lengths > place + 1, exact.WRONG(prefixes, lengths), 0.0)
        np.testing.assert_allclose(own[:, place], expected, atol=1e-6)


def test_a_twist_is_asked_with_the_prefix_alone_and_its_law() -> None:
    """Of every row at every place, what it was given comes back as the value of token 0, 1, ..."""

    def told(prefixes: Prefixes) -> jax.Array:
        powers = 3.0 ** jnp.arange(MODEL.horizon, dtype=jnp.float32)
        code = jnp.sum((prefixes.tokens.astype(jnp.float32) + 1) * powers[None, :], axis=1)
        return jnp.stack([code, jnp.exp(prefixes.log_probs[:, 0])], axis=1)[:, (0, 1, 1)]

    values = np.asarray(children_along(told, MODEL, ROWS))
    for place in range(MODEL.horizon - 1):
        kept = np.where(np.arange(MODEL.horizon) < place, np.asarray(ROWS.tokens), 0)
        code = (kept + 1) @ 3.0 ** np.arange(MODEL.horizon)
        np.testing.assert_array_equal(values[:, place, 0], code)
        law = np.exp(np.asarray(ROWS.log_probs[:, place, 0]))
        np.testing.assert_allclose(values[:, place, 1], law, rtol=1e-6)


def test_the_regression_is_least_at_log_zeta() -> None:
    values = values_of(exact.TWIST, ROWS)
    assert float(soft_bellman_loss(values, ROWS, ALPHA)) < 1e-11
    root = log_backup(ROWS.log_probs[:, 0], values[:, 0], ALPHA)
    np.testing.assert_allclose(np.asarray(root), POWER.log_Z, rtol=1e-6)


def test_the_regression_is_a_mean_square_with_fixed_targets() -> None:
    def loss(log_lookahead: jax.Array) -> jax.Array:
        twist = exact.WRONG._replace(log_lookahead=log_lookahead)
        return soft_bellman_loss(values_of(twist, ROWS), ROWS, ALPHA)

    value, slopes = jax.value_and_grad(loss)(exact.WRONG.log_lookahead)
    values = np.asarray(values_of(exact.WRONG, ROWS), np.float64)
    squares, by_hand = [], np.zeros(exact.WRONG.log_lookahead.shape)
    for row, (tokens, length) in enumerate(zip(ROWS.tokens, ROWS.lengths, strict=True)):
        context = 0
        for t in range(1, int(length)):
            context = int(exact.LAYERS[t - 1].successor[context, int(tokens[t - 1])])
            terms = ALPHA * np.asarray(ROWS.log_probs[row, t], np.float64) + values[row, t]
            error = values[row, t - 1, int(tokens[t - 1])] - np.logaddexp.reduce(terms)
            squares.append(error**2)
            by_hand[t, context] += 2 * error
    assert float(value) == pytest.approx(np.mean(squares), rel=1e-5)
    np.testing.assert_allclose(np.asarray(slopes), by_hand / len(squares), rtol=1e-4, atol=1e-6)


def test_rows_of_one_token_teach_nothing() -> None:
    rows = jax.tree.map(lambda leaf: leaf[ROWS.lengths == 1], ROWS)
    assert float(soft_bellman_loss(values_of(exact.WRONG, rows), rows, ALPHA)) == 0.0


@pytest.mark.parametrize("proposal_alpha", [1.0, 2.0])
def test_the_contrastive_gradient_vanishes_at_log_zeta(proposal_alpha: float) -> None:
    slopes = exact.slopes(contrastive_loss, exact.TWIST, proposal_alpha)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)
    wrong = exact.slopes(planted.negatives_without_their_twist, exact.TWIST, proposal_alpha)
    assert np.abs(wrong).max() > 0.05


def test_the_contrastive_gradient_is_that_of_the_divergences() -> None:
    assert exact.of_gradient(contrastive_loss) < 1e-5
    assert exact.of_gradient(planted.negatives_without_their_twist) > 0.5
    assert exact.of_gradient(planted.differentiated_through_the_weights) > 0.1


def test_one_set_of_draws_serves_both_sides() -> None:
    values = values_of(exact.WRONG, ROWS)
    own, gains = (np.asarray(x, np.float64) for x in (along_rows(values, ROWS), ROWS.log_gains))
    whole = np.exp(gains.sum(axis=1))
    expected = 0.0
    for t in range(MODEL.horizon):
        seen = np.exp(gains[:, : t + 1].sum(axis=1) + own[:, t])
        expected += seen @ own[:, t] / seen.sum() - whole @ own[:, t] / whole.sum()
    assert float(contrastive_loss_of_draws(values, ROWS)) == pytest.approx(expected, rel=1e-5)


def test_rows_keep_the_laws_they_were_drawn_from() -> None:
    after, _ = smc(
        jax.random.key(0),
        MODEL,
        temperature_proposal(ALPHA),
        ALPHA,
        begin(MODEL, 8, 4),
        multinomial,
        (),
    )
    drawn = after.generation.trajectories
    empty = jnp.zeros((32, 0), jnp.int32), jnp.zeros(32, jnp.int32)
    rows = twist_rows(MODEL, *empty, drawn, ALPHA)
    at = np.take_along_axis(np.asarray(rows.log_probs), np.asarray(drawn.tokens)[:, :, None], 2)
    inside = np.arange(MODEL.horizon) < np.asarray(drawn.lengths)[:, None]
    np.testing.assert_array_equal(at[..., 0][inside], np.asarray(drawn.log_p)[inside])
    np.testing.assert_array_equal(rows.log_gains, token_log_weights(drawn, ALPHA))
    assert np.isfinite(np.asarray(rows.log_probs)[~inside]).all()
