"""Log ratios of the evaluated policy to the one that drew the rows, at every unit.

The unit of a weight is part of its name. A sequence ratio is the product over tokens: 200 tokens of log ratio .01 make 7.39, not 1.01. The geometric mean is 1.01; it
is no importance weight and is always called length-normalised.
"""

from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float64, Int64

from theory.estimators.ragged import check_offsets, sum_of_tasks, task_of

Tokens = Float64[np.ndarray, " t"]
Sequences = Float64[np.ndarray, " m"]

# What servers write for "not available": vLLM -9999, the least float32, None.
SENTINEL = -9998.0


def missing_log_probs(log_probs: Tokens) -> Bool[np.ndarray, " t"]:
    """Entries that are no log probability of a drawn token: NaN, above 0, and sentinels at and below -9998.

    Exactly 0 is a certain token and counts. A row with a missing entry has no sequence ratio.

    Args:
        log_probs: [t] natural log.

    Returns:
        [t].
    """
    return ~((log_probs <= 0) & (log_probs > SENTINEL))


def missing_sequence_log_probs(log_probs: Sequences, lengths: Sequences) -> Bool[np.ndarray, " m"]:
    """The same of sums over whole sequences, which honestly reach -9998 where they are long.

    A sum there counts if its sequence has more tokens than it has nats. With one sentinel among up to ten thousand tokens it has fewer.

    Args:
        log_probs: [m] natural log.
        lengths: [m] in tokens, NaN where unknown.

    Returns:
        [m].
    """
    return missing_log_probs(log_probs) & ~((log_probs <= 0) & (log_probs > -lengths))


def sequence_log_ratios(token_log_ratios: Tokens, offsets: Int64[np.ndarray, " m1"]) -> Sequences:
    """Log of the product over all tokens of a sequence: exact for terminal rewards.

        sum_t log r_t

    Args:
        token_log_ratios: [t] log pi(y_t | .) - log mu(y_t | .), sequence by sequence; NaN where one of the two is missing.
        offsets: [m + 1] where each sequence begins.

    Returns:
        [m] NaN for a sequence with a missing token, 0 for an empty one.

    Raises:
        InvalidInput: offsets that do not fit.
    """
    check_offsets(offsets, token_log_ratios.size)
    return sum_of_tasks(token_log_ratios, offsets)


def prefix_log_ratios(token_log_ratios: Tokens, offsets: Int64[np.ndarray, " m1"]) -> Tokens:
    """Log of the product up to and with each token: exact for the reward of that step.

        sum_{s <= t} log r_s

    Args:
        token_log_ratios: [t] sequence by sequence.
        offsets: [m + 1].

    Returns:
        [t] NaN from a missing token on.

    Raises:
        InvalidInput: offsets that do not fit.
    """
    check_offsets(offsets, token_log_ratios.size)
    out = np.empty_like(token_log_ratios)
    sizes = np.diff(offsets)
    place = np.arange(token_log_ratios.size) - offsets[task_of(offsets)]
    # One position of all sequences at a time: a running sum over the whole array would carry the sums of earlier sequences.
    running = np.zeros(sizes.size)
    by_place = np.argsort(place, kind="stable")
    owner = task_of(offsets)[by_place]
    bounds = np.searchsorted(place[by_place], np.arange(int(sizes.max(initial=0)) + 1))
    for begin, end in pairwise(bounds):
        here = by_place[begin:end]
        running[owner[begin:end]] += token_log_ratios[here]
        out[here] = running[owner[begin:end]]
    return out


def turn_log_ratios(
    token_log_ratios: Tokens, turn_offsets: Int64[np.ndarray, " u1"]
) -> Float64[np.ndarray, " u"]:
    """Log of the product over the tokens of each turn: between token and sequence.

    Args:
        token_log_ratios: [t].
        turn_offsets: [u + 1] where each turn begins.

    Returns:
        [u].

    Raises:
        InvalidInput: offsets that do not fit.
    """
    return sequence_log_ratios(token_log_ratios, turn_offsets)


def length_normalised_log_ratios(
    token_log_ratios: Tokens, offsets: Int64[np.ndarray, " m1"]
) -> Sequences:
    """Log of the geometric mean over the tokens of a sequence, as GSPO clips it: a length-normalised similarity, not an importance weight.

        (1/T) sum_t log r_t

    Nothing is unbiased under it; its spread shrinks as 1/T where that of the sequence ratio grows with T.

    Args:
        token_log_ratios: [t].
        offsets: [m + 1].

    Returns:
        [m] 0 for an empty sequence.

    Raises:
        InvalidInput: offsets that do not fit.

    Source: Zheng et al. 2025 (arXiv 2507.18071), GSPO, equation 7 (number cited from memory).
    """
    return sequence_log_ratios(token_log_ratios, offsets) / np.maximum(np.diff(offsets), 1)
