"""The likelihood against fractions; diagnostics against what they should see; the cost against the number of tasks."""

import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size

from tests.planted_bugs.damage.hierarchical import exact_law, law_by
from tests.planted_bugs.hierarchical import atoms_take_all_ties, ignores_the_atoms
from theory.errors import InvalidInput
from theory.estimators.hierarchical import posterior
from theory.estimators.hierarchical.closed_forms import Hyperparameters
from theory.estimators.hierarchical.posterior import WEAK_PRIOR, Effort, fit, log_likelihood
from theory.estimators.hierarchical.task_counts import TaskCounts, compress

diagnose = posterior._diagnose  # pyright: ignore[reportPrivateUsage]

# One program for all fits of this file: compiling it is most of their time.
QUICK = Effort(num_chains=2, num_warmup=150, num_draws=150)


def test_the_likelihood_is_a_law_of_counts() -> None:
    exact = exact_law()
    assert sum(exact) == 1
    expected = pytest.approx([float(p) for p in exact], rel=1e-12)
    assert law_by(log_likelihood) == expected
    for wrong in (ignores_the_atoms, atoms_take_all_ties):
        assert law_by(wrong) != expected


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


@pytest.mark.slow
def test_without_tasks_the_posterior_is_the_prior() -> None:
    nothing = TaskCounts(*(np.array([value]) for value in (1, 0, 0)))
    fits = [fit(seed, nothing, WEAK_PRIOR, QUICK) for seed in range(4)]
    draws = [
        np.concatenate(parts)
        for parts in zip(*(each.hyperparameters for each in fits), strict=True)
    ]
    # One share of three that are uniform on the simplex has the law Beta(1, 2): mean 1/3, variance 1/18.
    expected = [(1 / 3, 18**-0.5), (1 / 3, 18**-0.5), WEAK_PRIOR.log_a, WEAK_PRIOR.log_b]
    for index, (mean, deviation) in enumerate(expected):
        name = posterior.NAMES[index]
        values = draws[index] if index < 2 else np.log(draws[index])
        ess = sum(each.diagnostics.bulk_ess[name] for each in fits)
        assert abs(values.mean() - mean) < 5 * deviation / np.sqrt(ess)
        assert 0.75 < values.std() / deviation < 1.25


@pytest.mark.slow
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


@pytest.mark.slow
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
