"""The rules by their definitions: one law at a time, in float64, with Python's stable sort."""

import math
from collections.abc import Callable

import numpy as np

Pmf = np.ndarray
Rule = Callable[[Pmf], Pmf]


def restricted(p: Pmf, kept: list[int]) -> Pmf:
    """The law given that the token is one of these."""
    q = np.zeros_like(p)
    q[kept] = p[kept]
    return q / q.sum()


def descending(p: Pmf) -> list[int]:
    return sorted(range(p.size), key=lambda v: -p[v])


def prefix(order: list[int], p: Pmf, mass: float) -> list[int]:
    """Add tokens until their mass reaches `mass`."""
    kept: list[int] = []
    for token in order:
        kept.append(token)
        if mass < 1 and math.fsum(p[kept]) >= mass - 1e-7:
            break
    return kept


def surprise(p: Pmf) -> np.ndarray:
    return np.array([-math.log(x) if x > 0 else math.inf for x in p])


def entropy(p: Pmf) -> float:
    return math.fsum(x * s for x, s in zip(p, surprise(p), strict=True) if x > 0)


def temperature(t: float) -> Rule:
    def rule(p: Pmf) -> Pmf:
        if t == 0:
            return restricted(p, [int(np.argmax(p))])
        q = np.array([math.exp(-(s - surprise(p).min()) / t) for s in surprise(p)])
        return q / q.sum()

    return rule


def top_k(k: int) -> Rule:
    return lambda p: restricted(p, descending(p)[:k])


def top_p(mass: float) -> Rule:
    return lambda p: restricted(p, prefix(descending(p), p, mass))


def min_p(fraction: float) -> Rule:
    return lambda p: restricted(p, [v for v in range(p.size) if p[v] >= fraction * p.max()])


def typical(mass: float) -> Rule:
    def rule(p: Pmf) -> Pmf:
        distance = np.abs(surprise(p) - entropy(p))
        order = sorted(range(p.size), key=lambda v: distance[v])
        return restricted(p, prefix(order, p, mass))

    return rule


def floor(p: Pmf, least: float) -> Pmf:
    return restricted(p, [v for v in range(p.size) if p[v] >= least] or [int(np.argmax(p))])


def epsilon(least: float) -> Rule:
    return lambda p: floor(p, least)


def eta(least: float) -> Rule:
    return lambda p: floor(p, min(least, math.sqrt(least) * math.exp(-entropy(p))))


def top_n_sigma(n: float) -> Rule:
    def rule(p: Pmf) -> Pmf:
        logits = -surprise(p)
        least = logits.max() - n * np.std(logits[p > 0])
        return restricted(p, [v for v in range(p.size) if logits[v] >= least])

    return rule


def penalised(p: Pmf, exponent: np.ndarray, cost: np.ndarray) -> Pmf:
    q = p**exponent * np.exp(-cost)
    return q / q.sum()


def repetition(penalty: float, counts: np.ndarray) -> Rule:
    return lambda p: penalised(p, np.where(counts > 0, penalty, 1.0), np.zeros(p.size))


def frequency(penalty: float, counts: np.ndarray) -> Rule:
    return lambda p: penalised(p, np.ones(p.size), penalty * counts)


def presence(penalty: float, counts: np.ndarray) -> Rule:
    return lambda p: penalised(p, np.ones(p.size), penalty * (counts > 0))


def blocked(tokens: tuple[int, ...]) -> Rule:
    return lambda p: restricted(p, [v for v in range(p.size) if v not in tokens])


def in_sequence(*rules: Rule) -> Rule:
    """Each rule acts on the law that the one before it left."""

    def rule(p: Pmf) -> Pmf:
        for one in rules:
            p = one(p)
        return p

    return rule


def side_by_side(*rules: Rule) -> Rule:
    """A token stays if every filter keeps it."""

    def rule(p: Pmf) -> Pmf:
        kept = [v for v in range(p.size) if all(one(p)[v] > 0 for one in rules)]
        return restricted(p, kept)

    return rule
