"""Numbers from logs of rollouts: sums over all data sets of a toy, over all subsets and over all orders."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import binom

from tests.planted_bugs.defect import relative_error
from tests.theory.estimators.off_policy.toy import (
    LAW,
    RATIOS,
    REWARDS,
    expectation,
    tasks_of,
)
from theory.estimators.coverage import pass_at_k_variance
from theory.estimators.off_policy import importance_mean

LOG_WEIGHTS = RATIOS.sum(axis=1)
TRUTH = float(LAW @ REWARDS)


def ints(*numbers: int) -> np.ndarray:
    """As counts and offsets are given."""
    return np.array(numbers, np.int64)


def of_exact_mean(apply: Any) -> float:
    """Relative bias of the mean reward of two sequences of the sampler, reweighted."""
    weights = apply(LOG_WEIGHTS, "seq")
    assert weights.label == "is-seq"
    mean = expectation(
        2,
        lambda drawn: importance_mean(
            weights.log_weights[drawn].ravel(), REWARDS[drawn].ravel(), tasks_of(drawn)
        ),
    )
    return relative_error(mean, TRUTH)


def of_effective_size(inform: Any) -> float:
    """Of the effective sample size of weights 1/2, 1, 2 and 4: (15/2)^2 / (85/4)."""
    weights = np.log(np.array([0.5, 1.0, 2.0, 4.0]))
    return relative_error(inform(weights, ints(0, 4)).ess[0], float(Fraction(225, 85)))


def of_off_policy_pass_at_k(estimate: Any) -> float:
    """Relative bias of pass@2 from three sequences of the sampler."""
    mean = expectation(3, lambda drawn: estimate(LOG_WEIGHTS[drawn], REWARDS[drawn], 2))
    return relative_error(mean, 1 - (1 - TRUTH) ** 2)


def of_trend_variance(sums: Any) -> float:
    """Of two correct samples among five, over all orders."""
    orders = sorted(set(itertools.permutations((1.0, 1.0, 0.0, 0.0, 0.0))))
    found = [sums(np.array(order), ints(0, 5)) for order in orders]
    variance = float(np.var([each.trend[0] for each in found]))
    return relative_error(found[0].trend_variance[0], variance)


def of_majority(vote: Any) -> float:
    """Relative bias of maj@4 of answers A A B B C and a sample without one, B right."""
    found = vote(ints(2, 2, 1), np.array([0.0, 1.0, 0.0]), ints(0, 3), ints(6), 4)
    subsets = list(itertools.combinations("AABBC-", 4))
    shares: list[Fraction] = []
    for subset in subsets:
        most = max(subset.count(answer) for answer in "ABC")
        top = [answer for answer in "ABC" if subset.count(answer) == most]
        shares.append(Fraction("B" in top, len(top)))
    return relative_error(found[0], float(sum(shares, Fraction(0)) / len(subsets)))


def of_pass_at_k(estimate: Any) -> float:
    """Relative bias of pass@5 from ten samples, each correct with probability 1/10."""
    counts = np.arange(11)
    found = estimate(np.full(11, 10), counts, 5)
    return relative_error(float(found @ binom.pmf(counts, 10, 0.1)), 1 - 0.9**5)


def of_sampling_variance(estimate: Any) -> float:
    """Relative bias of the variance of pass@2 of ten samples, each correct with probability 1/10."""
    counts = np.arange(11)
    found = estimate(np.full(11, 10), counts, 2)
    truth = pass_at_k_variance(10, 2, np.array([0.1]))[0]
    return relative_error(float(found @ binom.pmf(counts, 10, 0.1)), float(truth))


def of_noise_corrected_pass_at_k(estimate: Any) -> float:
    """Relative bias of pass@2 of five samples, each correct with probability 1/4, of a grader with rates 9/10 and 1/5."""
    counts = np.arange(6)
    found = estimate(np.full(6, 5), counts, 2, 0.9, 0.2)
    law = binom.pmf(counts, 5, 0.25 * 0.9 + 0.75 * 0.2)
    return relative_error(float(found @ law), 1 - 0.75**2)


def of_turn_down(measure: Any) -> float:
    """Mean drop over all data sets of four tasks, each with outcomes of its own at two numbers of samples: 0 in truth, where no number is better."""
    curves = list(itertools.product((0.0, 1.0), repeat=2))
    drops = [
        float(measure(np.array(drawn), np.zeros((4, 2))).drop.mean())
        for drawn in itertools.product(curves, repeat=4)
    ]
    return abs(float(np.mean(drops)))


def _dealt(scores: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """A task of each order of the scores, and where each begins."""
    orders = np.array(sorted(itertools.permutations(scores)))
    return orders.ravel(), np.arange(0, orders.size + 1, len(scores)).astype(np.int64)


def of_gap_baseline(measure: Any) -> float:
    """Of the baseline of the gap at k = 3: against its mean over all orders of four scores."""
    scores, offsets = _dealt((0.0, 0.25, 0.5, 1.0))
    gap, noise = measure(scores, np.tile([1.0, 0.0, 0.0, 1.0], offsets.size - 1), offsets, 3)
    return relative_error(noise[0], gap.mean())


def of_coupling_baseline(measure: Any) -> float:
    """Of the baseline of length coupling: against its mean over all orders of four scores."""
    scores, offsets = _dealt((0.0, 0.25, 0.5, 1.0))
    outcomes, lengths = (
        np.tile(each, offsets.size - 1) for each in ([1.0, 0.0, 0.0, 1.0], [3.0, 1.0, 4.0, 7.0])
    )
    found = measure(scores, outcomes, lengths, offsets)
    return relative_error(found.noise[0], found.value.mean())
