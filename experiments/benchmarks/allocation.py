"""HORA's allocation of very many rollouts, against a heap.

The reference is the greedy rule as it is told: a heap of the next marginal of every prompt, whose largest entry is taken and replaced by
its successor by the recurrence, once for every rollout. It is written with `heapq.heapreplace` over tuples and local names, and timed with the building of the heap.
Ours starts from the counts (or the Beta parameters) and returns the whole allocation. Both must spend the budget on marginals of the same total.
"""

import heapq
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import betaln

from experiments.benchmarks.pairing import BenchmarkReport, compare
from theory.allocation.policies import hora
from theory.allocation.priors import beta

Allocation = Int64[np.ndarray, " P"]
Parameters = Float64[np.ndarray, " P"]

_PROBE = 4


def heap_allocation(a: Parameters, b: Parameters, budget: int) -> list[int]:
    """Greedy hit utility by a heap.

    Args:
        a: [P] of the Beta posteriors.
        b: [P] of the Beta posteriors.
        budget: R.

    Returns:
        [P] extra rollouts.
    """
    first = (a / (a + b)).tolist()
    numerators, denominators = b.tolist(), (a + b + 1).tolist()
    counts = [0] * len(first)
    heap = [(-marginal, place) for place, marginal in enumerate(first)]
    heapq.heapify(heap)
    replace = heapq.heapreplace
    for _ in range(budget):
        marginal, place = heap[0]
        taken = counts[place]
        counts[place] = taken + 1
        ratio = (numerators[place] + taken) / (denominators[place] + taken)
        replace(heap, (marginal * ratio, place))
    return counts


def run_few(quick: bool) -> BenchmarkReport:
    """Counts are small integers: five different posteriors.

    Args:
        quick: a tenth of 10^6 prompts and 10^7 rollouts.

    Returns:
        The report.
    """
    num_prompts, budget = _sizes(quick)
    rng = np.random.default_rng(0)
    rates = rng.beta(0.3, 0.6, num_prompts)
    successes = rng.binomial(_PROBE, rates)
    failures = _PROBE - successes
    a, b = 1.0 + successes, 1.0 + failures

    def ours() -> Allocation:
        requests = hora.allocate_many(
            beta(1.0, 1.0), jnp.asarray(successes), jnp.asarray(failures), budget
        )
        return np.asarray(requests.additional)

    return _report("allocation_vs_heap", ours, a, b, budget)


def run_distinct(quick: bool) -> BenchmarkReport:
    """Every prompt with a prior of its own.

    Args:
        quick: a tenth of 10^6 prompts and 10^7 rollouts.

    Returns:
        The report.
    """
    num_prompts, budget = _sizes(quick)
    rng = np.random.default_rng(0)
    a, b = rng.gamma(0.5, 2.0, num_prompts) + 0.05, rng.gamma(1.0, 3.0, num_prompts) + 0.05

    def ours() -> Allocation:
        return np.asarray(hora.allocate_betas(jnp.asarray(a), jnp.asarray(b), budget))

    return _report("allocation_distinct_priors", ours, a, b, budget)


def _sizes(quick: bool) -> tuple[int, int]:
    return (100_000, 1_000_000) if quick else (1_000_000, 10_000_000)


def _report(
    name: str, ours: Callable[[], Allocation], a: Parameters, b: Parameters, budget: int
) -> BenchmarkReport:
    with jax.enable_x64(True):
        result = compare(
            name,
            ours,
            lambda: heap_allocation(a, b, budget),
            {"prompts": a.size, "rollouts": budget},
        )
        mine, theirs = ours(), np.array(heap_allocation(a, b, budget))
    gained = [_hit_utility(a, b, counts) for counts in (mine, theirs)]
    per_rollout = [1e9 * seconds / budget for seconds in (result.numerator, result.denominator)]
    spent = f"spent {mine.sum()} and {theirs.sum()}"
    notes = (
        f"ours {per_rollout[0]:.0f} ns a rollout, the heap {per_rollout[1]:.0f} ns",
        f"total hit utility: ours {gained[0]:.9f}, the heap {gained[1]:.9f}; {spent}",
        f"{int((mine != theirs).sum())} prompts differ (ties that roundings broke)",
    )
    return BenchmarkReport(result, notes)


def _hit_utility(a: Parameters, b: Parameters, counts: Allocation) -> float:
    """sum_i 1 - B(a, b + m) / B(a, b)."""
    return float(-np.expm1(betaln(a, b + counts) - betaln(a, b)).sum())
