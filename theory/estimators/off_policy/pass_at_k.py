"""pass@k of a policy from samples of another one, and from a grader that errs.

Source: this project; the on-policy case is the estimator of Chen et al. 2021 (arXiv 2107.03374).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64
from scipy.stats import hypergeom

from theory.errors import InvalidInput
from theory.estimators.subsets import alike, check_subset_size

# Products of a few such weights still fit float64, and one of them means that nothing can be said.
LARGEST = 100.0


def off_policy_pass_at_k(
    log_weights: Float64[np.ndarray, "n s"], correct: Float64[np.ndarray, "n s"], k: int
) -> Float64[np.ndarray, " n"]:
    """Chance that one of k samples of the evaluated policy is correct.

        1 - e_k(1 - w_1 r_1, ..., 1 - w_n r_n) / C(n, k),    e_k the elementary symmetric polynomial

    Unbiased for 1 - (1 - E_pi r)^k: the mean over subsets of k independent factors, each of mean 1 - E_pi r. It may leave [0, 1], and is not clipped: that would bias
    it. With all weights 1 it is the estimator of pass@k.

    Args:
        log_weights: [n, s] log pi(y) - log mu(y) of whole sequences; -inf where the evaluated policy cannot go.
        correct: [n, s] r, 0 or 1, or a corrected verdict (`corrected_verdicts`).
        k: at most s.

    Returns:
        [n] of each task.

    Raises:
        InvalidInput: k below 1 or above s, or a weight or verdict that is missing or infinite.
    """
    return off_policy_pass_at_ks(log_weights, correct, (k,))[:, 0]


def off_policy_pass_at_ks(
    log_weights: Float64[np.ndarray, "n s"], correct: Float64[np.ndarray, "n s"], ks: Sequence[int]
) -> Float64[np.ndarray, "n k"]:
    """`off_policy_pass_at_k` at several k for the price of the largest.

    Args:
        log_weights: [n, s].
        correct: [n, s].
        ks: each at most s.

    Returns:
        [n, number of ks].

    Raises:
        InvalidInput: as `off_policy_pass_at_k`.
    """
    num_samples = correct.shape[1]
    k = max(ks, default=0)
    if not 1 <= min(ks, default=0) <= k <= num_samples:
        raise InvalidInput(f"k = {k}: must be from 1 to the {num_samples} samples of a task")
    if not (log_weights <= LARGEST).all() or not np.isfinite(correct).all():
        raise InvalidInput(
            "weights and verdicts: every sample needs both, leave whole tasks out; "
            f"no weight may be above e^{LARGEST:g}"
        )
    means = means_of_subset_products(1 - np.exp(log_weights) * correct, k)
    return 1 - means[:, list(ks)]


def corrected_verdicts(
    verdicts: Float64[np.ndarray, "*rows"], true_positive_rate: float, false_positive_rate: float
) -> Float64[np.ndarray, "*rows"]:
    """Verdicts of a grader that errs, made right on average.

        (v - fpr) / (tpr - fpr)

    Its mean given the truth is the truth, if the grader errs on each sample independently with these rates. In place of the verdicts of `off_policy_pass_at_k` it
    gives an unbiased pass@k; the variance grows with 1 / (tpr - fpr)^2 a sample.

    Args:
        verdicts: [...] 0 or 1.
        true_positive_rate: share of correct samples that are passed.
        false_positive_rate: share of wrong samples that are passed, below it.

    Returns:
        [...] numbers that may leave [0, 1].

    Raises:
        InvalidInput: rates that are not 0 <= fpr < tpr <= 1: such a grader says nothing.

    Source: Rogan and Gladen 1978, "Estimating prevalence from the results of a screening test".
    """
    if not 0 <= false_positive_rate < true_positive_rate <= 1:
        raise InvalidInput(
            f"tpr {true_positive_rate}, fpr {false_positive_rate}: must be 0 <= fpr < tpr <= 1"
        )
    return (verdicts - false_positive_rate) / (true_positive_rate - false_positive_rate)


def noise_corrected_pass_at_k(
    num_samples: Int64[np.ndarray, " n"],
    num_passed: Int64[np.ndarray, " n"],
    k: int,
    true_positive_rate: float,
    false_positive_rate: float,
) -> Float64[np.ndarray, " n"]:
    """pass@k of true correctness from the verdicts of a grader whose error rates are known.

        1 - sum_j H(j; n, v, k) (1 - a)^j (1 - b)^(k - j),    a, b the corrected verdicts of a sample that was passed and of one that was not

    H is the hypergeometric law of how many of k samples were passed: this is `off_policy_pass_at_k` at weights of 1 with `corrected_verdicts`, from counts alone. Unbiased
    for 1 - (1 - p)^k with p the true success probability, if the grader errs on each sample independently; it may leave [0, 1] and is not clipped. With tpr 1 and fpr 0 it is
    pass@k.

    Args:
        num_samples: [n] of each task, at least k.
        num_passed: [n] of them, v.
        k: samples drawn without replacement.
        true_positive_rate: share of correct samples that are passed.
        false_positive_rate: share of wrong samples that are passed, below it.

    Returns:
        [n].

    Raises:
        InvalidInput: a k below 1 or above the samples of some task, more passed than samples, or rates that are not 0 <= fpr < tpr <= 1.
    """
    check_subset_size(num_samples, k)
    if ((num_passed < 0) | (num_passed > num_samples)).any():
        raise InvalidInput("passed samples: must be from 0 to the samples of the task")
    of_failed, of_passed = 1 - corrected_verdicts(
        np.array([0.0, 1.0]), true_positive_rate, false_positive_rate
    )
    some, kind = alike(num_samples, num_passed)
    passed = np.arange(k + 1)
    factors = of_passed**passed * of_failed ** (k - passed)
    chances = hypergeom.pmf(passed[None], num_samples[some, None], num_passed[some, None], k)
    return np.asarray(1 - chances @ factors, np.float64)[kind]


def mean_of_subset_products(
    factors: Float64[np.ndarray, "n s"], k: int
) -> Float64[np.ndarray, " n"]:
    """Mean over all subsets of k of the product of their factors.

        e_k(a_1, ..., a_s) / C(s, k),    by  M_j <- ((i - j)/i) M_j + (j/i) a_i M_{j-1}

    Args:
        factors: [n, s].
        k: at most s.

    Returns:
        [n].
    """
    return means_of_subset_products(factors, k)[:, k]


def means_of_subset_products(
    factors: Float64[np.ndarray, "n s"], k: int
) -> Float64[np.ndarray, "n k1"]:
    """`mean_of_subset_products` at 0, 1, ..., k. Means and not sums: nothing overflows that is not large itself.

    Args:
        factors: [n, s].
        k: at most s.

    Returns:
        [n, k + 1].
    """
    means = np.zeros((factors.shape[0], k + 1))
    means[:, 0] = 1.0
    sizes = np.arange(1.0, k + 1)[None]
    for i in range(1, factors.shape[1] + 1):
        joined = factors[:, i - 1, None] * means[:, :-1]
        kept = np.maximum(i - sizes, 0.0) * means[:, 1:]
        means[:, 1:] = np.where(sizes <= i, (kept + sizes * joined) / i, 0.0)
    return means
