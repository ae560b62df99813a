"""What certifies a rule: checks that take an implementation, so that its planted twin meets the very same check."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tests.theory.decoding import reference
from theory.decoding import TokenRule, no_counts, token_law

# One shape for nearly everything, so that little is compiled.
NUM_ROWS, VOCAB_SIZE = 16, 8

Transform = Callable[[jax.Array, float], jax.Array]


def as_logits(pmfs: np.ndarray) -> jax.Array:
    with np.errstate(divide="ignore"):
        return jnp.asarray(np.log(pmfs), jnp.float32)


def padded(pmf: list[float]) -> np.ndarray:
    """One law, repeated to the common shape; impossible tokens fill the vocabulary."""
    row = np.zeros(VOCAB_SIZE)
    row[: len(pmf)] = pmf
    return np.tile(row / row.sum(), (NUM_ROWS, 1))


def random_pmfs(seed: int, zeros: bool = True) -> np.ndarray:
    """Asymmetric laws of all shapes, half of them with impossible tokens."""
    rng = np.random.default_rng(seed)
    pmfs = rng.dirichlet(np.full(VOCAB_SIZE, 0.7), NUM_ROWS) + 1e-4
    if zeros:
        pmfs[::2] *= rng.random((NUM_ROWS // 2, VOCAB_SIZE)) < 0.7
        pmfs[::2, 3] += 0.05
    return pmfs / pmfs.sum(axis=1, keepdims=True)


def law_under(rules: tuple[TokenRule, ...], pmfs: np.ndarray) -> np.ndarray:
    """The laws that the rules make, as probabilities."""
    logits = as_logits(pmfs)
    law = token_law(rules, logits, no_counts(logits))
    assert not np.asarray(law.failed).any()
    return np.exp(np.asarray(law.log_probs, np.float64))


def transform_of(make: Callable[[float], TokenRule]) -> Transform:
    """A rule as a function of logits and its parameter."""
    return lambda logits, parameter: make(parameter)(logits, no_counts(logits))


def kept_sets(transform: Transform, pmfs: np.ndarray, parameter: float) -> list[set[int]]:
    """The tokens that a transform leaves possible."""
    logits = np.asarray(transform(as_logits(pmfs), parameter))
    return [set(np.flatnonzero(row > -np.inf).tolist()) for row in logits]


def pmfs_of(transform: Transform, pmfs: np.ndarray, parameter: float) -> np.ndarray:
    """The laws that a transform leaves: softmax of what it returns."""
    logits = np.asarray(transform(as_logits(pmfs), parameter), np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def check_against_reference(
    transform: Transform,
    make_reference: Callable[[float], reference.Rule],
    parameters: tuple[float, ...],
) -> None:
    """On random laws a rule is its definition."""
    pmfs = random_pmfs(seed=1)
    for parameter in parameters:
        expected = np.stack([make_reference(parameter)(row) for row in pmfs])
        np.testing.assert_allclose(pmfs_of(transform, pmfs, parameter), expected, atol=2e-6)


# First dyadic ones, whose sums are exact; then inputs that found defects of libraries; then exact hits that a float32 sum misses.
TOP_P_CASES: list[tuple[list[float], float, set[int]]] = [
    ([0.5, 0.25, 0.25], 0.5, {0}),
    ([0.25, 0.5, 0.25], 0.75, {0, 1}),
    ([0.125, 0.125, 0.25, 0.5], 0.875, {0, 2, 3}),
    ([0.25, 0.25, 0.25, 0.25], 0.5, {0, 1}),
    ([0.4, 0.3, 0.2, 0.1], 0.8, {0, 1, 2}),
    ([0.5, 0.41, 0.09], 0.9, {0, 1}),
    ([0.5, 0.35, 0.1, 0.05], 0.9, {0, 1, 2}),
    ([0.5, 0.3, 0.15, 0.05], 0.6, {0, 1}),
    ([0.3, 0.1, 0.1, 0.5], 0.8, {0, 3}),
    ([0.5, 0.3, 0.1, 0.1], 0.8, {0, 1}),
    ([0.15, 0.15, 0.1, 0.35, 0.15, 0.05, 0.05], 0.8, {0, 1, 3, 4}),
    ([0.1, 0.15, 0.35, 0.2, 0.05, 0.1, 0.0, 0.05], 0.7, {1, 2, 3}),
    ([0.0, 0.05, 0.25, 0.15, 0.3, 0.1, 0.1, 0.05], 0.55, {2, 4}),
    ([1.0, 1e-9, 1e-30], 1.0, {0, 1, 2}),
    ([0.3, 0.1, 0.1, 0.5], 1.0, {0, 1, 2, 3}),
    ([0.3, 0.1, 0.1, 0.5], 0.0, {3}),
]


def check_top_p(transform: Transform) -> None:
    """The smallest prefix that reaches the mass: the crossing token is in, the one after an exact hit is not."""
    for pmf, mass, expected in TOP_P_CASES:
        assert kept_sets(transform, padded(pmf), mass)[0] == expected, (pmf, mass)
    check_against_reference(transform, reference.top_p, (0.05, 0.3, 0.62, 0.9, 0.999, 1.0))


def check_top_k(transform: Transform) -> None:
    """Exactly k, ties by the lowest index."""
    assert kept_sets(transform, padded([0.1, 0.2, 0.2, 0.2, 0.3]), 3)[0] == {1, 2, 4}
    assert kept_sets(transform, padded([0.2, 0.4, 0.4]), 1)[0] == {1}
    check_against_reference(transform, lambda k: reference.top_k(int(k)), (1, 2, 5, 8, 20))


def check_min_p(transform: Transform) -> None:
    """A threshold relative to the largest probability; what is below it is impossible."""
    assert kept_sets(transform, padded([0.5, 0.25, 0.125, 0.125]), 0.5)[0] == {0, 1}
    check_against_reference(transform, reference.min_p, (0.0, 0.1, 0.5, 1.0))


def check_temperature(transform: Transform) -> None:
    """p^(1/T) normalised; a point mass at T = 0; finite at every T."""
    check_against_reference(transform, reference.temperature, (0.0, 0.3, 0.6, 1.0, 2.5))
    ties = padded([0.2, 0.4, 0.4])
    np.testing.assert_array_equal(pmfs_of(transform, ties, 0.0)[0], np.eye(VOCAB_SIZE)[1])
    for hot in (1e20, 1e39, 1e308):  # as hot as 1/alpha of a tiny alpha
        np.testing.assert_allclose(
            pmfs_of(transform, ties, hot)[0], (ties[0] > 0) / (ties[0] > 0).sum(), atol=1e-6
        )
    huge = jnp.tile(jnp.array([[300.0, 299.0, -300.0, -jnp.inf]]), (NUM_ROWS, 2))
    for cold in (0.0, 1e-38, 1e-37):
        logits = np.asarray(transform(huge, cold))
        assert not np.isnan(logits).any() and not (logits == np.inf).any()
        assert (logits[:, 0] == logits.max(axis=1)).all()


def check_counts(count: Callable[[jax.Array, jax.Array, int], jax.Array]) -> None:
    """Counts of a row are those of its own tokens, whatever the batch pads it with; eos as pad is no exception."""
    rows = [[3, 1, 3], [2], [], [0, 0, 5, 7, 7]]
    for pad in (0, 7):
        tokens = np.full((len(rows), 6), pad)
        for row, entries in enumerate(rows):
            tokens[row, : len(entries)] = entries
        lengths = jnp.asarray([len(row) for row in rows])
        expected = [np.bincount(np.array(row, int), minlength=VOCAB_SIZE) for row in rows]
        counts = count(jnp.asarray(tokens), lengths, VOCAB_SIZE)
        np.testing.assert_array_equal(np.asarray(counts), expected)


def check_law(law: Callable[[np.ndarray], np.ndarray], expected: reference.Rule) -> None:
    """A pipeline is the composition of the definitions of its rules, in its order."""
    pmfs = random_pmfs(seed=2)
    truth = np.stack([expected(row) for row in pmfs])
    np.testing.assert_allclose(law(pmfs), truth, atol=2e-6)
