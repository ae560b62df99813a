"""Prospects of prompts against the program on the whole lattice, and the method in a loop."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.theory.allocation.loops import play, updates
from theory.allocation.beta_binomial import posterior_mean
from theory.allocation.equal_runs import best_rates, equal_runs, prospects
from theory.allocation.policies import dynamic_sampling, predictive_stopping
from theory.allocation.policies.predictive_stopping import supplying_price
from theory.allocation.priors import BetaMixture, beta, mixture, posterior
from theory.allocation.stopping_program import best_rate, effective_worth, stopping_problem
from theory.exact.allocation import arms
from theory.exact.allocation.fresh_stream import priced_values


def published() -> BetaMixture:
    return mixture(((0.36, 2.5, 2.5),), ((0.32, 0.0), (0.32, 1.0)))


@pytest.mark.parametrize("price", [0.02, 0.05, 0.09, 0.12])
@pytest.mark.parametrize("history", [(0.0, 0.0), (2.5, 0.0), (0.0, 4.0), (1.5, 3.25)])
@pytest.mark.parametrize("which", ["published", "beta"])
def test_prospects_are_those_of_the_whole_lattice(
    price: float, history: tuple[float, float], which: str
) -> None:
    """The program over runs of equal outcomes is the exact one for effective groups, under each prompt's own posterior."""
    n = 8
    with jax.enable_x64(True):
        prior = published() if which == "published" else beta(0.4, 0.7)
        own = posterior(prior, *history)
        s, f = np.indices((n + 1, n + 1))
        means = np.nan_to_num(np.asarray(posterior_mean(own, jnp.asarray(s), jnp.asarray(f))))
        arm = arms.single_group(lambda s, f: means[s, f], n, arms.effective)
        _, drawing = priced_values(arm, np.array([price]))
        q = {
            (int(a), int(b)): v
            for a, b, v in zip(arm.successes, arm.failures, drawing[:, 0], strict=True)
        }
        runs = equal_runs(prior, jnp.array([history[0]]), jnp.array([history[1]]), n)
        found = prospects(runs, jnp.array([price]))
        np.testing.assert_allclose(found.value[0], q[0, 0], atol=1e-12)
        for kind, runs in (
            (1, [q[k, 0] for k in range(1, n)]),
            (0, [q[0, k] for k in range(1, n)]),
        ):
            stops = [k for k, value in enumerate(runs, start=1) if value <= 1e-12]
            assert int(found.patience[kind, 0]) == (stops[0] if stops else n)


@pytest.mark.slow
def test_it_trains_on_whole_mixed_groups_for_fewer_rollouts() -> None:
    """Most prompts hopeless or mastered: after a few updates it picks the others, which dynamic sampling cannot."""
    n, batch = 8, 6
    rates = np.concatenate([np.zeros(60), np.ones(60), np.full(40, 0.5)])
    costs = {}
    for name, allocator in (
        ("dynamic", dynamic_sampling.allocator(batch, n)),
        ("predictive", predictive_stopping.allocator(batch, n, memory=1.0)),
    ):
        complete = updates(play(allocator, rates, 1200))
        late = complete[8:24]
        assert len(late) == 16
        for update in late:
            groups = update[-1].groups
            ready = groups.ready
            assert ready.sum() == batch
            assert (groups.successes[ready] > 0).all() and (groups.failures[ready] > 0).all()
            assert ((groups.successes + groups.failures)[ready] == n).all()
        costs[name] = sum(each.requests.additional.sum() for update in late for each in update)
    # About 24 prompts an update for the one, 6 and a few strays for the other.
    assert costs["predictive"] < 0.6 * costs["dynamic"]


def test_the_chance_is_that_of_the_rule() -> None:
    """Effective under the patience of each prompt, by all outcome sequences."""
    n, prior = 5, (0.4, 0.7)
    with jax.enable_x64(True):
        history = (1.5, 0.25)
        runs = equal_runs(beta(*prior), jnp.array([history[0]]), jnp.array([history[1]]), n)
        a, b = prior[0] + history[0], prior[1] + history[1]
        for price in (0.0, 0.1, 0.15, 0.19):
            found = prospects(runs, jnp.array([price]))
            wrong, right = (int(each) for each in found.patience[:, 0])
            chance = 0.0
            for outcomes in itertools.product((0, 1), repeat=n):
                probability, s, f = 1.0, 0, 0
                given_up = False
                for outcome in outcomes:
                    mean = (a + s) / (a + b + s + f)
                    probability *= mean if outcome else 1 - mean
                    s, f = s + outcome, f + 1 - outcome
                    given_up |= (f == 0 and s == right) or (s == 0 and f == wrong)
                chance += probability * (not given_up and s > 0 and f > 0)
            np.testing.assert_allclose(found.chance[0], chance, atol=1e-13)


@pytest.mark.slow
def test_a_large_pool_of_strangers_is_priced_like_a_stream() -> None:
    """Nothing tells prompts apart: memory is worth nothing, and the price is the best rate of the fresh stream."""
    n = 8
    runs = equal_runs(published(), jnp.zeros(400), jnp.zeros(400), n)
    problem = stopping_problem(published(), effective_worth(n))
    np.testing.assert_allclose(supplying_price(runs, 20), best_rate(problem), rtol=1e-4)


def test_best_rates_are_those_of_the_whole_lattice() -> None:
    """The price at which the first rollout of a prompt is worth nothing is its best rate alone."""
    n = 8
    with jax.enable_x64(True):
        histories = np.array([(0.0, 0.0), (3.0, 1.0), (0.0, 6.5), (2.0, 0.0)])
        runs = equal_runs(
            published(), jnp.asarray(histories[:, 0]), jnp.asarray(histories[:, 1]), n
        )
        for rate, history in zip(best_rates(runs), histories, strict=True):
            problem = stopping_problem(
                posterior(published(), *history.tolist()), effective_worth(n)
            )
            np.testing.assert_allclose(rate, best_rate(problem), atol=1e-8)


def test_the_price_is_where_supply_meets_the_batch() -> None:
    """Just below it the profitable prompts supply the batch, just above it they do not."""
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        seen = rng.integers(0, 9, 60)
        right = rng.binomial(seen, rng.beta(0.3, 0.3, 60))
        runs = equal_runs(
            published(), jnp.asarray(right, float), jnp.asarray(seen - right, float), 8
        )

        def supply(price: float) -> float:
            found = prospects(runs, jnp.full(60, price))
            return float(jnp.sum(jnp.where(found.value > 0, found.chance, 0)))

        for batch in (1, 5, 12):
            price = float(supplying_price(runs, batch))
            assert 0 < price < 1 / 8
            assert supply(price) >= batch > supply(price * 1.00001)
        assert float(supplying_price(runs, 60)) == 0.0
