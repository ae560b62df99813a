"""What the meeting times of coupled chains give: unbiased estimates under the target, and bounds on how far a chain is from it.

Both are for X_t, and Y_{t-L} behind it by a lag of L, with tau = min{t >= L: X_t = Y_{t-L}} (`theory.mcmc.coupled`). Numbers of different pairs are
independent, so means over pairs have the usual standard errors. On the host, in float64.
"""

import numpy as np
from jaxtyping import Array, Float, Float64, Int

from theory.errors import InvalidInput


def unbiased_estimates(
    ahead_values: Float[Array | np.ndarray, "R T1"],
    behind_values: Float[Array | np.ndarray, "R T2"],
    meeting_times: Int[Array | np.ndarray, " R"],
    lag: int,
    first: int,
    last: int,
) -> Float64[np.ndarray, " R"]:
    """Time-averaged estimates of E_pi[f], one for each pair of chains.

        H_{k:m} = 1/(m-k+1) sum_{l=k}^m [ f(X_l) + sum_{j >= 1, l+jL < tau} (f(X_{l+jL}) - f(Y_{l+(j-1)L})) ]

    Each is unbiased for E_pi[f] over whole sequences: what the chain has not forgotten of its start is made good by the
    differences, whose expectations telescope. A larger k makes the differences rarer, a larger m the variance smaller.

    Source: Jacob, O'Leary & Atchadé (2020), equation 2.1 and the average after it, for L = 1; for any lag Vanetti & Doucet's
    discussion of that paper, read second-hand.

    Args:
        ahead_values: [R, n + 1] f(X_0), ..., f(X_n).
        behind_values: [R, n + 1 - L] f(Y_0), ..., f(Y_{n-L}).
        meeting_times: [R] tau, all pairs having met.
        lag: L, at least 1.
        first: k, at least 0.
        last: m, from k to n.

    Returns:
        [R].

    Raises:
        InvalidInput: a pair has not met, the chains are too short for tau or m, or numbers do not fit.
    """
    ahead = np.asarray(ahead_values, np.float64)
    behind = np.asarray(behind_values, np.float64)
    times = np.asarray(meeting_times)
    check_met(times, lag)
    num_steps = ahead.shape[1] - 1
    if not 0 <= first <= last <= num_steps:
        raise InvalidInput(
            f"average over times {first}..{last}: must ascend within 0..{num_steps}, the times of the chains"
        )
    if behind.shape[1] != num_steps + 1 - lag:
        raise InvalidInput(
            f"chain behind has {behind.shape[1]} values: with lag {lag} it must have {num_steps + 1 - lag}"
        )
    if times.max() - 1 > num_steps:
        raise InvalidInput(
            f"pair {int(times.argmax())}: met at {times.max()}, its chains have {num_steps} moves; run them on"
        )
    at = np.arange(lag, num_steps + 1)
    weights = correction_weights(at, lag, first, last)
    differences = (ahead[:, lag:] - behind) * (at < times[:, None])
    total = ahead[:, first : last + 1].sum(axis=1) + differences @ weights
    return total / (last - first + 1)


def correction_weights(
    times: Int[np.ndarray, " T"], lag: int, first: int, last: int
) -> Int[np.ndarray, " T"]:
    """How often the difference f(X_t) - f(Y_{t-L}) occurs in the sum over l = k..m: the number of l with l + jL = t for some j >= 1.

        max(0, floor((t - k) / L) - max(1, ceil((t - m) / L)) + 1)

    With L = 1 it is min(t - k, m - k + 1).

    Args:
        times: [T] t.
        lag: L.
        first: k.
        last: m.

    Returns:
        [T].
    """
    fewest = np.maximum(1, -(-(times - last) // lag))
    return np.maximum(0, (times - first) // lag - fewest + 1)


def total_variation_estimates(
    meeting_times: Int[Array | np.ndarray, " R"], lag: int, num_steps: int
) -> Float64[np.ndarray, "R T1"]:
    """Estimates of an upper bound on TV(law of X_t, pi) for t = 0, ..., n, one for each pair of chains.

        TV(law of X_t, pi) <= E[max(0, ceil((tau - L - t) / L))]

    A row is unbiased for the bound, not for the distance; a mean of rows may be above 1, and where the chain has a mode that
    no pair has visited it may be far below the distance. A large lag makes the bound sharper and costs L moves more.

    Source: Biswas, Jacob & Vanetti (2019), theorem 2.5.

    Args:
        meeting_times: [R] tau, all pairs having met.
        lag: L, at least 1.
        num_steps: n, at least 0.

    Returns:
        [R, n + 1].

    Raises:
        InvalidInput: a pair has not met, or a number is outside its domain.
    """
    times = np.asarray(meeting_times)
    check_met(times, lag)
    if num_steps < 0:
        raise InvalidInput(f"{num_steps} steps: must be at least 0")
    left = times[:, None] - lag - np.arange(num_steps + 1)[None]
    return np.maximum(0, -(-left // lag)).astype(np.float64)


def check_met(meeting_times: Int[np.ndarray, " R"], lag: int) -> None:
    """Refuse times at which no pair can have met.

    Args:
        meeting_times: [R].
        lag: L.

    Raises:
        InvalidInput: the lag is below 1, there is no pair, a pair has not met (0), or it did so before the lag.
    """
    if lag < 1:
        raise InvalidInput(f"lag {lag}: must be at least 1")
    if not meeting_times.size:
        raise InvalidInput("meeting times of no pair: give at least one")
    pair = int(meeting_times.argmin())
    if meeting_times[pair] == 0:
        raise InvalidInput(f"pair {pair}: has not met, run it until it has; leaving it out biases")
    if meeting_times[pair] < lag:
        raise InvalidInput(
            f"pair {pair}: meeting time {meeting_times[pair]} before the lag {lag}, give the lag it was run with"
        )
