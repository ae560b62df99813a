"""What holds for every assembled method: nothing is lost, no budget is passed, batches are whole."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

from tests.theory.allocation.loops import play, updates
from theory.allocation.policies import dynamic_sampling, uniform
from theory.protocols import Allocator

B, N, P = 6, 8, 40
RATES = np.concatenate([np.zeros(8), np.ones(8), np.linspace(0.02, 0.98, P - 16)])

METHODS: dict[str, Callable[[], Allocator]] = {
    "uniform": lambda: uniform.allocator(B, N),
    "dynamic-sampling": lambda: dynamic_sampling.allocator(B, N),
    "dynamic-sampling, batched": lambda: dynamic_sampling.batched_allocator(B, N),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("budget", [2**30, 37])
def test_every_rollout_is_trained_on_dropped_or_held(name: str, budget: int) -> None:
    """Drawn = trained - replayed + dropped, update by update, and no round passes its budget."""
    rounds = play(METHODS[name](), RATES, 60, budget=budget)
    complete = updates(rounds)
    assert len(complete) >= 3
    for update in complete:
        drawn = sum(each.requests.additional.sum() for each in update)
        assert drawn == sum(
            (each.results.successes + each.results.failures).sum() for each in update
        )
        last = update[-1].groups
        trained = (last.successes + last.failures)[last.ready].sum()
        dropped = sum(each.groups.dropped.sum() for each in update)
        assert drawn == trained - last.replayed.sum() + dropped
        assert last.ready.sum() == B
        assert not last.successes[~last.ready].any() and not last.failures[~last.ready].any()
    for each in rounds:
        assert 0 <= each.requests.additional.sum() <= budget
        assert (each.requests.additional >= 0).all()


def test_uniform_groups_are_whole() -> None:
    """Every group has n rollouts, every update is one round."""
    for each in play(uniform.allocator(B, N), RATES, 10):
        assert each.groups.complete
        assert (each.groups.successes + each.groups.failures)[each.groups.ready].tolist() == [N] * B
        assert not each.groups.dropped.any()


@pytest.mark.parametrize("name", ["dynamic-sampling", "dynamic-sampling, batched"])
def test_dynamic_sampling_trains_on_mixed_groups(name: str) -> None:
    """A group without a success or without a failure never reaches the batch."""
    for update in updates(play(METHODS[name](), RATES, 40)):
        last = update[-1].groups
        assert (last.successes[last.ready] > 0).all() and (last.failures[last.ready] > 0).all()


def test_batched_cost_is_whole_candidate_batches() -> None:
    """Each round of an update draws 3 B n rollouts, or what is left of the pool."""
    for update in updates(play(METHODS["dynamic-sampling, batched"](), RATES, 40)):
        for number, each in enumerate(update):
            assert number or each.requests.additional.sum() == 3 * B * N


@pytest.mark.parametrize("name", METHODS)
def test_compiled_maps_over_seeds_as_plain_calls(name: str) -> None:
    """`vmap` over keys gives each seed its own numbers."""
    allocator = METHODS[name]()
    keys = jax.random.split(jax.random.key(5), 3)
    states = jax.vmap(lambda key: allocator.init(key, P))(keys)
    requests = jax.jit(jax.vmap(lambda state: allocator.propose(state, 100)))(states)
    for number in range(3):
        alone = allocator.propose(allocator.init(keys[number], P), 100)
        for mapped, plain in zip(requests, alone, strict=True):
            np.testing.assert_array_equal(mapped[number], plain)
