"""Pilot-Commit: the contract's row, the program's rounds replayed in plain Python, and its budget identities."""

from functools import partial
from math import comb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.allocation.loops import Round, play, updates
from theory.allocation.policies import pilot_commit
from theory.allocation.policies.pilot_commit import allocate
from theory.allocation.policies.pilot_commit_loop import allocator
from theory.allocation.policies.pilot_commit_state import max_variance_subset, random
from theory.allocation.records import Decision, Reason
from theory.errors import InvalidInput
from theory.exact.allocation.pilot_commit import Screening, filing

RATES = np.concatenate([np.full(20, 0.02), np.full(20, 0.98), np.linspace(0.1, 0.9, 50)])
FEW_PASS = np.where(np.arange(90) % 9 == 0, 0.4, 0.02)
B, K, M, C = 5, 4, 12, 15


def names(decisions: Any) -> list[str]:
    """Decisions in words."""
    return [Decision(int(each)).name.lower() for each in decisions]


def test_one_step_by_hand() -> None:
    """Pilots first, in order; then whole commits by variance, ties by position; the band is closed on both sides."""
    s = jnp.array([1, 1, 6, 4, 8, 7, 0, 2, 4])
    f = jnp.array([7, 0, 2, 4, 0, 1, 8, 2, 4])
    plenty = allocate(s, f, 1000, 8, 24)
    assert names(plenty.decision) == [
        *["commit", "continue", "commit", "commit", "evict", "skip", "defer", "continue", "commit"]
    ]
    assert plenty.additional.tolist() == [24, 7, 24, 24, 0, 0, 0, 4, 24]
    np.testing.assert_allclose(plenty.score[:4], [7 / 64, 0, 12 / 64, 16 / 64])
    short = allocate(s, f, 11 + 24 + 24 + 23, 8, 24)
    assert short.additional.tolist() == [0, 7, 0, 24, 0, 0, 0, 4, 24]
    assert names(short.decision)[:4] == ["defer", "continue", "defer", "commit"]
    pilots_only = allocate(s, f, 9, 8, 24)
    assert pilots_only.additional.tolist() == [0, 7, 0, 0, 0, 0, 0, 2, 0]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=5, max_size=5),
    st.integers(0, 120),
)
def test_one_step_is_the_contract(counts: list[tuple[int, int]], budget: int) -> None:
    """Against the sentence of the contract, prompt after prompt."""
    k, m, lower, upper, evict = 4, 9, 0.25, 0.25, 0.9
    s, f = (jnp.array(column) for column in zip(*counts, strict=True))
    found = allocate(s, f, budget, k, m, lower, upper, evict)
    left, additional, decision = budget, [0] * 5, [""] * 5
    for place, (wins, losses) in enumerate(counts):
        if wins + losses < k:
            decision[place], additional[place] = "continue", min(left, k - wins - losses)
            left -= additional[place]
    variance = [wins * losses / max(wins + losses, 1) ** 2 for wins, losses in counts]
    for place in sorted(range(5), key=lambda each: (-round(variance[each], 9), each)):
        wins, losses = counts[place]
        if wins + losses < k:
            continue
        mean = wins / (wins + losses)
        if lower <= mean <= 1 - upper:
            fits = left >= m
            decision[place], additional[place] = ("commit", m) if fits else ("defer", 0)
            left -= additional[place]
        elif mean > 1 - upper:
            decision[place] = "evict" if mean >= evict else "skip"
        else:
            decision[place] = "defer"
    assert names(found.decision) == decision
    assert found.additional.tolist() == additional


@pytest.mark.parametrize(("upper", "right", "wrong"), [(0.8, 1, 4), (0.9, 1, 9), (0.7, 3, 7)])
def test_the_upper_end_belongs_to_the_band(upper: float, right: int, wrong: int) -> None:
    """1 - .8 is a little less than 1/5 in floating point."""
    with jax.enable_x64(True):
        found = allocate(
            jnp.array([right, right + 1]), jnp.array([wrong, wrong - 1]), 9, 5, 4, 0.05, upper
        )
        files = filing(Screening(right + wrong, 4, 0.05, upper))
    assert names(found.decision) == ["commit", "skip"]
    assert files.commit[right] and files.too_easy[right + 1] and not files.too_easy[right]


@pytest.mark.parametrize("evict", [0.6, 1.0])
@pytest.mark.parametrize("upper", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("lower", [0.0, 0.125, 0.5, 0.875])
def test_every_count_is_filed_once_and_as_the_rule_decides(
    lower: float, upper: float, evict: float
) -> None:
    """Crossed bands included, in which nothing is committed."""
    right = np.arange(9)
    options = {"lower": lower, "upper": upper, "evict": evict}
    decided = names(
        allocate(jnp.asarray(right), jnp.asarray(8 - right), 10**6, 8, 4, **options).decision
    )
    files = filing(Screening(8, 4, **options))
    of = {"commit": files.commit, "defer": files.too_hard}
    for s in right:
        kinds = [name for name, kind in of.items() if kind[s]] + ["skip"] * bool(files.too_easy[s])
        assert len(kinds) == 1
        expected = "evict" if kinds == ["skip"] and files.evict[s] else kinds[0]
        assert decided[s] == expected


@pytest.mark.parametrize("wide", [False, True])
def test_equal_variances_go_by_position(wide: bool) -> None:
    """s of n and n - s of n have one variance, whoever stands first."""
    every = [(s, size - s) for size in range(2, 60) for s in range(1, size)]
    with jax.enable_x64(wide):
        right, wrong = (jnp.array(column) for column in zip(*every, strict=True))
        variance = pilot_commit.pilot_variance
        np.testing.assert_array_equal(variance(right, wrong), variance(wrong, right))
        s, f = jnp.array([3, 7]), jnp.array([7, 3])
        assert allocate(s, f, 6, 10, 6).additional.tolist() == [6, 0]
        assert allocate(f, s, 6, 10, 6).additional.tolist() == [6, 0]


def identities(rounds: list[Round]) -> None:
    """PC-2, to the rollout: explore = C k rounds, commit = m a committed prompt, sampled = their sum; B (k + m) trained."""
    for each in rounds:
        pilot = each.requests.additional[each.requests.reason == Reason.PILOT].sum()
        commit = each.requests.additional[each.requests.reason == Reason.COMMIT].sum()
        assert pilot == C * K
        assert commit == M * (each.requests.decision == Decision.COMMIT).sum()
        assert each.requests.additional.sum() == pilot + commit
        if each.groups.complete:
            sizes = (each.groups.successes + each.groups.failures)[each.groups.ready]
            assert sizes.tolist() == [K + M] * B


@pytest.mark.parametrize("preference", ["max variance", "random"])
def test_budget_identities(preference: str) -> None:
    """Every round, and from the run as a whole: what was drawn is trained on, dropped, or held."""
    options: dict[str, Any] = {"preference": random} if preference == "random" else {}
    rounds = play(allocator(B, K, M, evict=None, **options), RATES, 40)
    identities(rounds)
    assert sum(bool(each.groups.complete) for each in rounds) > 10
    drawn = sum(each.requests.additional.sum() for each in rounds)
    trained = sum((each.groups.successes + each.groups.failures).sum() for each in rounds)
    dropped = sum(each.groups.dropped.sum() for each in rounds)
    state = rounds[-1].state
    held = state.pilot_successes + state.pilot_failures
    held = held + state.commit_successes + state.commit_failures
    assert drawn == trained + dropped + int(held.sum())


class Program:
    """The rounds of the program, in plain Python: sets, a dictionary for the buffer, one prompt after another."""

    def __init__(self, order: list[int], most_rounds: int) -> None:
        """Start at the first epoch."""
        self.order, self.place, self.step = order, 0, 0
        self.most_rounds, self.rounds = most_rounds, 0
        self.buffer: dict[int, tuple[int, int]] = {}
        self.batch: set[int] = set()
        self.excluded: set[int] = set()
        self.marked: set[int] = set()

    def plan(self) -> tuple[set[int], set[int]]:
        """Candidates and commits of a round."""
        candidates = set(self.order[self.place : self.place + C])
        by_variance = sorted(
            self.buffer,
            key=lambda i: (-self.buffer[i][0] * (K - self.buffer[i][0]), -self.buffer[i][1], i),
        )
        chosen = set(by_variance[: B - len(self.batch)])
        for prompt in chosen:
            del self.buffer[prompt]
        return candidates, chosen

    def after(self, candidates: set[int], chosen: set[int], wins: Any) -> bool:
        """Screen, train, flush; true if the batch was full."""
        self.batch |= chosen
        for prompt in candidates:
            if 0.125 <= wins[prompt] / K <= 0.75:
                self.buffer[prompt] = (int(wins[prompt]), self.step)
            if wins[prompt] == K:
                self.marked.add(prompt)
        self.rounds += 1
        full = len(self.batch) == B or 0 < self.most_rounds <= self.rounds
        if full:
            self.batch, self.rounds = set(), 0
            self.buffer = {i: (w, t) for i, (w, t) in self.buffer.items() if self.step - t <= 4}
            self.step += 1
        self.place += C
        return full

    def epoch_over(self) -> bool:
        """Whether no whole candidate batch is left."""
        return self.place + C > len(self.order)

    def next_epoch(self, order: list[int]) -> None:
        """Forget the partial batch, with the rounds that went into it, and the buffer."""
        if self.batch:
            self.rounds = 0
        self.excluded |= self.marked
        self.marked, self.buffer, self.batch = set(), {}, set()
        self.order, self.place = [i for i in order if i not in self.excluded], 0


@pytest.mark.parametrize(
    ("most_rounds", "rates"), [(0, RATES), pytest.param(3, FEW_PASS, marks=pytest.mark.slow)]
)
def test_rounds_are_those_of_the_program(most_rounds: int, rates: np.ndarray) -> None:
    """Candidates, commits, evictions and batches, round by round over several epochs; a batch that rounds run out on is what it is."""
    rounds = play(allocator(B, K, M, most_rounds=most_rounds), rates, 50)
    start = allocator(B, K, M).init(jax.random.key(0), rates.size)
    program = Program(start.order.tolist(), most_rounds)
    epochs = 0
    for each in rounds:
        candidates, chosen = program.plan()
        asked = each.requests.additional > 0
        pilots = asked & (each.requests.reason == Reason.PILOT)
        assert set(np.flatnonzero(pilots)) == candidates
        assert set(np.flatnonzero(asked & ~pilots)) == chosen
        assert program.after(candidates, chosen, each.results.successes) == bool(
            each.groups.complete
        )
        if program.epoch_over():
            epochs += 1
            program.next_epoch(each.state.order.tolist())
            assert set(np.flatnonzero(each.state.evicted)) == program.excluded
        assert set(np.flatnonzero(each.state.buffered | each.state.chosen)) == set(program.buffer)
    assert epochs >= 5 and program.excluded


def test_pilots_go_stale() -> None:
    """Nothing that passed more than `most_stale` updates ago stays, and at 0 it goes with its own update."""
    for most_stale in (0, 2):
        oldest = 0
        for each in play(allocator(B, K, M, most_stale=most_stale), RATES, 30):
            waiting = np.asarray(each.state.buffered | each.state.chosen)
            age = int(each.state.update) - np.asarray(each.state.added)[waiting]
            assert (age <= most_stale + 1).all() and (age >= 0).all()
            oldest = max(oldest, int(age.max(initial=0)))
        assert oldest >= min(most_stale + 1, 2)


def test_a_cut_budget_changes_no_round() -> None:
    """The same groups, in more calls: pilots and commits that did not fit are asked for again."""
    whole = [each.groups for each in play(allocator(B, K, M), np.ones(90), 12)]
    parts = play(allocator(B, K, M), np.ones(90), 24, budget=31)
    assert all(each.requests.additional.sum() <= 31 for each in parts)
    assert sum(each.dropped.sum() for each in whole[:12]) == sum(
        each.groups.dropped.sum() for each in parts[:24]
    )


@pytest.mark.parametrize("num_devices", [8, 7])
def test_rollouts_divide_by_the_devices(num_devices: int) -> None:
    """As few commits less as it takes."""
    for each in play(allocator(B, 8, 6, num_devices=num_devices, num_candidates=14), RATES, 20):
        if (each.requests.decision == Decision.COMMIT).any():
            assert each.requests.additional.sum() % num_devices == 0


def test_effective_pilots_are_the_most_varied() -> None:
    """Against all subsets; a group holds n_effective pilots and m commits."""
    for ones in range(7):
        for zeros in range(7):
            for size in range(8):
                kept = max_variance_subset(jnp.array(ones), jnp.array(zeros), size)
                right, wrong = int(kept[0]), int(kept[1])
                assert right <= ones and wrong <= zeros
                assert right + wrong == min(size, ones + zeros)
                best = max(
                    (
                        a * (right + wrong - a)
                        for a in range(ones + 1)
                        if 0 <= right + wrong - a <= zeros
                    ),
                    default=0,
                )
                assert right * wrong == best
                assert right <= wrong or wrong == zeros
    for update in updates(play(allocator(B, K, M, num_effective=2), RATES, 20)):
        last = update[-1].groups
        assert ((last.successes + last.failures)[last.ready] == 2 + M).all()
        assert ((last.pool_successes + last.pool_failures)[last.ready] == K + M).all()


def test_rounds_run_out() -> None:
    """A pool that never passes ends its updates empty, after `most_rounds` rounds."""
    rounds = play(allocator(B, K, M, most_rounds=3), np.zeros(60), 9)
    assert [bool(each.groups.complete) for each in rounds] == [False, False, True] * 3
    assert not any(each.groups.ready.any() for each in rounds)


def test_an_evicted_pool_asks_for_nothing() -> None:
    """Whoever was piloted leaves, and nobody else: of 50 the first epoch leaves 5, and the second none."""
    rounds = play(allocator(B, K, M, evict=0.0), np.ones(50), 8)
    asked = [int(each.requests.additional.sum()) for each in rounds]
    assert asked == [C * K] * 3 + [5 * K] + [0] * 4


def test_pass_share_is_the_binomial() -> None:
    """The band's bounds: kappa = sum of the binomial over the band, by all outcomes of the pilots."""
    k, p = 8, 0.3
    wins = jnp.arange(k + 1)
    passes = np.asarray(pilot_commit.in_band(wins, k - wins, 0.125, 0.25))
    law = np.array([comb(k, s) * p**s * (1 - p) ** (k - s) for s in range(k + 1)])
    assert law[passes].sum() == pytest.approx(sum(law[1:7]))


def test_bad_options() -> None:
    """One line each."""
    for bad in (
        partial(allocator, evict=1.5),
        partial(allocator, lower=float("nan")),
        partial(allocator, num_effective=9),
        partial(allocator, num_devices=0),
    ):
        with pytest.raises(InvalidInput):
            bad(B, K, M)
    with pytest.raises(InvalidInput):
        allocator(B, K, M).init(jax.random.key(0), 4)
