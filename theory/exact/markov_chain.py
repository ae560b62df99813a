"""What a transition matrix says about its chain: the law it keeps, how fast it forgets, and bounds on how far it still is.

A transition matrix K is [S, S] with K(i, j) the probability of going from state i to state j. A law is [S]. The states are
whole sequences, in any order; `theory.exact` lists them in lexicographic order.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from theory.errors import InvalidInput

_NORMALISED = 1e-9
_REVERSIBLE = 1e-9


class SpectralGap(NamedTuple):
    """How fast a reversible chain forgets.

    Attributes:
        spectral: 1 - lambda_2, with lambda_2 the second largest eigenvalue; it rules asymptotic variances.
        absolute: 1 - max(lambda_2, |smallest eigenvalue|); it rules convergence in law, and is 0 for a periodic chain.
    """

    spectral: float
    absolute: float


def check_transition(transition: Float64[np.ndarray, "S S"]) -> None:
    """Refuse what is no transition matrix.

    Args:
        transition: [S, S].

    Raises:
        InvalidInput: a row is negative somewhere or does not sum to 1; names it.
    """
    if not transition.size:
        raise InvalidInput("transition matrix without states: give at least one")
    for bad, what in (
        (~(transition >= 0).all(axis=1), "has an entry that is not a probability"),
        (np.abs(transition.sum(axis=1) - 1) > _NORMALISED, "does not sum to 1"),
    ):
        if bad.any():
            raise InvalidInput(f"row {np.flatnonzero(bad)[0]} of the transition matrix {what}")


def stationary_law(transition: Float64[np.ndarray, "S S"]) -> Float64[np.ndarray, " S"]:
    """The law that the chain keeps, pi K = pi, each entry accurate relative to its own size.

    States are eliminated one by one, the chain being watched only on those that remain; no subtraction occurs, so
    nothing cancels. Source: Grassmann, Taksar & Heyman, Operations Research 33 (1985); entrywise accuracy: O'Cinneide,
    Numerische Mathematik 65 (1993). O(S^3).

    Args:
        transition: [S, S]; its diagonal is not read.

    Returns:
        [S] 0 on states that the chain leaves for good.

    Raises:
        InvalidInput: not a transition matrix, or several closed classes (then there is no one stationary law).
    """
    check_transition(transition)
    closed = _closed_class(transition)
    watched = transition[np.ix_(closed, closed)]
    for last in range(closed.size - 1, 0, -1):
        # From `last` the chain returns to the remaining states in proportion to this row.
        watched[:last, last] /= watched[last, :last].sum()
        watched[:last, :last] += np.outer(watched[:last, last], watched[last, :last])
    masses = np.ones(closed.size)
    for state in range(1, closed.size):
        masses[state] = masses[:state] @ watched[:state, state]
        masses[: state + 1] /= masses[: state + 1].max()
    law = np.zeros(transition.shape[0])
    law[closed] = masses / masses.sum()
    return law


def stationarity_error(
    transition: Float64[np.ndarray, "S S"], law: Float64[np.ndarray, " S"]
) -> float:
    """How far a law is from being kept: max_j |(pi K)(j) - pi(j)|.

    Args:
        transition: [S, S].
        law: [S].

    Returns:
        The error; rounding alone gives some 1e-16.
    """
    return float(np.abs(law @ transition - law).max())


def detailed_balance_error(
    transition: Float64[np.ndarray, "S S"], law: Float64[np.ndarray, " S"]
) -> float:
    """How far the chain is from being reversible under a law: max_ij |pi(i) K(i, j) - pi(j) K(j, i)|.

    Detailed balance implies that the law is kept, not the other way round.

    Args:
        transition: [S, S].
        law: [S].

    Returns:
        The error; rounding alone gives some 1e-17.
    """
    flow = law[:, None] * transition
    return float(np.abs(flow - flow.T).max())


def spectral_gap(
    transition: Float64[np.ndarray, "S S"], law: Float64[np.ndarray, " S"]
) -> SpectralGap:
    """Gaps of a reversible chain, from the symmetric matrix sqrt(K(i, j) K(j, i)).

    That matrix is diag(pi)^(1/2) K diag(pi)^(-1/2) by detailed balance, so its eigenvalues are those of K, all real.
    States with law 0 are left out.

    Args:
        transition: [S, S].
        law: [S] under which it is reversible.

    Returns:
        The gaps; both 1 for a single state. A spectral gap of 0 means that the chain falls apart.

    Raises:
        InvalidInput: not a transition matrix, or not reversible under the law.
    """
    check_transition(transition)
    error = detailed_balance_error(transition, law)
    if not error <= _REVERSIBLE:
        raise InvalidInput(
            f"detailed balance is off by {error:.3g}: the spectral gap is for chains reversible under the law given"
        )
    support = law > 0
    within = transition[np.ix_(support, support)]
    if within.shape[0] == 1:
        return SpectralGap(1.0, 1.0)
    eigenvalues = np.linalg.eigvalsh(np.sqrt(within * within.T))
    second, smallest = float(eigenvalues[-2]), float(eigenvalues[0])
    return SpectralGap(max(0.0, 1 - second), max(0.0, 1 - max(second, -smallest)))


def laws_after(
    transition: Float64[np.ndarray, "S S"], start: Float64[np.ndarray, " S"], num_steps: int
) -> Float64[np.ndarray, "num_laws S"]:
    """Laws of the chain after 0, 1, ..., n steps.

    Args:
        transition: [S, S].
        start: [S] law of the first state.
        num_steps: n, at least 0.

    Returns:
        [n + 1, S] row t is start K^t.

    Raises:
        InvalidInput: not a transition matrix, or n below 0.
    """
    check_transition(transition)
    _check_num_steps(num_steps)
    laws = [start]
    for _ in range(num_steps):
        laws.append(laws[-1] @ transition)
    return np.stack(laws)


def total_variation_curve(
    transition: Float64[np.ndarray, "S S"],
    start: Float64[np.ndarray, " S"],
    target: Float64[np.ndarray, " S"],
    num_steps: int,
) -> Float64[np.ndarray, " num_laws"]:
    """Total variation to a target after 0, 1, ..., n steps: sum_i |start K^t - target|(i) / 2.

    Never increases if the chain keeps the target.

    Args:
        transition: [S, S].
        start: [S] law of the first state.
        target: [S].
        num_steps: n, at least 0.

    Returns:
        [n + 1] in 0..1.

    Raises:
        InvalidInput: not a transition matrix, or n below 0.
    """
    laws = laws_after(transition, start, num_steps)
    return np.minimum(1.0, 0.5 * np.abs(laws - target).sum(axis=1))


def move_rate(transition: Float64[np.ndarray, "S S"], law: Float64[np.ndarray, " S"]) -> float:
    """Probability that a step changes the state: sum_i pi(i) sum_{j != i} K(i, j).

    A Metropolis-Hastings step that does not move was rejected, or had proposed the state it was in: the acceptance
    rate is at least the move rate, and no matrix can tell them apart.

    Args:
        transition: [S, S].
        law: [S] of the state before the step.

    Returns:
        A rate in 0..1.
    """
    return float(law @ _moving(transition).sum(axis=1))


def stay_rate(transition: Float64[np.ndarray, "S S"], law: Float64[np.ndarray, " S"]) -> float:
    """Probability that a step leaves the state as it was: sum_i pi(i) K(i, i), at least the rejection rate.

    Args:
        transition: [S, S].
        law: [S] of the state before the step.

    Returns:
        A rate in 0..1.
    """
    return float(law @ np.diag(transition))


def chi_square_bounds(
    start: Float64[np.ndarray, " S"],
    law: Float64[np.ndarray, " S"],
    absolute_gap: float,
    num_steps: int,
) -> Float64[np.ndarray, " num_laws"]:
    """Upper bounds on the total variation to the stationary law of a reversible chain after 0, 1, ..., n steps.

        TV(start K^t, pi) <= sqrt(chi^2(start || pi)) (1 - gap)^t / 2,    chi^2 = sum_i (start(i) - pi(i))^2 / pi(i)

    For suffix-regeneration kernels, whose gap alone bounds nothing: (1 - gap)^t without the factor is for the
    independence sampler. Source: Diaconis & Stroock, Annals of Applied Probability 1 (1991), proposition 3, for a start in
    one state; the same proof gives any start.

    Args:
        start: [S] law of the first state.
        law: [S] pi.
        absolute_gap: of the chain; the spectral one is not enough.
        num_steps: n, at least 0.

    Returns:
        [n + 1] possibly above 1; inf where the start has a state that pi lacks.

    Raises:
        InvalidInput: n below 0, or the gap is not in 0..1.
    """
    _check_num_steps(num_steps)
    if not 0 <= absolute_gap <= 1:
        raise InvalidInput(f"gap {absolute_gap}: must be in 0..1")
    support = law > 0
    if (start[~support] > 0).any():
        return np.full(num_steps + 1, math.inf)
    gaps = start[support] - law[support]
    distance = math.sqrt(float((gaps / law[support]) @ gaps))
    return 0.5 * distance * (1 - absolute_gap) ** np.arange(num_steps + 1)


def doeblin_constant(transition: Float64[np.ndarray, "S S"]) -> float:
    """The mass that all states have in common after one step: sum_j min_i K(i, j).

    Two chains can be made to meet with this probability in every step, whatever their states, so that
    TV(start K^t, pi) <= (1 - constant)^t from every start. Source: Doeblin's condition; Meyn & Tweedie, "Markov Chains and
    Stochastic Stability" (2009), section 16.2. For a block of m steps, pass the m-th power of the matrix.

    Args:
        transition: [S, S].

    Returns:
        A number in 0..1; 0 bounds nothing.

    Raises:
        InvalidInput: not a transition matrix.
    """
    check_transition(transition)
    return min(1.0, float(transition.min(axis=0).sum()))


def doeblin_bounds(
    transition: Float64[np.ndarray, "S S"], num_steps: int
) -> Float64[np.ndarray, " num_laws"]:
    """Upper bounds on the total variation to the stationary law after 0, 1, ..., n steps, from any start.

        TV(start K^t, pi) <= (1 - sum_j min_i K(i, j))^t

    Args:
        transition: [S, S]; need not be reversible.
        num_steps: n, at least 0.

    Returns:
        [n + 1] in 0..1.

    Raises:
        InvalidInput: not a transition matrix, or n below 0.
    """
    _check_num_steps(num_steps)
    return (1 - doeblin_constant(transition)) ** np.arange(num_steps + 1)


def _moving(transition: np.ndarray) -> np.ndarray:
    """The matrix without its diagonal: 1 - K(i, i) would lose a small rate."""
    return transition - np.diag(np.diag(transition))


def _closed_class(transition: np.ndarray) -> np.ndarray:
    """States of the only class that the chain never leaves."""
    num_classes, labels = connected_components(
        csr_array(transition > 0), directed=True, connection="strong"
    )
    sources, targets = np.nonzero(transition)
    open_classes = labels[sources[labels[sources] != labels[targets]]]
    closed = np.setdiff1d(np.arange(num_classes), open_classes)
    if closed.size > 1:
        states = [int(np.flatnonzero(labels == label)[0]) for label in closed[:2]]
        raise InvalidInput(
            f"the chain never goes from state {states[0]} to state {states[1]} nor back: it has {closed.size} closed "
            "classes and no unique stationary law; give a kernel that can reach every state"
        )
    return np.flatnonzero(labels == closed[0])


def _check_num_steps(num_steps: int) -> None:
    if num_steps < 0:
        raise InvalidInput(f"{num_steps} steps: must be at least 0")
