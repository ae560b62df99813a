"""Coverage of intervals over tasks at 10, 20 and 50 tasks: the table of docs/estimators.md, and laws it has to obey."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tests.conftest import ROOT
from tests.planted_bugs import estimators as planted
from tests.stat_asserts import assert_counts, assert_rejected
from tests.theory.estimators.interval_coverage import (
    LEVEL,
    NUM_DATA_SETS,
    NUM_TASKS,
    POPULATIONS,
    bootstrap,
    num_covered,
    student,
)
from theory.estimators import Interval, t_interval

METHODS = {"percentile bootstrap": bootstrap, "Student's t": student}


def printed() -> dict[tuple[str, str], list[float]]:
    """Population and method to coverage at 10, 20 and 50 tasks, as the document has it."""
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in (ROOT / "docs" / "estimators.md").read_text().splitlines()
        if line.startswith("|")
    ]
    return {
        (row[0], row[1]): [float(cell) for cell in row[2:]] for row in rows if row[1] in METHODS
    }


def test_the_document_names_every_population_and_method() -> None:
    assert set(printed()) == {(name, method) for name in POPULATIONS for method in METHODS}
    assert all(len(row) == len(NUM_TASKS) for row in printed().values())


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_coverage_is_what_the_document_says(name: str, method: str) -> None:
    """The seeds are those of the document: only a tie in the last bit of a mean may differ."""
    for tasks, share in zip(NUM_TASKS, printed()[name, method], strict=True):
        covered = num_covered(METHODS[method], POPULATIONS[name], tasks)
        assert covered / NUM_DATA_SETS == pytest.approx(share, abs=0.0011), tasks


@pytest.mark.parametrize("name", POPULATIONS)
def test_populations_have_the_mean_that_is_to_be_covered(name: str) -> None:
    population = POPULATIONS[name]
    found = population.draw(np.random.default_rng(5), (400, 500))
    error = found.std() / np.sqrt(found.size)
    assert abs(found.mean() - population.mean) < 5 * error


@pytest.mark.parametrize("tasks", [3, 5])
def test_student_covers_normal_means_exactly(tasks: int) -> None:
    num, law = 2000, [LEVEL, 1 - LEVEL]

    def check(make: Callable[[np.ndarray], list[Interval]]) -> None:
        covered = num_covered(make, POPULATIONS["normal"], tasks, num)
        assert_counts(np.array([covered, num - covered]), np.array(law))

    check(student)
    assert_rejected(
        lambda: check(lambda values: [planted.normal_for_student(x, LEVEL) for x in values.T])
    )


@pytest.mark.parametrize("tasks", [10, 50])
def test_student_covers_as_the_binomial_says(tasks: int) -> None:
    """Tasks solved or not: coverage is a sum over how many are."""
    num, success = 2000, POPULATIONS["solved or not, 20 %"].mean
    exact = 0.0
    for solved in range(tasks + 1):
        found = t_interval((np.arange(tasks) < solved).astype(float), LEVEL)
        if found.low <= success <= found.high:
            exact += float(stats.binom.pmf(solved, tasks, success))

    def check(make: Callable[[np.ndarray], list[Interval]]) -> None:
        covered = num_covered(make, POPULATIONS["solved or not, 20 %"], tasks, num)
        assert_counts(np.array([covered, num - covered]), np.array([exact, 1 - exact]))

    def pooled(values: np.ndarray) -> list[Interval]:
        rollouts = np.repeat(values.T[:, :, None], 8, axis=2)
        return [planted.student_over_pooled_rollouts(each, LEVEL) for each in rollouts]

    check(student)
    assert_rejected(lambda: check(pooled))
