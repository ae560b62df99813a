"""Particle filters: every token and every ancestor of two particles, so that what a run gives is a finite sum.

The filters of `tests.planted_bugs.smc` are run as they are, with a generator that dictates instead of drawing: row m of a batch is
outcome m, and its probability is multiplied up along the way.
"""

import itertools
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from models.tabular.constructors import markov_table
from models.tabular.toys import toy_e
from tests.planted_bugs import smc as planted
from tests.planted_bugs.defect import (
    relative_error,
    total_variation,
)
from theory.exact import ContextTable, power_law, temperature_law, unroll, with_horizon
from theory.exact.smc_population import FiniteRun, plain_filter

NUM_PARTICLES = 2
ALPHA = 4.0
E3 = with_horizon(toy_e(), 3)
# Weights are equal at all times: uniforms are cut at 1/2 and nowhere else.
COINS = markov_table((0.5, 0.5), ((0.5, 0.5), (0.5, 0.5)), eos=(), horizon=3)


class Outcomes(NamedTuple):
    """All that a filter may do, and how likely each outcome is."""

    done: planted.Filter
    probs: np.ndarray


class Dictated:
    """In the place of a random generator: gives each row the noise that leads to its outcome."""

    def __init__(self, of: planted.Filter, tokens: np.ndarray, ancestors: np.ndarray) -> None:
        """Tokens [M, T, N] and ancestors [M, T - 1, N]."""
        self.of, self.tokens, self.ancestors = (
            of,
            list(np.moveaxis(tokens, 1, 0)),
            list(np.moveaxis(ancestors, 1, 0)),
        )
        self.probs = np.ones(len(tokens))

    def gumbel(self, size: tuple[int, ...]) -> np.ndarray:
        """So large that the dictated tokens win."""
        scores = self.of.alpha * self.of.table.log_probs[self.of.context]
        law = np.exp(scores - np.asarray(logsumexp(scores, axis=-1, keepdims=True)))
        token = self.tokens.pop(0)[..., None]
        self.probs *= np.take_along_axis(law, token, axis=-1)[..., 0].prod(axis=-1)
        return np.where(np.arange(size[-1]) == token, 1e9, 0.0)

    def random(self, size: tuple[int, ...]) -> np.ndarray:
        """In the middle of the interval of the dictated ancestors."""
        log_weights = self.of.log_weights
        shares = np.exp(log_weights - np.asarray(logsumexp(log_weights, axis=1, keepdims=True)))
        chosen = self.ancestors.pop(0)
        mine = np.take_along_axis(shares, chosen, axis=1)
        self.probs *= mine.prod(axis=1)
        return np.take_along_axis(np.cumsum(shares, axis=1), chosen, axis=1) - mine / 2


def outcomes(twin: type[planted.Filter], table: ContextTable, alpha: float) -> Outcomes:
    """Run a filter through all of them."""
    width = len(table.log_probs[0])
    tokens = every((table.horizon, NUM_PARTICLES), width)
    ancestors = every((table.horizon - 1, NUM_PARTICLES), NUM_PARTICLES)
    pairs = np.indices((len(tokens), len(ancestors))).reshape(2, -1)
    done = twin(table, alpha, (pairs.shape[1], NUM_PARTICLES), seed=0)
    script = Dictated(done, tokens[pairs[0]], ancestors[pairs[1]])
    done.rng = script  # pyright: ignore[reportAttributeAccessIssue]
    with np.errstate(divide="ignore", invalid="ignore"):
        done.run()
    return Outcomes(done, script.probs)


def every(shape: tuple[int, ...], size: int) -> np.ndarray:
    """All arrays of this shape with entries below `size`."""
    places = itertools.product(range(size), repeat=int(np.prod(shape)))
    return np.array(list(places)).reshape(-1, *shape)


@cache
def on_e3(twin: type[planted.Filter]) -> Outcomes:
    """On three tokens of E."""
    return outcomes(twin, E3, ALPHA)


def of_evidence(twin: type[planted.Filter]) -> float:
    """Relative bias of Z_hat."""
    done, probs = on_e3(twin)
    possible = probs > 0
    mean = float(probs[possible] @ np.exp(done.log_Z[possible]))
    return relative_error(mean, np.exp(power_law(unroll(E3), ALPHA).log_Z))


def of_draw(twin: type[planted.Filter]) -> float:
    """Total variation between the law of a final draw and that of the right filter with two particles."""
    done, probs = on_e3(twin)
    right = right_run()
    expected = np.zeros(4**E3.horizon)
    for tokens, probability in zip(right.sequences, right.final_draw, strict=True):
        expected[code(np.array([*tokens, 0, 0, 0])[: E3.horizon], len(tokens))] = probability
    possible = probs > 0
    log_weights = done.log_weights[possible]
    shares = np.exp(log_weights - np.asarray(logsumexp(log_weights, axis=1, keepdims=True)))
    places = code(done.tokens[possible], done.lengths[possible])
    found = (probs[possible, None] * shares).ravel()
    return total_variation(np.bincount(places.ravel(), found, expected.size), expected)


@cache
def right_run() -> FiniteRun:
    """The exact law of the right filter, by a program of its own."""
    return plain_filter(ALPHA, temperature_law(unroll(E3), ALPHA), NUM_PARTICLES, (1, 2))


def code(tokens: np.ndarray, lengths: Any) -> np.ndarray:
    """A number for each sequence, of the model or not: digits are tokens + 1, and 0 past the length."""
    inside = np.arange(tokens.shape[-1]) < np.asarray(lengths)[..., None]
    return np.where(inside, tokens + 1, 0) @ 4 ** np.arange(tokens.shape[-1])


def of_common_ancestors(twin: type[planted.Filter]) -> float:
    """Relative bias of the probability that two particles begin with the same token: 7/8 after two resamplings."""
    done, probs = outcomes_of_uniforms(twin)
    same = done.tokens[:, 0, 0] == done.tokens[:, 1, 0]
    return relative_error(float(probs @ same), 7 / 8)


def outcomes_of_uniforms(twin: type[planted.Filter]) -> Outcomes:
    """On coins: uniforms are drawn before they are used, so that they may be used again."""
    tokens = every((COINS.horizon, NUM_PARTICLES), 2)
    halves = every((COINS.horizon - 1, NUM_PARTICLES), 2)
    pairs = np.indices((len(tokens), len(halves))).reshape(2, -1)
    done = twin(COINS, ALPHA, (pairs.shape[1], NUM_PARTICLES), seed=0)
    done.rng = Dictated(done, tokens[pairs[0]], halves[pairs[1]])  # pyright: ignore[reportAttributeAccessIssue]
    done.run()
    size = pairs.shape[1]
    return Outcomes(done, np.full(size, 1.0 / size))


def of_ledger(evidence: Any) -> float:
    """Relative bias on two particles with weights 1 and 3 and increments 2 and 1, not resampled: 2.5 is right."""
    value = evidence(np.log([[1.0, 3.0]]), np.log([[2.0, 1.0]]))
    return relative_error(np.exp(value[0]), 2.5)


def evidence_of_products(log_weights: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """The right ledger: the mean of the products."""
    total = log_weights + gains
    return logsumexp(total, axis=1) - np.log(total.shape[1])
