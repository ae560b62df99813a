"""How often intervals over tasks hold the truth, by simulation on populations whose mean is known."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from theory.estimators import (
    Interval,
    percentile_interval,
    resample_counts,
    resampled_means,
    t_interval,
)

LEVEL = 0.95
NUM_TASKS = (10, 20, 50)
NUM_DATA_SETS = 4000
NUM_RESAMPLES = 2000
_BLOCK = 1000

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


class Population(NamedTuple):
    """Values of tasks.

    Attributes:
        draw: independent values of the shape asked for.
        mean: their expectation.
    """

    draw: Draw
    mean: float


def _rates(rng: np.random.Generator, success: np.ndarray) -> np.ndarray:
    """Shares of sixteen samples of each task that are correct."""
    return rng.binomial(16, success) / 16


def _bimodal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return _rates(rng, rng.beta(0.2, 0.2, shape))


def _uniform(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return _rates(rng, rng.random(shape))


def _hard(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Nine tasks of ten are beyond reach."""
    return _rates(rng, np.where(rng.random(shape) < 0.9, 0.0, rng.random(shape)))


def _solved_or_not(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return (rng.random(shape) < 0.2).astype(np.float64)


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.normal(size=shape)


def _lengths(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Tokens, of unit log-normal law."""
    return rng.lognormal(size=shape)


POPULATIONS = {
    "normal": Population(_normal, 0.0),
    "success rates, uniform": Population(_uniform, 0.5),
    "success rates, bimodal": Population(_bimodal, 0.5),
    "solved or not, 20 %": Population(_solved_or_not, 0.2),
    "success rates, 90 % never": Population(_hard, 0.05),
    "lengths, log-normal": Population(_lengths, float(np.exp(0.5))),
}


def student(values: np.ndarray) -> list[Interval]:
    """`t_interval` of every column."""
    return [t_interval(column, LEVEL) for column in np.ascontiguousarray(values.T)]


def bootstrap(values: np.ndarray) -> list[Interval]:
    """The percentile interval of every column; all take the resamples of one seed, as a command does."""
    tasks = values.shape[0]
    counts = resample_counts(np.random.default_rng(0), tasks, NUM_RESAMPLES)
    means = np.ascontiguousarray(resampled_means(counts, values).T)
    return [percentile_interval(column, LEVEL, tasks) for column in means]


def num_covered(
    make: Callable[[np.ndarray], list[Interval]],
    population: Population,
    tasks: int,
    num_data_sets: int = NUM_DATA_SETS,
) -> int:
    """Data sets whose interval holds the population's mean."""
    rng = np.random.default_rng(tasks)
    covered = 0
    for _ in range(num_data_sets // _BLOCK):
        found = make(population.draw(rng, (tasks, _BLOCK)))
        covered += sum(each.low <= population.mean <= each.high for each in found)
    return covered
