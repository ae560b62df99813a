"""Packing loses nothing: every example comes back out of the rows, and weighs what it weighs alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tasks.task import Sequences
from models.training.loss import loss_sums
from models.training.packing import PackedRows, num_packed_rows, pack
from models.transformer import TransformerConfig, random_transformer
from theory.errors import InvalidInput

START = 9
CONFIG = TransformerConfig(
    vocab_size=10,
    width=16,
    num_layers=2,
    num_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    hidden=16,
    context=32,
    start_token=START,
    eos=(8,),
)


def sequences(lengths: list[int], width: int, seed: int) -> Sequences:
    """Random tokens 1..7, with rubbish past the lengths."""
    tokens = np.random.default_rng(seed).integers(1, 8, (len(lengths), width))
    return Sequences(jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32))


def examples_in(rows: PackedRows) -> list[tuple[list[int], list[int]]]:
    """Every example as it can be read back: all its tokens, and those of them that count."""
    found: list[tuple[list[int], list[int]]] = []
    for tokens, positions, segments, targets, counted in zip(*map(np.asarray, rows), strict=True):
        for segment in range(1, segments.max() + 1):
            (places,) = np.nonzero(segments == segment)
            np.testing.assert_array_equal(np.diff(places), 1)
            np.testing.assert_array_equal(positions[places], np.arange(len(places)))
            np.testing.assert_array_equal(tokens[places][1:], targets[places][:-1])
            whole = [int(tokens[places][0]), *targets[places].tolist()]
            found.append((whole, targets[places][counted[places]].tolist()))
        assert not counted[segments == 0].any()
    return found


lengths_of_examples = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=12
)


@given(lengths=lengths_of_examples, extra=st.integers(0, 10))
def test_examples_come_back_in_order(lengths: list[tuple[int, int]], extra: int) -> None:
    prompts = sequences([prompt for prompt, _ in lengths], 4, 0)
    completions = sequences([completion for _, completion in lengths], 5, 1)
    width = 8 + extra
    # Room for any examples of these sizes, proved in `num_packed_rows`.
    rows = pack(prompts, completions, START, num_packed_rows(len(lengths), 8, width), width)
    expected: list[tuple[list[int], list[int]]] = []
    for example, (prompt, completion) in enumerate(lengths):
        read = np.asarray(prompts.tokens)[example, :prompt].tolist() or [START]
        written = np.asarray(completions.tokens)[example, :completion].tolist()
        expected.append((read + written, written))
    assert examples_in(rows) == expected


def test_rows_are_filled_before_new_ones_begin() -> None:
    rows = pack(sequences([2] * 6, 2, 0), sequences([3] * 6, 3, 1), START, 2, 12)
    np.testing.assert_array_equal(rows.segments, [[1] * 4 + [2] * 4 + [3] * 4] * 2)
    assert num_packed_rows(6, 4, 12) == 2
    assert num_packed_rows(7, 4, 15) == 3


def test_packed_loss_is_the_unpacked_one() -> None:
    lengths = [(2, 3), (0, 1), (4, 5), (1, 2), (3, 1), (0, 5), (4, 2), (2, 2), (1, 5)]
    prompts = sequences([prompt for prompt, _ in lengths], 4, 0)
    completions = sequences([completion for _, completion in lengths], 5, 1)
    model = random_transformer(jax.random.key(0), CONFIG, 5)
    gradient = jax.jit(jax.value_and_grad(loss_sums, has_aux=True))

    packed = gradient(model.params, model, pack(prompts, completions, START, 4, 16))
    alone = gradient(model.params, model, pack(prompts, completions, START, len(lengths), 8))
    assert int(packed[0][1]) == int(alone[0][1]) == sum(completion for _, completion in lengths)
    assert float(packed[0][0]) == pytest.approx(float(alone[0][0]), rel=1e-6)
    for ours, theirs in zip(jax.tree.leaves(packed[1]), jax.tree.leaves(alone[1]), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    prompts, completions = sequences([2, 2], 2, 0), sequences([3, 3], 3, 1)
    with pytest.raises(InvalidInput, match="rows of 3 tokens"):
        num_packed_rows(2, 4, 3)
    with pytest.raises(InvalidInput, match="example 0 of 4 tokens"):
        pack(prompts, completions, START, 2, 3)
    with pytest.raises(InvalidInput, match="example 1 of 4 tokens: does not fit into 1 rows of 7"):
        pack(prompts, completions, START, 1, 7)
