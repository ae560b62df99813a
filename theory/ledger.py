"""The budget: what every kernel spends, in one record, and what methods are compared on.

Methods are compared at equal totals of at least two columns, so a kernel fills all that it touches. The record is a pytree of counters
that lives inside compiled code. A long run generates more than 2^31 tokens, so a counter is two uint32 words and exact up to
2^64; one increment may be as large as its own integer type holds. Wall time is no part of it: a compiled program cannot read the
clock, and equal arguments must give equal records.

    ledger = charge(ledger, generated_tokens=num_active, model_calls=1)
    totals(ledger)["generated_tokens"]
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

Count = Int[Array, "*batch"] | int


class Ledger(NamedTuple):
    """Counters; the last axis holds the high and the low word. Leading axes (prompts, populations) are summed by `totals`.

    Attributes:
        rollouts_pilot: trajectories begun to see whether a prompt is worth more.
        rollouts_commit: trajectories begun for the result itself; plain sampling counts here.
        rollouts_probe: trajectories begun to estimate a value, and not kept.
        rollouts_extend: trajectories carried on from where they were left.
        rollouts_branch: trajectories begun from a restored or shared prefix.
        rollouts_dropped: of all these, the ones thrown away.
        generated_tokens: tokens drawn from the model, eos included, whether kept or not.
        prefill_tokens: tokens read without being drawn: prompts, teacher-forced blocks, re-scoring.
        model_calls: batched forward passes.
        row_steps_executed: rows times steps that the device ran, idle rows included.
        row_steps_useful: of them, those that drew or scored a token that was asked for.
        verifier_calls: answers judged.
        tool_calls: tools run.
        utility_calls: rewards, twists or values evaluated.
        environment_steps: actions taken in environments.
        snapshots: environment states saved.
        restores: environment states restored.
    """

    rollouts_pilot: UInt32[Array, "*batch 2"]
    rollouts_commit: UInt32[Array, "*batch 2"]
    rollouts_probe: UInt32[Array, "*batch 2"]
    rollouts_extend: UInt32[Array, "*batch 2"]
    rollouts_branch: UInt32[Array, "*batch 2"]
    rollouts_dropped: UInt32[Array, "*batch 2"]
    generated_tokens: UInt32[Array, "*batch 2"]
    prefill_tokens: UInt32[Array, "*batch 2"]
    model_calls: UInt32[Array, "*batch 2"]
    row_steps_executed: UInt32[Array, "*batch 2"]
    row_steps_useful: UInt32[Array, "*batch 2"]
    verifier_calls: UInt32[Array, "*batch 2"]
    tool_calls: UInt32[Array, "*batch 2"]
    utility_calls: UInt32[Array, "*batch 2"]
    environment_steps: UInt32[Array, "*batch 2"]
    snapshots: UInt32[Array, "*batch 2"]
    restores: UInt32[Array, "*batch 2"]


def spent(
    *,
    rollouts_pilot: Count = 0,
    rollouts_commit: Count = 0,
    rollouts_probe: Count = 0,
    rollouts_extend: Count = 0,
    rollouts_branch: Count = 0,
    rollouts_dropped: Count = 0,
    generated_tokens: Count = 0,
    prefill_tokens: Count = 0,
    model_calls: Count = 0,
    row_steps_executed: Count = 0,
    row_steps_useful: Count = 0,
    verifier_calls: Count = 0,
    tool_calls: Count = 0,
    utility_calls: Count = 0,
    environment_steps: Count = 0,
    snapshots: Count = 0,
    restores: Count = 0,
) -> Ledger:
    """What one step spent. Counts are those of `Ledger`, not negative; what is not named is 0.

    Returns:
        A record; `spent()` is the empty one.
    """
    return Ledger(
        rollouts_pilot=_words(rollouts_pilot),
        rollouts_commit=_words(rollouts_commit),
        rollouts_probe=_words(rollouts_probe),
        rollouts_extend=_words(rollouts_extend),
        rollouts_branch=_words(rollouts_branch),
        rollouts_dropped=_words(rollouts_dropped),
        generated_tokens=_words(generated_tokens),
        prefill_tokens=_words(prefill_tokens),
        model_calls=_words(model_calls),
        row_steps_executed=_words(row_steps_executed),
        row_steps_useful=_words(row_steps_useful),
        verifier_calls=_words(verifier_calls),
        tool_calls=_words(tool_calls),
        utility_calls=_words(utility_calls),
        environment_steps=_words(environment_steps),
        snapshots=_words(snapshots),
        restores=_words(restores),
    )


def charge(ledger: Ledger, **counts: Count) -> Ledger:
    """A record with more on some of its counters; those that are not named are not touched.

    Args:
        ledger: without leading axes.
        counts: by the names of `Ledger`; not negative.

    Returns:
        The record after it.
    """
    grown = {name: _add(getattr(ledger, name), _words(count)) for name, count in counts.items()}
    return ledger._replace(**grown)


def merge(a: Ledger, b: Ledger) -> Ledger:
    """What both spent, counter by counter; associative and commutative.

    Args:
        a: a record.
        b: a record of the same batch: a shared cost added to every population would be counted once for each.

    Returns:
        The sums.
    """
    return Ledger(*(_add(x, y) for x, y in zip(a, b, strict=True)))


def totals(ledger: Ledger) -> dict[str, int]:
    """The record on the host, as Python integers, summed over leading axes.

    Args:
        ledger: concrete.

    Returns:
        One number for each name of `Ledger`, in its order.
    """
    fetched = Ledger(*jax.device_get(tuple(ledger)))
    return {name: _total(counter) for name, counter in fetched._asdict().items()}


def _words(count: Count) -> UInt32[Array, "*batch 2"]:
    if isinstance(count, int):
        if count < 0:
            raise ValueError(f"a count of {count}: what was spent cannot be negative")
        return jnp.array([count >> 32, count & 0xFFFFFFFF], jnp.uint32)
    high = count >> 32 if count.dtype.itemsize == 8 else jnp.zeros_like(count)
    return jnp.stack([high.astype(jnp.uint32), count.astype(jnp.uint32)], axis=-1)


def _add(a: UInt32[Array, "*batch 2"], b: UInt32[Array, "*batch 2"]) -> UInt32[Array, "*batch 2"]:
    if a.shape != b.shape:
        raise ValueError(f"ledgers of batches {a.shape[:-1]} and {b.shape[:-1]}: must be equal")
    low = a[..., 1] + b[..., 1]
    carry = (low < a[..., 1]).astype(jnp.uint32)
    return jnp.stack([a[..., 0] + b[..., 0] + carry, low], axis=-1)


def _total(counter: UInt32[np.ndarray, "*batch 2"]) -> int:
    high, low = np.moveaxis(counter.astype(object), -1, 0)
    return int(np.sum(high)) * 2**32 + int(np.sum(low))
