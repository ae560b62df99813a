"""The likelihood against fractions; diagnostics against what they should see; the cost against the number of tasks."""

import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size

from tests.planted_bugs.damage.hierarchical import exact_law, law_by
from tests.theory.estimators.hierarchical.test_calibration import QUICK
from theory.errors import InvalidInput
from theory.estimators.hierarchical import posterior
from theory.estimators.hierarchical.closed_forms import Hyperparameters
from theory.estimators.hierarchical.posterior import WEAK_PRIOR, Effort, fit, log_likelihood
from theory.estimators.hierarchical.task_counts import TaskCounts, compress

diagnose = posterior._diagnose  # pyright: ignore[reportPrivateUsage]


def test_the_likelihood_is_a_law_of_counts() -> None:
    exact = exact_law()
    assert sum(exact) == 1
    assert law_by(log_likelihood) == pytest.approx([float(p) for p in exact], rel=1e-12)


def chains(seed: int, num_chains: int = 4, num_draws: int = 500) -> Hyperparameters:
    rng = np.random.default_rng(seed)
    return Hyperparameters(*np.exp(rng.normal(size=(4, num_chains, num_draws))))


def test_independent_draws_are_worth_their_number() -> None:
    found = diagnose(chains(0), 0)
    assert found.num_draws == 2000 and found.is_converged
    assert all(0.99 < value < 1.01 for value in found.r_hat.values())
    assert all(1500 < value < 2600 for value in found.bulk_ess.values())


def test_a_chain_elsewhere_and_a_drifting_chain_are_seen() -> None:
    elsewhere, drifting = chains(1), chains(2)
    elsewhere.a[0] *= 3
    drifting.b[:] *= np.linspace(1, 9, 500)
    for found, name in ((diagnose(elsewhere, 0), "a"), (diagnose(drifting, 0), "b")):
        assert found.r_hat[name] > 1.05 and found.bulk_ess[name] < 400 and not found.is_converged


def test_repeated_draws_count_once() -> None:
    slow = Hyperparameters(*(np.repeat(part, 10, axis=1) for part in chains(3)))
    found = diagnose(slow, 0)
    assert all(1000 < value < 3000 for value in found.bulk_ess.values())
    plain = effective_sample_size(slow.a)
    assert plain < slow.a.size / 3


def test_a_divergence_is_no_convergence() -> None:
    assert not diagnose(chains(0), 1).is_converged


def test_a_million_tasks_narrow_the_posterior_to_the_truth() -> None:
    # The expected numbers of tasks of each c under atoms .3 and .2 and Beta(1, 2), so that the truth is the best fit.
    num_tasks = np.rint(np.array([float(p) for p in exact_law()]) * 1_000_000).astype(np.int64)
    counts = TaskCounts(np.full(5, 4), np.arange(5), num_tasks)
    found = fit(0, counts, WEAK_PRIOR, QUICK).hyperparameters
    truth = {"weight_zero": 0.3, "weight_one": 0.2, "a": 1.0, "b": 2.0}
    for name, value in truth.items():
        draws = getattr(found, name)
        assert abs(draws.mean() - value) < 5 * draws.std() and draws.std() < 0.1 * value
    assert np.all(found.weight_zero + found.weight_one < 1)


def test_the_seed_decides() -> None:
    counts = compress(np.full(6, 4), np.array([0, 0, 1, 2, 4, 4]))
    first, again, other = (fit(seed, counts, effort=QUICK) for seed in (0, 0, 1))
    assert np.array_equal(first.hyperparameters.a, again.hyperparameters.a)
    assert not np.array_equal(first.hyperparameters.a, other.hyperparameters.a)
    halves = first.hyperparameters.a.reshape(2, -1)
    assert not np.array_equal(halves[0], halves[1])


@pytest.mark.parametrize("effort", [Effort(1), Effort(num_draws=3), Effort(num_warmup=0)])
def test_too_little_effort(effort: Effort) -> None:
    with pytest.raises(InvalidInput, match="at least 2 chains"):
        fit(0, compress(np.array([2]), np.array([1])), effort=effort)
