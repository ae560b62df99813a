"""Wrong couplings and wrong uses of meeting times. Their exact damage is asserted in tests/theory/mcmc/test_coupled.py.

On toy E with at most three tokens, alpha 2, temperature proposal, uniform cuts, unless said otherwise.
"""

import numpy as np


def no_correction(times: np.ndarray, lag: int, first: int, last: int) -> np.ndarray:
    """In the place of `correction_weights`: a plain average over the chain ahead, with all its bias. The mean length is off by .376756 for k..m = 0..1."""
    return np.zeros_like(times)


def correction_at_every_time(times: np.ndarray, lag: int, first: int, last: int) -> np.ndarray:
    """Chains with a lag of 3 taken for chains with a lag of 1: differences are added at every time. Off by -.635079 for k..m = 0..1."""
    return np.maximum(0, np.minimum(times - first, last - first + 1))


def uniforms_of_their_own(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """In the place of `jointly_accepted`: an independent uniform for each chain. Each alone is right, but pairs that have met part again.

    Estimates that stop at the first meeting stay unbiased, for after it the two chains have the same law; X_t = Y_{t-L} for
    t >= tau, on which records and costs rely, is lost. A pair that has met parts in the next move with probability .139387.
    """
    return first[:, None] * second[None, :]


def one_term_less(meeting_times: np.ndarray, lag: int, num_steps: int) -> np.ndarray:
    """In the place of `total_variation_estimates`: floor for ceil. With a lag of 20 the "bound" is .017 at the start, where the distance is .247."""
    left = np.asarray(meeting_times)[:, None] - lag - np.arange(num_steps + 1)[None]
    return np.maximum(0, left // lag).astype(np.float64)
