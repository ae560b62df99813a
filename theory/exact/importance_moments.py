"""Exact mean and variance of importance-sampling estimators, at every number of draws.

With n independent draws y_i from q, normalised weights W = pi / q and a function f of whole sequences,

    unnormalised       (1/n) sum_i W(y_i) f(y_i)                        unbiased for E_pi f (needs the true Z)
    evidence           Z_hat = (1/n) sum_i w(y_i),  w = Z W             unbiased for Z
    self-normalised    sum_i w(y_i) f(y_i) / sum_i w(y_i)               biased of order 1/n for E_pi f

The first two have closed variances. The third is a ratio: its moments are summed over multisets of draws, or, at any n,
taken from the one-dimensional integrals 1/s = int e^(-ts) dt and 1/s^2 = int t e^(-ts) dt, in which the draws are independent.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from theory.errors import InvalidInput
from theory.exact.divergences import chi_square
from theory.exact.enumeration import enumerate_sequences
from theory.exact.laws import Law, PowerLaw, check_same_layers

MAX_MULTISETS = 2_000_000

# The integrands decay like e^s to the left and faster to the right, and are analytic in a strip of half-width
# pi/2 around the real s: the trapezoid rule with this step leaves an error below exp(-40).
_STEP = 0.125
_NEGLIGIBLE = 45.0  # nats
_UNDERFLOW = 745.0


class MeanVariance(NamedTuple):
    """Mean and variance of an estimate."""

    mean: float
    variance: float


class Evidence(NamedTuple):
    """Mean and variance of an estimate of a normaliser: Var(Z_hat) = relative_variance exp(2 log_mean).

    Attributes:
        log_mean: log E[Z_hat], natural log.
        relative_variance: Var(Z_hat) / E[Z_hat]^2.
    """

    log_mean: float
    relative_variance: float


class WeightedDraw(NamedTuple):
    """What one draw from the proposal can be: M sequences, in lexicographic order.

    Attributes:
        log_probs: [M] log q(y), finite.
        log_weights: [M] log pi(y) - log q(y), normalised: their exponentials have expectation 1 under q; -inf where only
            the proposal goes.
        values: [M] f(y).
    """

    log_probs: Float64[np.ndarray, " M"]
    log_weights: Float64[np.ndarray, " M"]
    values: Float64[np.ndarray, " M"]


class DecayNode(NamedTuple):
    """One node of the trapezoid rule in log t.

    Attributes:
        log_t: natural log of t.
        width: of the node, in log t.
        scaled_weights: [M] t W, capped where e^(-tW) underflows.
        decay: [M] q e^(-tW).
        log_phi: log E_q e^(-tW).
    """

    log_t: float
    width: float
    scaled_weights: Float64[np.ndarray, " M"]
    decay: Float64[np.ndarray, " M"]
    log_phi: float


class DeltaMethod(NamedTuple):
    """Coefficients of 1/n: limits of n times the bias and of n times the variance."""

    bias: float
    variance: float


def weighted_draw(
    target: Law, proposal: Law, value: Callable[[tuple[int, ...]], float]
) -> WeightedDraw:
    """Enumerate one draw.

    Args:
        target: pi.
        proposal: q, over the same layers; must be positive wherever pi is.
        value: f, from the tokens of a whole sequence (eos included) to a finite number.

    Returns:
        The law of one draw; sequences of q-probability 0 are left out.

    Raises:
        InvalidInput: q lacks a sequence that pi has (no weight corrects that), or too many sequences.
    """
    listed = enumerate_sequences((target, proposal))
    log_target, log_proposal = listed.log_probs
    drawn = np.isfinite(log_proposal)
    missing = np.flatnonzero(~drawn & np.isfinite(log_target))
    if missing.size:
        raise InvalidInput(
            f"sequence {listed.sequences[missing[0]]}: has probability 0 under the proposal but not under the "
            "target; give a proposal with full support"
        )
    values = np.array([float(value(tokens)) for tokens in listed.sequences])
    return WeightedDraw(log_proposal[drawn], log_target[drawn] - log_proposal[drawn], values[drawn])


def target_mean(draw: WeightedDraw) -> float:
    """E_pi f, what all the estimators aim at.

    Args:
        draw: of the proposal.

    Returns:
        The expectation.
    """
    return float(np.exp(draw.log_probs + draw.log_weights) @ draw.values)


def unnormalised_moments(draw: WeightedDraw, num_draws: int) -> MeanVariance:
    """Moments of (1/n) sum_i W(y_i) f(y_i): mean E_pi f, variance Var_q(W f) / n.

    Args:
        draw: of the proposal.
        num_draws: n, at least 1.

    Returns:
        The moments.

    Raises:
        InvalidInput: n below 1.
    """
    _check_num_draws(num_draws)
    mean = target_mean(draw)
    gap = np.exp(draw.log_weights) * draw.values - mean
    return MeanVariance(mean, float(np.exp(draw.log_probs) @ gap**2) / num_draws)


def evidence_moments(power: PowerLaw, proposal: Law, num_draws: int) -> Evidence:
    """Moments of Z_hat: mean Z, relative variance chi^2(pi || q) / n. No enumeration.

    Args:
        power: the target and its normaliser.
        proposal: q, over the same layers; must be positive wherever the target is.
        num_draws: n, at least 1.

    Returns:
        The moments; the variance is inf where chi^2 is above the double range.

    Raises:
        InvalidInput: n below 1, or q lacks a token that the target has.
    """
    _check_num_draws(num_draws)
    check_support(power.law, proposal)
    return Evidence(power.log_Z, chi_square(power.law, proposal) / num_draws)


def self_normalised_moments(draw: WeightedDraw, num_draws: int) -> MeanVariance:
    """Moments of the self-normalised estimate at any n, by quadrature.

    With g = f - E_pi f, phi(t) = E_q e^(-tW) and a_k(t) = E_q[(W g)^k e^(-tW)],

        bias     = n int a_1 phi^(n-1) dt,
        E[dev^2] = int t [ n a_2 phi^(n-1) + n (n-1) a_1^2 phi^(n-2) ] dt,

    by the trapezoid rule in log t (dt = t d log t), which is accurate to rounding here. O(M) a node, hundreds of nodes.

    Args:
        draw: of the proposal.
        num_draws: n, at least 1.

    Returns:
        The moments; the mean is biased for E_pi f, which is `target_mean`.

    Raises:
        InvalidInput: n below 1, or a sequence has weight 0 (the ratio is undefined where all draws have).
    """
    n, truth = num_draws, target_mean(draw)
    gaps = draw.values - truth
    bias = square = 0.0
    for node in decay_nodes(draw, num_draws):
        a_1 = float(node.decay @ (node.scaled_weights * gaps))
        a_2 = float(node.decay @ (node.scaled_weights * gaps) ** 2)
        bias += node.width * n * a_1 * math.exp((n - 1) * node.log_phi)
        square += node.width * n * a_2 * math.exp((n - 1) * node.log_phi)
        if n > 1:
            square += node.width * n * (n - 1) * a_1**2 * math.exp((n - 2) * node.log_phi)
    return MeanVariance(truth + bias, square - bias**2)


def self_normalised_moments_by_enumeration(draw: WeightedDraw, num_draws: int) -> MeanVariance:
    """The same moments, by summing over every multiset of n draws with its multinomial coefficient.

    Multisets grow one draw at a time, in ascending order of sequences; each carries the log of its total weight and its
    estimate, which a further draw moves by (f - estimate) w / total. There are C(M + n - 1, n) of them.

    Args:
        draw: of the proposal.
        num_draws: n, at least 1.

    Returns:
        The moments.

    Raises:
        InvalidInput: n below 1, a sequence has weight 0, or more than MAX_MULTISETS multisets.
    """
    _check_num_draws(num_draws)
    _check_positive(draw)
    num_sequences = draw.log_probs.size
    count = math.comb(num_sequences + num_draws - 1, num_draws)
    if count > MAX_MULTISETS:
        raise InvalidInput(
            f"{count} multisets of {num_draws} draws from {num_sequences} sequences: more than the {MAX_MULTISETS} "
            "that are enumerated; take fewer draws or the quadrature"
        )
    last = np.arange(num_sequences)
    run = np.ones(num_sequences)  # how often the last sequence has been drawn
    log_probs, log_totals, estimates = draw
    for size in range(2, num_draws + 1):
        choices = num_sequences - last
        parent = np.repeat(np.arange(last.size), choices)
        added = np.arange(parent.size) - np.repeat(np.cumsum(choices) - choices, choices)
        added += last[parent]
        run = np.where(added == last[parent], run[parent] + 1, 1)
        log_probs = log_probs[parent] + draw.log_probs[added] + np.log(size / run)
        totals = np.logaddexp(log_totals[parent], draw.log_weights[added])
        share = np.exp(draw.log_weights[added] - totals)
        estimates = estimates[parent] + (draw.values[added] - estimates[parent]) * share
        last, log_totals = added, totals
    probs = np.exp(log_probs)
    mean = float(probs @ estimates)
    return MeanVariance(mean, float(probs @ (estimates - mean) ** 2))


def decay_nodes(draw: WeightedDraw, num_draws: int) -> Iterator[DecayNode]:
    """The nodes at which sums over n independent draws factor; see the module's first lines.

    Args:
        draw: of the proposal.
        num_draws: n, at least 1.

    Yields:
        Nodes in ascending order of t, from where phi^n is 1 to where nothing is left of it.

    Raises:
        InvalidInput: n below 1, or a sequence has weight 0.
    """
    _check_num_draws(num_draws)
    _check_positive(draw)
    probs = np.exp(draw.log_probs)
    lowest = -_NEGLIGIBLE - math.log(num_draws) - float(draw.log_weights.max())
    highest = math.log(_UNDERFLOW) - float(draw.log_weights.min())
    for log_t in np.arange(lowest, highest + _STEP, _STEP):
        scaled_weights = np.exp(np.minimum(log_t + draw.log_weights, math.log(_UNDERFLOW)))
        decay = probs * np.exp(-scaled_weights)
        log_phi = _log_mean_decay(probs, scaled_weights)
        yield DecayNode(float(log_t), _STEP, scaled_weights, decay, log_phi)


def _log_mean_decay(probs: np.ndarray, scaled_weights: np.ndarray) -> float:
    """Log of phi = E_q e^(-tW), with its digits where phi is near 1: it is raised to the power n."""
    drop = -float(probs @ np.expm1(-scaled_weights))
    if drop < 0.5:
        return math.log1p(-drop)
    return math.log(max(float(probs @ np.exp(-scaled_weights)), 1e-300))


def delta_method(draw: WeightedDraw) -> DeltaMethod:
    """What is left of the self-normalised estimate at large n.

        n bias -> -E_q[W^2 (f - E_pi f)],     n variance -> E_q[W^2 (f - E_pi f)^2]

    Source: Owen, "Monte Carlo theory, methods and examples" (2013), section 9.2; Liu, "Monte Carlo Strategies in Scientific
    Computing" (2001), section 2.5.3 (section numbers from memory).

    Args:
        draw: of the proposal.

    Returns:
        The coefficients of 1/n; the next terms are of order 1/n^2.
    """
    gap = draw.values - target_mean(draw)
    squares = np.exp(draw.log_probs + 2 * draw.log_weights)
    return DeltaMethod(-float(squares @ gap), float(squares @ gap**2))


def check_support(target: Law, proposal: Law) -> None:
    """Refuse a proposal that lacks a token which the target has.

    Args:
        target: pi, positive wherever the base model is.
        proposal: q, over the same layers.

    Raises:
        InvalidInput: names the first such token; or the laws live on different layers.
    """
    check_same_layers(target, proposal)
    for depth, layer in enumerate(target.layers):
        possible = np.isfinite(target.log_conditional(depth))
        missing = possible & ~np.isfinite(proposal.log_conditional(depth))
        if missing.any():
            row, token = np.argwhere(missing)[0]
            raise InvalidInput(
                f"token {token} after {depth} tokens, context {layer.contexts[row]}: has probability 0 under the "
                "proposal but not under the target; give a proposal with full support"
            )


def _check_num_draws(num_draws: int) -> None:
    if num_draws < 1:
        raise InvalidInput(f"{num_draws} draws: must be at least 1")


def _check_positive(draw: WeightedDraw) -> None:
    num_dead = int(np.isneginf(draw.log_weights).sum())
    if num_dead:
        raise InvalidInput(
            f"{num_dead} of {draw.log_weights.size} sequences have weight 0: the self-normalised estimate is undefined "
            "where all draws have; give a proposal that stays in the support of the target"
        )
