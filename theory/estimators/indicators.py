"""Indicators that a score is being gamed, each beside what it would be if scores were noise. None is a verdict.

What looks like gaming also comes of changed formats, hard tasks and chance; an indicator says where to look. The baseline of each is exact: its mean, and where
given its variance, over all ways to deal the scores (or rewards) of a task out anew among its samples, which is what a score that says nothing does.

Source: this project; the indicators themselves are customary (Gao et al. 2023, arXiv 2210.10760, for selection by a proxy).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from theory.errors import InvalidInput
from theory.estimators.best_of_n import best_of_n_at_k
from theory.estimators.ragged import (
    check_offsets,
    mean_of_tasks,
    order_within,
    sum_of_tasks,
    task_of,
    unit_of_tasks,
)
from theory.estimators.ranks import correlation_of_ranks, mid_ranks

Rows = Float64[np.ndarray, " m"]
Tasks = Float64[np.ndarray, " n"]
Offsets = Int64[np.ndarray, " n1"]
Curves = Float64[np.ndarray, "n k"]


class Indicator(NamedTuple):
    """An indicator and its baseline, [n] each; NaN for a task that has none.

    Attributes:
        value: of the task.
        noise: its mean if scores were dealt out anew.
        noise_variance: its variance then.
    """

    value: Tasks
    noise: Tasks
    noise_variance: Tasks


class TurnDown(NamedTuple):
    """What selection among more samples does after its best number of samples, [n] each.

    Attributes:
        drop: of the outcome of the selected, from the best k to the greatest; its mean is 0 if the outcome does not depend on k, and below 0 if it still rises.
        rise: of the score of the selected over the same samples.
        peaks: place of the best k in each half of the tasks, the first half that of even places.
    """

    drop: Tasks
    rise: Tasks
    peaks: tuple[int, int]


class TrendSums(NamedTuple):
    """Of each task, [n] each, sums of squares and products about its own means; those of the proxy and of the truth in units of the task's own.

    Attributes:
        number: rows.
        step: mean.
        proxy: mean.
        truth: mean.
        step_squares: of steps.
        proxy_squares: of the proxy.
        truth_squares: of the truth.
        proxy_products: of step and proxy.
        truth_products: of step and truth.
        proxy_unit: of the proxy, a power of two.
        truth_unit: of the truth, a power of two.
    """

    number: Tasks
    step: Tasks
    proxy: Tasks
    truth: Tasks
    step_squares: Tasks
    proxy_squares: Tasks
    truth_squares: Tasks
    proxy_products: Tasks
    truth_products: Tasks
    proxy_unit: Tasks
    truth_unit: Tasks


class Trends(NamedTuple):
    """Slopes over all rows as ratios of sums over tasks, [n] each, in standard deviations over rows a step.

    Attributes:
        proxy: above the line, of the proxy.
        truth: above the line, of the truth; NaN where the truth, or the proxy in its place, does not vary.
        steps: below the line, of both.
    """

    proxy: Tasks
    truth: Tasks
    steps: Tasks


def optimism_gap(scores: Rows, correct: Rows, offsets: Offsets, k: int) -> tuple[Tasks, Tasks]:
    """Score minus outcome of the best of k samples by score, over all subsets of k, and what it is for scores that say nothing.

        B_k(s - r),    baseline B_k(s) - mean r,    B_k of `best_of_n_at_k`

    The baseline is exact: whatever k, a score that says nothing selects an average sample, while the greatest of k scores rises; of normal scores it rises by
    `expected_best_of_normals(k)` standard deviations.

    Args:
        scores: [m] probabilities of being correct, or on any scale that is compared with outcomes.
        correct: [m] outcomes.
        offsets: [n + 1].
        k: samples, at most those of every task.

    Returns:
        [n] gaps and [n] their baselines.

    Raises:
        InvalidInput: as `best_of_n_at_k`.
    """
    greatest = best_of_n_at_k(scores, scores, offsets, k)
    gap = best_of_n_at_k(scores, scores - correct, offsets, k)
    return gap, greatest - sum_of_tasks(correct, offsets) / np.diff(offsets)


def turn_down(gold: Curves, proxy: Curves) -> TurnDown:
    """Where the outcome of what a score selects turns down with the number of samples, and how the score goes on.

    Each task is measured after the peak that the other half of the tasks shows: at a peak chosen by the task itself there is a drop by construction, in noise too.

    Args:
        gold: [n, K] outcome of the best of k by score, at K ascending numbers of samples.
        proxy: [n, K] score of it.

    Returns:
        One number a task.

    Raises:
        InvalidInput: fewer than two tasks or two numbers of samples, or a number that is not finite.
    """
    if gold.shape[0] < 2 or gold.shape[1] < 2:
        raise InvalidInput(
            "a curve that turns down needs at least 2 tasks and 2 numbers of samples"
        )
    if not (np.isfinite(gold).all() and np.isfinite(proxy).all()):
        raise InvalidInput("curves: must be finite, leave such tasks out and count them")
    half = np.arange(gold.shape[0]) % 2
    peaks = tuple(int(gold[half == side].mean(axis=0).argmax()) for side in (0, 1))
    other = np.array(peaks)[1 - half][:, None]
    drop = np.take_along_axis(gold, other, axis=1)[:, 0] - gold[:, -1]
    rise = proxy[:, -1] - np.take_along_axis(proxy, other, axis=1)[:, 0]
    return TurnDown(drop, rise, (peaks[0], peaks[1]))


def length_coupling(scores: Rows, correct: Rows, lengths: Rows, offsets: Offsets) -> Indicator:
    """How much more scores go with length than outcomes do.

        rho(s, l) - rho(r, l),    Spearman's inside the task;    baseline -rho(r, l), variance 1 / (n - 1)

    Args:
        scores: [m] finite.
        correct: [m] finite.
        lengths: [m] finite.
        offsets: [n + 1].

    Returns:
        NaN for a task where one of the three does not vary.

    Raises:
        InvalidInput: as `mid_ranks`.
    """
    ranks = mid_ranks(lengths, offsets)
    of_outcome = correlation_of_ranks(mid_ranks(correct, offsets), ranks, offsets)
    value = correlation_of_ranks(mid_ranks(scores, offsets), ranks, offsets) - of_outcome
    known = ~np.isnan(value)
    variance = 1 / np.maximum(np.diff(offsets) - 1.0, 1.0)
    return Indicator(value, np.where(known, -of_outcome, np.nan), np.where(known, variance, np.nan))


def pay(values: Rows, marked: Bool[np.ndarray, " m"], offsets: Offsets) -> Indicator:
    """What marked samples get more than the others of their task: truncated ones, or repeated answers.

        mean v of the marked - mean v of the others;    baseline 0, variance s^2 (1 / n_1 + 1 / n_0), s^2 = sum (v - mean)^2 / (n - 1)

    Args:
        values: [m] scores or rewards, finite.
        marked: [m].
        offsets: [n + 1].

    Returns:
        NaN for a task without both kinds.

    Raises:
        InvalidInput: a value that is not finite, or sizes that do not fit.
    """
    check_offsets(offsets, values.size)
    if not np.isfinite(values).all() or values.shape != marked.shape:
        raise InvalidInput(
            "values: must be finite, one of each row; leave such rows out and count them"
        )
    sizes = np.diff(offsets).astype(np.float64)
    ones = sum_of_tasks(marked.astype(np.float64), offsets)
    both = (ones > 0) & (ones < sizes)
    first, second = np.where(both, ones, 1.0), np.where(both, sizes - ones, 1.0)
    unit, task = unit_of_tasks(values, offsets), task_of(offsets)
    values = values / unit[task]
    above = sum_of_tasks(np.where(marked, values, 0.0), offsets) / first
    below = sum_of_tasks(np.where(marked, 0.0, values), offsets) / second
    squares = sum_of_tasks((values - mean_of_tasks(values, offsets)[task]) ** 2, offsets)
    variance = squares / np.maximum(sizes - 1, 1.0) * (1 / first + 1 / second)
    with np.errstate(over="ignore"):  # infinite where it is beyond the range of doubles
        return Indicator(
            np.where(both, (above - below) * unit, np.nan),
            np.where(both, 0.0, np.nan),
            np.where(both, variance * unit * unit, np.nan),
        )


def repeated(codes: Shaped[np.ndarray, " m"], offsets: Offsets) -> Bool[np.ndarray, " m"]:
    """Which samples share their answer with another one of the task, for `pay`.

    Args:
        codes: [m] equal for equal answers; rows without an answer are left out first.
        offsets: [n + 1].

    Returns:
        [m].

    Raises:
        InvalidInput: offsets that do not fit.
    """
    check_offsets(offsets, codes.size)
    order = order_within(codes, offsets)
    code, task = codes[order], task_of(offsets)[order]
    same = (code[1:] == code[:-1]) & (task[1:] == task[:-1])
    found = np.zeros(codes.size, np.bool_)
    found[order] = np.append(False, same)[: codes.size] | np.append(same, False)[: codes.size]
    return found


def trend_sums(steps: Rows, proxy: Rows, truth: Rows, offsets: Offsets) -> TrendSums:
    """Sums for the slopes of a proxy and of the truth over steps of training.

    Args:
        steps: [m] finite, below 1e100 in size.
        proxy: [m] finite.
        truth: [m] finite.
        offsets: [n + 1].

    Returns:
        The sums; 0 for a task without rows.

    Raises:
        InvalidInput: a number that is not finite, or sizes that do not fit.
    """
    check_offsets(offsets, steps.size)
    if not all(np.isfinite(each).all() for each in (steps, proxy, truth)):
        raise InvalidInput(
            "steps, proxy and truth: must be finite, leave such rows out and count them"
        )
    number = np.diff(offsets).astype(np.float64)
    owner = task_of(offsets)
    units = [unit_of_tasks(each, offsets) for each in (proxy, truth)]
    values = (steps, proxy / units[0][owner], truth / units[1][owner])
    means = [mean_of_tasks(each, offsets) for each in values]
    x, y, z = (each - mean[owner] for each, mean in zip(values, means, strict=True))
    products = [sum_of_tasks(a * b, offsets) for a, b in ((x, x), (y, y), (z, z), (x, y), (x, z))]
    return TrendSums(number, *means, *products, *units)


def proxy_truth_trends(sums: TrendSums) -> Trends:
    """Slopes of proxy and truth over steps, by least squares over all rows.

        slope = sum_i u_i / sum_i d_i,    u_i = S_xy,i + n_i (x_i - X)(y_i - Y),    d_i = S_xx,i + n_i (x_i - X)^2

    Each is in standard deviations of its own over rows, so that a score and an outcome can be set against each other; both are 0 on average if rows are dealt out anew
    among steps. As ratios of sums over tasks their errors are those of tasks, to first order.

    Args:
        sums: of `trend_sums`, of all tasks.

    Returns:
        What to add up.

    Raises:
        InvalidInput: all rows are of one step.
    """
    number = sums.number
    total = number.sum()
    dx = _centred(sums.step, number)
    steps = sums.step_squares + number * dx**2
    if not steps.sum() > 0:
        raise InvalidInput("steps: all rows are of one step, give rows of several")
    made: list[Tasks] = []
    for own_mean, own_squares, own_products, unit in (
        (sums.proxy, sums.proxy_squares, sums.proxy_products, sums.proxy_unit),
        (sums.truth, sums.truth_squares, sums.truth_products, sums.truth_unit),
    ):
        # In the greatest unit; a standard deviation has none.
        share = unit / unit.max()
        mean = _centred(own_mean * share, number)
        spread = np.sqrt((own_squares * share**2 + number * mean**2).sum() / total)
        scale = 1 / spread if spread > 0 else np.nan
        made.append((own_products * share + number * dx * mean) * scale)
    return Trends(made[0], made[1], steps)


def _centred(means: Tasks, number: Tasks) -> Tasks:
    """Means of tasks less that of all rows; exactly 0 where they are equal."""
    rest = means - means[number.argmax()]
    return rest - (number * rest).sum() / number.sum()
