"""Token rules by their definitions, one law at a time in float64: the truth that `theory.decoding` is compared with."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

Pmf = Float64[np.ndarray, " V"]
Reference = Callable[[Pmf, np.ndarray], Pmf]
"""From a law and the row's counts of generated tokens to the law that is drawn from."""

_TIE = 1e-7  # float32 masses that should reach a bound may miss it by this


def temperature(value: float) -> Reference:
    """p^(1/T), normalised."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _normalised(p ** (1 / value))

    return law


def top_k(num: int) -> Reference:
    """The most likely tokens; ties to the lower id."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _only(p, np.argsort(-p, kind="stable")[:num])

    return law


def top_p(mass: float) -> Reference:
    """The fewest of the most likely tokens that have the mass together."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _only(p, _until(p, np.argsort(-p, kind="stable"), mass))

    return law


def min_p(fraction: float) -> Reference:
    """Tokens with a share of the largest probability."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _only(p, np.flatnonzero(p >= fraction * p.max()))

    return law


def epsilon(floor: float) -> Reference:
    """Tokens above a floor, and the most likely one."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _above(p, floor)

    return law


def eta(floor: float) -> Reference:
    """Tokens above a floor that flat laws lower."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _above(p, min(floor, math.sqrt(floor) * math.exp(-_entropy(p))))

    return law


def typical(mass: float) -> Reference:
    """The fewest tokens nearest to the entropy in surprise that have the mass together."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        surprise = np.full(p.size, np.inf)
        surprise[p > 0] = -np.log(p[p > 0])
        order = np.argsort(np.abs(surprise - _entropy(p)), kind="stable")
        return _only(p, _until(p, order, mass))

    return law


def top_n_sigma(num: float) -> Reference:
    """Tokens within standard deviations of the largest logit."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        logits = np.log(p[p > 0])
        return _only(p, np.flatnonzero(p >= np.exp(logits.max() - num * logits.std())))

    return law


def repetition(penalty: float) -> Reference:
    """Log p times the penalty for tokens that were generated."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _normalised(p ** np.where(counts > 0, penalty, 1.0))

    return law


def frequency(penalty: float) -> Reference:
    """A price for each time that a token was generated."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _normalised(p * np.exp(-penalty * counts))

    return law


def presence(penalty: float) -> Reference:
    """A price for having been generated."""

    def law(p: Pmf, counts: np.ndarray) -> Pmf:
        return _normalised(p * np.exp(-penalty * (counts > 0)))

    return law


def _normalised(weights: np.ndarray) -> Pmf:
    return weights / weights.sum()


def _only(p: Pmf, kept: np.ndarray) -> Pmf:
    law = np.zeros_like(p)
    law[kept] = p[kept]
    return _normalised(law)


def _until(p: Pmf, order: np.ndarray, mass: float) -> np.ndarray:
    reached = np.cumsum(p[order]) >= mass - _TIE
    return order[: int(np.argmax(reached)) + 1] if reached.any() else order


def _above(p: Pmf, floor: float) -> Pmf:
    kept = np.flatnonzero(p >= floor)
    return _only(p, kept if kept.size else np.array([int(np.argmax(p))]))


def _entropy(p: Pmf) -> float:
    return -math.fsum(x * math.log(x) for x in p.tolist() if x > 0)
