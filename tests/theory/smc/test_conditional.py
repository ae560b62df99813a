"""Conditional SMC: the reference stays, and a draw from around an exact draw is an exact draw."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tests.stat_asserts import assert_rejected
from tests.theory.smc.runs import ALPHA, MODEL, POWER, as_law, begin, check_draws, check_records
from theory.generation import Generation
from theory.rejection import RejectionState, check_complete, rejection_sample
from theory.resampling.conditional import conditional_multinomial
from theory.smc import (
    Population,
    StepInfo,
    conditional_smc,
    draw_one,
    every,
    temperature_proposal,
)

NUM = 20_000
RULES = temperature_proposal(ALPHA)


@jax.jit
def exact_draws(key: jax.Array) -> RejectionState:
    prompts, lengths = jnp.zeros((NUM, 0), jnp.int32), jnp.zeros(NUM, jnp.int32)
    return rejection_sample(key, MODEL, RULES, ALPHA, 0.0, prompts, lengths, jnp.arange(NUM), 1000)


@jax.jit
def sweep(key: jax.Array, reference: Generation) -> tuple[Population, StepInfo, Generation]:
    population = begin(MODEL, NUM, 4)
    after, info = conditional_smc(
        key, MODEL, RULES, ALPHA, reference, population, conditional_multinomial, every(4)
    )
    return after, info, draw_one(key, MODEL, after)[0]


@functools.cache
def reference() -> Generation:
    state = exact_draws(jax.random.key(1))
    check_complete(state)
    return state.generation


def test_a_sweep_leaves_the_power_law_as_it_is() -> None:
    after, info, drawn = sweep(jax.random.key(2), reference())
    check_draws(drawn.trajectories, as_law(POWER.law))
    check_records(MODEL, after)
    rows = after.generation.trajectories.tokens.reshape(NUM, 4, 4)
    np.testing.assert_array_equal(rows[:, 0], reference().trajectories.tokens)
    assert (np.asarray(info.ancestors)[:, :, 0] == 0).all()
    moved = np.asarray(drawn.trajectories.tokens != reference().trajectories.tokens).any(axis=1)
    assert 0.1 < moved.mean() < 0.9


def test_a_reference_that_weighs_its_whole_row_at_every_step_is_seen() -> None:
    """The others are weighed by their last token and the reference by all of it, again and again: rejected."""
    rows = reference().trajectories
    inside = jnp.arange(4)[None, :] < rows.lengths[:, None]
    gains = jnp.where(inside, ALPHA * rows.log_p - rows.log_q, 0.0)
    whole = jnp.broadcast_to(gains.sum(axis=1, keepdims=True), gains.shape)
    again = rows._replace(log_q=jnp.where(inside, ALPHA * rows.log_p - whole, 0.0))
    drawn = sweep(jax.random.key(2), reference()._replace(trajectories=again))[2]
    assert_rejected(lambda: check_draws(drawn.trajectories, as_law(POWER.law)))
