"""The log densities that every kernel of this room runs, on arrays alone.

A suffix move keeps the first m tokens of y and draws the rest from a proposal q. With a cut law c and the target pi, its

    log r = log w_m(y') - log w_m(y),     log w_m(y) = log pi(y) + log c(m | y) - log q(y_>=m | y_<m),

which is Hastings' ratio with the state-dependent choice of the cut written out: with a uniform cut it holds log len(y) - log len(y').
The multiple-try kernel weighs its candidates by the same w_m. The functions take NumPy and JAX arrays alike: kernels run them in
float32, `theory.exact.transition` builds transition matrices from them in float64, so that the two cannot part.
"""

from typing import NamedTuple

from jaxtyping import Float, Int

from theory.mcmc.cuts import CutLaw, Numbers, log_cut_probs, log_sum_exp, positions


class Records(NamedTuple):
    """What the densities read of B sequences. Zeros past a row's length.

    Attributes:
        log_p: [B, T] log p(y_t | y_<t) of the model at temperature 1.
        log_q: [B, T] of the proposal, whether or not it drew the token.
        entropies: [B, T] Shannon entropy (nats) of the model's law before each token; zeros where the cut law does not read it.
        log_rewards: [B] log of what multiplies p(y)^alpha in the target; zeros for a plain power target.
        lengths: [B] eos included.
    """

    log_p: Float[Numbers, "B T"]
    log_q: Float[Numbers, "B T"]
    entropies: Float[Numbers, "B T"]
    log_rewards: Float[Numbers, " B"]
    lengths: Int[Numbers, " B"]


def log_target(alpha: float | Numbers, records: Records) -> Float[Numbers, " B"]:
    """Unnormalised log target.

        log pi(y) = alpha sum_t log p(y_t | y_<t) + log reward(y) + constant

    Args:
        alpha: exponent above 0, a number or [B].
        records: of the sequences.

    Returns:
        [B] natural log; -inf where the target is zero.
    """
    return alpha * records.log_p.sum(axis=1) + records.log_rewards


def suffix_log_q(records: Records, cuts: Int[Numbers, " B"]) -> Float[Numbers, " B"]:
    """Log probability with which the proposal draws a suffix, given what stands before the cut.

        log q(y_>=m | y_<m) = sum_{t >= m} log q(y_t | y_<t)

    Args:
        records: of the sequences.
        cuts: [B] m, the number of tokens kept.

    Returns:
        [B] natural log.
    """
    xp = records.log_q.__array_namespace__()
    regenerated = positions(records.log_q) >= cuts[:, None]
    return xp.where(regenerated, records.log_q, 0).sum(axis=1)


def log_cut(cut_law: CutLaw, records: Records, cuts: Int[Numbers, " B"]) -> Float[Numbers, " B"]:
    """Log probability of cutting a sequence where it was cut.

    Args:
        cut_law: of the kernel.
        records: of the sequences.
        cuts: [B] m, below each length.

    Returns:
        [B] log c(m | y).
    """
    xp = records.log_p.__array_namespace__()
    log_probs = log_cut_probs(cut_law, records.entropies, records.lengths)
    return xp.take_along_axis(log_probs, cuts[:, None], axis=1)[:, 0]


def log_move_weight(
    alpha: float | Numbers, cut_law: CutLaw, records: Records, cuts: Int[Numbers, " B"]
) -> Float[Numbers, " B"]:
    """Importance weight of a sequence as the outcome of a suffix move at a given cut.

        log w_m(y) = log pi(y) + log c(m | y) - log q(y_>=m | y_<m)

    Args:
        alpha: exponent of the target, a number or [B].
        cut_law: of the kernel.
        records: of the sequences.
        cuts: [B] m, below each length.

    Returns:
        [B] natural log, up to the target's constant.
    """
    return (
        log_target(alpha, records) + log_cut(cut_law, records, cuts) - suffix_log_q(records, cuts)
    )


def log_ratio(
    alpha: float | Numbers,
    cut_law: CutLaw,
    current: Records,
    proposal: Records,
    cuts: Int[Numbers, " B"],
) -> Float[Numbers, " B"]:
    """Log acceptance ratio of a suffix move; the move is accepted with probability min(1, r).

        log r = log pi(y') - log pi(y) + log q(suffix of y) - log q(suffix of y') + log c(m | y') - log c(m | y)

    Args:
        alpha: exponent of the target, a number or [B].
        cut_law: of the kernel.
        current: y.
        proposal: y', equal to y before the cut.
        cuts: [B] m, below both lengths.

    Returns:
        [B] natural log; -inf where pi(y') is zero, +inf where only pi(y) is.
    """
    forward = log_move_weight(alpha, cut_law, proposal, cuts)
    backward = log_move_weight(alpha, cut_law, current, cuts)
    xp = forward.__array_namespace__()
    possible = forward > -xp.inf
    return xp.where(possible, xp.where(possible, forward, 0) - backward, -xp.inf)


def multiple_try_log_ratio(
    log_weights: Float[Numbers, "B K"],
    chosen: Int[Numbers, " B"],
    log_current: Float[Numbers, " B"],
) -> Float[Numbers, " B"]:
    """Log acceptance ratio of the candidate that was chosen among K independent ones.

        log r = log W - log (W - w_J + w),    W = sum_j w_j

    w is the weight of the current sequence. With one candidate this is log w_1 - log w, the ratio of a single try.

    Source: multiple-try Metropolis (Liu, Liang and Wong 2000) for independent tries, which stand in for their own reference set.

    Args:
        log_weights: [B, K] log w_m of the candidates.
        chosen: [B] J, drawn in proportion to the weights.
        log_current: [B] log w_m of the current sequence.

    Returns:
        [B] natural log; -inf where every candidate has weight zero.
    """
    xp = log_weights.__array_namespace__()
    is_chosen = positions(log_weights) == chosen[:, None]
    log_total = log_sum_exp(log_weights)
    log_reverse = log_sum_exp(xp.where(is_chosen, log_current[:, None], log_weights))
    possible = log_total > -xp.inf
    return xp.where(possible, xp.where(possible, log_total, 0) - log_reverse, -xp.inf)


def swap_log_ratio(
    low_alpha: float, high_alpha: float, low: Records, high: Records
) -> Float[Numbers, " B"]:
    """Log acceptance ratio for two chains at different exponents to exchange their sequences.

        log r = (alpha_high - alpha_low) (log p(y_low) - log p(y_high))

    Args:
        low_alpha: exponent of the first chain's target.
        high_alpha: exponent of the second chain's target.
        low: y_low, the first chain's sequences.
        high: y_high, the second chain's sequences.

    Returns:
        [B] natural log.
    """
    return (high_alpha - low_alpha) * (low.log_p.sum(axis=1) - high.log_p.sum(axis=1))
