"""Exact transition matrices of particle Gibbs on every sequence of a small model, in float64.

One sweep from a reference y is followed forward over everything that can happen in it: the tokens that the free particles draw, the
conditional resamplings, and which row is drawn at the end. What a sweep has to remember between two resamplings is one prefix a free particle and N
weights, so sweeps that stand at the same ones are merged.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from theory.errors import InvalidInput
from theory.exact.laws import check_alpha
from theory.exact.offspring import OffspringLaw
from theory.exact.sequence_space import SequenceSpace
from theory.smc.schedule import check_schedule

# Sets of free particles that may come out of one sweep.
MAX_OUTCOMES = 100_000

# Of the free particles their prefixes, each by the first sequence that begins with it, and of all N the log weights.
_Standing = tuple[tuple[int, ...], tuple[float, ...]]


class _Child(NamedTuple):
    prefix: int
    probability: float
    gain: float


def particle_gibbs_transition(
    space: SequenceSpace,
    alpha: float,
    num_particles: int,
    resample_after: tuple[int, ...],
    offspring: OffspringLaw,
) -> Float64[np.ndarray, "M M"]:
    """One sweep: conditional SMC around the state, then one row drawn in proportion to the weights.

    Slot 0 is the state whatever ancestor the offspring law gives it, as in `theory.smc.conditional_smc`; with a conditional law
    (`theory.exact.conditional_offspring`) that ancestor is 0.

    Args:
        space: the states; their log q is that of the proposal of the free particles.
        alpha: exponent of the target.
        num_particles: N, the state included, at least 2.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1; may be empty.
        offspring: the exact law of the conditional resampler, adaptive or not.

    Returns:
        [M, M] from row to column.

    Raises:
        InvalidInput: N below 2, an exponent or a schedule that is none, or more than MAX_OUTCOMES outcomes of a sweep.
    """
    check_alpha(alpha)
    if num_particles < 2:
        raise InvalidInput(f"{num_particles} particles: must be at least 2, the reference included")
    size, horizon = space.tokens.shape
    check_schedule(resample_after, horizon)
    num_outcomes = math.comb(size + num_particles - 2, num_particles - 1)
    if num_outcomes > MAX_OUTCOMES:
        raise InvalidInput(
            f"{num_particles} particles over {size} sequences: {num_outcomes} outcomes of a sweep, "
            f"at most {MAX_OUTCOMES} are enumerated; take fewer particles or a smaller model"
        )
    gains = alpha * np.asarray(space.records.log_p) - np.asarray(space.records.log_q)
    prefixes = _prefixes(space)
    stages = list(itertools.pairwise((0, *resample_after, horizon)))
    children = [_children(space, gains, prefixes, *stage) for stage in stages]
    matrix = np.zeros((size, size))
    for reference in range(size):
        standing: dict[_Standing, float] = {
            ((int(prefixes[0, reference]),) * (num_particles - 1), (0.0,) * num_particles): 1.0
        }
        for (begin, end), born in zip(stages, children, strict=True):
            gain = reference_gain(gains, reference, begin, end)
            standing = _propose(standing, born, gain)
            if end < horizon:
                standing = _resample(standing, int(prefixes[end, reference]), offspring)
        for (free, log_weights), mass in standing.items():
            weights = np.exp(np.array(log_weights) - max(log_weights))
            shares = mass * weights / weights.sum()
            np.add.at(matrix[reference], [reference, *free], shares)
    return matrix


def reference_gain(
    gains: Float64[np.ndarray, "M T"], reference: int, begin: int, end: int
) -> float:
    """What the reference's log weight gains in a stage: what its tokens of that stage contribute, and not the whole row.

    Args:
        gains: [M, T] alpha log p - log q of each token of each sequence.
        reference: which sequence.
        begin: tokens before the stage.
        end: tokens after it.

    Returns:
        Natural log.
    """
    return float(gains[reference, begin:end].sum())


def _prefixes(space: SequenceSpace) -> Int64[np.ndarray, "T1 M"]:
    """For each number of tokens and each sequence, the first sequence that begins with the same ones."""
    size, horizon = space.tokens.shape
    inside = np.arange(horizon) < np.asarray(space.records.lengths)[:, None]
    tokens = np.where(inside, space.tokens, -1)
    prefixes = np.zeros((horizon + 1, size), np.int64)
    for length in range(1, horizon + 1):
        _, first, group = np.unique(
            tokens[:, :length], axis=0, return_index=True, return_inverse=True
        )
        prefixes[length] = first[group.ravel()]
    return prefixes


def _children(
    space: SequenceSpace,
    gains: Float64[np.ndarray, "M T"],
    prefixes: Int64[np.ndarray, "T1 M"],
    begin: int,
    end: int,
) -> dict[int, list[_Child]]:
    """What each prefix can become in a stage; a sequence that is over stays as it is."""
    log_q = np.asarray(space.records.log_q)[:, begin:end].sum(axis=1)
    gain = gains[:, begin:end].sum(axis=1)
    children: dict[int, list[_Child]] = {}
    for child in np.unique(prefixes[end]).tolist():
        born = _Child(child, math.exp(log_q[child]), float(gain[child]))
        children.setdefault(int(prefixes[begin, child]), []).append(born)
    return children


def _propose(
    standing: dict[_Standing, float], children: dict[int, list[_Child]], reference_gains: float
) -> dict[_Standing, float]:
    grown: dict[_Standing, float] = {}
    for (free, log_weights), mass in standing.items():
        for outcome in itertools.product(*(children[prefix] for prefix in free)):
            gained = (reference_gains, *(child.gain for child in outcome))
            weights = tuple(w + g for w, g in zip(log_weights, gained, strict=True))
            probability = mass * math.prod(child.probability for child in outcome)
            key = tuple(child.prefix for child in outcome), weights
            grown[key] = grown.get(key, 0.0) + probability
    return grown


def _resample(
    standing: dict[_Standing, float], reference: int, offspring: OffspringLaw
) -> dict[_Standing, float]:
    resampled: dict[_Standing, float] = {}
    for (free, log_weights), mass in standing.items():
        particles = (reference, *free)
        for outcome in offspring(np.array(log_weights)):
            # Weights count up to a factor: equal ones are 1, so that sweeps which stand alike meet.
            peak = max(outcome.log_weights)
            weights = tuple(w - peak for w in outcome.log_weights)
            key = tuple(particles[i] for i in outcome.ancestors[1:]), weights
            resampled[key] = resampled.get(key, 0.0) + mass * outcome.probability
    return resampled
