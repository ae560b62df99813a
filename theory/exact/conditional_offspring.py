"""Conditional resampling as exact laws: every outcome of a scheme given that slot 0 keeps particle 0.

Each is the scheme's own law (`theory.exact.offspring`), shuffled, restricted to the outcomes in which the ancestor of slot 0 is 0, and
normalised: the definition of what `theory.resampling.conditional` draws without shuffling anything. The weight of particle 0 must
not be zero. Ancestors are listed slot by slot, the first 0.
"""

import itertools
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float64

from theory.exact.offspring import (
    Offspring,
    killing_offspring,
    multinomial_offspring,
    stratified_offspring,
    systematic_offspring,
)


def conditional_multinomial_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Multinomial resampling in any order of the slots; for small N, since all N! orders are listed.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    orders = itertools.permutations(range(log_weights.size))
    return _given_the_first(multinomial_offspring(log_weights), orders)


def conditional_systematic_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Systematic resampling, its slots rotated.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    return _given_the_first(systematic_offspring(log_weights), _rotations(log_weights.size))


def conditional_stratified_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Stratified resampling, its particles rotated before the strata are laid, and its slots after.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    size = log_weights.size
    # Of every rotation the same mean, to the last bit: outcomes that are alike are one.
    mean = stratified_offspring(log_weights)[0].log_weights
    outcomes: list[Offspring] = []
    for place in range(size):
        for outcome in stratified_offspring(np.roll(log_weights, place)):
            ancestors = tuple((a - place) % size for a in outcome.ancestors)
            outcomes.append(Offspring(outcome.probability, ancestors, mean))
    return _given_the_first(outcomes, _rotations(size))


def conditional_killing_offspring(log_weights: Float64[np.ndarray, " N"]) -> list[Offspring]:
    """Killing, slot 0 swapped with a uniform one.

    Args:
        log_weights: [N] natural log, unnormalised.

    Returns:
        The outcomes.
    """
    return _given_the_first(killing_offspring(log_weights), _swaps(log_weights.size))


def _given_the_first(
    outcomes: list[Offspring], orders: Iterable[tuple[int, ...]]
) -> list[Offspring]:
    """Bayes: shuffle uniformly, keep the outcomes whose slot 0 has ancestor 0, and normalise."""
    masses: dict[tuple[tuple[int, ...], tuple[float, ...]], float] = {}
    for order, outcome in itertools.product(orders, outcomes):
        if outcome.ancestors[order[0]] == 0:
            ancestors = tuple(outcome.ancestors[slot] for slot in order)
            log_weights = tuple(outcome.log_weights[slot] for slot in order)
            key = ancestors, log_weights
            masses[key] = masses.get(key, 0.0) + outcome.probability
    total = sum(masses.values())
    return [Offspring(mass / total, *key) for key, mass in masses.items()]


def _rotations(size: int) -> list[tuple[int, ...]]:
    slots = list(range(size))
    return [tuple(slots[start:] + slots[:start]) for start in slots]


def _swaps(size: int) -> list[tuple[int, ...]]:
    orders: list[tuple[int, ...]] = []
    for slot in range(size):
        order = list(range(size))
        order[0], order[slot] = slot, 0
        orders.append(tuple(order))
    return orders
