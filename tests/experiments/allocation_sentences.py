"""The one-step rules once more, from the sentences of docs/allocation.md alone: whole numbers and fractions, one prompt after the other."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Pair = tuple[int, int]


class Step(NamedTuple):
    """What a rule asks for; `score` may be absent."""

    additional: list[int]
    decision: list[str]
    score: list[Fraction]


class Pool(NamedTuple):
    """Groups under way and earlier updates, oldest first; (0, 0) where a prompt was not drawn."""

    groups: list[Pair]
    history: list[list[Pair]]


def served(wanted: Sequence[int], budget: int) -> list[int]:
    """One after the other, the last one what is left."""
    given: list[int] = []
    for each in wanted:
        given.append(min(each, budget))
        budget -= given[-1]
    return given


def screens(pool: Pool, budget: int, screen: int, completion: int) -> Step:
    """`speed`."""
    wanted: list[int] = []
    decision: list[str] = []
    for s, f in pool.groups:
        if s + f < screen:
            wanted.append(screen - s - f)
            decision.append("continue")
        elif s > 0 and f > 0:
            wanted.append(max(screen + completion - s - f, 0))
            decision.append("commit")
        else:
            wanted.append(0)
            decision.append("abandon")
    return Step(served(wanted, budget), decision, [Fraction(s > 0 < f) for s, f in pool.groups])


def rounds(pool: Pool, budget: int, size: int, most: int, kept: int, positive: bool) -> Step:
    """`reinforce-ada`; a broken round is completed."""
    wanted: list[int] = []
    decision: list[str] = []
    for s, f in pool.groups:
        leaves = s > 0 if positive else s >= kept // 2 and f >= kept - kept // 2
        if s + f < size * most and ((s + f) % size or not leaves):
            wanted.append(size - (s + f) % size)
            decision.append("continue")
        else:
            wanted.append(0)
            decision.append("commit" if leaves or s > 0 < f else "abandon")
    return Step(served(wanted, budget), decision, [Fraction(0)] * len(wanted))


def stages(pool: Pool, budget: int, group_size: int, stage: int) -> Step:
    """`ar3po`; a broken stage is completed."""
    wanted: list[int] = []
    decision: list[str] = []
    for place, (s, f) in enumerate(pool.groups):
        if s == 0 and f < group_size:
            wanted.append(min(stage - f % stage, group_size - f))
            decision.append("continue")
        else:
            stored = any(update[place][0] for update in pool.history)
            wanted.append(0)
            decision.append("commit" if s > 0 or stored else "abandon")
    return Step(served(wanted, budget), decision, [Fraction(0)] * len(wanted))


def varied(pool: Pool, budget: int, group_size: int, kept: int) -> Step:
    """`pods`, its subsets one by one."""
    wanted = [max(group_size - s - f, 0) for s, f in pool.groups]
    given = served(wanted, budget)
    decision = [
        ("continue" if more else "none") if each else "commit"
        for each, more in zip(wanted, given, strict=True)
    ]
    score: list[Fraction] = []
    for s, f in pool.groups:
        size = min(kept, s + f)
        ones = range(max(0, size - f), min(size, s) + 1)
        score.append(max(Fraction(x * (size - x), max(size, 1) ** 2) for x in ones))
    return Step(given, decision, score)


def least_variance(pool: Pool, budget: int, least: int, cap: int | None) -> Step:
    """`vip`, one rollout after the other; ties by position."""
    seen = [
        [each[place] for each in [*pool.history, pool.groups]] for place in range(len(pool.groups))
    ]
    rates = [
        Fraction(1 + sum(s for s, _ in each), 2 + sum(s + f for s, f in each)) for each in seen
    ]
    score = [rate * (1 - rate) for rate in rates]
    given = served([max(least - s - f, 0) for s, f in pool.groups], budget)
    sizes = [s + f + more for (s, f), more in zip(pool.groups, given, strict=True)]
    for _ in range(budget - sum(given)):
        falls = [
            (score[place] / (size * (size - 1)), -place)
            for place, size in enumerate(sizes)
            if cap is None or size < cap
        ]
        if falls:
            sizes[-max(falls)[1]] += 1
    given = [size - s - f for size, (s, f) in zip(sizes, pool.groups, strict=True)]
    return Step(given, ["commit" if each else "none" for each in given], score)


def chances(pool: Pool, discount: Fraction) -> list[Fraction]:
    """Score of `dps`."""

    def transitions(alpha: list[list[Fraction]]) -> list[list[Fraction]]:
        return [[alpha[i][j] / sum(row[j] for row in alpha) for j in range(3)] for i in range(3)]

    found: list[Fraction] = []
    for place in range(len(pool.groups)):
        alpha = [[Fraction(1)] * 3 for _ in range(3)]
        belief = before = [Fraction(1, 3)] * 3
        for s, f in (update[place] for update in pool.history):
            now, added = belief, [[Fraction(0)] * 3 for _ in range(3)]
            if s + f:
                now = [Fraction(s == 0), Fraction(s > 0 < f), Fraction(s > 0 == f)]
                by = transitions(alpha)
                joint = [[now[i] * before[j] * by[i][j] for j in range(3)] for i in range(3)]
                total = sum(sum(row) for row in joint)
                added = [[each / total for each in row] for row in joint]
            alpha = [
                [discount * alpha[i][j] + 1 - discount + added[i][j] for j in range(3)]
                for i in range(3)
            ]
            by = transitions(alpha)
            belief = [sum((by[i][j] * now[j] for j in range(3)), Fraction(0)) for i in range(3)]
            before = now
        found.append(belief[1])
    return found


def kept_chances(pool: Pool) -> list[Fraction]:
    """Score of `greso`."""
    runs = [[0, 0] for _ in pool.groups]
    explore = [Fraction(1, 2), Fraction(1, 2)]
    targets = [Fraction(1, 12), Fraction(1, 6)]
    for update in pool.history:
        drawn = [(place, s, f) for place, (s, f) in enumerate(update) if s + f]
        counts = [0, 0]
        for place, s, f in drawn:
            share = Fraction(s, s + f)
            kinds = [share >= Fraction(98, 100), share <= Fraction(11, 100)]
            runs[place] = [
                run + 1 if kind else 0 for run, kind in zip(runs[place], kinds, strict=True)
            ]
            counts = [count + kind for count, kind in zip(counts, kinds, strict=True)]
        for kind in (0, 1) if drawn else ():
            step = -1 if Fraction(counts[kind], len(drawn)) >= targets[kind] else 1
            moved = explore[kind] + Fraction(step, 100)
            explore[kind] = min(max(moved, Fraction(5, 100)), Fraction(95, 100))
    return [
        max(min(explore[0] ** easy, explore[1] ** hard), Fraction(1, 100)) for easy, hard in runs
    ]


def whole(score: Sequence[float], pool: Pool, budget: int, group_size: int) -> Step:
    """Whole groups by score, ties by position; from the first that does not fit on, none."""
    given, decision = [0] * len(score), ["none"] * len(score)
    fits = True
    for place in sorted(range(len(score)), key=lambda each: (-score[each], each)):
        missing = group_size - sum(pool.groups[place])
        if missing > 0:
            fits = fits and missing <= budget
            given[place] = missing if fits else 0
            budget -= given[place]
            decision[place] = "commit" if fits else "defer"
    return Step(given, decision, [Fraction(each) for each in score])


def hits(
    pool: Pool,
    budget: int,
    cap: int | None,
    priors: Sequence[tuple[float | Fraction, float | Fraction]],
) -> Step:
    """`hora` with a prior of each prompt, one rollout after the other; ties by position."""
    laws = [
        (Fraction(a) + s, Fraction(b) + f)
        for (a, b), (s, f) in zip(priors, pool.groups, strict=True)
    ]
    score = [a / (a + b) for a, b in laws]
    following, given = list(score), [0] * len(score)
    for _ in range(budget):
        open_ = [
            (value, -place)
            for place, (value, (s, f)) in enumerate(zip(following, pool.groups, strict=True))
            if cap is None or s + f + given[place] < cap
        ]
        if not open_:
            break
        place = -max(open_)[1]
        a, b = laws[place]
        following[place] *= (b + given[place]) / (a + b + 1 + given[place])
        given[place] += 1
    return Step(given, ["commit" if each else "none" for each in given], score)


def remembered(pool: Pool, discount: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Successes and failures of earlier updates, those before a visit discounted by it."""
    found = [(Fraction(0), Fraction(0)) for _ in pool.groups]
    for update in pool.history:
        found = [
            (discount * before[0] + s, discount * before[1] + f) if s + f else before
            for before, (s, f) in zip(found, update, strict=True)
        ]
    return found
