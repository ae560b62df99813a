"""The simulator: what is drawn, counted and learnt."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Key

from experiments.allocation.methods import METHODS, WRONG_PRIOR
from experiments.allocation.moments import success_probability
from experiments.allocation.pushes import PUSHES
from experiments.allocation.regimes import POPULATIONS, Population, SkillRegime
from experiments.allocation.runs import (
    Length,
    _program,  # pyright: ignore[reportPrivateUsage]
    run_method,
    skill_setting,
    static_setting,
    trimmed,
)
from experiments.allocation.simulator import COVERAGE_KS, Limits, draw, simulate
from experiments.allocation.worlds import (
    World,
    draw_rates,
    draw_skill_prompts,
    learning_world,
    static_world,
)
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from theory.allocation.advantages import dr_grpo, grpo, rloo
from theory.allocation.policies import dynamic_sampling, uniform
from theory.allocation.records import Groups, Requests
from theory.exact.allocation.arms import effective, single_group
from theory.exact.allocation.fresh_stream import optimum

SMALL = SkillRegime("small", 2.0, 1.0, 4, 12, batch_size=3, learning_rate=0.3)


def skill_world_of(key: Key[Array, ""], regime: SkillRegime, form: str = "grpo") -> World:
    return learning_world(draw_skill_prompts(key, regime, form))


def asking(additional: list[int]) -> Requests:
    wanted = jnp.array(additional, jnp.int32)
    return Requests(wanted, jnp.zeros_like(wanted), jnp.zeros_like(wanted), jnp.zeros(wanted.shape))


def test_what_is_asked_is_drawn_and_no_more() -> None:
    rates = jnp.array([0.0, 1.0, 0.5, 0.3])
    results = draw(jax.random.key(0), rates, asking([3, 2, 0, 4]), Limits(1, 1, 1, 4, 3))
    total = np.asarray(results.successes + results.failures)
    assert total.tolist() == [3, 2, 0, 4]
    assert results.successes[0] == 0 and results.failures[1] == 0


def success_counts(rate: float) -> np.ndarray:
    """How often 3 rollouts of each of 4000 prompts had 0, 1, 2 and 3 successes."""
    rates = jnp.full(4000, rate)
    results = draw(jax.random.key(1), rates, asking([3] * 4000), Limits(1, 1, 1, 3, 4000))
    return np.bincount(np.asarray(results.successes), minlength=4)


def test_verdicts_are_independent_bernoulli() -> None:
    """Counts of successes are binomial; those of a wrong rate are told apart."""
    law = np.array([0.7**3, 3 * 0.3 * 0.7**2, 3 * 0.3**2 * 0.7, 0.3**3])
    assert_counts(success_counts(0.3), law)
    assert_rejected(lambda: assert_counts(success_counts(0.33), law))


def test_a_request_beyond_the_shapes_is_an_error() -> None:
    """A rule that asks for more than its declared shape must not run on with fewer rollouts."""
    world = static_world(jnp.full(8, 0.5))
    curve = simulate(
        jax.random.key(0), uniform.allocator(4, 4), world, Limits(2, 1 << 28, 10, 4, 3)
    )
    assert int(curve.spent) >= 1 << 29


def test_uniform_costs_one_group_a_prompt() -> None:
    setting = static_setting(Population("p", points=((1.0, 0.5),)), 4, 8, 16)
    for curve in run_method("uniform", setting, Length(5), range(2)):
        found = trimmed(curve)
        assert found.rollouts.tolist() == [32, 64, 96, 128, 160]
        assert found.groups.tolist() == [4] * 5 and found.rounds.tolist() == [1] * 5
        assert found.visited.tolist() == [4] * 5
        # Every update has noise of its own: equal prompts do not do the same again.
        assert len(set(found.push.tolist())) > 1
    for curve in run_method("uniform", setting, Length(5, 64), range(2)):
        assert trimmed(curve).rollouts.tolist() == [32, 64]


@pytest.mark.slow
def test_every_round_has_noise_of_its_own() -> None:
    """SARA asks for one rollout a round; if they were all alike no group of it would ever be mixed."""
    setting = static_setting(Population("p", points=((1.0, 0.5),)), 4, 8, 16)
    (curve,) = run_method("sara", setting, Length(2), range(1))
    found = trimmed(curve)
    assert found.effective.tolist() == [4, 4]
    # Visited in any of the rounds, not in the last.
    assert found.visited.min() >= 4


def test_settings_of_equal_sizes_share_one_program() -> None:
    """Only what prompts are differs, so nothing is compiled for the second population."""
    laws = [Population(str(p), points=((1.0, p),)) for p in (0.1, 0.9)]
    before = _program.cache_info()
    found = [
        int(curve.effective.sum())
        for law in laws
        for curve in run_method("uniform", static_setting(law, 4, 8, 16), Length(5), range(1))
    ]
    after = _program.cache_info()
    assert after.misses - before.misses <= 1 and after.hits - before.hits >= 1
    assert len(found) == 2


@pytest.mark.slow
def test_a_wrong_prior_is_the_optimal_rule_of_that_population() -> None:
    """What runs is what the exact table has, at every state that it can come to."""
    group_size = 8
    law = next(each for each in POPULATIONS if each.name == WRONG_PRIOR)
    arm = single_group(success_probability(law), group_size, effective)
    draws = optimum(arm).draws
    allocator = METHODS[f"optimal-stopping-for-{WRONG_PRIOR}"].build(1, group_size)
    state = allocator.init(jax.random.key(0), len(draws))
    at = (jnp.asarray(part.astype(np.int32)) for part in (arm.successes, arm.failures))
    successes, failures = at
    everywhere = state._replace(
        open=jnp.ones(len(draws), bool), successes=successes, failures=failures
    )
    asked = np.asarray(allocator.propose(everywhere, 1 << 20).additional) > 0
    inside = (arm.depth > 0) & (arm.depth < group_size)
    assert inside.sum() > group_size
    np.testing.assert_array_equal(asked[inside], draws[inside])


@pytest.mark.slow
def test_dynamic_sampling_pays_for_what_it_drops() -> None:
    """B n / P(mixed) rollouts an update, on prompts of one rate, in runs of their own; a ledger that loses every tenth is told apart."""
    setting = static_setting(Population("p", points=((1.0, 0.3),)), 32, 4, 128)
    runs = run_method("dynamic-sampling", setting, Length(1), range(1200))
    costs = np.array([float(run.rollouts[0]) for run in runs])
    expected = 128 / (1 - 0.3**4 - 0.7**4)
    assert_mean(costs, expected, smallest_bias=5.0)
    assert_rejected(lambda: assert_mean(0.9 * costs, expected, smallest_bias=5.0))


def delivered(counts: dict[int, tuple[int, int]], num_prompts: int) -> Groups:
    ready = np.zeros(num_prompts, bool)
    successes, failures = np.zeros(num_prompts, np.int32), np.zeros(num_prompts, np.int32)
    for prompt, (s, f) in counts.items():
        ready[prompt], successes[prompt], failures[prompt] = True, s, f
    zeros = jnp.zeros(num_prompts, jnp.int32)
    s, f = jnp.asarray(successes), jnp.asarray(failures)
    return Groups(jnp.asarray(ready), s, f, jnp.asarray(True), zeros, zeros, zeros, zeros)


def advantages_of(form: str, groups: list[np.ndarray], rates: list[float]) -> list[np.ndarray]:
    """Of every rollout, by the definitions; those of this project's trainer where it has them."""
    if form in ("grpo", "dr-grpo", "rloo"):
        formula = {"grpo": grpo, "dr-grpo": dr_grpo, "rloo": rloo}[form]
        return [
            np.asarray(formula(jnp.asarray(each)[None], jnp.ones((1, each.size), bool)))[0]
            for each in groups
        ]
    if form == "ppo":
        return [each - rate for each, rate in zip(groups, rates, strict=True)]
    batch = np.concatenate(groups)
    return [(each - batch.mean()) / batch.std() for each in groups]


@pytest.mark.parametrize("form", list(PUSHES))
def test_an_update_is_the_gradient_of_the_advantages(form: str) -> None:
    """The push of a group is the mean over its rollouts of advantage times score, written out rollout by rollout."""
    world = skill_world_of(jax.random.key(3), SMALL, form)
    counts = {2: (1, 3), 5: (2, 2), 7: (4, 0), 8: (0, 5)}
    parameters = jax.random.normal(jax.random.key(4), world.parameters.shape)
    moved = np.asarray(world.learn(parameters, delivered(counts, 12)) - parameters)
    rates = np.asarray(world.success_rate(parameters), np.float64)
    jacobian = np.asarray(jax.jacobian(world.success_rate)(parameters), np.float64)
    # Prompts share three skills each.
    assert ((jacobian != 0).sum(axis=1) == 3).all()
    rewards = [np.array([1.0] * s + [0.0] * f, np.float32) for s, f in counts.values()]
    advantages = advantages_of(form, rewards, [float(rates[prompt]) for prompt in counts])
    expected = np.zeros(moved.shape)
    for prompt, reward, advantage in zip(counts, rewards, advantages, strict=True):
        p = rates[prompt]
        # grad log pi(r) = (r - p) x, and grad p = p (1 - p) x.
        features = jacobian[prompt] / (p * (1 - p))
        expected += ((reward - p) * advantage).mean() * features
    expected *= SMALL.learning_rate / SMALL.batch_size
    np.testing.assert_allclose(moved, expected, atol=2e-6)


def test_a_batch_of_equal_rewards_moves_nothing_but_a_critic() -> None:
    counts = {1: (3, 0), 4: (2, 0)}
    for form in PUSHES:
        world = skill_world_of(jax.random.key(3), SMALL, form)
        moved = np.asarray(world.learn(world.parameters, delivered(counts, 12)))
        assert (np.abs(moved).sum() > 0) == (form == "ppo"), form


def test_half_of_the_prompts_is_held_out() -> None:
    """Rates of both halves, written out in float64."""
    prompts = draw_skill_prompts(jax.random.key(3), SMALL)
    world, w = learning_world(prompts), np.linspace(-1, 2, prompts.features.shape[1])
    logits = np.asarray(prompts.features, np.float64) @ w - np.asarray(prompts.difficulty)
    both = 1 / (1 + np.exp(-logits))
    parameters = jnp.asarray(w, jnp.float32)
    np.testing.assert_allclose(world.success_rate(parameters), both[:12], rtol=1e-5)
    np.testing.assert_allclose(world.held_out_rate(parameters), both[12:], rtol=1e-5)


def test_accuracy_and_coverage_are_exact() -> None:
    """They are means over the held-out prompts, not estimates from rollouts."""
    setting = skill_setting(SMALL)
    (curve,) = run_method("dynamic-sampling", setting, Length(3), range(1))
    world = skill_world_of(jax.random.fold_in(jax.random.key(0), 0), SMALL)
    start = np.asarray(world.held_out_rate(world.parameters), np.float64)
    assert curve.accuracy.shape == (3,)
    # Three small steps from the start.
    np.testing.assert_allclose(curve.accuracy[0], start.mean(), atol=0.1)
    assert (np.diff(curve.coverage, axis=1) >= 0).all()
    static = static_setting(Population("p", points=((1.0, 0.2),)), 2, 4, 8)
    (still,) = run_method("uniform", static, Length(1), range(1))
    np.testing.assert_allclose(still.coverage[0], [1 - 0.8**k for k in COVERAGE_KS], rtol=1e-5)


def test_a_pool_with_nothing_to_train_on_ends_the_run() -> None:
    """Dynamic sampling on hopeless prompts is stopped, and what it spent is counted."""
    world = static_world(jnp.zeros(8))
    curve = simulate(
        jax.random.key(0), dynamic_sampling.allocator(2, 4), world, Limits(5, 1 << 28, 20, 4, 2)
    )
    assert int(curve.num_updates) == 0
    assert int(curve.spent) == 20 * 8


def test_rates_follow_their_population() -> None:
    """Shares of the atoms and moments of the laws between them."""
    population = Population(
        "mixed", betas=((0.5, 2.0, 6.0),), points=((0.3, 1.0),), logit_normals=((0.2, 0.0, 1.0),)
    )
    rates = np.asarray(draw_rates(jax.random.key(5), population, 4000), np.float64)
    assert_counts(np.array([(rates == 1).sum(), (rates != 1).sum()]), np.array([0.3, 0.7]))
    assert_mean(rates, 0.5 * 0.25 + 0.3 + 0.2 * 0.5, smallest_bias=0.05)
    other = np.asarray(
        draw_rates(jax.random.key(5), Population("o", betas=((1.0, 2.0, 6.0),)), 4000), np.float64
    )
    assert_rejected(lambda: assert_mean(other, 0.525, smallest_bias=0.05))
