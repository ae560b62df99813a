"""The budget is exact beyond 2^31, in compiled code and in batches."""

from functools import reduce

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.ledger import Ledger, merge, spent, totals

counts = st.integers(0, 2**62)


@settings(max_examples=15)
@given(counts, counts)
def test_sums_are_exact(a: int, b: int) -> None:
    merged = merge(spent(generated_tokens=a, snapshots=b), spent(generated_tokens=b, snapshots=3))
    found = totals(merged)
    assert found["generated_tokens"] == a + b
    assert found["snapshots"] == b + 3
    assert sum(found.values()) == a + 2 * b + 3


def test_names_are_kept_apart() -> None:
    """Each counter holds its own number: no two columns are swapped on the way in, through or out."""
    numbers = {name: 2**31 + 7 * index for index, name in enumerate(Ledger._fields)}
    record = spent(**numbers)
    assert totals(record) == numbers
    assert totals(merge(record, spent())) == numbers
    assert totals(merge(record, record)) == {name: 2 * count for name, count in numbers.items()}


def test_nothing_spent() -> None:
    assert set(totals(spent()).values()) == {0}


def test_carries_inside_a_compiled_loop() -> None:
    """Five steps of 2^31 - 1 tokens overflow 32 bits more than once."""
    per_step = 2**31 - 1

    @jax.jit
    def run(step_tokens: jax.Array) -> Ledger:
        def step(ledger: Ledger, tokens: jax.Array) -> tuple[Ledger, None]:
            return merge(ledger, spent(generated_tokens=tokens, model_calls=1)), None

        return jax.lax.scan(step, spent(), step_tokens)[0]

    found = totals(run(jnp.full(5, per_step, jnp.int32)))
    assert found["generated_tokens"] == 5 * per_step
    assert found["model_calls"] == 5


def test_batches_are_summed() -> None:
    """One record a population, whatever the size of each."""
    tokens = jnp.array([2**31 - 1, 2**31 - 1, 5], jnp.int32)
    record = spent(generated_tokens=tokens)
    parts = [spent(generated_tokens=int(t)) for t in tokens]
    assert totals(record)["generated_tokens"] == totals(reduce(merge, parts))["generated_tokens"]
    mapped = jax.vmap(lambda t: spent(generated_tokens=t))(tokens)
    assert totals(mapped) == totals(record)


def test_batches_do_not_mix() -> None:
    """A shared cost added to each of three populations would be counted three times."""
    shared, each = spent(model_calls=1), jax.vmap(lambda t: spent(model_calls=t))(jnp.arange(3))
    with pytest.raises(Exception, match="batch"):
        merge(each, shared)


def test_wide_integers_are_split() -> None:
    with jax.enable_x64(True):
        wide = jnp.array(2**40 + 3, jnp.int64)
        assert totals(spent(prefill_tokens=wide))["prefill_tokens"] == 2**40 + 3


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        spent(restores=-1)
