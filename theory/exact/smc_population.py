"""Sequential Monte Carlo with a handful of particles, exactly: every population with its probability.

A run is followed forward as a law over populations (multisets of weighted prefixes), each of which also carries the mean and
the variance, given that population, of the evidence so far. Two runs that stand at the same population have the same
future, so they are merged; variances are merged by the law of total variance, in which nothing cancels. From the end follow the
exact mean and variance of

    Z_hat = product over resampling epochs of the mean of the weights gathered in that epoch
          = mean of final weights that resampling never resets but only conserves in expectation,

and the law of one row drawn at the end in proportion to the weights. That row is biased for the target at finite N: the law
here is the truth that a sampler has to show.

Populations are put in ascending order of prefixes before each resampling. For systematic, stratified and SSP resampling of three
particles or more the law depends on the order, and belongs to a sampler that sorts in the same way.
"""

import itertools
import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.exact.enumeration import enumerate_sequences
from theory.exact.importance_moments import Evidence, check_support
from theory.exact.laws import (
    Law,
    base_law,
    check_alpha,
    temperature_law,
    token_log_normalisers,
)
from theory.exact.layers import ENDS, Layers, num_sequences
from theory.exact.offspring import OffspringLaw, multinomial_offspring
from theory.exact.semiring import scaled

MAX_POPULATIONS = 100_000


class FiniteRun(NamedTuple):
    """What a run of N particles gives.

    Attributes:
        evidence: moments of Z_hat.
        sequences: the M sequences of the model, in lexicographic order.
        final_draw: [M] law of one row drawn at the end in proportion to the weights.
    """

    evidence: Evidence
    sequences: list[tuple[int, ...]]
    final_draw: Float64[np.ndarray, " M"]


class _Particle(NamedTuple):
    tokens: tuple[int, ...]
    row: int  # of the layer at its length, or ENDS
    log_weight: float


class _Run(NamedTuple):
    """Runs that stand at one population: their probability, and the evidence so far given that they stand there."""

    probability: float
    mean: float
    variance: float


_Populations = dict[tuple[_Particle, ...], _Run]


def plain_filter(
    alpha: float,
    proposal: Law,
    num_particles: int,
    resample_after: Collection[int],
    offspring: OffspringLaw = multinomial_offspring,
) -> FiniteRun:
    """Propose a token, weigh by p^alpha / q, resample after the listed steps.

    Args:
        alpha: target exponent, above 0.
        proposal: q, with full support; token temperature 1/beta for any beta, or another law.
        num_particles: N, at least 1.
        resample_after: numbers of tokens, from 1, after which to resample; may be empty. After the last it only
            costs: the final draw is by weight anyway.
        offspring: the exact law of the resampling scheme, adaptive or not.

    Returns:
        The exact law of the run.

    Raises:
        InvalidInput: N below 1, too many populations, alpha not above 0, or q lacks a token that the model has.
    """
    check_alpha(alpha)
    layers = proposal.layers
    check_support(base_law(layers), proposal)

    def log_weights(depth: int) -> np.ndarray:
        log_probs = layers[depth].log_probs
        possible = np.isfinite(log_probs)
        return scaled(alpha, log_probs) - np.where(possible, proposal.log_conditional(depth), 0.0)

    return weighted_filter(proposal, log_weights, num_particles, resample_after, offspring)


def weighted_filter(
    proposal: Law,
    log_weights: Callable[[int], np.ndarray],
    num_particles: int,
    resample_after: Collection[int],
    offspring: OffspringLaw = multinomial_offspring,
) -> FiniteRun:
    """Propose a token, weigh by any function of context and token, resample after the listed steps.

    Twists, rewards of tokens, and weights that are wrong. Z_hat is unbiased for sum_y q(y) prod_t w(y_<t, y_t).

    Args:
        proposal: q.
        log_weights: number of tokens before -> [n, V] finite where q is positive, not read elsewhere.
        num_particles: N, at least 1.
        resample_after: see `plain_filter`.
        offspring: the exact law of the resampling scheme, adaptive or not.

    Returns:
        The exact law of the run.

    Raises:
        InvalidInput: N below 1, or too many populations.
    """
    layers = proposal.layers
    populations = _start(layers, num_particles)
    log_scale = 0.0
    for depth in range(len(layers)):
        populations = _move(populations, layers, depth, proposal, log_weights(depth))
        if depth + 1 in resample_after:
            populations = _resample(populations, offspring)
        populations, shift = _rescale(populations)
        log_scale += shift
    return _finish(populations, layers, log_scale)


def adapted_filter(
    layers: Layers,
    alpha: float,
    num_particles: int,
    offspring: OffspringLaw = multinomial_offspring,
) -> FiniteRun:
    """Weigh by z(x) = sum_v p(v | x)^alpha, resample, then draw from token temperature 1/alpha: fully adapted.

    Args:
        layers: of the model.
        alpha: exponent, above 0.
        num_particles: N, at least 1.
        offspring: the exact law of the resampling scheme, adaptive or not.

    Returns:
        The exact law of the run.

    Raises:
        InvalidInput: N below 1, too many populations, or alpha not above 0.
    """
    proposal = temperature_law(layers, alpha)
    log_z = token_log_normalisers(layers, alpha)
    populations = _start(layers, num_particles)
    log_scale = 0.0
    for depth, layer in enumerate(layers):
        populations = _weigh(populations, log_z(depth))
        populations = _resample(populations, offspring)
        populations, shift = _rescale(populations)
        log_scale += shift
        unchanged = np.zeros(layer.log_probs.shape)
        populations = _move(populations, layers, depth, proposal, unchanged)
    return _finish(populations, layers, log_scale)


def _start(layers: Layers, num_particles: int) -> _Populations:
    if num_particles < 1:
        raise InvalidInput(f"{num_particles} particles: must be at least 1")
    sequences = num_sequences(layers)
    if sequences > MAX_POPULATIONS or (
        math.comb(int(sequences) + num_particles - 1, num_particles) > MAX_POPULATIONS
    ):
        raise InvalidInput(
            f"{num_particles} particles over {sequences:g} sequences: more than {MAX_POPULATIONS} populations; take "
            "fewer particles or a lower horizon"
        )
    return {(_Particle((), 0, 0.0),) * num_particles: _Run(1.0, 1.0, 0.0)}


def _add(populations: _Populations, population: list[_Particle], run: _Run) -> None:
    """Let runs arrive at a population, whatever the order of its slots."""
    if run.probability == 0.0:
        return  # underflow
    key = tuple(sorted(population))
    there = populations.get(key)
    populations[key] = run if there is None else _merge(there, run)


def _merge(a: _Run, b: _Run) -> _Run:
    """The law of total variance for two groups of runs."""
    probability = a.probability + b.probability
    # Each share from its own probability: next to a rare group, 1 - share would have lost its digits.
    of_a, of_b = a.probability / probability, b.probability / probability
    variance = of_a * a.variance + of_b * b.variance + of_a * of_b * (b.mean - a.mean) ** 2
    return _Run(probability, of_a * a.mean + of_b * b.mean, variance)


def _move(
    populations: _Populations,
    layers: Layers,
    depth: int,
    proposal: Law,
    log_weights: np.ndarray,
) -> _Populations:
    """Each live particle draws a token and multiplies its weight; an ended one stays as it is."""
    probs = np.exp(proposal.log_conditional(depth))
    successor = layers[depth].successor

    def children(particle: _Particle) -> list[tuple[float, _Particle]]:
        tokens, row, log_weight = particle
        if row == ENDS:
            return [(1.0, particle)]
        return [
            (float(probs[row, v]), _Particle((*tokens, v), int(successor[row, v]), log_weight + w))
            for v, w in enumerate(log_weights[row].tolist())
            if probs[row, v] > 0
        ]

    moved: _Populations = {}
    for population, run in populations.items():
        for outcome in itertools.product(*map(children, population)):
            probability = run.probability * math.prod(p for p, _ in outcome)
            arrived = run._replace(probability=probability)
            _add(moved, [particle for _, particle in outcome], arrived)
    return moved


def _weigh(populations: _Populations, log_weights: np.ndarray) -> _Populations:
    """Multiply the weight of each live particle by that of its context."""
    padded = np.append(log_weights, 0.0)  # ENDS is the last place
    weighed: _Populations = {}
    for population, run in populations.items():
        heavier = [p._replace(log_weight=p.log_weight + float(padded[p.row])) for p in population]
        _add(weighed, heavier, run)
    return weighed


def _resample(populations: _Populations, offspring: OffspringLaw) -> _Populations:
    resampled: _Populations = {}
    for population, run in populations.items():
        for outcome in offspring(np.array([p.log_weight for p in population])):
            pairs = zip(outcome.ancestors, outcome.log_weights, strict=True)
            chosen = [population[i]._replace(log_weight=w) for i, w in pairs]
            arrived = run._replace(probability=run.probability * outcome.probability)
            _add(resampled, chosen, arrived)
    return resampled


def _rescale(populations: _Populations) -> tuple[_Populations, float]:
    """Give each population a largest weight of 1, so that equal ones meet; the evidence takes the factor.

    The largest factor of all is returned instead, as a logarithm: nothing overflows.
    """
    peaks = [max(p.log_weight for p in population) for population in populations]
    shift = max(peaks)
    rescaled: _Populations = {}
    for (population, run), peak in zip(populations.items(), peaks, strict=True):
        factor = math.exp(peak - shift)
        relative = [p._replace(log_weight=p.log_weight - peak) for p in population]
        _add(rescaled, relative, _Run(run.probability, run.mean * factor, run.variance * factor**2))
    return rescaled, shift


def _finish(populations: _Populations, layers: Layers, log_scale: float) -> FiniteRun:
    sequences = enumerate_sequences((base_law(layers),)).sequences
    index = {tokens: i for i, tokens in enumerate(sequences)}
    final_draw = np.zeros(len(sequences))
    total: _Run | None = None
    for population, run in populations.items():
        weights = [math.exp(p.log_weight) for p in population]
        for particle, weight in zip(population, weights, strict=True):
            final_draw[index[particle.tokens]] += run.probability * weight / sum(weights)
        mean = sum(weights) / len(weights)
        ended = _Run(run.probability, run.mean * mean, run.variance * mean**2)
        total = ended if total is None else _merge(total, ended)
    assert total is not None
    evidence = Evidence(log_scale + math.log(total.mean), total.variance / total.mean**2)
    return FiniteRun(evidence, sequences, final_draw)
