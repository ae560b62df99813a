"""Coverage: whether any, all, or enough of k samples of a task are correct.

A task has n samples, c of them correct. Each estimator is the mean over all C(n, k) subsets of k samples, found without listing them: the
U-statistic of its event, so of all functions of the n outcomes that are unbiased the one of least variance. Nothing here is defined for k > n; the
customary 1.0 for "fewer than k samples are wrong" is wrong there (two wrong samples do not make pass@5 equal to 1), and the plug-in
1 - (1 - c/n)^k is biased low.

Source: Chen et al. 2021 (arXiv 2107.03374), section 2.1, pass@k; Yao et al. 2024 (arXiv 2406.12045), pass^k; Liu et al. 2024 (arXiv 2412.13147),
G-Pass@k (the last two cited from memory).
"""

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import gammaln, xlog1py, xlogy
from scipy.stats import hypergeom

from theory.errors import InvalidInput
from theory.estimators.subsets import alike, chance_all_among, check_subset_size, on_grid

Counts = Int64[np.ndarray, " n"]


def pass_at_k(num_samples: Counts, num_correct: Counts, k: int) -> Float64[np.ndarray, " n"]:
    """Chance that at least one of k samples is correct.

        1 - C(n - c, k) / C(n, k)

    Unbiased for 1 - (1 - p)^k, p the success probability of the task. At k = n it is 1 where any sample is correct: oracle@n.

    Args:
        num_samples: [n] of each task, at least k.
        num_correct: [n] of them.
        k: samples drawn without replacement.

    Returns:
        [n] one number a task; their mean over tasks is pass@k.

    Raises:
        InvalidInput: k below 1 or above the samples of some task, or more correct samples than samples.
    """
    _check(num_samples, num_correct, k)
    chance = 1 - chance_all_among(num_samples - num_correct, num_samples, k)
    return on_grid(chance, num_samples, k)


def pass_hat_k(num_samples: Counts, num_correct: Counts, k: int) -> Float64[np.ndarray, " n"]:
    """Chance that all of k samples are correct, pass^k.

        C(c, k) / C(n, k)

    Unbiased for p^k.

    Args:
        num_samples: [n] of each task, at least k.
        num_correct: [n] of them.
        k: samples drawn without replacement.

    Returns:
        [n].

    Raises:
        InvalidInput: as `pass_at_k`.
    """
    _check(num_samples, num_correct, k)
    return on_grid(chance_all_among(num_correct, num_samples, k), num_samples, k)


def g_pass_at_k(
    num_samples: Counts, num_correct: Counts, k: int, threshold: float
) -> Float64[np.ndarray, " n"]:
    """Chance that at least a share of k samples is correct.

        sum_{j >= ceil(threshold k)} C(c, j) C(n - c, k - j) / C(n, k)

    Unbiased for P(Binomial(k, p) >= ceil(threshold k)). At threshold 1 it is pass^k, at 1/k and below pass@k.

    Args:
        num_samples: [n] of each task, at least k.
        num_correct: [n] of them.
        k: samples drawn without replacement.
        threshold: share in (0, 1].

    Returns:
        [n].

    Raises:
        InvalidInput: as `pass_at_k`, or a threshold outside (0, 1].
    """
    _check(num_samples, num_correct, k)
    least = needed(k, threshold)
    # SciPy sums this tail task by task in Python: tasks that are alike once.
    some, kind = alike(num_samples, num_correct)
    tails = hypergeom.sf(least - 1, num_samples[some], num_correct[some], k)
    return np.asarray(tails, np.float64)[kind]


def needed(k: int, threshold: float) -> int:
    """Correct samples that make a share of k: ceil(threshold k), where .1 * 30 is 3.

    Args:
        k: samples.
        threshold: share in (0, 1].

    Returns:
        From 1 to k.

    Raises:
        InvalidInput: a threshold outside (0, 1].
    """
    if not 0 < threshold <= 1:
        raise InvalidInput(f"threshold {threshold}: must be in (0, 1], a share of the k samples")
    # The double nearest to .1 is above it, and so is 30 times that.
    return math.ceil(Fraction(threshold).limit_denominator(10**9) * k)


def pass_at_k_exact(num_samples: int, num_correct: int, k: int) -> Fraction:
    """`pass_at_k` of one task, in integers.

    Args:
        num_samples: n, at least k.
        num_correct: c of them.
        k: samples drawn without replacement.

    Returns:
        The exact number.

    Raises:
        InvalidInput: as `pass_at_k`.
    """
    return 1 - pass_hat_k_exact(num_samples, num_samples - num_correct, k)


def pass_hat_k_exact(num_samples: int, num_correct: int, k: int) -> Fraction:
    """`pass_hat_k` of one task, in integers.

    Args:
        num_samples: n, at least k.
        num_correct: c of them.
        k: samples drawn without replacement.

    Returns:
        The exact number.

    Raises:
        InvalidInput: as `pass_at_k`.
    """
    _check(np.array([num_samples], np.int64), np.array([num_correct], np.int64), k)
    return Fraction(math.comb(num_correct, k), math.comb(num_samples, k))


def g_pass_at_k_exact(num_samples: int, num_correct: int, k: int, threshold: float) -> Fraction:
    """`g_pass_at_k` of one task, in integers.

    Args:
        num_samples: n, at least k.
        num_correct: c of them.
        k: samples drawn without replacement.
        threshold: share in (0, 1].

    Returns:
        The exact number.

    Raises:
        InvalidInput: as `g_pass_at_k`.
    """
    _check(np.array([num_samples], np.int64), np.array([num_correct], np.int64), k)
    wrong = num_samples - num_correct
    ways = sum(
        math.comb(num_correct, j) * math.comb(wrong, k - j)
        for j in range(needed(k, threshold), min(k, num_correct) + 1)
    )
    return Fraction(ways, math.comb(num_samples, k))


def pass_at_k_variance(
    num_samples: int, k: int, probability: Float64[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    """Variance of `pass_at_k` between repetitions of the n samples, for known success probabilities.

        sum_c Binomial(c; n, p) rho(n, c, k)^2 - (1 - (1 - p)^k)^2

    Args:
        num_samples: n of every task, at least k.
        k: samples drawn without replacement.
        probability: [n] p in [0, 1].

    Returns:
        [n].

    Raises:
        InvalidInput: as `pass_at_k`, or a p outside [0, 1].
    """
    correct = np.arange(num_samples + 1, dtype=np.int64)
    estimates = pass_at_k(np.full_like(correct, num_samples), correct, k)
    if not ((probability >= 0) & (probability <= 1)).all():
        raise InvalidInput("probability: must be in [0, 1]")
    law = binomial_law(num_samples, probability)
    truth = 1 - (1 - probability) ** k
    return np.maximum((law * (estimates[None] - truth[:, None]) ** 2).sum(axis=1), 0.0)


def pass_at_k_sampling_variance(
    num_samples: Counts, num_correct: Counts, k: int
) -> Float64[np.ndarray, " n"]:
    """Variance of `pass_at_k` between repetitions of the n samples of the same task, its success probability unknown.

        F^2 - C(n - c, 2k) / C(n, 2k),    F = C(n - c, k) / C(n, k)

    Unbiased for `pass_at_k_variance` at every p, since both terms are: of E F^2 and of (1 - p)^(2k). Of one task it may be below 0, so it is for means over tasks. The plug-in
    of p = c/n is biased.

    Args:
        num_samples: [n] of each task, at least 2k: with fewer nothing unbiased exists.
        num_correct: [n] of them.
        k: samples drawn without replacement.

    Returns:
        [n].

    Raises:
        InvalidInput: as `pass_at_k`, or fewer than 2k samples.

    Source: this project.
    """
    _check(num_samples, num_correct, 2 * k)
    wrong = num_samples - num_correct
    fails = chance_all_among(wrong, num_samples, k)
    return fails**2 - chance_all_among(wrong, num_samples, 2 * k)


def binomial_law(
    num_samples: int, probability: Float64[np.ndarray, " n"]
) -> Float64[np.ndarray, "n c"]:
    """Chances of 0 ... n correct samples.

    Args:
        num_samples: n.
        probability: [n] in [0, 1].

    Returns:
        [n, n + 1].
    """
    c = np.arange(num_samples + 1.0)[None]
    ways = gammaln(num_samples + 1) - gammaln(c + 1) - gammaln(num_samples - c + 1)
    p = probability[:, None]
    return np.exp(ways + xlogy(c, p) + xlog1py(num_samples - c, -p))


def pass_at_k_rewards(
    num_samples: Counts, num_correct: Counts, k: int
) -> Float64[np.ndarray, "n 2"]:
    """What each sample of a task earns when the gradient of pass@k is wanted.

        correct: k / n.    wrong: (k / n) rho(n - 1, c, k - 1), with rho the estimator of pass@(k - 1) from the other samples

    The sum over samples of reward times the gradient of the sample's log probability is unbiased for the gradient of pass@k.

    Args:
        num_samples: [n] of each task, at least k.
        num_correct: [n] of them.
        k: samples of pass@k.

    Returns:
        [n, 2] of a wrong sample, of a correct sample. The number for a kind that a task has none of is finite and means nothing.

    Raises:
        InvalidInput: as `pass_at_k`.

    Source: Walder and Karkhanis 2025 (arXiv 2505.15201), PKPO, theorem 2 (number cited from memory).
    """
    _check(num_samples, num_correct, k)
    others = np.maximum(num_samples - 1, 1)
    wrong_others = np.maximum(num_samples - 1 - num_correct, 0)
    found = 1 - chance_all_among(wrong_others, others, k - 1)
    return np.stack([k / num_samples * found, k / num_samples], axis=1)


def _check(num_samples: Counts, num_correct: Counts, k: int) -> None:
    check_subset_size(num_samples, k)
    if ((num_correct < 0) | (num_correct > num_samples)).any():
        raise InvalidInput("correct samples: must be from 0 to the samples of the task")
