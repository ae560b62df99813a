"""Prompts side by side come in few widths, so that few programs are compiled, and nothing of them is lost."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.prompts import padded
from experiments.scorers import side_by_side

prompts_of = st.lists(st.lists(st.integers(1, 9), max_size=9).map(tuple), min_size=1, max_size=9)


@given(prompts=prompts_of)
@settings(max_examples=30, deadline=None)
def test_widths_are_powers_of_two_and_rows_are_kept(prompts: list[tuple[int, ...]]) -> None:
    longest = max(map(len, prompts))
    tokens, lengths = map(np.asarray, padded(prompts))
    assert tokens.shape == (len(prompts), min(w for w in (0, 1, 2, 4, 8, 16) if w >= longest))
    block, block_lengths = map(np.asarray, side_by_side(prompts))
    rows = 8 if len(prompts) <= 8 else 16
    assert block.shape == (rows, 8 if longest <= 8 else 16)
    assert block_lengths[len(prompts) :].sum() == 0
    for each, counts in ((tokens, lengths), (block, block_lengths)):
        for row, length, prompt in zip(each, counts, prompts, strict=False):
            assert tuple(row[:length]) == prompt
            assert not row[length:].any()
