"""What holds for every assembled method: nothing is lost, no budget is passed, batches are whole, states can be kept."""

import io
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from tests.theory.allocation.loops import play, step_of, updates
from theory.allocation.learned_priors import population_prior
from theory.allocation.policies import (
    ar3po,
    compositions,
    cures,
    dps,
    dynamic_sampling,
    greso,
    hora,
    knapsack,
    mopps,
    pilot_commit_loop,
    pods,
    reinforce_ada,
    sara,
    speed,
    uniform,
    vip,
)
from theory.allocation.rates import predicted_rates, remembered_epochs
from theory.allocation.records import charged
from theory.allocation.serialisation import from_arrays, to_arrays
from theory.errors import InvalidInput
from theory.ledger import spent, totals
from theory.protocols import Allocator

B, N, P = 6, 8, 40
RATES = np.concatenate([np.zeros(8), np.ones(8), np.linspace(0.02, 0.98, P - 16)])

FIXED: dict[str, Callable[[], Allocator]] = {
    "uniform": lambda: uniform.allocator(B, N),
    "hora": lambda: hora.allocator(B, N),
    "hora, learned": lambda: hora.learned_prior_allocator(B, N, population_prior),
    "dps": lambda: dps.allocator(B, N),
    "mopps": lambda: mopps.allocator(B, N),
    "vip": lambda: vip.allocator(B, N, remembered_epochs(), predicted_rates),
    "cures": lambda: cures.allocator(B, N, 0.1),
}
"""Methods that open B prompts and train on all of them, for B n rollouts."""

MIXED: dict[str, Callable[[], Allocator]] = {
    "dynamic-sampling": lambda: dynamic_sampling.allocator(B, N),
    "dynamic-sampling, batched": lambda: dynamic_sampling.batched_allocator(B, N),
    "sara": lambda: sara.allocator(B, N),
    "sara, probe": lambda: sara.probe_allocator(B, N),
    "sara on dps": lambda: compositions.sara_on_dps(B, N),
    "speed": lambda: speed.allocator(B, 3, 5),
    "greso": lambda: greso.allocator(B, N, least=12),
}
"""Methods that train on B mixed groups of n rollouts."""

OTHERS: dict[str, Callable[[], Allocator]] = {
    "knapsack": lambda: knapsack.allocator(B, N, remembered_epochs(), predicted_rates, most=20),
    "reinforce-ada": lambda: reinforce_ada.allocator(B),
    "pods": lambda: pods.allocator(B, N, 4),
    "ar3po": lambda: ar3po.allocator(B),
    "pilot-commit": lambda: pilot_commit_loop.allocator(B, 4, 8),
    "hora in pilot-commit": lambda: compositions.hora_in_pilot_commit(B, 4, 8, cap=24),
}

SUBSETS = {"reinforce-ada": 4, "pods": 4}
"""Methods that train on so many of the rollouts of a group."""

METHODS = FIXED | MIXED | OTHERS
DEAR = ("hora in pilot-commit", "hora, learned")
BUDGET = 101


def held(state: Any) -> int:
    """Rollouts that a state still holds."""
    names = ("successes", "failures", "pilot_successes", "pilot_failures")
    names = (*names, "commit_successes", "commit_failures")
    counts = sum(np.asarray(getattr(state, name, 0)) for name in names)
    inside = state.open | state.ready if hasattr(state, "open") else True
    return int(np.sum(np.where(np.asarray(inside), counts, 0)))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in DEAR else name for name in METHODS],
)
def test_nothing_is_lost(name: str) -> None:
    """Under a budget that cuts rounds in two: drawn = trained - replayed + dropped + held, no round passes it, groups are whole."""
    rounds = play(METHODS[name](), RATES, 50, budget=BUDGET)
    complete = updates(rounds)
    assert complete
    ledger = spent()
    drawn = trained = 0
    for each in rounds:
        additional = each.requests.additional
        assert (additional >= 0).all() and additional.sum() <= BUDGET
        groups = each.groups
        assert (
            not groups.successes[~groups.ready].any() and not groups.failures[~groups.ready].any()
        )
        assert groups.complete or not groups.ready.any()
        drawn += int(additional.sum())
        trained += int((groups.successes + groups.failures - groups.replayed).sum())
        ledger = charged(ledger, each.requests, groups)
    counted = totals(ledger)
    assert drawn == trained + counted["rollouts_dropped"] + held(rounds[-1].state)
    assert (
        drawn == counted["rollouts_pilot"] + counted["rollouts_commit"] == counted["verifier_calls"]
    )
    for update in complete:
        groups = update[-1].groups
        sizes = (groups.successes + groups.failures)[groups.ready]
        assert groups.ready.sum() <= B
        if name in SUBSETS:
            # The largest variance that so many of the pool can have.
            most = SUBSETS[name]
            pools = zip(groups.pool_successes, groups.pool_failures, strict=True)
            for place, (s, f) in enumerate(pools):
                size = min(most, int(s + f))
                best = max(x * (size - x) for x in range(max(size - f, 0), min(size, s) + 1))
                kept = int(groups.successes[place]), int(groups.failures[place])
                assert sum(kept) == size and kept[0] * kept[1] == best
        if name in FIXED:
            assert groups.ready.sum() == B and sizes.sum() == B * N
            assert sum(each.requests.additional.sum() for each in update) == B * N
        if name in MIXED:
            assert (sizes == N).all() and groups.ready.sum() == B
            assert (groups.successes[groups.ready] > 0).all()
            assert (groups.failures[groups.ready] > 0).all()


@pytest.mark.parametrize(
    "name",
    [
        "sara on dps",
        "pilot-commit",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("greso", "mopps", "ar3po", "cures")
        ),
    ],
)
def test_a_kept_state_goes_on_with_the_same_numbers(name: str) -> None:
    """Flattened to arrays, saved, loaded, restored: the rounds that follow are those of the run that never stopped."""
    allocator = METHODS[name]()
    step = step_of(allocator, jax.numpy.asarray(RATES, jax.numpy.float32), 1000)
    state = allocator.init(jax.random.key(3), P)
    for number in range(6):
        state = step(state, jax.random.key(number))[0]
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **to_arrays(state))
    file.seek(0)
    again = from_arrays(dict(np.load(file)), allocator.init(jax.random.key(9), P))
    for number in range(6, 12):
        state, *seen = step(state, jax.random.key(number))
        again, *seen_again = step(again, jax.random.key(number))
        jax.tree.map(np.testing.assert_array_equal, seen, seen_again)


def test_a_wrong_state_is_named() -> None:
    """One line each."""
    allocator = sara.allocator(B, N)
    state = allocator.init(jax.random.key(0), P)
    arrays = to_arrays(state)
    for bad in (
        {name: array for name, array in arrays.items() if name != ".open"},
        arrays | {"more": np.zeros(1)},
        arrays | {".open": np.zeros(P + 1, bool)},
        arrays | {".open": np.zeros(P)},
    ):
        with pytest.raises(InvalidInput):
            from_arrays(bad, state)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sara on dps", "hora", "pilot-commit"])
def test_compiled_maps_over_seeds_as_plain_calls(name: str) -> None:
    """`vmap` over keys gives each seed its own numbers, round after round; so does a run without compilation."""
    allocator = METHODS[name]()
    rates = jax.numpy.asarray(RATES, jax.numpy.float32)
    step = step_of(allocator, rates, 1000)
    mapped_step = jax.jit(jax.vmap(step))
    keys = jax.random.split(jax.random.key(5), 2)
    states = jax.vmap(lambda key: allocator.init(key, P))(keys)
    alone = [allocator.init(key, P) for key in keys]
    for number in range(5):
        noise = jax.random.split(jax.random.key(number), 2)
        states, *seen = mapped_step(states, noise)
        for seed in range(2):
            requests = allocator.propose(alone[seed], 1000)
            alone[seed], *plain = step(alone[seed], noise[seed])
            jax.tree.map(np.testing.assert_array_equal, requests, plain[0])
            jax.tree.map(lambda x, y, s=seed: np.testing.assert_array_equal(x[s], y), seen, plain)


def test_batched_cost_is_whole_candidate_batches() -> None:
    """Each update begins with 3 B n rollouts."""
    for update in updates(play(METHODS["dynamic-sampling, batched"](), RATES, 12)):
        assert update[0].requests.additional.sum() == 3 * B * N


@pytest.mark.parametrize(
    "build", [lambda: uniform.allocator(0, 8), lambda: uniform.allocator(4, 0)]
)
def test_sizes_are_checked(build: Callable[[], Allocator]) -> None:
    """One line each; a pool smaller than the batch is found when it is known."""
    with pytest.raises(InvalidInput):
        build()
    with pytest.raises(InvalidInput, match="only 5 prompts"):
        uniform.allocator(6, 8).init(jax.random.key(0), 5)
