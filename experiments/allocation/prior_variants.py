"""HORA with priors that it learns on the way, written down before any of them ran; all are reported.

What a prior may see of a prompt is its difficulty b, as five levels of equally many prompts or as a number, and for the regression also the skills that it needs; never its
success rate. The rollouts of earlier visits are remembered, discounted by half at each. A predicted rate is worth `CONCENTRATIONS` rollouts: as many as the flat prior, or
four times as many.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from experiments.allocation.methods import HORA_CAP, METHODS
from experiments.allocation.runs import InformedMethod
from experiments.allocation.worlds import SkillPrompts
from theory.allocation import learned_priors
from theory.allocation.policies import hora
from theory.allocation.prior_source import PriorLearner
from theory.protocols import Allocator

LEVELS = 5
CONCENTRATIONS = (2, 8)
DISCOUNT = 0.5
RIDGE = 1.0
NEIGHBOURHOOD = 0.1
"""Distance at which a neighbour's verdicts count for exp(-1/2), in standard deviations of the difficulty."""


def standing(prompts: SkillPrompts) -> Float[Array, " P"]:
    """Difficulties of the training pool, with mean 0 and standard deviation 1.

    Args:
        prompts: of the world.

    Returns:
        [P].
    """
    difficulty = prompts.difficulty[: prompts.difficulty.size // 2]
    return (difficulty - difficulty.mean()) / difficulty.std()


def levels(prompts: SkillPrompts) -> Int[Array, " P"]:
    """Fifths of the training pool by difficulty.

    Args:
        prompts: of the world.

    Returns:
        [P] 0 for the easiest fifth.
    """
    place = jnp.argsort(jnp.argsort(standing(prompts)))
    return place * LEVELS // place.size


def _population(prompts: SkillPrompts) -> PriorLearner:
    return learned_priors.population_prior


def _last_visit(prompts: SkillPrompts) -> PriorLearner:
    return partial(learned_priors.last_visit_prior, discount=DISCOUNT)


def _level(prompts: SkillPrompts, concentration: float) -> PriorLearner:
    bins = levels(prompts)
    return lambda s, f: learned_priors.bin_prior(bins, LEVELS, s, f, concentration)


def _logistic(prompts: SkillPrompts, concentration: float) -> PriorLearner:
    hard = standing(prompts)
    features = jnp.concatenate([prompts.features[: hard.size], hard[:, None]], axis=1)
    return lambda s, f: learned_priors.logistic_prior(features, s, f, RIDGE, concentration)


def _neighbours(prompts: SkillPrompts, concentration: float) -> PriorLearner:
    place = standing(prompts)[:, None]
    return lambda s, f: learned_priors.neighbour_prior(place, s, f, NEIGHBOURHOOD, concentration)


def _method(learner_of: Callable[[SkillPrompts], PriorLearner]) -> InformedMethod:
    def build(batch_size: int, group_size: int) -> Callable[[Any], Allocator]:
        def on(prompts: Any) -> Allocator:
            cap = HORA_CAP * group_size
            learner = learner_of(prompts)
            return hora.learned_prior_allocator(batch_size, group_size, learner, DISCOUNT, cap=cap)

        return on

    return InformedMethod("memory", build, METHODS["hora"].shape)


LEARNERS: dict[str, Callable[[SkillPrompts], PriorLearner]] = {
    "population": _population,
    "last-visit": _last_visit,
    **{
        f"{name}-{worth}": partial(learner_of, concentration=float(worth))
        for name, learner_of in (
            ("level", _level),
            ("logistic", _logistic),
            ("neighbours", _neighbours),
        )
        for worth in CONCENTRATIONS
    },
}
"""The five priors of `theory.allocation.learned_priors`; the number is what a predicted rate is worth, in rollouts."""

PRIOR_VARIANTS = {name: _method(learner_of) for name, learner_of in LEARNERS.items()}
"""HORA with each of them."""
