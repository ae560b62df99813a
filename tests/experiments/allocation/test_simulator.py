"""The simulator: what is drawn, counted and learnt."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.allocation.regimes import Population, SkillRegime
from experiments.allocation.runs import Setting, run_method, static_setting, trimmed
from experiments.allocation.simulator import COVERAGE_KS, Limits, draw, simulate
from experiments.allocation.worlds import draw_rates, skill_world, static_world
from tests.stat_asserts import assert_counts, assert_mean, assert_rejected
from theory.allocation.advantages import grpo
from theory.allocation.policies import dynamic_sampling, uniform
from theory.allocation.records import Groups, Requests

SMALL = SkillRegime("small", 2.0, 1.0, 4, 12, batch_size=3, learning_rate=0.3)


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
    for curve in run_method("uniform", setting, 5, 1 << 28, range(2)):
        found = trimmed(curve)
        assert found.rollouts.tolist() == [32, 64, 96, 128, 160]
        assert found.groups.tolist() == [4] * 5 and found.rounds.tolist() == [1] * 5
        assert found.visited.tolist() == [4] * 5


@pytest.mark.slow
def test_dynamic_sampling_pays_for_what_it_drops() -> None:
    """B n / P(mixed) rollouts an update, on prompts of one rate, in runs of their own; a ledger that loses every tenth is told apart."""
    setting = static_setting(Population("p", points=((1.0, 0.3),)), 32, 4, 128)
    runs = run_method("dynamic-sampling", setting, 1, 1 << 28, range(1200))
    costs = np.array([float(run.rollouts[0]) for run in runs])
    expected = 128 / (1 - 0.3**4 - 0.7**4)
    assert_mean(costs, expected, smallest_bias=5.0)
    assert_rejected(lambda: assert_mean(0.9 * costs, expected, smallest_bias=5.0))


def test_an_update_is_the_gradient_of_the_advantages() -> None:
    """The push of a group is the mean over its rollouts of advantage times score, written out rollout by rollout."""
    world = skill_world(jax.random.key(3), SMALL)
    ready = np.zeros(12, bool)
    successes, failures = np.zeros(12, np.int32), np.zeros(12, np.int32)
    for prompt, (s, f) in {2: (1, 3), 5: (2, 2), 7: (4, 0)}.items():
        ready[prompt], successes[prompt], failures[prompt] = True, s, f
    zeros = jnp.zeros(12, jnp.int32)
    groups = Groups(
        jnp.asarray(ready),
        jnp.asarray(successes),
        jnp.asarray(failures),
        jnp.asarray(True),
        zeros,
        zeros,
        zeros,
        zeros,
    )
    moved = np.asarray(world.learn(world.parameters, groups) - world.parameters)
    rates = np.asarray(world.success_rate(world.parameters))
    jacobian = np.asarray(jax.jacobian(world.success_rate)(world.parameters))
    expected = np.zeros_like(moved)
    for prompt in np.flatnonzero(ready):
        rewards = jnp.array([1.0] * successes[prompt] + [0.0] * failures[prompt])[None]
        advantages = np.asarray(grpo(rewards, jnp.ones_like(rewards, bool)))[0]
        p = rates[prompt]
        # grad log pi(r) = (r - p) x, and grad p = p (1 - p) x.
        features = jacobian[prompt] / (p * (1 - p))
        scores = (np.asarray(rewards[0]) - p)[:, None] * features
        expected += (advantages[:, None] * scores).mean(axis=0)
    expected *= SMALL.learning_rate / SMALL.batch_size
    np.testing.assert_allclose(moved, expected, atol=1e-6)
    # Prompts share three skills each.
    assert ((jacobian != 0).sum(axis=1) == 3).all()


def test_accuracy_and_coverage_are_exact() -> None:
    """They are means over the held-out prompts, not estimates from rollouts."""
    setting = Setting("small", 3, 4, 12, lambda key: skill_world(key, SMALL))
    (curve,) = run_method("dynamic-sampling", setting, 3, 1 << 28, range(1))
    world = skill_world(jax.random.fold_in(jax.random.key(0), 0), SMALL)
    start = np.asarray(world.held_out_rate(world.parameters), np.float64)
    assert curve.accuracy.shape == (3,)
    # Three small steps from the start.
    np.testing.assert_allclose(curve.accuracy[0], start.mean(), atol=0.1)
    assert (np.diff(curve.coverage, axis=1) >= 0).all()
    static = static_setting(Population("p", points=((1.0, 0.2),)), 2, 4, 8)
    (still,) = run_method("uniform", static, 1, 1 << 28, range(1))
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
