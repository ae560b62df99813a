"""Bounds of an enumeration and the diversity of replicates: a law of two tokens, and all outcomes of two replicates."""

import itertools
from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
import numpy as np

from experiments.enumerated_truth import Bounds, Enumeration, enumerate_completions
from experiments.progress import track
from models.tabular.constructors import markov_table
from models.tabular.context_model import ContextModel
from models.tasks.task import Sequences
from tests.planted_bugs.defect import relative_error

ALPHA = 4.0
_BRANCHES = 16
# Likely and followed, then anything; or less likely than the threshold, and then certain.
_FIRST = 0.85
_OUTCOMES = np.array([0.5, 0.3, 0.2])
_WEIGHTS = np.array([1.0, 2.0, 4.0])


@cache
def forked() -> Enumeration:
    """Tokens 0 or 1, then any of 16 after 0 and 1 for sure after 1; what begins with 1 is not followed."""
    size = _BRANCHES
    rows = np.full((size, size), 1 / size)
    rows[1] = np.eye(size)[1]
    first = np.zeros(size)
    first[:2] = _FIRST, 1 - _FIRST
    model = ContextModel.from_table(markov_table(first, rows, eos=(), horizon=2))
    empty = Sequences(jnp.zeros((1, 0), jnp.int32), jnp.zeros(1, jnp.int32))
    return enumerate_completions(model, empty, ALPHA, 0.2, track)


def of_bounds(bounds: Callable[[Enumeration, np.ndarray], Bounds]) -> float:
    """How far outside the bounds the power law's probability of beginning with 1 is."""
    found = forked()
    likely, rest = _BRANCHES * (_FIRST / _BRANCHES) ** ALPHA, (1 - _FIRST) ** ALPHA
    truth = rest / (likely + rest)
    low, high = (float(end[0]) for end in bounds(found, (found.tokens[:, 0] == 1).astype(float)))
    return max(low - truth, truth - high, 0.0)


def of_diversity(diversity: Callable[[np.ndarray, np.ndarray], float]) -> float:
    """Relative bias of the diversity of two replicates of two weighted rows each, over all that they may be."""
    expected, mean_weights = 0.0, np.zeros(3)
    for rows in itertools.product(range(3), repeat=4):
        tokens = np.array(rows).reshape(2, 2, 1)
        weights = _WEIGHTS[tokens[..., 0]]
        weights = weights / weights.sum(axis=1, keepdims=True)
        probability = float(_OUTCOMES[list(rows)].prod())
        expected += probability * diversity(tokens, weights)
        np.add.at(mean_weights, tokens[0, :, 0], probability * weights[0])
    return relative_error(expected, 1.0 - float((mean_weights**2).sum()))
