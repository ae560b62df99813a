"""Look-ahead estimates: exact expectations over all rollouts, the orders of their bias, and a filter that stays unbiased."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_b
from tests.planted_bugs import lookahead as planted
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from tests.theory.smc import all_outcomes as tree
from tests.theory.smc.runs import (
    LAYERS,
    MODEL,
    begin,
    check_draws,
    check_evidence,
    check_records,
)
from theory.decoding.temperature import Temperature
from theory.errors import InvalidInput
from theory.exact import power_law, temperature_law
from theory.exact.smc_finite_variance import every_step_relative_variance
from theory.generation import Generation, start
from theory.keys import row_keys
from theory.ledger import totals
from theory.log_weights import log_mean_weight
from theory.resampling.multinomial import multinomial
from theory.smc import (
    Population,
    StepInfo,
    every,
    log_evidence,
    lookahead_power_sampling,
    lookahead_smc,
)
from theory.smc.lookahead_law import (
    LookaheadRule,
    jackknife,
    log_jackknife_law,
    log_plug_in_law,
    next_token_law,
)
from theory.smc.step import run_steps
from theory.smc.zeta import log_terms, log_zeta_hat, roll_out, rollout_ess, with_candidates

Estimate = Callable[[jax.Array, jax.Array], jax.Array]
POWER_OF_FIRST = tree.FIRST**tree.ALPHA * tree.ZETA / np.exp(tree.LOG_Z)


def expected(estimate: Estimate, num_rollouts: int) -> np.ndarray:
    """E of an estimate of the law of the tree's first token, over all sets of rollouts, in float64."""
    log_p, probability = tree.rollout_tuples(num_rollouts)
    np.testing.assert_allclose(probability.sum(), 1.0, rtol=1e-12)
    with jax.enable_x64(True):
        log_power = jnp.asarray(tree.ALPHA * np.log(tree.FIRST))
        terms = log_terms(jnp.asarray(log_p), tree.ALPHA)
        values = estimate(jnp.broadcast_to(log_power, terms.shape[:2]), terms)
        return probability @ np.asarray(values)


def plug_in(log_power: jax.Array, terms: jax.Array) -> jax.Array:
    return jnp.exp(log_plug_in_law(log_power, terms))


def orders(estimate: Estimate) -> list[float]:
    """By which powers of 1/M the bias falls from M = 4 to 8 and from 8 to 16."""
    bias = [abs(expected(estimate, M)[0] - POWER_OF_FIRST[0]) for M in (4, 8, 16)]
    return [float(np.log2(bias[0] / bias[1])), float(np.log2(bias[1] / bias[2]))]


def test_the_bias_of_the_ratio_is_of_order_one_over_m() -> None:
    assert orders(plug_in)[1] == pytest.approx(1.0, abs=0.1)
    # Its coefficient: half the second derivatives times the variances of the terms (the delta method).
    a = tree.FIRST**tree.ALPHA
    squares = (tree.SECOND ** (2 * tree.ALPHA - 1)).sum(axis=1) - tree.ZETA**2
    total = np.exp(tree.LOG_Z)
    curve = np.array([-2 * a[0] ** 2 * a[1] * tree.ZETA[1], 2 * a[0] * a[1] ** 2 * tree.ZETA[0]])
    coefficient = float((curve / total**3 * squares).sum() / 2)
    bias = expected(plug_in, 16)[0] - POWER_OF_FIRST[0]
    assert 16 * bias == pytest.approx(coefficient, rel=0.1)


def test_the_jackknife_leaves_order_one_over_m_squared() -> None:
    assert orders(jackknife)[1] == pytest.approx(2.0, abs=0.25)
    # Negative numbers occur, so that the law that is drawn from is another one.
    log_p, _ = tree.rollout_tuples(2)
    power = jnp.asarray(tree.ALPHA * np.log(np.array([0.1, 0.9])), jnp.float32)
    terms = log_terms(jnp.asarray(log_p, jnp.float32), 8.0)
    raw = np.asarray(jackknife(jnp.broadcast_to(power, terms.shape[:2]), terms))
    assert raw.min() < 0
    np.testing.assert_allclose(raw.sum(axis=1), 1.0, rtol=1e-5)
    law = np.exp(log_jackknife_law(jnp.broadcast_to(power, terms.shape[:2]), terms))
    np.testing.assert_allclose(law, raw.clip(0) / raw.clip(0).sum(1, keepdims=True), atol=1e-6)


def test_a_jackknife_with_a_wrong_factor_keeps_the_bias() -> None:
    wrong = planted.jackknife_with_wrong_factor
    assert orders(wrong)[1] == pytest.approx(1.0, abs=0.1)
    right, kept = (expected(rule, 8)[0] - POWER_OF_FIRST[0] for rule in (jackknife, wrong))
    assert abs(kept) > 5 * abs(right)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_the_mean_of_terms_is_zeta_and_its_twins_are_not(alpha: float) -> None:
    log_p, probability = tree.rollout_tuples(3)
    zeta = (tree.SECOND**alpha).sum(axis=1)

    def mean(estimate: Callable[[jax.Array, float], jax.Array]) -> np.ndarray:
        with jax.enable_x64(True):
            return probability @ np.exp(np.asarray(estimate(jnp.asarray(log_p), alpha)))

    np.testing.assert_allclose(mean(log_zeta_hat), zeta, rtol=1e-12)
    np.testing.assert_allclose(
        mean(planted.log_zeta_with_alpha), (tree.SECOND ** (alpha + 1)).sum(axis=1), rtol=1e-12
    )
    if alpha == 3.0:
        geometric = (tree.SECOND ** (1 + (alpha - 1) / 3)).sum(axis=1) ** 3
        np.testing.assert_allclose(mean(planted.log_zeta_as_mean_of_logs), geometric, rtol=1e-12)
        assert (geometric < 0.99 * zeta).all()


def test_what_cannot_be_drawn_weighs_nothing_and_what_is_over_weighs_one() -> None:
    log_p = jnp.array([[0.0, 0.0], [-jnp.inf, -1.0], [-200.0, -300.0]])
    for alpha in (0.5, 1.0, 4.0):
        value = np.asarray(log_zeta_hat(log_p, alpha))
        assert value[0] == 0.0 and np.isfinite(value).all()
        assert value[1] == pytest.approx(-(alpha - 1) - np.log(2), abs=1e-6)
        assert np.asarray(rollout_ess(log_p, alpha))[:2].tolist() == [2.0, 1.0]


# Rows of toy E at the prefixes "", a, b and eos: replicates of each.
NUM = 6000
HEADS = jnp.repeat(jnp.arange(3, dtype=jnp.int32), NUM)


@functools.partial(jax.jit, static_argnames=("how", "num_tokens", "alpha"))
def zeta_of_heads(
    key: jax.Array, how: Callable[..., object], num_tokens: int, alpha: float = 2.0
) -> tuple[jax.Array, jax.Array]:
    generation = start(MODEL, jnp.zeros((3 * NUM, 0), jnp.int32), jnp.zeros(3 * NUM, jnp.int32))
    keys = row_keys(key, jnp.arange(3 * NUM))
    begun = roll_out(keys, MODEL, generation, 2, num_tokens) if how is roll_out else None
    ahead = with_candidates(MODEL, generation, HEADS[:, None])
    log_p = how(keys, MODEL, ahead, 2, num_tokens).log_p  # pyright: ignore[reportAttributeAccessIssue]
    whole = log_zeta_hat(begun.log_p, alpha) if begun is not None else log_zeta_hat(log_p, alpha)
    return whole, log_zeta_hat(log_p, alpha)


def check_zeta(log_zeta: jax.Array, truth: list[float]) -> None:
    values = np.exp(np.asarray(log_zeta, np.float64)).reshape(3, NUM)
    for row, zeta in zip(values, truth, strict=True):
        assert_mean(row / zeta, 1.0, smallest_bias=0.12)


def test_rollouts_of_the_model_estimate_zeta() -> None:
    power = power_law(LAYERS, 2.0)
    contexts = LAYERS[0].successor[0]
    truth = [float(np.exp(power.log_lookahead[1][contexts[v]])) for v in (0, 1)]
    whole, ahead = zeta_of_heads(jax.random.key(1), roll_out, 4)
    assert_mean(np.exp(np.asarray(whole, np.float64) - power.log_Z), 1.0, smallest_bias=0.1)
    assert (np.asarray(ahead)[2 * NUM :] == 0).all()
    values = np.exp(np.asarray(ahead, np.float64)).reshape(3, NUM)
    for row, zeta in zip(values, truth, strict=False):
        assert_mean(row / zeta, 1.0, smallest_bias=0.12)


def test_a_future_of_one_token_is_not_the_whole_one() -> None:
    """z of the next token: .46 after a and .44 after b at alpha = 2, where zeta is .2188 and .3904."""
    _, short = zeta_of_heads(jax.random.key(2), planted.roll_out_of_one_token, 4)
    values = np.exp(np.asarray(short, np.float64)).reshape(3, NUM)[:2].T
    assert_mean(values, np.array([0.46, 0.44]), smallest_bias=0.05)
    power = power_law(LAYERS, 2.0)
    zeta = np.exp(power.log_lookahead[1][LAYERS[0].successor[0][:2]])
    assert_rejected(lambda: assert_mean(values, zeta, smallest_bias=0.05))


def test_particles_at_one_prefix_look_into_different_futures() -> None:
    def agreements(how: Callable[..., object]) -> np.ndarray:
        _, ahead = zeta_of_heads(jax.random.key(3), how, 1)
        pairs = np.asarray(ahead)[:NUM].reshape(-1, 2)
        same = int((pairs[:, 0] == pairs[:, 1]).sum())
        return np.array([same, NUM // 2 - same])

    # Two rollouts of one token after a (.6, .1, .3), as multisets.
    law = np.array([0.6, 0.1, 0.3])
    sets = np.outer(law, law)
    chance = float((np.diag(sets) ** 2).sum() + ((2 * sets[np.triu_indices(3, 1)]) ** 2).sum())
    probs = np.array([chance, 1 - chance])
    assert_counts(agreements(roll_out), probs)
    assert_rejected(lambda: assert_counts(agreements(planted.roll_out_with_one_key), probs))


def run_all_outcomes(resampling: Callable[..., jax.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and Z_hat of everything that two particles can do on the tree, by the code of the filter."""
    tape = tree.outcomes()
    first, second = (jnp.asarray(t.reshape(-1), jnp.int32) for t in (tape.first, tape.second))
    log_p = jnp.asarray(tape.log_p_of_rollouts.reshape(-1, 2), jnp.float32)
    ancestors = jnp.asarray(tape.ancestors, jnp.int32)
    population = begin(tree.MODEL, 1024, 2)

    def propose(
        keys: jax.Array, generation: Generation, limits: jax.Array, stage: jax.Array
    ) -> Generation:
        return tree.teach(generation, jnp.where(stage == 0, first, second))

    def log_score(
        keys: jax.Array, generation: Generation, stage: jax.Array
    ) -> tuple[jax.Array, object]:
        return log_zeta_hat(log_p, tree.ALPHA), generation.ledger

    def resampler(key: jax.Array, log_weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        return ancestors, resampling(log_mean_weight(log_weights), ancestors)

    after, _ = run_steps(
        jax.random.key(0), tree.MODEL, tree.ALPHA, population, resampler, (1,), propose, log_score  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    score = np.log(np.exp((tree.ALPHA - 1) * tape.log_p_of_rollouts).mean(axis=2))
    return tape.probability(score), np.exp(np.asarray(log_evidence(after), np.float64))


def test_two_particles_are_unbiased_over_all_that_can_happen() -> None:
    def right(log_mean: jax.Array, ancestors: jax.Array) -> jax.Array:
        return jnp.broadcast_to(log_mean[:, None], ancestors.shape)

    probability, evidence = run_all_outcomes(right)
    np.testing.assert_allclose(probability.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(probability @ evidence, np.exp(tree.LOG_Z), rtol=1e-5)


def test_a_score_that_stays_in_the_weights_is_seen() -> None:
    """E[Z_hat] = sum over first tokens of p^alpha zeta E_{second ~ p}[...] zeta: a second future is paid for."""
    tape = tree.outcomes()
    score = np.log(np.exp((tree.ALPHA - 1) * tape.log_p_of_rollouts).mean(axis=2))
    of_parents = jnp.asarray(np.take_along_axis(score, tape.ancestors, axis=1), jnp.float32)

    def kept(log_mean: jax.Array, ancestors: jax.Array) -> jax.Array:
        # What the filter will take out is put in first.
        return planted.carried_with_score(log_mean, of_parents, ancestors) + of_parents

    probability, evidence = run_all_outcomes(kept)
    damage = float(tree.FIRST**tree.ALPHA @ tree.ZETA**2)
    np.testing.assert_allclose(probability @ evidence, damage, rtol=1e-5)
    assert damage < 0.6 * np.exp(tree.LOG_Z)


@functools.partial(jax.jit, static_argnames=("num_rollouts", "num_tokens"))
def run(
    key: jax.Array, population: Population, alpha: float, num_rollouts: int, num_tokens: int
) -> tuple[Population, StepInfo, jax.Array]:
    """From temperature 1/alpha."""
    rules = (Temperature(1.0 / jnp.asarray(alpha, jnp.float32)),)
    after, info = lookahead_smc(
        key, MODEL, rules, alpha, population, multinomial, every(4), num_rollouts, num_tokens
    )
    return after, info, log_evidence(after)


POPULATIONS = begin(MODEL, 6000, 4)


@pytest.mark.parametrize(("num_rollouts", "num_tokens"), [(1, 1), (3, 4)])
def test_the_evidence_is_unbiased_at_every_number_of_rollouts(
    num_rollouts: int, num_tokens: int
) -> None:
    after, info, log_Z = run(jax.random.key(4), POPULATIONS, 2.0, num_rollouts, num_tokens)
    check_evidence(log_Z, power_law(LAYERS, 2.0).log_Z, smallest_bias=0.08)
    check_records(MODEL, after)
    assert np.isfinite(np.asarray(info.log_Z)).all() and (np.asarray(info.ess) >= 1).all()


def test_looking_ahead_lowers_the_variance() -> None:
    """Toy E at alpha 4 and the temperature proposal, where plain SMC is worse than importance sampling."""
    power = power_law(LAYERS, 4.0)
    plain = every_step_relative_variance(power, temperature_law(LAYERS, 4.0), 4)
    _, _, log_Z = run(jax.random.key(5), POPULATIONS, 4.0, 3, 4)
    squares = (np.exp(np.asarray(log_Z, np.float64) - power.log_Z) - 1) ** 2
    assert squares.mean() + 5 * squares.std() / np.sqrt(squares.size) < plain


def test_what_looking_ahead_costs_is_recorded() -> None:
    after, info, _ = run(jax.random.key(4), POPULATIONS, 2.0, 1, 1)
    record = totals(after.generation.ledger)
    assert record["rollouts_commit"] == 24_000 and info.ess.shape == (4, 6000)
    # One token a probe, and at each of three resamplings a probe for each row that goes on.
    probes = record["rollouts_probe"]
    assert 24_000 < probes < 3 * 24_000
    assert record["rollouts_dropped"] == probes + record["rollouts_branch"]
    drawn = record["generated_tokens"] - probes
    assert record["row_steps_useful"] == record["generated_tokens"]
    # Every row that goes on after stage k is probed, and then draws a token unless it was replaced by one that has ended, or the reverse.
    assert int(after.generation.trajectories.lengths.sum()) <= 4 * 24_000
    assert 24_000 + 0.5 * probes < drawn < 24_000 + 1.5 * probes
    longer = totals(run(jax.random.key(4), POPULATIONS, 2.0, 3, 4)[0].generation.ledger)
    assert longer["rollouts_probe"] % 3 == 0 and longer["rollouts_probe"] > 2 * probes
    assert longer["generated_tokens"] - drawn > 1.2 * longer["rollouts_probe"]


def test_a_population_is_the_same_in_any_order() -> None:
    turned = POPULATIONS._replace(ids=POPULATIONS.ids[::-1])
    there, back = (run(jax.random.key(4), some, 2.0, 1, 1)[0] for some in (POPULATIONS, turned))
    tokens = [
        np.asarray(one.generation.trajectories.tokens).reshape(-1, 4, 4) for one in (there, back)
    ]
    np.testing.assert_array_equal(tokens[0][::-1], tokens[1])
    np.testing.assert_array_equal(there.log_weights[::-1], back.log_weights)


@functools.partial(jax.jit, static_argnames=("settings",))
def sample(
    key: jax.Array,
    model: ContextModel,
    alpha: float,
    rows: jax.Array,
    settings: tuple[int, int, int],
) -> tuple[Generation, jax.Array]:
    prompts, lengths = jnp.zeros((rows.size, 0), jnp.int32), jnp.zeros(rows.size, jnp.int32)
    drawn, info = lookahead_power_sampling(key, model, alpha, prompts, lengths, rows, *settings)
    return drawn, info.ess


def test_rows_follow_the_expectation_of_the_clipped_jackknife() -> None:
    """On the tree: its exact law of the first token at two rollouts, and temperature 1/alpha for the last."""
    drawn, ess = sample(jax.random.key(8), tree.MODEL, tree.ALPHA, jnp.arange(20_000), (2, 2, 2))
    first = expected(lambda power, terms: jnp.exp(log_jackknife_law(power, terms)), 2)
    last = tree.SECOND**tree.ALPHA / tree.ZETA[:, None]
    law = {(v, u): float(first[v] * last[v, u]) for v in (0, 1) for u in (0, 1)}
    check_draws(drawn.trajectories, law)
    # Temperature does not look ahead: .229 for .462.
    low = tree.FIRST**tree.ALPHA / (tree.FIRST**tree.ALPHA).sum()
    blind = {(v, u): float(low[v] * last[v, u]) for v in (0, 1) for u in (0, 1)}
    assert_rejected(lambda: check_draws(drawn.trajectories, blind))
    assert 1.0 <= float(ess[:, 0].min()) and (np.asarray(ess[:, 1]) == 2.0).all()


def test_the_last_token_is_from_low_temperature_exactly() -> None:
    drawn, ess = sample(jax.random.key(9), MODEL, 4.0, jnp.arange(400), (2, 4, 3))
    rows = jax.tree.map(np.asarray, drawn.trajectories)
    full = rows.lengths == 4
    assert full.any() and not full.all()
    truth = 4.0 * rows.log_p[full, 3] - rows.log_z[full, 3]
    np.testing.assert_allclose(rows.log_q[full, 3], truth, atol=2e-5)
    inside = np.arange(4) < rows.lengths[:, None]
    assert ((np.asarray(ess) >= 1) == inside).all() and (np.asarray(ess)[~inside] == 0).all()
    back, _ = sample(jax.random.key(9), MODEL, 4.0, jnp.arange(400)[::-1], (2, 4, 3))
    np.testing.assert_array_equal(rows.tokens[::-1], back.trajectories.tokens)
    record = totals(drawn.ledger)
    assert record["rollouts_commit"] == 400
    # Of three candidates of each unfinished row eos has no future, and at the last token none has.
    assert record["rollouts_probe"] == 2 * 2 * int((np.arange(3) < rows.lengths[:, None]).sum())
    assert record["rollouts_probe"] == record["rollouts_dropped"]
    assert record["prefill_tokens"] == 3 * int(rows.lengths.sum())


def test_candidates_are_the_likeliest_tokens_and_impossible_ones_are_not_drawn() -> None:
    """Toy B has two possible tokens of four at each step: a third candidate has no future, and no share."""
    model = ContextModel.from_table(toy_b())
    drawn, ess = sample(jax.random.key(10), model, 4.0, jnp.arange(64), (2, 2, 3))
    rows = jax.tree.map(np.asarray, drawn.trajectories)
    assert (rows.tokens[:, 0] <= 1).all() and (rows.tokens[:, 1] >= 2).all()
    assert set(rows.tokens[:, 0].tolist()) == {0, 1}
    assert np.isfinite(rows.log_q).all() and np.isfinite(rows.log_p).all()
    assert (np.asarray(ess) >= 1).all() and (np.asarray(ess) <= 2 + 1e-5).all()


def test_many_rollouts_come_near_the_power_law() -> None:
    generation = start(MODEL, jnp.zeros((60, 0), jnp.int32), jnp.zeros(60, jnp.int32))
    keys = row_keys(jax.random.key(12), jnp.arange(60))
    log_law, ess, _ = jax.jit(lambda keys, now: next_token_law(keys, MODEL, 2.0, now, 64, 4, 3))(
        keys, generation
    )
    exact = np.exp(power_law(LAYERS, 2.0).law.log_conditional(0)[0])
    np.testing.assert_allclose(np.exp(log_law).mean(axis=0), exact, atol=0.02)
    assert 8 < float(ess.min()) <= float(ess.max()) <= 64
    assert not LookaheadRule(jnp.zeros((1, 3))).truncates()
    assert LookaheadRule(jnp.zeros((1, 3)).at[0, 1].set(-jnp.inf)).truncates()


def test_bad_settings_are_refused() -> None:
    key, empty = jax.random.key(0), (jnp.zeros((1, 0), jnp.int32), jnp.zeros(1, jnp.int32))
    for settings, says in (((1, 4, 3), "jackknife of 1"), ((2, 0, 3), "at most 0"), ((2, 4, 4), "candidates 4"), ((2, 4, 0), "candidates 0")):  # fmt: skip
        with pytest.raises(InvalidInput, match=says):
            lookahead_power_sampling(key, MODEL, 2.0, *empty, jnp.arange(1), *settings)
    with pytest.raises(InvalidInput, match="0 rollouts"):
        roll_out(row_keys(key, jnp.arange(1)), MODEL, start(MODEL, *empty), 0, 1)
