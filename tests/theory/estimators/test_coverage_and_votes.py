"""Estimators over all subsets of k samples, against the subsets themselves."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidInput
from theory.estimators.best_of_n import best_of_n_at_k, expected_best_of_normals
from theory.estimators.coverage import (
    g_pass_at_k,
    g_pass_at_k_exact,
    needed,
    pass_at_k,
    pass_at_k_exact,
    pass_at_k_rewards,
    pass_at_k_sampling_variance,
    pass_at_k_variance,
    pass_hat_k,
    pass_hat_k_exact,
)
from theory.estimators.diversity import distinct_at_k, unique_rate
from theory.estimators.votes import majority_at_k, majority_at_ks, no_vote_probability

Task = list[tuple[str | None, float, float]]
"""Samples of a task: answer or None, value, score."""


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def tasks(most: int = 7) -> st.SearchStrategy[list[Task]]:
    sample = st.tuples(
        st.sampled_from(["A", "B", "C", "D", None]),
        st.sampled_from([0.0, 1.0]),
        st.sampled_from([0.0, 0.25, 0.5, 2.0]),
    )
    return st.lists(st.lists(sample, min_size=1, max_size=most), min_size=1, max_size=4)


def answers_of(log: list[Task]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """counts, mean value of each answer, offsets, samples."""
    counts: list[int] = []
    values: list[float] = []
    offsets = [0]
    for task in log:
        for answer in sorted({a for a, _, _ in task if a is not None}):
            own = [v for a, v, _ in task if a == answer]
            counts.append(len(own))
            values.append(sum(own) / len(own))
        offsets.append(len(counts))
    return ints(*counts), np.array(values, float), ints(*offsets), ints(*map(len, log))


def samples_of(log: list[Task]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """answer codes, scores, values, offsets."""
    rows = list(itertools.chain(*log))
    codes = ints(*(-1 if a is None else ord(a) for a, _, _ in rows))
    scores, values = (np.array([row[i] for row in rows], float) for i in (2, 1))
    return codes, scores, values, ints(*itertools.accumulate(map(len, log), initial=0))


def mean_over_subsets(task: Task, k: int, value: Any) -> Fraction:
    subsets = list(itertools.combinations(task, k))
    return sum((value(subset) for subset in subsets), Fraction(0)) / len(subsets)


def vote(task: Task) -> Any:
    """Fraction won by the plurality in a subset; the value of an answer is its mean over the whole task."""
    worth: dict[str, Fraction] = {}
    for answer in {a for a, _, _ in task if a is not None}:
        own = [Fraction(v) for a, v, _ in task if a == answer]
        worth[answer] = sum(own, Fraction(0)) / len(own)

    def of(subset: tuple[Any, ...]) -> Fraction:
        votes = [a for a, _, _ in subset if a is not None]
        if not votes:
            return Fraction(0)
        most = max(votes.count(a) for a in votes)
        top = sorted({a for a in votes if votes.count(a) == most})
        return sum((worth[a] for a in top), Fraction(0)) / len(top)

    return of


def best(subset: tuple[Any, ...]) -> Fraction:
    highest = max(s for _, _, s in subset)
    top = [Fraction(v) for _, v, s in subset if s == highest]
    return sum(top, Fraction(0)) / len(top)


@given(tasks(), st.data())
def test_every_estimator_is_the_mean_over_all_subsets(log: list[Task], data: Any) -> None:
    k = data.draw(st.integers(1, min(map(len, log))))
    counts, worth, offsets, sizes = answers_of(log)
    _, scores, values, places = samples_of(log)
    correct = ints(*(int(sum(v for _, v, _ in task)) for task in log))
    for got, event in (
        (pass_at_k(sizes, correct, k), lambda s: Fraction(any(v for _, v, _ in s))),
        (pass_hat_k(sizes, correct, k), lambda s: Fraction(all(v for _, v, _ in s))),
        (
            g_pass_at_k(sizes, correct, k, 0.5),
            lambda s: Fraction(2 * sum(v for _, v, _ in s) >= k),
        ),
        (best_of_n_at_k(scores, values, places, k), best),
        (
            best_of_n_at_k(scores, scores, places, k),
            lambda s: Fraction(max(score for _, _, score in s)),
        ),
        (
            distinct_at_k(counts, offsets, sizes, k),
            lambda s: Fraction(len({a for a, _, _ in s if a is not None})),
        ),
        (
            no_vote_probability(counts, offsets, sizes, k),
            lambda s: Fraction(all(a is None for a, _, _ in s)),
        ),
    ):
        truth = [float(mean_over_subsets(task, k, event)) for task in log]
        np.testing.assert_allclose(got, truth, atol=1e-13)
    truth = [float(mean_over_subsets(task, k, vote(task))) for task in log]
    np.testing.assert_allclose(majority_at_k(counts, worth, offsets, sizes, k), truth, atol=1e-12)


@given(st.integers(1, 400), st.data())
def test_floats_are_the_integers(n: int, data: Any) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    threshold = data.draw(st.sampled_from([0.1, 0.25, 0.5, 0.9, 1.0]))
    sizes, correct = ints(n), ints(c)
    for got, exact in (
        (pass_at_k(sizes, correct, k), pass_at_k_exact(n, c, k)),
        (pass_hat_k(sizes, correct, k), pass_hat_k_exact(n, c, k)),
        (g_pass_at_k(sizes, correct, k, threshold), g_pass_at_k_exact(n, c, k, threshold)),
    ):
        assert got[0] == pytest.approx(float(exact), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize(
    ("n", "c", "k"),
    [(10_000, 3, 5_000), (10_000, 5_000, 13), (10_000, 9_999, 1), (1_000_000, 7, 1000)],
)
def test_large_counts(n: int, c: int, k: int) -> None:
    assert pass_at_k(ints(n), ints(c), k)[0] == pytest.approx(
        float(pass_at_k_exact(n, c, k)), rel=1e-11
    )
    assert pass_hat_k(ints(n), ints(n - c), k)[0] == pytest.approx(
        float(1 - pass_at_k_exact(n, c, k)), rel=1e-11
    )


def test_golden_numbers() -> None:
    def curve(f: Any, n: int, c: int, *ks: int) -> list[float]:
        return [float(f(ints(n), ints(c), k)[0]) for k in ks]

    assert curve(pass_at_k, 5, 2, 1, 2, 3, 4, 5) == pytest.approx([0.4, 0.7, 0.9, 1, 1])
    assert curve(pass_at_k, 16, 2, 8) == pytest.approx([0.7666667])
    assert curve(pass_at_k, 4, 1, 4) == [1.0]
    assert curve(pass_hat_k, 5, 3, 1, 2, 3, 4) == pytest.approx([0.6, 0.3, 0.1, 0])
    shares = [float(g_pass_at_k(ints(8), ints(4), 4, t)[0]) for t in (0.25, 0.5, 0.75, 1.0)]
    assert shares == pytest.approx([0.985714, 0.757143, 0.242857, 0.014286], abs=5e-7)
    for k, truth in ((3, 0.433333), (5, 0.5)):
        votes = majority_at_k(ints(2, 2, 1), np.array([1.0, 0, 0]), ints(0, 3), ints(5), k)
        assert votes[0] == pytest.approx(truth, abs=5e-7)
    assert majority_at_k(ints(2, 1), np.array([1.0, 0]), ints(0, 2), ints(3), 3)[
        0
    ] == pytest.approx(1)
    scores, values = np.array([0.1, 0.4, 0.7, 0.9]), np.array([0.0, 1, 1, 0])
    chosen = [float(best_of_n_at_k(scores, values, ints(0, 4), k)[0]) for k in (1, 2, 3, 4)]
    assert chosen == pytest.approx([0.5, 0.5, 0.25, 0])
    noise = [expected_best_of_normals(n) for n in (1, 2, 4, 8, 16, 32, 64)]
    assert noise == pytest.approx([0, 0.564, 1.029, 1.424, 1.766, 2.070, 2.344], abs=6e-4)
    assert expected_best_of_normals(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-10)
    assert expected_best_of_normals(3) == pytest.approx(1.5 / math.sqrt(math.pi), abs=1e-10)
    deviation = np.sqrt(pass_at_k_variance(10, 5, np.array([0.1])))
    assert deviation[0] == pytest.approx(0.3268, abs=5e-5)
    assert np.sqrt(pass_at_k_variance(100, 10, np.array([0.02])))[0] == pytest.approx(
        0.1172, abs=5e-5
    )
    assert np.sqrt(pass_at_k_variance(10, 10, np.array([0.1])))[0] == pytest.approx(
        0.4766, abs=5e-5
    )
    assert needed(30, 0.1) == 3


@given(st.integers(2, 6), st.data())
def test_rewards_follow_the_gradient_of_pass_at_k(n: int, data: Any) -> None:
    """Enumeration of all outcomes of n samples: E sum_i r_i d log P(outcome_i)/dp = k (1 - p)^(k - 1)."""
    k, p = data.draw(st.integers(1, n)), data.draw(st.floats(0.05, 0.95))
    gradient = 0.0
    for c in range(n + 1):
        wrong, right = pass_at_k_rewards(ints(n), ints(c), k)[0]
        weight = math.comb(n, c) * p**c * (1 - p) ** (n - c)
        gradient += weight * (c * right / p - (n - c) * wrong / (1 - p))
    assert gradient == pytest.approx(k * (1 - p) ** (k - 1), rel=1e-9)


@given(st.integers(1, 9), st.data())
def test_variance_is_that_of_the_binomial(n: int, data: Any) -> None:
    k, p = data.draw(st.integers(1, n)), data.draw(st.floats(0, 1))
    law = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    rho = [float(pass_at_k_exact(n, c, k)) for c in range(n + 1)]
    mean = sum(w * r for w, r in zip(law, rho, strict=True))
    assert mean == pytest.approx(1 - (1 - p) ** k, abs=1e-12)
    variance = sum(w * (r - mean) ** 2 for w, r in zip(law, rho, strict=True))
    assert pass_at_k_variance(n, k, np.array([p]))[0] == pytest.approx(variance, abs=1e-12)


@given(st.integers(2, 12), st.data())
def test_the_variance_is_estimated_without_bias(n: int, data: Any) -> None:
    """Over all outcomes of n samples, at any success rate; that of p = c/n is not."""
    k, p = data.draw(st.integers(1, n // 2)), data.draw(st.floats(0, 1))
    correct = np.arange(n + 1)
    found = pass_at_k_sampling_variance(np.full(n + 1, n), correct, k)
    law = np.array([math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    truth = pass_at_k_variance(n, k, np.array([p]))[0]
    assert law @ found == pytest.approx(truth, abs=1e-12)


def test_binary_votes_with_fair_ties() -> None:
    """Accuracy of 2m votes is that of 2m - 1 votes: as n grows, .6 .6 .648 .648 .68256 for p = .6."""
    n = 30
    law = [math.comb(n, c) * 0.6**c * 0.4 ** (n - c) for c in range(1, n)]
    for k, truth in ((1, 0.6), (2, 0.6), (3, 0.648), (4, 0.648), (5, 0.68256), (6, 0.68256)):
        counts = np.array([[c, n - c] for c in range(1, n)], np.int64).ravel()
        values = np.tile([1.0, 0.0], n - 1)
        offsets = np.arange(0, 2 * n - 1, 2, dtype=np.int64)
        found = majority_at_k(counts, values, offsets, np.full(n - 1, n, np.int64), k)
        assert float(found @ law) + 0.6**n == pytest.approx(truth, abs=1e-12)


def test_many_samples_and_answers() -> None:
    """Two answers of 400 and 600 samples, 101 votes: a hypergeometric tail; and a vote of all samples."""
    counts, values = ints(400, 600), np.array([1.0, 0.0])
    tail = g_pass_at_k(ints(1000), ints(400), 101, 51 / 101)
    found = majority_at_k(counts, values, ints(0, 2), ints(1000), 101)
    np.testing.assert_allclose(found, tail, rtol=1e-10)
    rng = np.random.default_rng(0)
    many = rng.integers(1, 9, 60).astype(np.int64)
    worth = rng.random(60)
    whole = majority_at_k(many, worth, ints(0, 60), ints(int(many.sum()) + 3), int(many.sum()) + 3)
    assert whole[0] == pytest.approx(worth[many == many.max()].mean(), rel=1e-10)


def test_votes_at_several_k_are_those_at_each() -> None:
    """Tasks with too few samples have none there; equal tasks of another size are other tasks."""
    counts, values = ints(2, 1, 2, 1, 3, 1, 1), np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.5])
    offsets, sizes = ints(0, 2, 4, 5, 7, 7), ints(3, 5, 4, 2, 6)
    found = majority_at_ks(counts, values, offsets, sizes, (3, 1, 5, 9))
    for place, k in enumerate((3, 1, 5, 9)):
        for task, size in enumerate(sizes):
            own = slice(offsets[task], offsets[task + 1])
            ends = ints(0, own.stop - own.start)
            one = (
                majority_at_k(counts[own], values[own], ends, ints(size), k)[0]
                if k <= size
                else np.nan
            )
            np.testing.assert_array_equal(found[task, place], one)
    with pytest.raises(InvalidInput, match="k = 0"):
        majority_at_ks(counts, values, offsets, sizes, (1, 0))


def test_tasks_stand_for_themselves() -> None:
    """One by one, in any order, many at once: the same bits."""
    rng = np.random.default_rng(2)
    parts: list[tuple[np.ndarray, np.ndarray, int]] = []
    for _ in range(300):
        counts = rng.integers(1, 5, rng.integers(0, 6)).astype(np.int64)
        parts.append(
            (
                counts,
                rng.integers(0, 2, counts.size).astype(float),
                int(counts.sum() + rng.integers(0, 3)) + 4,
            )
        )

    def run(order: list[int]) -> np.ndarray:
        counts = np.concatenate([parts[i][0] for i in order])
        values = np.concatenate([parts[i][1] for i in order])
        offsets = ints(*itertools.accumulate((parts[i][0].size for i in order), initial=0))
        return majority_at_k(counts, values, offsets, ints(*(parts[i][2] for i in order)), 4)

    all_at_once = run(list(range(300)))
    np.testing.assert_allclose(run(list(range(300))[::-1])[::-1], all_at_once, rtol=1e-13)
    np.testing.assert_allclose([run([i])[0] for i in range(300)], all_at_once, rtol=1e-13)


def test_unique_rates() -> None:
    np.testing.assert_array_equal(unique_rate(ints(0, 2, 3), ints(1, 4, 3)), [0, 0.5, 1])


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: pass_at_k(ints(2), ints(0), 5), "k = 5: 1 of 1 tasks have fewer samples"),
        (lambda: pass_at_k(ints(2), ints(0), 0), "k = 0: must be at least 1"),
        (lambda: pass_at_k(ints(2), ints(3), 1), "correct samples"),
        (lambda: g_pass_at_k(ints(2), ints(1), 1, 0.0), "threshold 0.0"),
        (lambda: majority_at_k(ints(0), np.ones(1), ints(0, 1), ints(2), 1), "at least 1"),
        (lambda: majority_at_k(ints(3), np.ones(1), ints(0, 1), ints(2), 1), "more of them"),
        (lambda: majority_at_k(ints(1), np.array([np.nan]), ints(0, 1), ints(2), 1), "finite"),
        (lambda: majority_at_k(ints(1), np.ones(1), ints(0, 2), ints(2), 1), "offsets"),
        (lambda: best_of_n_at_k(np.array([np.nan, 1]), np.ones(2), ints(0, 2), 1), "scores"),
        (lambda: best_of_n_at_k(np.ones(2), np.array([np.nan, 1]), ints(0, 2), 1), "values"),
        (lambda: distinct_at_k(ints(3), ints(0, 1), ints(2), 1), "counts"),
        (lambda: unique_rate(ints(3), ints(2)), "distinct"),
        (lambda: expected_best_of_normals(0), "0 samples"),
        (lambda: pass_at_k_variance(3, 2, np.array([1.5])), "probability"),
        (lambda: pass_at_k_sampling_variance(ints(3), ints(1), 2), "k = 4: 1 of 1 tasks"),
    ],
)
def test_what_has_no_answer_is_refused(call: Any, line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        call()
