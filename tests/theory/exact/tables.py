"""Random small models for tests, and their laws by plain recursion: nothing here uses theory.exact's programs."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from theory.exact.context_table import ContextTable, make_context_table

ALPHAS = (0.5, 1.0, 1.5, 2.0, 4.0, 8.0, 100.0)


def markov(
    rng: np.random.Generator,
    vocab_size: int,
    horizon: int,
    eos: tuple[int, ...] = (),
    zeros: float = 0.0,
    concentration: float = 1.0,
) -> ContextTable:
    """Order 1: contexts are the last token, and one more for the start."""
    rows = _rows(rng, vocab_size + 1, vocab_size, zeros, concentration)
    following = np.tile(np.arange(vocab_size), (vocab_size + 1, 1))
    return make_context_table(rows, following, vocab_size, eos, horizon)


def tree(
    rng: np.random.Generator,
    vocab_size: int,
    horizon: int,
    eos: tuple[int, ...] = (),
    zeros: float = 0.0,
    concentration: float = 1.0,
) -> ContextTable:
    """A full tree: contexts are prefixes, numbered as digits in base V; eos subtrees are simply never entered."""
    starts = [sum(vocab_size**d for d in range(depth)) for depth in range(horizon + 1)]
    rows = _rows(rng, starts[-1], vocab_size, zeros, concentration)
    following = np.zeros(rows.shape, dtype=np.int64)
    for depth in range(horizon - 1):
        index = np.arange(starts[depth], starts[depth + 1])
        code = (index - starts[depth])[:, None] * vocab_size + np.arange(vocab_size)
        following[index] = starts[depth + 1] + code
    return make_context_table(rows, following, 0, eos, horizon)


class Recipe(NamedTuple):
    """What hypothesis draws. The table is built in the test: beartype samples at random, which strategies may not."""

    seed: int
    make: Callable[..., ContextTable]
    vocab_size: int
    horizon: int
    ends: str
    zeros: float
    concentration: float

    def build(self) -> ContextTable:
        """Trees and Markov models with and without eos, zeros and sharp rows."""
        rng = np.random.default_rng(self.seed)
        last = self.vocab_size - 1
        eos = {"never": (), "first": (0,), "last": (last,), "both": tuple(sorted({0, last}))}
        return self.make(
            rng, self.vocab_size, self.horizon, eos[self.ends], self.zeros, self.concentration
        )


recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**32 - 1),
    make=st.sampled_from([markov, tree]),
    vocab_size=st.integers(1, 4),
    horizon=st.integers(1, 4),
    ends=st.sampled_from(["never", "first", "last", "both"]),
    zeros=st.sampled_from([0.0, 0.4]),
    concentration=st.sampled_from([0.2, 1.0, 5.0]),
)


class PlainLaw(NamedTuple):
    """One sequence and its numbers."""

    tokens: tuple[int, ...]
    log_base: float
    log_z_sum: float
    entropy_sum: float


def plain_sequences(table: ContextTable, alpha: float) -> list[PlainLaw]:
    """Every sequence, by recursion in Python floats."""
    return list(_plain(table, alpha, table.initial, PlainLaw((), 0.0, 0.0, 0.0)))


def _plain(table: ContextTable, alpha: float, context: int, prefix: PlainLaw) -> Iterator[PlainLaw]:
    row = [float(x) for x in table.log_probs[context]]
    possible = [v for v in range(table.vocab_size) if row[v] > -math.inf]
    peak = max(row)
    log_z = alpha * peak + math.log(math.fsum(math.exp(alpha * (row[v] - peak)) for v in possible))
    entropy = -math.fsum(math.exp(row[v]) * row[v] for v in possible)
    for v in possible:
        longer = PlainLaw(
            (*prefix.tokens, v),
            prefix.log_base + row[v],
            prefix.log_z_sum + log_z,
            prefix.entropy_sum + entropy,
        )
        if v in table.eos or len(longer.tokens) == table.horizon:
            yield longer
        else:
            yield from _plain(table, alpha, int(table.next_context[context, v]), longer)


def _rows(
    rng: np.random.Generator, count: int, vocab_size: int, zeros: float, concentration: float
) -> np.ndarray:
    gammas = np.maximum(rng.gamma(concentration, size=(count, vocab_size)), 1e-8)
    kept = rng.random((count, vocab_size)) >= zeros
    kept[np.arange(count), rng.integers(vocab_size, size=count)] = True
    probs = np.where(kept, gammas, 0.0)
    probs /= probs.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.log(probs)
