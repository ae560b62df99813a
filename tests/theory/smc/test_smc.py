"""SMC with a fixed proposal: unbiased evidence, its exact finite-N variance, the exact law of a final draw, and invariances."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from tests.theory.smc.runs import (
    ALPHA,
    MODEL,
    NEVER,
    POWER,
    begin,
    check_draws,
    check_evidence,
    check_records,
    check_variance,
    reference_law,
    reference_table,
)
from theory.decoding import TokenRule, temperature
from theory.errors import InvalidInput
from theory.exact import power_law, unroll
from theory.generation import Generation
from theory.importance import trajectory_log_weights
from theory.keys import row_keys
from theory.ledger import totals
from theory.protocols import Resampler
from theory.resampling.adaptive import ess_adaptive
from theory.resampling.chopthin import chopthin
from theory.resampling.multinomial import multinomial
from theory.resampling.systematic import systematic
from theory.smc import (
    Population,
    StepInfo,
    defensive_proposal,
    draw_one,
    every,
    log_evidence,
    smc,
    start_populations,
    temperature_proposal,
)
from theory.smc.population import particle_keys
from theory.smc.step import propose_by, resample, weigh

NUM = 4000
HALF = temperature_proposal(2.0)
FULL: tuple[TokenRule, ...] = (temperature(1.0),)  # the base, in the program of the temperature
ESS = ess_adaptive(systematic, 0.7)
EVERY = every(4)


@functools.partial(jax.jit, static_argnames=("resampler", "resample_after"))
def run(
    key: jax.Array,
    model: ContextModel,
    rules: tuple[TokenRule, ...],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
    alpha: float = ALPHA,
) -> tuple[Population, StepInfo, Generation, jax.Array]:
    after, info = smc(key, model, rules, alpha, population, resampler, resample_after)
    return after, info, *draw_one(key, model, after)


@pytest.mark.parametrize(
    ("resampler", "resample_after", "rules"),
    [
        (multinomial, EVERY, HALF),
        (multinomial, EVERY, FULL),
        (chopthin, every(4, block=2), defensive_proposal(2.0, 0.25)),
        (ESS, EVERY, HALF),
        (multinomial, NEVER, HALF),
    ],
)
def test_the_evidence_is_unbiased(
    resampler: Resampler, resample_after: tuple[int, ...], rules: tuple[TokenRule, ...]
) -> None:
    population = begin(MODEL, NUM, 4)
    _, info, _, log_Z = run(jax.random.key(1), MODEL, rules, population, resampler, resample_after)
    check_evidence(log_Z, POWER.log_Z, smallest_bias=0.08)
    # One number, which a compiler may sum in two orders.
    np.testing.assert_allclose(info.log_Z[-1], log_Z, rtol=1e-6)
    assert info.ess.shape == (len(resample_after) + 1, NUM)
    assert float(info.ess.min()) >= 1.0 and float(info.ess.max()) <= 4.0


def test_records_and_states_follow_their_rows() -> None:
    """Ancestors are applied to tokens, records, laws and the model's state alike."""
    after = run(jax.random.key(1), MODEL, HALF, begin(MODEL, NUM, 4), multinomial, EVERY)[0]
    check_records(MODEL, after)


def test_resampled_rows_go_on_from_their_own_tokens() -> None:
    """In mid-run: the next laws, and the laws after one more step, are those of a fresh start on the same tokens."""

    @jax.jit
    def half_way(key: jax.Array) -> tuple[Population, StepInfo]:
        population = begin(MODEL, 500, 4)
        keys, limits = (
            particle_keys(key, population),
            jnp.full(2000, 2, jnp.int32),
        )
        propose = propose_by(MODEL, HALF, ALPHA)
        after = propose(keys, population.generation, limits, jnp.zeros((), jnp.int32))
        weighed = weigh(population, after, ALPHA)
        resample_keys = row_keys(key, population.ids)
        return resample(resample_keys, MODEL, multinomial, weighed, jnp.zeros((500, 4)))

    after, info = half_way(jax.random.key(9))
    assert (np.asarray(info.ancestors) != np.arange(4)).any(axis=1).mean() > 0.5
    assert not np.asarray(after.generation.trajectories.ended).all()
    check_records(MODEL, after)


def test_what_was_spent_is_recorded() -> None:
    after, info, *_ = run(jax.random.key(1), MODEL, HALF, begin(MODEL, NUM, 4), multinomial, EVERY)
    record = totals(after.generation.ledger)
    ancestors = np.asarray(info.ancestors).reshape(-1, 4)
    died = 4 * len(ancestors) - sum(np.unique(row).size for row in ancestors)
    assert record["rollouts_commit"] == 4 * NUM
    assert record["rollouts_dropped"] == record["rollouts_branch"] == died
    assert record["generated_tokens"] == record["row_steps_useful"]


def test_only_populations_of_low_ess_are_resampled() -> None:
    info = run(jax.random.key(1), MODEL, HALF, begin(MODEL, NUM, 4), ESS, EVERY)[1]
    kept = (np.asarray(info.ancestors) == np.arange(4)).all(axis=2)
    assert 0.05 < kept[:-1].mean() < 0.95
    assert kept[np.asarray(info.ess) >= 2.8].all() and kept[-1].all()


def test_without_resampling_it_is_importance_sampling() -> None:
    after = run(jax.random.key(1), MODEL, HALF, begin(MODEL, NUM, 4), multinomial, NEVER)[0]
    rows = after.generation.trajectories
    alone = trajectory_log_weights(rows, ALPHA)
    np.testing.assert_allclose(after.log_weights.reshape(-1), alone, atol=1e-5)
    assert totals(after.generation.ledger)["generated_tokens"] == int(rows.lengths.sum())
    assert totals(after.generation.ledger)["model_calls"] == 1 + int(rows.lengths.max())


# Of case 1 (a tree with eos) a schedule with a pause, of case 3 (a chain of six steps with eos) every step.
@pytest.mark.parametrize(("number", "schedule"), [(1, 1), (1, 2), (3, 2)])
def test_two_particles_follow_the_reference(
    reference_cases: list[dict[str, Any]], number: int, schedule: int
) -> None:
    """Mean of Z_hat and the (biased) law of a final draw, against exact enumeration."""
    truth = [item for item in reference_cases[number]["smc"] if item["kind"] == "plain"][schedule]
    table = reference_table(number)
    rules = temperature_proposal(float(truth["alpha"]))
    model = ContextModel.from_table(table)
    resample_after = tuple(truth["resample_after_steps"])
    population = begin(model, 20_000, 2)
    _, _, drawn, log_Z = run(
        jax.random.key(2), model, rules, population, multinomial, resample_after
    )
    log_exact = float(np.log(truth["z_mean"]))
    check_evidence(log_Z, log_exact, smallest_bias=0.05)
    law = reference_law(truth["final_draw_law"])
    check_draws(drawn.trajectories, law)


@pytest.mark.parametrize(
    "num_particles", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (16, 64))]
)
def test_the_variance_is_the_exact_one(
    reference_cases: list[dict[str, Any]], num_particles: int
) -> None:
    """At every N, and not only in the limit."""
    truth = reference_cases[3]["smc_variance"][0]
    exact = next(item for item in truth["by_n"] if item["n"] == num_particles)
    table, alpha = reference_table(3), float(truth["alpha"])
    model, log_Z = ContextModel.from_table(table), power_law(unroll(table), alpha).log_Z
    population, rules = begin(model, 32_000, num_particles), temperature_proposal(alpha)
    _, _, _, log_Z_hat = run(jax.random.key(3), model, rules, population, multinomial, every(6))
    relative = exact["n_times_relative_variance"] / num_particles
    check_variance(log_Z_hat, log_Z, relative, smallest_bias=0.08)


def test_the_ledger_of_two_particles() -> None:
    """Weights 1, 3, no resampling, increments 2, 1: Z_hat is the mean of 2 and 3, and not 2 times 1.5."""
    before = begin(MODEL, 1, 2)._replace(log_weights=jnp.log(jnp.array([[1.0, 3.0]])))
    gains = jnp.log(jnp.array([2.0, 1.0]))
    rows = before.generation.trajectories
    longer = rows._replace(lengths=rows.lengths + 1, log_q=rows.log_q.at[:, 0].set(-gains))
    after = weigh(before, before.generation._replace(trajectories=longer), ALPHA)
    assert float(jnp.exp(log_evidence(after)[0])) == pytest.approx(2.5, rel=1e-6)


def test_one_particle_is_one_importance_weight() -> None:
    after, _, drawn, log_Z = run(
        jax.random.key(4), MODEL, HALF, begin(MODEL, 64, 1), multinomial, EVERY
    )
    np.testing.assert_allclose(log_Z, after.log_weights[:, 0], rtol=1e-6)
    weights = trajectory_log_weights(drawn.trajectories, ALPHA)
    np.testing.assert_allclose(log_Z, weights, rtol=1e-5, atol=1e-6)


def test_alpha_one_weighs_nothing() -> None:
    population = begin(MODEL, NUM, 4)
    after, info, _, log_Z = run(jax.random.key(5), MODEL, FULL, population, ESS, EVERY, alpha=1.0)
    assert np.abs(np.asarray(after.log_weights)).max() < 1e-6
    assert np.abs(np.asarray(log_Z)).max() < 1e-6
    plain = run(jax.random.key(5), MODEL, (), population, ESS, EVERY, alpha=1.0)
    assert (np.asarray(plain[0].log_weights) == 0).all() and (np.asarray(plain[3]) == 0).all()
    np.testing.assert_allclose(np.asarray(info.ess), 4.0, rtol=1e-6)
    assert (np.asarray(info.ancestors) == np.arange(4)).all()


def test_a_population_is_the_same_in_any_batch_and_order() -> None:
    population, half = begin(MODEL, NUM, 4), begin(MODEL, NUM // 2, 4, first=NUM // 2)
    turned = population._replace(ids=population.ids[::-1])
    whole, half, turned = (
        run(jax.random.key(6), MODEL, HALF, some, ESS, EVERY)[0]
        for some in (population, half, turned)
    )

    def tokens(population: Population) -> np.ndarray:
        return np.asarray(population.generation.trajectories.tokens).reshape(-1, 4, 4)

    np.testing.assert_array_equal(tokens(whole)[NUM // 2 :], tokens(half))
    np.testing.assert_array_equal(whole.log_weights[NUM // 2 :], half.log_weights)
    np.testing.assert_array_equal(tokens(whole)[::-1], tokens(turned))
    np.testing.assert_array_equal(np.asarray(whole.log_weights)[::-1], turned.log_weights)
    assert len({row.tobytes() for row in tokens(whole)}) > NUM / 4


def test_children_of_one_particle_go_different_ways() -> None:
    """All weight on one particle: its children share the prefix, and nothing else."""
    population = begin(MODEL, NUM, 4)
    one = jnp.where(jnp.arange(4) == 2, 0.0, -jnp.inf)[None, :]
    population = population._replace(log_weights=jnp.broadcast_to(one, (NUM, 4)))
    after, info, _, _ = run(jax.random.key(7), MODEL, HALF, population, multinomial, EVERY)
    assert (np.asarray(info.ancestors)[0] == 2).all()
    np.testing.assert_allclose(np.asarray(info.ess)[0], 1.0)
    rows = np.asarray(after.generation.trajectories.tokens).reshape(NUM, 4, 4)
    assert (rows[:, :, 0] == rows[:, :1, 0]).all()
    # Slots 0 and 1 with one parent at the last resampling, three tokens long and not ended.
    last = np.asarray(info.ancestors)[2]
    full = np.asarray(after.generation.trajectories.lengths).reshape(NUM, 4)[:, 0] == 4
    siblings = rows[full & (last[:, 0] == last[:, 1])]
    assert (siblings[:, 0, :3] == siblings[:, 1, :3]).all()
    assert 0.1 < (siblings[:, 0, 3] != siblings[:, 1, 3]).mean() < 0.9


def test_dead_populations_are_visible_and_leave_the_others_alone() -> None:
    population = begin(MODEL, NUM, 4)
    dead = population.log_weights.at[3].set(-jnp.inf).at[5, 1].set(jnp.nan)
    after, info, drawn, log_Z = run(
        jax.random.key(6), MODEL, HALF, population._replace(log_weights=dead), ESS, EVERY
    )
    assert np.isneginf(np.asarray(log_Z)).nonzero()[0].tolist() == [3]
    assert not np.isnan(np.asarray(after.log_weights)).any()
    assert (np.asarray(info.ess)[:, 3] == 0).all()
    assert int(drawn.trajectories.lengths[3]) == 0
    alive = run(jax.random.key(6), MODEL, HALF, population, ESS, EVERY)[0]
    np.testing.assert_array_equal(after.log_weights[6:], alive.log_weights[6:])


def test_prompts_belong_to_populations() -> None:
    """A prompt a: the first token follows row a of the chain."""
    prompts, lengths = jnp.array([[0], [1]]), jnp.array([1, 1])
    population = start_populations(MODEL, prompts, lengths, jnp.arange(2), 3)
    laws = np.exp(np.asarray(population.generation.log_probs)).reshape(2, 3, 3)
    np.testing.assert_allclose(laws[0], [[0.6, 0.1, 0.3]] * 3, rtol=1e-6)
    np.testing.assert_allclose(laws[1], [[0.2, 0.2, 0.6]] * 3, rtol=1e-6)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="particles 0"):
        begin(MODEL, 1, 0)
    for schedule in ((0,), (2, 2), (3, 1), (4,)):
        with pytest.raises(InvalidInput, match="resampling after"):
            smc(jax.random.key(0), MODEL, HALF, ALPHA, begin(MODEL, 1, 2), multinomial, schedule)
    with pytest.raises(InvalidInput, match="block 0"):
        every(4, block=0)
    with pytest.raises(InvalidInput, match="defensive share 1"):
        defensive_proposal(2.0, 1.0)
    with pytest.raises(InvalidInput, match="alpha 0"):
        temperature_proposal(0.0)
    assert every(4) == (1, 2, 3) and every(5, block=2) == (2, 4) and every(1) == ()


def test_a_defensive_mixture_bounds_the_weights() -> None:
    rules, schedule = defensive_proposal(2.0, 0.25), every(4, block=2)
    after = run(jax.random.key(1), MODEL, rules, begin(MODEL, NUM, 4), chopthin, schedule)[0]
    rows = after.generation.trajectories
    inside = np.arange(4) < np.asarray(rows.lengths)[:, None]
    p, z, q = (np.exp(np.asarray(x, np.float64)) for x in (rows.log_p, rows.log_z, rows.log_q))
    np.testing.assert_allclose(q[inside], (0.75 * p**2 / z + 0.25 * p)[inside], rtol=1e-5)
    assert (p**2 / q)[inside].max() <= 4.0
