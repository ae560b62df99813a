"""The same prompt where the size of a group is fixed before its first rollout: what VIP, Knapsack and CurES may do with all that they remember.

With S and F seen of the prompt so far and r visits left,

    W(S, F, r) = max(0, max over m of  -price m + E[max(0, worth(k, m - k)) + W(S + k, F + m - k, r - 1)]),     k successes of the m rollouts, Beta-Binomial or a mixture

over sizes m from `least` to `largest`. It is a part of the class of `remembered.untouched_values`, which may look at every rollout. The success rate is told after `horizon` rollouts or more, so
the values bound those of the class from above here too, and are exact where no visit begins after it.
"""

import numpy as np
from jaxtyping import Float64
from scipy.stats import binom

from theory.exact.allocation.arms import GroupReward
from theory.exact.allocation.remembered import Rates, Visits, check_visits, posteriors


def sized_values(
    rates: Rates, visits: Visits, worth: GroupReward, prices: Float64[np.ndarray, " M"]
) -> Float64[np.ndarray, " M"]:
    """What an untouched prompt is worth at most where sizes are fixed beforehand.

    Args:
        rates: the law that its success rate comes from.
        visits: what a rule may do with it.
        worth: of a group, by its successes and failures.
        prices: [M] of a rollout, side by side.

    Returns:
        [M], 0 where no rollout pays.

    Raises:
        InvalidInput: see `remembered.untouched_values`.
    """
    check_visits(rates, visits)
    sizes = range(visits.least, visits.largest + 1)
    outcomes = {m: binom.pmf(np.arange(m + 1), m, rates.right[:, None]) for m in sizes}
    rewards = {m: np.maximum(worth(np.arange(m + 1), m - np.arange(m + 1)), 0) for m in sizes}
    posterior = posteriors(rates, visits.horizon + visits.largest - 1)
    known = np.max([outcomes[m] @ rewards[m][:, None] - m * prices for m in sizes], axis=0)
    fresh = np.maximum(known, 0)
    left = np.arange(visits.number + 1)[None, :, None]
    told = slice(visits.horizon, None)
    values = {
        depth: left * (law @ fresh)[:, None, :]
        for depth, law in zip(range(len(posterior))[told], posterior[told], strict=True)
    }
    for depth in range(visits.horizon - 1, -1, -1):
        best = np.zeros((depth + 1, visits.number, len(prices)))
        for m in sizes:
            chances = posterior[depth] @ outcomes[m]
            after = np.lib.stride_tricks.sliding_window_view(values[depth + m][:, :-1], m + 1, 0)
            later = np.einsum("sk,srmk->srm", chances, after)
            best = np.maximum(best, later + (chances @ rewards[m])[:, None, None] - m * prices)
        values[depth] = np.concatenate([np.zeros_like(best[:, :1]), best], axis=1)
    return values[0][0, visits.number]
