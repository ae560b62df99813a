"""phi(p) grad p against the gradients of a policy, enumerated over every group that it can draw; DS = GRPO per rollout at finite size."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.exact.allocation.enumeration import visit
from tests.theory.exact.allocation.populations import law
from theory.allocation.beta_binomial import expected_group_deviation, probability_effective
from theory.allocation.priors import BetaMixture
from theory.exact.allocation import lattice, objective
from theory.exact.allocation.claims import run_length_rules
from theory.exact.allocation.pilot_commit import Screening, screening_rule

# A policy over three answers, of which the first and the last are right.
LOGITS = np.array([0.3, -0.4, -1.1])
RIGHT = np.array([1, 0, 1])


@partial(jax.jit, static_argnums=(1, 2))
def phi_at(rule: lattice.SequentialRule, size: int, estimator: str, rates: jax.Array) -> jax.Array:
    """phi of a rule at some success rates."""
    weights = getattr(objective, estimator)(size)
    shares = objective.trained_shares(rule, size, weights)
    return objective.bernstein(objective.objective_weights(shares, weights), rates)


@partial(jax.jit, static_argnums=(0, 1))
def climbed(size: int, estimator: str, rates: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Objective of full groups, and its slope phi."""
    phi = objective.objective_weights(jnp.ones(size + 1), getattr(objective, estimator)(size))
    return objective.bernstein(objective.objective(phi), rates), objective.bernstein(phi, rates)


def advantages(rewards: np.ndarray, estimator: str) -> np.ndarray:
    """Of one group, by the definition of each estimator."""
    centred = rewards - rewards.mean()
    if estimator == "leave_one_out":
        others = (rewards.sum() - rewards) / (len(rewards) - 1)
        return rewards - others
    if estimator == "standardised" and rewards.std() > 0:
        return centred / rewards.std()
    return centred


def enumerated_update(rule: lattice.SequentialRule, size: int, estimator: str) -> np.ndarray:
    """E[(1 / n) sum_i A_i grad log pi(y_i); trained], over all 3^n groups; rollouts past the stop are drawn and not looked at."""
    goes_on, trains, group_size = (np.asarray(field) for field in rule)
    group_size = np.broadcast_to(group_size, goes_on.shape)
    probabilities = np.exp(LOGITS) / np.exp(LOGITS).sum()
    scores = np.eye(3) - probabilities
    total = np.zeros(3)
    for answers in product(range(3), repeat=size):
        rewards = RIGHT[list(answers)]
        if visit(goes_on, trains, group_size, tuple(rewards)).trains:
            update = advantages(rewards, estimator) @ scores[list(answers)] / size
            total += probabilities[list(answers)].prod() * update
    return total


def rules() -> dict[str, lattice.SequentialRule]:
    stop = run_length_rules(6, jnp.array([2]), jnp.array([3]))
    return {
        "dynamic sampling": lattice.full_groups(6),
        "run lengths": stop._replace(goes_on=stop.goes_on[0]),
        "pilots": screening_rule(Screening(3, 3, lower=0.2, upper=0.5)),
    }


@pytest.mark.parametrize("estimator", ["leave_one_out", "mean_centred", "standardised"])
@pytest.mark.parametrize("name", list(rules()))
def test_updates_are_phi_times_the_gradient(name: str, estimator: str) -> None:
    probabilities = np.exp(LOGITS) / np.exp(LOGITS).sum()
    rate = float(probabilities @ RIGHT)
    gradient = probabilities * (RIGHT - rate)
    with jax.enable_x64(True):
        rule = rules()[name]
        phi = phi_at(rule, 6, estimator, jnp.array([rate]))
    np.testing.assert_allclose(
        enumerated_update(rule, 6, estimator), np.asarray(phi)[0] * gradient, rtol=1e-12
    )


def test_what_each_rule_stops_learning() -> None:
    """Leave-one-out: 1 for dynamic sampling; .88, .49 and .30 at p = .5, .1 and .02 for rules that look at 4 of 16."""
    rates = [0.5, 0.1, 0.02]
    with jax.enable_x64(True):
        sara = run_length_rules(16, jnp.array([4]), jnp.array([4]))
        pilots = screening_rule(Screening(4, 12))
        found = [
            phi_at(rule, 16, "leave_one_out", jnp.asarray(rates))
            for rule in (lattice.full_groups(16), sara, pilots)
        ]
    np.testing.assert_allclose(found[0], 1, rtol=1e-13)
    for phi in (found[1][0], found[2]):
        np.testing.assert_allclose(phi, [0.88, 0.49, 0.30], atol=0.01)


def test_objectives_are_integrals_of_phi() -> None:
    """Dynamic sampling with leave-one-out climbs p itself; GRPO at finite size climbs towards 2 arcsin(sqrt p)."""
    step = 1e-5
    rates = np.array([0.0, 0.02, 0.3 - step, 0.3, 0.3 + step, 0.5, 0.9, 1.0])
    limit = 2 * np.arcsin(np.sqrt(rates))
    with jax.enable_x64(True):
        plain, one = climbed(8, "leave_one_out", jnp.asarray(rates))
        np.testing.assert_allclose(plain, rates, atol=1e-14)
        np.testing.assert_allclose(one, 1, rtol=1e-13)
        gaps: list[float] = []
        for size in (8, 32, 128):
            value, phi = (np.asarray(x) for x in climbed(size, "standardised", jnp.asarray(rates)))
            assert np.all(value <= limit + 1e-12)
            gaps.append((limit - value)[5])
            np.testing.assert_allclose((value[4] - value[2]) / (2 * step), phi[3], rtol=1e-8)
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2] > 0


def test_signal_per_rollout_of_dynamic_sampling_is_that_of_grpo() -> None:
    """Exact at finite size, for every n; the arcsine limit sqrt(p (1 - p)) is not what either has."""

    @partial(jax.jit, static_argnums=0)
    def signals(size: int, prior: BetaMixture) -> list[jax.Array]:
        weights, whole = objective.standardised(size), jnp.ones(size + 1)
        uniform = objective.signal_per_rollout(whole, weights, jnp.array(float(size)), prior)
        # For each kept group: E[push | mixed], at n / P rollouts.
        share = probability_effective(prior, 0, 0, size)
        mixed = whole.at[jnp.array([0, -1])].set(0.0)
        kept = objective.expected_square(mixed, weights, prior) / share
        return [uniform, kept / (size / share), expected_group_deviation(prior, 0, 0, size) / size]

    with jax.enable_x64(True):
        for size in (4, 9):
            uniform, kept, push = signals(size, law(0.5, 0.4, 1.3, at_zero=0.3, at_one=0.2))
            np.testing.assert_allclose([kept, push], float(uniform), rtol=1e-12)


def test_mean_squared_advantages() -> None:
    """Claim 4: standardised, the mean square of a visit is exactly P(mixed); the others are multiples of E[p (1 - p)]."""

    @partial(jax.jit, static_argnums=0)
    def squares(size: int, prior: BetaMixture) -> list[jax.Array]:
        whole = jnp.ones(size + 1)
        mixed = whole.at[jnp.array([0, -1])].set(0.0)
        each = [mixed, objective.mean_centred(size), objective.leave_one_out(size)]
        means = [objective.expected_square(whole, weights, prior) for weights in each]
        return [*means, probability_effective(prior, 0, 0, size)]

    variance = 0.5 * 0.4 * 1.3 / (1.7 * 2.7)
    with jax.enable_x64(True):
        for size in (4, 8, 16):
            found = squares(size, law(0.5, 0.4, 1.3, at_zero=0.3, at_one=0.2))
            np.testing.assert_allclose(found[0], found[3], rtol=1e-12)
            np.testing.assert_allclose(found[1], (size - 1) / size * variance, rtol=1e-12)
            # A_i of leave-one-out is n / (n - 1) times the centred one.
            ratio = size / (size - 1)
            np.testing.assert_allclose(found[2] * ratio, ratio * variance, rtol=1e-12)


def test_trained_and_abandoned_shares_make_up_everything() -> None:
    rng = np.random.default_rng(1)
    shape = (5, 7, 7)
    with jax.enable_x64(True):
        rule = lattice.SequentialRule(
            jnp.asarray(rng.random(shape) < 0.8),
            jnp.asarray(rng.random(shape) < 0.5),
            jnp.full(shape, 9),
        )
        trained = jax.jit(objective.trained_shares, static_argnums=1)
        abandoned = jax.jit(objective.abandoned_shares, static_argnums=1)
        like = jnp.zeros(())
        np.testing.assert_allclose(trained(rule, 9, like) + abandoned(rule, 9, like), 1, rtol=1e-13)
        assert np.all(np.asarray(trained(rule, 8, like)) == 0)
