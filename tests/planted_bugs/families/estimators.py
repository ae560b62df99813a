"""Intervals and moments: what the catalogue lists."""

from tests.planted_bugs import estimators as planted
from tests.planted_bugs.damage import estimators as exact
from tests.planted_bugs.damage.small_alpha import of_variance
from tests.planted_bugs.defect import RELATIVE_BIAS, SHARE, VARIANCE, Defect
from theory.estimators import t_interval
from theory.estimators.small_alpha import law_from_draws

HOME = "tests/theory/estimators/test_intervals.py"
LENGTHS = f"{HOME}::test_the_squared_length_is_unbiased_over_tasks_only"

DEFECTS = (
    Defect(
        "rollouts resampled as tasks",
        planted.bootstrap_over_pooled_rollouts,
        exact.bootstrap_over_tasks,
        exact.of_coverage,
        0.391113,
        SHARE,
        "40 tasks, 8 equal rollouts each, coverage lost",
        f"{HOME}::test_coverage_over_tasks_holds_and_over_pooled_rollouts_it_does_not",
        ("inspect_ai#1251", "lmms-eval#989"),
    ),
    Defect(
        "standard error of pooled rollouts",
        planted.student_over_pooled_rollouts,
        exact.student_over_tasks,
        exact.of_length,
        0.608243,
        VARIANCE,
        "4 tasks of three kinds",
        LENGTHS,
        ("inspect_ai#1251", "lmms-eval#989"),
    ),
    Defect(
        "paired tasks taken for others",
        planted.unpaired_difference,
        exact.student_of_differences,
        exact.of_paired_length,
        4.375,
        VARIANCE,
        "4 tasks of three kinds, two methods",
        LENGTHS,
    ),
    Defect(
        "normal quantile for Student's",
        planted.normal_for_student,
        t_interval,
        exact.of_normal_coverage,
        0.0948573,
        SHARE,
        "4 normal tasks, coverage lost",
        "tests/theory/estimators/test_interval_coverage.py::test_student_covers_normal_means_exactly",
    ),
    Defect(
        "surprisal for entropy",
        planted.surprisal_for_entropy,
        law_from_draws,
        of_variance,
        1.99649,
        RELATIVE_BIAS,
        "B, three base draws",
        "tests/theory/estimators/test_small_alpha.py::test_surprisal_is_not_entropy",
    ),
)
