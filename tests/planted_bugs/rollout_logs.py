"""Wrong twins of numbers from logs of rollouts: of another policy, of k samples, and of the order of samples."""

import itertools

import numpy as np

from theory.estimators.coverage import pass_at_k, pass_at_k_variance
from theory.estimators.indicators import Indicator, TurnDown, length_coupling, optimism_gap
from theory.estimators.off_policy import (
    Applied,
    WeightInfo,
    off_policy_pass_at_k,
    truncated,
    weight_info,
)
from theory.estimators.order import OrderSums, order_sums
from theory.estimators.ragged import sum_of_tasks

CAP = 1.5


def truncated_weights_called_exact(log_weights: np.ndarray, unit: str) -> Applied:
    """Weights are cut at a cap, and the report says is-seq."""
    return truncated(log_weights, CAP, unit)._replace(label=f"is-{unit}")


def size_of_truncated_weights(log_weights: np.ndarray, offsets: np.ndarray) -> WeightInfo:
    """The effective sample size is that of the weights after the cut, which is what makes them alike."""
    return weight_info(truncated(log_weights, CAP, "seq").log_weights, offsets)


def pass_at_k_of_the_sampler(log_weights: np.ndarray, correct: np.ndarray, k: int) -> np.ndarray:
    """Rows of the sampler count for the evaluated policy as they are."""
    return off_policy_pass_at_k(np.zeros_like(log_weights), correct, k)


def variance_of_independent_samples(correct: np.ndarray, offsets: np.ndarray) -> OrderSums:
    """Outcomes vary independently with the rate of the task, though how many are correct is given: (n - 1)/n of the variance of a trend."""
    sums, sizes = order_sums(correct, offsets), np.diff(offsets)
    rate = sum_of_tasks(correct, offsets) / np.maximum(sizes, 1)
    return sums._replace(trend_variance=sizes * (sizes**2 - 1.0) / 12 * rate * (1 - rate))


def majority_with_first_seen_ties(
    counts: np.ndarray, values: np.ndarray, offsets: np.ndarray, num_samples: np.ndarray, k: int
) -> np.ndarray:
    """Among answers with as many votes the first one in the log wins, so that the order of rows decides."""
    found: list[float] = []
    for task, (begin, end) in enumerate(itertools.pairwise(offsets.tolist())):
        votes = np.repeat(np.arange(begin, end), counts[begin:end]).tolist()
        votes += [-1] * (int(num_samples[task]) - len(votes))
        won = [
            float(values[max(given, key=given.count)]) if given else 0.0
            for drawn in itertools.combinations(votes, k)
            for given in [[answer for answer in drawn if answer >= 0]]
        ]
        found.append(float(np.mean(won)))
    return np.array(found)


def pass_at_k_with_replacement(
    num_samples: np.ndarray, num_correct: np.ndarray, k: int
) -> np.ndarray:
    """1 - (1 - c/n)^k: the k samples are drawn with replacement from those in the log."""
    return 1 - (1 - num_correct / num_samples) ** k


def variance_at_the_observed_rate(
    num_samples: np.ndarray, num_correct: np.ndarray, k: int
) -> np.ndarray:
    """The variance of pass@k as if c/n were the success rate: none for a task that was never solved."""
    return np.array(
        [
            float(pass_at_k_variance(n, k, np.array([c / n]))[0])
            for n, c in zip(num_samples.tolist(), num_correct.tolist(), strict=True)
        ]
    )


def verdicts_taken_for_truth(
    num_samples: np.ndarray, num_passed: np.ndarray, k: int, tpr: float, fpr: float
) -> np.ndarray:
    """What the grader passed is correct, whatever its error rates."""
    del tpr, fpr
    return pass_at_k(num_samples, num_passed, k)


def drop_from_its_own_peak(gold: np.ndarray, proxy: np.ndarray) -> TurnDown:
    """The best number of samples is chosen by the tasks that the drop is then measured on."""
    peak = int(gold.mean(axis=0).argmax())
    return TurnDown(gold[:, peak] - gold[:, -1], proxy[:, -1] - proxy[:, peak], (peak, peak))


def gap_beside_that_of_one_sample(
    scores: np.ndarray, correct: np.ndarray, offsets: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """What scores exceed outcomes by at k = 1 is the baseline of every k, as if the greatest of k scores of noise were no higher than one."""
    return optimism_gap(scores, correct, offsets, k)[0], optimism_gap(scores, correct, offsets, 1)[1]  # fmt: skip


def coupling_of_scores_alone(
    scores: np.ndarray, correct: np.ndarray, lengths: np.ndarray, offsets: np.ndarray
) -> Indicator:
    """Scores that say nothing go with length no more than outcomes do: the baseline is 0, though it is outcomes' own correlation with the other sign."""
    found = length_coupling(scores, correct, lengths, offsets)
    return found._replace(noise=0 * found.noise)
