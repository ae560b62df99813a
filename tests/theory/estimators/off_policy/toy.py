"""A law over sequences of three binary tokens, and another one that samples them: small enough to list every data set."""

import itertools
from collections.abc import Callable

import numpy as np

LENGTH = 3
SEQUENCES = np.array(list(itertools.product([0, 1], repeat=LENGTH)), np.int64)
REWARDS = np.array([0.0, 1, 0, 0, 1, 1, 0, 1])
"""1 for a correct sequence."""


def token_log_probs(seed: int) -> np.ndarray:
    """[8, 3] log probability of each token of each sequence given those before it, where each next-token law is another one."""
    rng = np.random.default_rng(seed)
    chance = {
        prefix: rng.uniform(0.2, 0.8)
        for t in range(LENGTH)
        for prefix in itertools.product([0, 1], repeat=t)
    }
    return np.array(
        [
            [
                np.log(chance[tuple(row[:t])] if row[t] else 1 - chance[tuple(row[:t])])
                for t in range(LENGTH)
            ]
            for row in SEQUENCES.tolist()
        ]
    )


TARGET, BEHAVIOR = token_log_probs(1), token_log_probs(2)
RATIOS = TARGET - BEHAVIOR
LAW, SAMPLER = np.exp(TARGET.sum(axis=1)), np.exp(BEHAVIOR.sum(axis=1))


def data_sets(num: int) -> np.ndarray:
    """[8^num, num] every sample of that size."""
    return np.array(list(itertools.product(range(len(SEQUENCES)), repeat=num)), np.int64)


def tasks_of(drawn: np.ndarray) -> np.ndarray:
    """Offsets that make a task of each data set."""
    return np.arange(0, drawn.size + 1, drawn.shape[1]).astype(np.int64)


def expectation(num: int, estimate: Callable[[np.ndarray], np.ndarray]) -> float:
    """Under the sampler, of an estimate [D] from [D, num] drawn sequences."""
    drawn = data_sets(num)
    return float(SAMPLER[drawn].prod(axis=1) @ estimate(drawn))
