"""A prompt that stands still and is remembered, whose groups may end at any size: what it is worth at a price per rollout.

The information class of rules that remember prompts and size their groups, on the way (stopping) or before (VIP, Knapsack: to draw m rollouts and end is one such
rule). A visit draws one rollout after the other and ends at any size from `least` to `largest`, with the worth of what it then holds, 0 for a group that is dropped; a prompt has at
most `visits` of them. With S and F seen in earlier visits, s and f in this one and r visits left after it,

    W(S, F, s, f, r) = max(0, stop, draw)
    stop = max(0, worth(s, f)) + W(S + s, F + f, 0, 0, r)                            where s + f >= least
    draw = -price + mean W(S, F, s + 1, f, r) + (1 - mean) W(S, F, s, f + 1, r)         where s + f < largest

and mean the posterior mean after S + s and F + f. An untouched prompt has W(0, 0, 0, 0) of its first visit. Histories grow with visits times sizes; after `horizon` rollouts the success rate is told for
nothing, which can only help (an information relaxation: Brown, Smith and Sun 2010). So the values bound those of the class from above, fall as the horizon grows, and
are exact from `visits * largest` on. Summed over prompts at a price they bound every pool (`relaxation`).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import logsumexp, xlogy

from theory.errors import InvalidInput
from theory.exact.allocation.arms import GroupReward


class Rates(NamedTuple):
    """A law of finitely many success rates: any other by a quadrature of its own.

    Attributes:
        right: [Z] p.
        wrong: [Z] 1 - p, given for itself since p may be 1 but for rounding.
        weights: [Z] probabilities.
    """

    right: Float64[np.ndarray, " Z"]
    wrong: Float64[np.ndarray, " Z"]
    weights: Float64[np.ndarray, " Z"]


class Visits(NamedTuple):
    """What a rule may do with a prompt.

    Attributes:
        number: the most visits.
        largest: most rollouts of one.
        least: fewest rollouts after which one may end; before, the prompt can only be left for good.
        horizon: rollouts of the prompt after which its rate is told.
    """

    number: int
    largest: int
    least: int
    horizon: int


class _Level(NamedTuple):
    """Visits under way after so many rollouts of the prompt in all: earlier successes and failures, successes and failures of the visit, and where each state is in the arrays."""

    earlier: Int64[np.ndarray, "2 K"]
    visit: Int64[np.ndarray, "2 K"]
    number: Int64[np.ndarray, "D D D"]


def untouched_values(
    rates: Rates, visits: Visits, worth: GroupReward, prices: Float64[np.ndarray, " M"]
) -> Float64[np.ndarray, " M"]:
    """What an untouched prompt is worth at most, net of its rollouts.

    Args:
        rates: the law that its success rate comes from.
        visits: what a rule may do with it.
        worth: of a group that is trained on, by its successes and failures.
        prices: [M] of a rollout, side by side.

    Returns:
        [M], 0 where no rollout pays.

    Raises:
        InvalidInput: no visit, sizes that are not 1 <= least <= largest, no rollout before the rate is told, or weights that are no probabilities.
    """
    check_visits(rates, visits)
    posterior = posteriors(rates, visits.horizon)
    level = _level(visits.horizon, visits.largest)
    under_way = _told(rates, visits, worth, prices, posterior[-1], level)
    empty = np.zeros((1, visits.number + 1, len(prices)))
    for depth in range(visits.horizon - 1, -1, -1):
        mean = posterior[depth] @ rates.right
        later, level = level, _level(depth, visits.largest)
        empty = _begun(mean, later, under_way, prices)
        under_way = _gone_on(mean, level, later, empty, under_way, visits, worth, prices)
    return empty[0, visits.number]


def _begun(
    mean: np.ndarray, later: _Level, under_way: Float64[np.ndarray, "K R M"], prices: np.ndarray
) -> Float64[np.ndarray, "S R2 M"]:
    """Values between visits, by successes so far and visits left: leave, or draw the first rollout of the next."""
    s = np.arange(len(mean))
    f = len(mean) - 1 - s
    p = mean[:, None, None]
    drawing = p * under_way[later.number[s, f, 1]] + (1 - p) * under_way[later.number[s, f, 0]]
    values = np.maximum(drawing - prices, 0)
    return np.concatenate([np.zeros_like(values[:, :1]), values], axis=1)


def _gone_on(
    mean: np.ndarray,
    level: _Level,
    later: _Level,
    empty: Float64[np.ndarray, "S R2 M"],
    under_way: Float64[np.ndarray, "K2 R M"],
    visits: Visits,
    worth: GroupReward,
    prices: np.ndarray,
) -> Float64[np.ndarray, "K R M"]:
    """Values inside visits: leave, end the visit, or draw."""
    (earlier_s, earlier_f), (s, f) = level.earlier, level.visit
    stopping = np.maximum(worth(s, f), 0)[:, None, None] + empty[earlier_s + s, :-1]
    stopping = np.where((s + f >= visits.least)[:, None, None], stopping, 0)
    draws = s + f < visits.largest
    rows = earlier_s[draws], earlier_f[draws], s[draws]
    p = mean[rows[0] + rows[2]][:, None, None]
    success = under_way[later.number[rows[0], rows[1], rows[2] + 1]]
    failure = under_way[later.number[rows]]
    values = stopping
    drawing = p * success + (1 - p) * failure - prices
    values[draws] = np.maximum(values[draws], drawing)
    return values


def _told(
    rates: Rates,
    visits: Visits,
    worth: GroupReward,
    prices: np.ndarray,
    posterior: Float64[np.ndarray, "S Z"],
    level: _Level,
) -> Float64[np.ndarray, "K R M"]:
    """Values at the horizon: E[value of the visit under way + visits left * value of a fresh one | all that was seen]."""
    means = np.tensordot(posterior, _known(rates, visits, worth, prices), axes=(1, 2))
    left = np.arange(visits.number)[None, :, None]
    (earlier_s, _), (s, f) = level.earlier, level.visit
    seen = earlier_s + s
    return means[seen, s, f][:, None, :] + left * means[seen, 0, 0][:, None, :]


def _known(
    rates: Rates, visits: Visits, worth: GroupReward, prices: np.ndarray
) -> Float64[np.ndarray, "N N Z M"]:
    """Value of a visit at s and f where the rate is known; entries beyond the largest size are 0."""
    size = visits.largest
    values = np.zeros((size + 1, size + 1, len(rates.right), len(prices)))
    p, q = rates.right[:, None], rates.wrong[:, None]
    for drawn in range(size, -1, -1):
        s = np.arange(drawn + 1)
        f = drawn - s
        ends = np.maximum(worth(s, f), 0) if drawn >= max(visits.least, 1) else np.zeros(drawn + 1)
        best = np.broadcast_to(ends[:, None, None], (drawn + 1, *values.shape[2:]))
        if drawn < size:
            best = np.maximum(best, p * values[s + 1, f] + q * values[s, f + 1] - prices)
        values[s, f] = best
    return values


def posteriors(rates: Rates, horizon: int) -> list[Float64[np.ndarray, "S Z"]]:
    """Probabilities of the rates after every number of rollouts, by successes.

    Args:
        rates: the law before.
        horizon: the most rollouts.

    Returns:
        [d + 1, Z] after d = 0 .. horizon; the law before where so many successes cannot be seen.
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(rates.weights)
    found: list[Float64[np.ndarray, "S Z"]] = []
    for depth in range(horizon + 1):
        s = np.arange(depth + 1)[:, None]
        logs = log_weights + xlogy(s, rates.right) + xlogy(depth - s, rates.wrong)
        total = np.asarray(logsumexp(logs, axis=1, keepdims=True))
        seen = np.isfinite(total)
        found.append(np.where(seen, np.exp(logs - np.where(seen, total, 0)), rates.weights))
    return found


def _level(depth: int, largest: int) -> _Level:
    """All states of visits under way after `depth` rollouts of the prompt."""
    earlier_s, earlier_f, s = np.indices((depth + 1,) * 3).reshape(3, -1)
    f = depth - earlier_s - earlier_f - s
    there = (f >= 0) & (s + f >= 1) & (s + f <= largest)
    earlier_s, earlier_f, s, f = (part[there] for part in (earlier_s, earlier_f, s, f))
    number = np.zeros((depth + 1,) * 3, np.int64)
    number[earlier_s, earlier_f, s] = np.arange(len(s))
    return _Level(np.stack([earlier_s, earlier_f]), np.stack([s, f]), number)


def check_visits(rates: Rates, visits: Visits) -> None:
    """Refuse what is no law or allows nothing.

    Args:
        rates: the law.
        visits: what a rule may do.

    Raises:
        InvalidInput: see `untouched_values`.
    """
    if visits.number < 1 or visits.horizon < 1 or not 1 <= visits.least <= visits.largest:
        raise InvalidInput(
            f"{visits}: give at least 1 visit, sizes with 1 <= least <= largest, and a horizon of at least 1 rollout"
        )
    if (rates.weights < 0).any() or not np.isclose(rates.weights.sum(), 1, rtol=0, atol=1e-9):
        raise InvalidInput(
            f"weights of rates sum to {rates.weights.sum()}: must be 1, none below 0"
        )
