"""The stopping program of the policies against the exact one, which shares no code with it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theory.allocation.beta_binomial import posterior_mean
from theory.allocation.policies.optimal_stopping import allocate, table
from theory.allocation.priors import BetaMixture, beta, mixture
from theory.allocation.records import Decision
from theory.allocation.stopping_program import (
    best_rate,
    drawing_values,
    effective_worth,
    push_worth,
    rate_of_rule,
    stopping_problem,
    stopping_rule,
)
from theory.exact.allocation import arms, fresh_stream

# Compiled once for each size of the lattice.
compiled_rate = jax.jit(best_rate)
compiled_values = jax.jit(drawing_values)
compiled_rule = jax.jit(stopping_rule)
compiled_rate_of_rule = jax.jit(rate_of_rule)

PRIORS: dict[str, Callable[[], BetaMixture]] = {
    "flat": lambda: beta(1.0, 1.0),
    "U": lambda: beta(0.15, 0.2),
    "published": lambda: mixture(((0.36, 2.5, 2.5),), ((0.32, 0.0), (0.32, 1.0))),
    "hard": lambda: mixture(((0.5, 0.3, 3.0),), ((0.5, 0.02),)),
    "one point": lambda: mixture((), ((1.0, 0.3),)),
}
REST = ("published", "one point")
"""Parts in other numbers, so programs of their own."""


def exact_arm(prior: BetaMixture, n: int, reward: arms.GroupReward) -> arms.Arm:
    return arms.single_group(
        lambda s, f: np.nan_to_num(
            np.asarray(posterior_mean(prior, jnp.asarray(s), jnp.asarray(f)))
        ),
        n,
        reward,
    )


@pytest.mark.parametrize(
    "name",
    ["flat", "U", "hard", *(pytest.param(name, marks=pytest.mark.slow) for name in REST)],
)
@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.slow), 7])
@pytest.mark.parametrize("kind", ["effective", "push"])
def test_rates_and_values_are_those_of_the_exact_program(name: str, n: int, kind: str) -> None:
    with jax.enable_x64(True):
        prior = PRIORS[name]()
        worth = (effective_worth if kind == "effective" else push_worth)(n)
        arm = exact_arm(prior, n, getattr(arms, kind))
        problem = stopping_problem(prior, worth)
        truth = fresh_stream.optimum(arm)
        rate = compiled_rate(problem)
        np.testing.assert_allclose(rate, truth.rate, rtol=1e-12)
        for price in (0.0, truth.rate, 2 * truth.rate):
            _, expected = fresh_stream.priced_values(arm, np.array([price]))
            ours = np.asarray(compiled_values(problem, price))[arm.successes, arm.failures]
            np.testing.assert_allclose(ours[arm.drawable], expected[arm.drawable, 0], atol=1e-12)
        draws = np.array(compiled_rule(problem, rate))
        draws[0, 0] = True
        on_arm = draws[arm.successes, arm.failures]
        np.testing.assert_allclose(fresh_stream.renewal(arm, on_arm).rate, truth.rate, rtol=1e-12)
        np.testing.assert_allclose(
            compiled_rate_of_rule(problem, jnp.asarray(draws)), truth.rate, rtol=1e-12
        )


@pytest.mark.slow
def test_what_is_worth_exactly_nothing_is_not_drawn_for() -> None:
    """Groups that are worth 1 whatever they hold, at a price of 1: before the last rollout it is a draw."""
    n = 8
    s, f = np.indices((n + 1, n + 1))
    worth = jnp.asarray(s + f == n, jnp.float32)
    for name in ("U", "published"):
        assert not compiled_rule(stopping_problem(PRIORS[name](), worth), jnp.ones(())).any()


@pytest.mark.parametrize("alike", [pytest.param(1, marks=pytest.mark.slow), 2, 3, 6])
def test_the_rate_of_a_rule_is_its_renewal_reward(alike: int) -> None:
    """Any rule, not only the best one."""
    with jax.enable_x64(True):
        prior, n = PRIORS["U"](), 6
        s, f = np.indices((n + 1, n + 1))
        draws = ((s > 0) & (f > 0)) | (s + f < alike)
        arm = exact_arm(prior, n, arms.effective)
        truth = fresh_stream.renewal(arm, draws[arm.successes, arm.failures]).rate
        ours = compiled_rate_of_rule(
            stopping_problem(prior, effective_worth(n)), jnp.asarray(draws)
        )
        np.testing.assert_allclose(ours, truth, rtol=1e-13)


@pytest.mark.parametrize(
    "name", ["flat", "U", pytest.param("published", marks=pytest.mark.slow), "hard"]
)
@pytest.mark.parametrize("n", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_one_step_is_the_optimal_rule(name: str, n: int) -> None:
    """Commit, continue or abandon at every count, as the exact program does; finished groups by what they are."""
    with jax.enable_x64(True):
        prior = PRIORS[name]()
        arm = exact_arm(prior, n, arms.effective)
        _, drawing = fresh_stream.priced_values(arm, np.array([fresh_stream.optimum(arm).rate]))
        s, f = jnp.asarray(arm.successes), jnp.asarray(arm.failures)
        found = allocate(prior, s, f, 10**6, n)
        mixed = (arm.successes > 0) & (arm.failures > 0)
        goes_on = ((drawing[:, 0] > 1e-12) | (arm.depth == 0)) & arm.drawable
        expected = np.where(goes_on, int(Decision.CONTINUE), int(Decision.ABANDON))
        expected = np.where(mixed, int(Decision.COMMIT), expected)
        # Behind the first run that is given up nothing is looked at.
        alike = np.maximum(arm.successes, arm.failures)
        for run in (arm.successes, arm.failures):
            stops = run[(run == alike) & ~mixed & ~goes_on & (run == arm.depth)]
            if stops.size:
                expected[~mixed & (run == arm.depth) & (run >= stops.min())] = int(Decision.ABANDON)
        expected[0] = int(Decision.CONTINUE)
        np.testing.assert_array_equal(np.asarray(found.decision), expected)
        missing = n - arm.depth
        np.testing.assert_array_equal(
            np.asarray(found.additional), np.where(mixed, missing, expected == Decision.CONTINUE)
        )


@pytest.mark.slow
def test_single_precision_finds_the_same_rule() -> None:
    """What runs in a training loop: on the published mixture it gives up after three equal outcomes (rl-prototype.md 4.1)."""
    for n in (8, 16):
        problem = stopping_problem(PRIORS["published"](), effective_worth(n))
        draws = np.asarray(compiled_rule(problem, compiled_rate(problem)))
        assert draws[1, 0] and draws[2, 0] and not draws[3, 0]
        assert draws[0, 1] and draws[0, 2] and not draws[0, 3]


def test_a_rule_that_never_stops_is_one_call() -> None:
    """What is drawn to the end whatever comes is asked for at once: dynamic sampling."""
    n = 5
    actions = table(jnp.ones((n + 1, n + 1), bool))
    assert int(actions.decision[0, 0]) == Decision.COMMIT
    assert int(actions.additional[0, 0]) == n
    assert int(actions.decision[n, 0]) == Decision.ABANDON
    assert int(actions.decision[2, n - 2]) == Decision.COMMIT


def test_a_rule_that_stops_somewhere_looks_after_every_rollout_before() -> None:
    n = 5
    s, f = np.indices((n + 1, n + 1))
    actions = table(jnp.asarray(((s > 0) & (f > 0)) | (s + f < 3)))
    for alike in (0, 1, 2):
        assert int(actions.additional[alike, 0]) == 1
        assert int(actions.decision[0, alike]) == Decision.CONTINUE
    assert int(actions.decision[3, 0]) == int(actions.decision[0, 3]) == Decision.ABANDON
    assert int(actions.decision[1, 1]) == Decision.COMMIT
    assert int(actions.additional[2, 1]) == n - 3
