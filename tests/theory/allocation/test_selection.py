"""Sources that choose, replayed in plain Python: a place in an epoch, candidates by score, GRESO's skips and its candidate batches."""

from fractions import Fraction
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theory.allocation.policies import greso
from theory.allocation.selection import ranked
from theory.allocation.stream import start_stream, take
from theory.keys import Role, role_key

P = 9


class Epochs:
    """Prompts in the order of an epoch."""

    def __init__(self, key: Any) -> None:
        """Start at the first epoch."""
        self.key, self.epoch, self.position = role_key(key, Role.ORDER), 0, 0

    def order(self) -> list[int]:
        key = jax.random.fold_in(self.key, self.epoch)
        return np.asarray(jax.random.permutation(key, P)).tolist()

    def take(self, count: int, eligible: set[int]) -> list[int]:
        """One after the other; those that are passed over have had their turn."""
        found = self.walk(count, eligible)
        if len(found) < count:
            self.epoch, self.position = self.epoch + 1, 0
            found += self.walk(count - len(found), eligible - set(found))
        return found

    def walk(self, count: int, eligible: set[int]) -> list[int]:
        found: list[int] = []
        order = self.order()
        while len(found) < count and self.position < P:
            if order[self.position] in eligible:
                found.append(order[self.position])
            self.position += 1
        return found


def taken(places: Any) -> list[int]:
    """Prompts in the order in which they were taken."""
    places = np.asarray(places)
    return sorted(np.flatnonzero(places).tolist(), key=lambda prompt: places[prompt])


def mask(prompts: set[int]) -> Any:
    return jnp.asarray([prompt in prompts for prompt in range(P)])


def test_turns_of_an_epoch() -> None:
    """Who is passed over has had a turn, who stands behind the last one taken has not."""
    key, rng = jax.random.key(6), np.random.default_rng(6)
    stream, epochs, compiled = start_stream(key, P), Epochs(key), jax.jit(take)
    for _ in range(60):
        eligible = set(np.flatnonzero(rng.random(P) < 0.5).tolist())
        count = int(rng.integers(0, 4))
        stream, places = compiled(stream, jnp.int32(count), mask(eligible))
        assert taken(places) == epochs.take(count, eligible)
        assert (int(stream.epoch), int(stream.position)) == (epochs.epoch, epochs.position)


@pytest.mark.parametrize("candidates", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_candidates_come_by_score_and_the_others_after_them(candidates: int) -> None:
    """Every update the next candidates of the epoch; among equals by position; opened before comes last; what was learnt decides the next."""
    source = ranked(
        lambda key, prompts: jnp.zeros(prompts, jnp.int32),
        lambda belief, visited, s, f: belief + jnp.where(visited, s - f, 0),
        lambda belief: (belief // 2).astype(jnp.float32),
        candidates,
    )
    pick, learn = jax.jit(source.pick), jax.jit(source.learn)
    key, rng = jax.random.key(3), np.random.default_rng(3)
    state = source.init(key, P)
    epochs, worth = Epochs(key), np.zeros(P, int)
    pool = set(epochs.take(min(candidates, P), set(range(P))))
    seen: set[frozenset[int]] = set()
    for _ in range(7):
        eligible, visited = (set(np.flatnonzero(rng.random(P) < 0.7).tolist()) for _ in range(2))
        by_rank = sorted(eligible, key=lambda i: (i in visited, i not in pool, -(worth[i] // 2), i))
        count = int(rng.integers(0, P))
        state, places = pick(state, jnp.int32(count), mask(eligible), mask(visited))
        assert taken(places) == by_rank[:count]
        np.testing.assert_array_equal(source.score(state), worth // 2)
        s, f = rng.integers(0, 5, (2, P))
        state = learn(state, mask(visited), jnp.asarray(s), jnp.asarray(f))
        worth += np.where(np.asarray(mask(visited)), s - f, 0)
        pool = set(epochs.take(min(candidates, P), set(range(P))))
        seen.add(frozenset(pool))
    assert (len(seen) > 3) == (candidates < P)


def test_greso_takes_who_is_kept_and_then_who_was_skipped() -> None:
    """In the order of the epoch, with noise of its own at every pick."""
    source, key = greso.source(), jax.random.key(8)
    pick = jax.jit(source.pick)
    state = source.init(key, P)
    runs = jnp.asarray([0, 1, 2, 3, 9, 9, 9, 0, 1])
    state = state._replace(belief=state.belief._replace(hard_run=runs))
    chance = np.maximum(0.5 ** np.asarray(runs, np.float64), 0.01)
    epochs, of_skips, rng = Epochs(key), role_key(key, Role.BELIEF), np.random.default_rng(5)
    skipped = 0
    for call in range(12):
        noise = np.asarray(jax.random.uniform(jax.random.fold_in(of_skips, call), (P,)))
        eligible = set(np.flatnonzero(rng.random(P) < 0.8).tolist())
        kept = {prompt for prompt in eligible if noise[prompt] < chance[prompt]}
        count = int(rng.integers(1, 6))
        expected = epochs.take(count, kept)
        expected += epochs.take(count - len(expected), eligible - set(expected))
        skipped += len(set(expected) - kept)
        state, places = pick(state, jnp.int32(count), mask(eligible), mask(set()))
        assert taken(places) == expected
    assert skipped > 3


def test_greso_sizes_its_batches_by_what_is_missing() -> None:
    """ceil(missing / (1 - share) * 5 / 4), at least so many, while nothing is open and calls are left."""
    batch, least, most = 12, 5, 3
    refill = jax.jit(greso.adaptive_batches(batch, least, most))
    state = greso.source().init(jax.random.key(0), P)
    for share in (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(7, 8)):
        belief = state._replace(belief=state.belief._replace(zero_share=jnp.float32(float(share))))
        for ready in (0, 1, 7, 11, 12):
            for opened, calls in ((0, 0), (0, 2), (0, 3), (1, 0)):
                wanted = max(ceil((batch - ready) / (1 - share) * Fraction(5, 4)), least)
                due = opened == 0 and ready < batch and calls < most
                found = refill(belief, jnp.int32(ready), jnp.int32(opened), jnp.int32(calls))
                assert int(found) == due * wanted
