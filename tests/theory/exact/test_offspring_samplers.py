"""The exact laws of resampling are those of the samplers of the same name, run on every cell of a grid of uniforms."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from theory.exact.offspring import (
    OffspringLaw,
    killing_offspring,
    multinomial_offspring,
    residual_offspring,
    ssp_offspring,
    stratified_offspring,
    systematic_offspring,
)
from theory.resampling.killing import killing_from_uniforms
from theory.resampling.multinomial import multinomial_from_uniforms
from theory.resampling.residual import residual_from_uniforms
from theory.resampling.ssp import ssp_from_uniforms
from theory.resampling.stratified import stratified_from_uniforms
from theory.resampling.systematic import systematic_from_uniforms

SIXTHS = [3.0, 2.0, 1.0]


def cells(num_uniforms: int) -> np.ndarray:
    """Midpoints of a grid whose lines hold every breakpoint of the weights used here: its cells are equally likely."""
    points = (np.arange(12) + 0.5) / 12
    return np.array(list(itertools.product(points, repeat=num_uniforms)), np.float32)


def law_of_sampler(
    sampler: Callable[..., Any], uniforms: list[np.ndarray], values: list[float]
) -> dict[tuple[int, ...], float]:
    """Law of the ancestors, exactly."""
    log_weights = np.tile(np.log(np.array(values, np.float32)), (len(uniforms[0]), 1))
    ancestors = np.asarray(jax.jit(sampler)(*uniforms, log_weights))
    if sampler is multinomial_from_uniforms:
        ancestors = np.sort(ancestors, axis=1)  # as from the sorted uniforms of `multinomial`
    counts = Counter(map(tuple, ancestors.tolist()))
    return {key: count / len(ancestors) for key, count in counts.items()}


def law_of_outcomes(law: OffspringLaw, values: list[float]) -> dict[tuple[int, ...], float]:
    exact: dict[tuple[int, ...], float] = {}
    for outcome in law(np.log(values)):
        exact[outcome.ancestors] = exact.get(outcome.ancestors, 0.0) + outcome.probability
    return {key: probability for key, probability in exact.items() if probability > 1e-12}


CASES = [
    (multinomial_offspring, multinomial_from_uniforms, SIXTHS, [cells(3)]),
    (stratified_offspring, stratified_from_uniforms, SIXTHS, [cells(3)]),
    (systematic_offspring, systematic_from_uniforms, SIXTHS, [cells(1)[:, 0]]),
    (residual_offspring, residual_from_uniforms, SIXTHS, [cells(3)]),
    (ssp_offspring, ssp_from_uniforms, SIXTHS, [cells(3)]),
    (
        killing_offspring,
        killing_from_uniforms,
        [1.0, 3.0],
        [cells(4)[:, :2], cells(4)[:, 2:]],
    ),
]


@pytest.mark.parametrize(
    ("law", "sampler", "values", "uniforms"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_law_of_the_sampler(
    law: OffspringLaw,
    sampler: Callable[..., Any],
    values: list[float],
    uniforms: list[np.ndarray],
) -> None:
    exact = law_of_outcomes(law, values)
    assert law_of_sampler(sampler, uniforms, values) == pytest.approx(exact, rel=1e-6)


def test_another_scheme_is_told_apart() -> None:
    found = law_of_sampler(stratified_from_uniforms, [cells(3)], SIXTHS)
    for other in (systematic_offspring, residual_offspring, multinomial_offspring):
        exact = law_of_outcomes(other, SIXTHS)
        keys = found.keys() | exact.keys()
        assert sum(abs(found.get(key, 0.0) - exact.get(key, 0.0)) for key in keys) > 0.1
