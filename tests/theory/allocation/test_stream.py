"""The order of an epoch: every prompt once, and what is not eligible passed over."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from theory.allocation import stream as module
from theory.allocation.stream import start_stream

P = 7

# Compiled once: hypothesis calls it some thousand times.
take = jax.jit(module.take)


@given(st.lists(st.integers(0, P), min_size=1, max_size=12), st.integers(0, 5))
def test_every_prompt_once_an_epoch(counts: list[int], seed: int) -> None:
    """No prompt comes back before all have been taken, and a new epoch begins only then."""
    stream = start_stream(jax.random.key(seed), P)
    everyone = jnp.ones(P, bool)
    taken: list[int] = []
    for count in counts:
        stream, places = take(stream, jnp.int32(count), everyone)
        # A prompt that is taken for the end of an epoch is no longer eligible for the start of the next.
        assert sorted(int(place) for place in places if place > 0) == list(range(1, count + 1))
        order = np.argsort(np.asarray(places), kind="stable")
        taken += order[P - count :].tolist() if count else []
    # Only of the first epoch: a call that runs into the next one leaves out what it has itself taken.
    assert sorted(taken[:P]) == sorted(set(taken[:P]))
    assert (int(stream.epoch) > 0) == (len(taken) > P)


@given(st.lists(st.booleans(), min_size=P, max_size=P), st.integers(0, P), st.integers(0, 5))
def test_only_the_eligible_are_taken(eligible: list[bool], count: int, seed: int) -> None:
    """As many as are wanted, or as many as there are, whatever the place in the epoch."""
    stream = start_stream(jax.random.key(seed), P)
    stream, _ = take(stream, jnp.int32(4), jnp.ones(P, bool))
    may = jnp.asarray(eligible)
    after, places = take(stream, jnp.int32(count), may)
    assert not np.asarray(places)[~np.asarray(may)].any()
    expected = min(count, sum(eligible))
    assert sorted(int(place) for place in places if place > 0) == list(range(1, expected + 1))
    # Those that this epoch still had come before those of the next.
    left = [int(prompt) for prompt in stream.order[4:] if eligible[int(prompt)]]
    assert [int(places[prompt]) for prompt in left[:expected]] == list(
        range(1, min(expected, len(left)) + 1)
    )
    assert int(after.epoch) == int(stream.epoch) + (len(left) < count)


def test_epochs_differ_and_seeds_differ() -> None:
    """A new epoch has a new order, another key others."""
    first = start_stream(jax.random.key(0), 50)
    second, _ = take(first, jnp.int32(50), jnp.ones(50, bool))
    third, _ = take(second, jnp.int32(1), jnp.ones(50, bool))
    assert first.order.tolist() != third.order.tolist()
    assert first.order.tolist() != start_stream(jax.random.key(1), 50).order.tolist()
