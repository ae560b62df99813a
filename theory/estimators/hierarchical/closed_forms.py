"""Exact moments of a Beta law with atoms at 0 and 1, before and after c of n samples were correct.

All by log B, which keeps its digits where differences of log-gamma lose them. Derived here; the Beta case of `failure` is the toy of
Schaeffer et al. 2025 (arXiv 2502.17578; read at second hand).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy import special

from theory.errors import InvalidInput

Count = int | Int[np.ndarray, "*batch"]


class Hyperparameters(NamedTuple):
    """The law of success rates, or draws of it.

    Attributes:
        weight_zero: pi_0, the share of tasks that are never solved.
        weight_one: pi_1, the share that are always solved; pi_0 + pi_1 < 1.
        a: of the Beta part, above 0: the exponent of its tail.
        b: of the Beta part, above 0.
    """

    weight_zero: Float64[np.ndarray, "*batch"]
    weight_one: Float64[np.ndarray, "*batch"]
    a: Float64[np.ndarray, "*batch"]
    b: Float64[np.ndarray, "*batch"]


class TaskLaw(NamedTuple):
    """What is known of a task's success rate after its samples: again a Beta law with atoms.

    Attributes:
        weight_zero: posterior probability that the rate is 0; 0 once a sample was correct.
        weight_one: that it is 1; 0 once a sample was wrong.
        a: a + c.
        b: b + n - c.
    """

    weight_zero: Float64[np.ndarray, "*batch"]
    weight_one: Float64[np.ndarray, "*batch"]
    a: Float64[np.ndarray, "*batch"]
    b: Float64[np.ndarray, "*batch"]


def failure(law: Hyperparameters | TaskLaw, k: Count) -> Float64[np.ndarray, "*batch"]:
    """E[(1 - p)^k], that k fresh samples of a task all fail.

        pi_0 + (1 - pi_0 - pi_1) B(a, b + k) / B(a, b)

    Args:
        law: of the rate.
        k: samples, at least 1.

    Returns:
        In [0, 1], of the law's shape.

    Raises:
        InvalidInput: k below 1.
    """
    _check_k(k)
    continuous = 1 - law.weight_zero - law.weight_one
    tail = np.exp(special.betaln(law.a, law.b + k) - special.betaln(law.a, law.b))
    return np.asarray(law.weight_zero + continuous * tail, np.float64)


def tail_exponent_at(law: Hyperparameters, k: Count) -> Float64[np.ndarray, "*batch"]:
    """-d log E[(1 - p)^k] / d log k, the exponent that a plot of 1 - pass@k shows at this k.

    Tends to a as k grows where pi_0 = 0, and to 0 where pi_0 > 0: tasks that are never solved leave a floor and no power law.

    Args:
        law: of the rate.
        k: at least 1.

    Returns:
        At least 0, of the law's shape.

    Raises:
        InvalidInput: k below 1.
    """
    _check_k(k)
    all_failures = failure(law, k)
    share = (all_failures - law.weight_zero) / all_failures
    slope = special.digamma(law.a + law.b + k) - special.digamma(law.b + k)
    return np.asarray(share * k * slope, np.float64)


def after_samples(law: Hyperparameters, num_samples: Count, num_correct: Count) -> TaskLaw:
    """Bayes' rule for one task, by conjugacy.

    Args:
        law: of the rate before; shapes broadcast.
        num_samples: n.
        num_correct: c.

    Returns:
        The law of the rate given c of n.
    """
    n, c = np.asarray(num_samples, np.float64), np.asarray(num_correct, np.float64)
    continuous = 1 - law.weight_zero - law.weight_one
    beta = continuous * np.exp(
        special.betaln(law.a + c, law.b + n - c) - special.betaln(law.a, law.b)
    )
    zero = np.where(c == 0, law.weight_zero, 0.0)
    one = np.where(c == n, law.weight_one, 0.0)
    total = zero + one + beta
    shape = np.broadcast_shapes(total.shape, np.shape(law.a + c))
    return TaskLaw(
        *(
            np.broadcast_to(part, shape)
            for part in (zero / total, one / total, law.a + c, law.b + n - c)
        )
    )


def _check_k(k: Count) -> None:
    if np.any(np.asarray(k) < 1):
        raise InvalidInput(f"k {np.min(k)}: must be at least 1")
