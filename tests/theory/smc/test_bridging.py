"""Exponent bridging: wherever the ramp ends, the weights are those of p^alpha."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.smc.runs import ALPHA, LAYERS, MODEL, POWER, begin, check_evidence
from theory.errors import InvalidInput
from theory.exact import base_law, enumerate_sequences
from theory.importance import trajectory_log_weights
from theory.resampling.multinomial import multinomial
from theory.smc import (
    Population,
    StepInfo,
    bridged_smc,
    every,
    linear_ramp,
    log_evidence,
    smc,
    temperature_proposal,
)

NUM = 8000
EVERY = every(4)
SHORT = linear_ramp(ALPHA, 2, EVERY, 4)  # 1, 1.5, 2, 2
LONG = linear_ramp(
    ALPHA, 10, EVERY, 4
)  # 1, 1.1, 1.2, 1.3: every row has ended before alpha is reached


@jax.jit
def run(key: jax.Array, exponents: jax.Array) -> tuple[Population, StepInfo, jax.Array]:
    population = begin(MODEL, NUM, 4)
    after, info = bridged_smc(key, MODEL, exponents, ALPHA, population, multinomial, EVERY)
    return after, info, log_evidence(after)


@pytest.mark.parametrize("exponents", [SHORT, LONG])
def test_the_evidence_is_that_of_alpha_wherever_the_ramp_ends(exponents: jax.Array) -> None:
    _, info, log_Z = run(jax.random.key(1), exponents)
    check_evidence(log_Z, POWER.log_Z, smallest_bias=0.05)
    # One number, which a compiler may sum in two orders.
    np.testing.assert_allclose(info.log_Z[-1], log_Z, rtol=1e-6)


def test_each_stage_estimates_the_normaliser_of_its_own_exponent() -> None:
    """After two tokens: sum over prefixes of p(x)^a_1, an ended sequence counted as it is."""
    info = run(jax.random.key(2), LONG)[1]
    listed = enumerate_sequences((base_law(LAYERS),))
    prefixes: dict[tuple[int, ...], float] = {}
    for tokens, log_p in zip(listed.sequences, listed.log_probs[0], strict=True):
        prefixes[tokens[:2]] = prefixes.get(tokens[:2], 0.0) + math.exp(log_p)
    exponent = float(LONG[1])
    log_Z = math.log(math.fsum(p**exponent for p in prefixes.values()))
    check_evidence(info.log_Z[1], log_Z, smallest_bias=0.01)


@pytest.mark.slow
def test_without_a_bridge_it_is_smc() -> None:
    bridged = run(jax.random.key(3), jnp.full(4, ALPHA))[0]
    population, rules = begin(MODEL, NUM, 4), temperature_proposal(ALPHA)
    plain, _ = jax.jit(lambda key: smc(key, MODEL, rules, ALPHA, population, multinomial, EVERY))(
        jax.random.key(3)
    )
    same = bridged.generation.trajectories.tokens == plain.generation.trajectories.tokens
    assert float(same.all(axis=1).mean()) > 0.999
    np.testing.assert_allclose(log_evidence(bridged), log_evidence(plain), atol=1e-2)


def test_rows_that_ended_inside_the_ramp_are_weighed_at_alpha() -> None:
    """With one particle nothing is resampled away: its weight is that of its row, however mild the exponents were."""
    population = begin(MODEL, 64, 1)
    after, _ = bridged_smc(jax.random.key(4), MODEL, LONG, ALPHA, population, multinomial, EVERY)
    rows = after.generation.trajectories
    expected = trajectory_log_weights(rows, ALPHA)
    np.testing.assert_allclose(after.log_weights[:, 0], expected, atol=1e-5)
    assert int(rows.lengths.min()) == 1


def test_a_ramp_rises_linearly_in_the_tokens() -> None:
    np.testing.assert_allclose(linear_ramp(3.0, 4, (1, 2, 3), 5), [1.0, 1.5, 2.0, 2.5])
    np.testing.assert_allclose(linear_ramp(0.5, 2, (1, 2, 4), 9), [1.0, 0.75, 0.5, 0.5])
    np.testing.assert_allclose(linear_ramp(2.0, 10, (), 5), [1.0])


def test_bad_ramps_are_refused() -> None:
    with pytest.raises(InvalidInput, match="ramp of 0 tokens"):
        linear_ramp(2.0, 0, EVERY, 4)
    with pytest.raises(InvalidInput, match="alpha 0"):
        linear_ramp(0.0, 2, EVERY, 4)
    with pytest.raises(InvalidInput, match="3 exponents for 4 stages"):
        bridged_smc(
            jax.random.key(0), MODEL, jnp.ones(3), ALPHA, begin(MODEL, 1, 2), multinomial, EVERY
        )
