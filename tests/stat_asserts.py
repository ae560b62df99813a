"""Statistical assertions with a stated false-alarm level.

A run of the tests may raise a false alarm with probability at most SUITE_LEVEL over the choice of all seeds. It is
split evenly over MAX_ASSERTIONS assertions (Bonferroni), and over the cells inside an assertion; tests/conftest.py
fails a run that makes more of them. Seeds are fixed, so a failure is evidence of a defect, and choosing
another seed is no mend.

Both assertions are for independent replicates. States of one Markov chain or particles of one population are not.
Errors in how a test is set up are ValueErrors, so that `assert_rejected` never takes one for a rejection.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from theory import mean_tests
from theory.goodness_of_fit import Cells, counts_p_value
from theory.mean_tests import POWER, mean_p_values, tail_inflation

SUITE_LEVEL = 1e-3
MAX_ASSERTIONS = 1000
LEVEL = SUITE_LEVEL / MAX_ASSERTIONS

# Most by which the skewness of the replicates may inflate a tail of the t-test, to first order.
MAX_TAIL_INFLATION = 2.0


class Rejected(AssertionError):
    """The data contradict the claim at the level of the assertion."""


class Budget:
    """How many statistical assertions this process has made."""

    used = 0


def minimum_detectable(
    sigma: ArrayLike, n: int, level: float = LEVEL, power: float = POWER
) -> Float[np.ndarray, "*cells"]:
    """`theory.mean_tests.minimum_detectable` at the level of one assertion."""
    return mean_tests.minimum_detectable(np.asarray(sigma), n, level, power)


def assert_mean(replicates: ArrayLike, truth: ArrayLike, *, smallest_bias: ArrayLike) -> None:
    """Assert that independent replicates have expectation `truth`.

    Args:
        replicates: [n, ...] independent along the first axis; cells may depend on each other.
        truth: [...] exact expectation.
        smallest_bias: [...] smallest absolute bias that the test must see with probability POWER.

    Raises:
        Rejected: the claim is false.
        ValueError: n is too small to see `smallest_bias`, or too small for the level to hold under this skewness.
    """
    Budget.used += 1
    values = np.asarray(replicates, np.float64)
    num_replicates = values.shape[0]
    level = LEVEL / values[0].size
    detectable = minimum_detectable(values.std(axis=0, ddof=1), num_replicates, level)
    if np.any(detectable > np.asarray(smallest_bias)):
        raise ValueError(
            f"{num_replicates} replicates see a bias of {np.max(detectable):.3g}, "
            f"the test asks for {np.min(np.asarray(smallest_bias)):.3g}: draw more"
        )
    inflation = tail_inflation(values, level)
    if inflation > MAX_TAIL_INFLATION:
        raise ValueError(
            f"{num_replicates} replicates are too skewed for a t-test at level {level:.1g} "
            f"(a tail is inflated {inflation:.2g} times): draw more"
        )
    p_values = mean_p_values(values, np.asarray(truth, np.float64))
    if np.any(p_values < level):
        worst = np.unravel_index(np.argmin(p_values), p_values.shape)
        raise Rejected(
            f"cell {tuple(int(i) for i in worst)}: mean {values.mean(axis=0)[worst]:.6g}, "
            f"truth {np.asarray(truth, np.float64)[worst]:.6g}, "
            f"p = {p_values[worst]:.2g} < {level:.1g} "
            f"({num_replicates} replicates)"
        )


def assert_counts(counts: Cells, probs: Cells) -> None:
    """Assert that independent draws follow a finite law.

    Args:
        counts: [K] draws in each cell.
        probs: [K] exact probabilities; a draw in a cell of probability 0 is rejected whatever the level.

    Raises:
        Rejected: the claim is false.
        ValueError: the probabilities do not sum to 1, or there are too few draws to test anything.
    """
    Budget.used += 1
    p_value = counts_p_value(counts, probs)
    if p_value < LEVEL:
        observed, law = np.asarray(counts, np.int64).ravel(), np.asarray(probs, np.float64).ravel()
        expected = observed.sum() * law
        deviation = np.abs(observed - expected) / np.sqrt(np.maximum(expected, 1e-300))
        worst = int(np.argmax(deviation))
        raise Rejected(
            f"p = {p_value:.2g} < {LEVEL:.1g}; worst cell {worst}: {observed[worst]} draws, "
            f"{expected[worst]:.6g} expected ({observed.sum()} draws)"
        )


def assert_rejected(check: Callable[[], object]) -> None:
    """Assert that a statistical assertion, given a planted bug, rejects it.

    Only `Rejected` counts: an error of the check itself passes through. Rejections do not use up the budget,
    since they are no chance of a false alarm.

    Args:
        check: runs one statistical assertion on the planted bug.
    """
    used = Budget.used
    try:
        check()
    except Rejected:
        return
    finally:
        Budget.used = used
    raise AssertionError("the planted bug was not rejected: the assertion cannot see it")
